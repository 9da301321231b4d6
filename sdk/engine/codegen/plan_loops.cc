// The loops of a phase: flat, nested, rows with sweeps, reductions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "sdk/engine/codegen/classify.h"
#include "sdk/engine/codegen/elements.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

int Planner::WidthOf(const AccessWalk::ArraySet& visited, const Phase& phase) {
  int width = 1;
  auto see = [&](PrimitiveType t) { width = std::max(width, RowBytes(IsComplex(t) ? ComplexPart(t) : t)); };
  for (const Instruction* x : visited) {
    if (x->shape().IsArray() && x->shape().rank() > 0) see(x->shape().element_type());
  }
  for (const Target& t : phase.targets) see(ShapeOf(t).element_type());
  return width;
}

double Planner::CyclesOf(const AccessWalk::ArraySet& visited, int64_t elements) {
  // Of a large array only what the loops reach counts: a row that is read or written in place, a slice. A reduction or
  // window reaches more than one element for each of its own.
  const bool reaches_more = std::any_of(visited.begin(), visited.end(), [&](const Instruction* x) {
    return !materialized_.contains(x) && (x->Is(Opcode::kReduce) || x->Is(Opcode::kReduceWindow) ||
                                          x->Is(Opcode::kBitcastConvert) || !x->called().empty());
  });
  std::vector<double> costs;
  double cycles = 0;
  for (const Instruction* x : visited) {
    if (materialized_.contains(x)) continue;
    double n = x->Is(Opcode::kReduce) ? static_cast<double>(x->operand(0)->shape().num_elements())
                                      : static_cast<double>(FirstShape(*x).num_elements());
    if (!reaches_more) n = std::min(n, static_cast<double>(elements));
    costs.push_back(CostPerElement(*x) * n);
  }
  std::sort(costs.begin(), costs.end());  // the set has no order, a sum of doubles does
  for (double c : costs) cycles += c;
  return cycles;
}

bool Planner::AnyShared(const Phase& phase) const {
  for (const Target& t : phase.targets) {
    if (IsShared(t.buffer)) return true;
  }
  return false;
}

void Planner::FinishFlat(Phase& phase, int width) {
  phase.groups = {{}};
  for (size_t i = 0; i < phase.extents.size(); ++i) phase.groups[0].push_back(static_cast<int>(i));
  int64_t n = Product(phase.extents);
  phase.lanes = LanesFor(host_, width);
  if (n < phase.lanes) phase.lanes = n >= 4 ? std::bit_ceil(static_cast<uint64_t>(n)) : 0;
  phase.work_units = phase.lanes > 0 ? CeilDiv(n, phase.lanes) : n;
  phase.unit_groups = 0;
  phase.masked_tail = phase.lanes > 0 && (n < phase.lanes || (n % phase.lanes != 0 && AnyShared(phase)));
  phase.cycles += 0.25 * static_cast<double>(n);
}

absl::Status Planner::FinishLoop(Phase phase, const GroupWalk& w, size_t unit_vars, bool rows, bool allow_transpose) {
  phase.kind = PhaseKind::kLoop;
  phase.rows = rows;
  int width = WidthOf(w.visited, phase);
  int64_t elements = Product(phase.extents);
  phase.cycles = CyclesOf(w.visited, elements);
  // Joined loops; the units of a row kernel stay apart from its rows.
  std::vector<VarId> first(w.loops.vars.begin(), w.loops.vars.begin() + unit_vars);
  std::vector<VarId> second(w.loops.vars.begin() + unit_vars, w.loops.vars.end());
  auto positions = [&](const std::vector<VarId>& g) {
    std::vector<int> r;
    for (VarId v : g)
      r.push_back(static_cast<int>(std::find(w.loops.vars.begin(), w.loops.vars.end(), v) - w.loops.vars.begin()));
    return r;
  };
  std::vector<std::vector<VarId>> groups = MergeVars(w.vars, first, w.observed);
  size_t unit_groups = groups.size();
  for (auto& g : MergeVars(w.vars, second, w.observed)) groups.push_back(std::move(g));
  if (groups.empty()) {
    FinishFlat(phase, width);
    phase.note = "one element";
    Push(std::move(phase));
    return absl::OkStatus();
  }
  auto extent = [&](const std::vector<VarId>& g) {
    int64_t n = 1;
    for (VarId v : g) n *= w.vars.extent(v);
    return n;
  };
  if (!rows) {
    if (allow_transpose && !AnyShared(phase) && PlanTranspose(phase, w, groups, host_)) {
      for (const auto& g : groups) phase.groups.push_back(positions(g));
      // A plain one takes as long as its bytes: about 14 GB/s in the caches.
      phase.cycles = phase.staged ? 0.25 * static_cast<double>(elements * phase.turn.width)
                                  : phase.cycles + static_cast<double>(elements);
      phase.note = absl::StrCat("transpose: tiles of ", phase.tile_rows, " x ", phase.tile_columns);
      Push(std::move(phase));
      return absl::OkStatus();
    }
    // Short last loops join the next outer ones; their indices then differ from lane to lane.
    int64_t wanted = LanesFor(host_, width);
    while (groups.size() > 1 && extent(groups.back()) < wanted / 2) {
      std::vector<VarId> inner = std::move(groups.back());
      groups.pop_back();
      groups.back().insert(groups.back().end(), inner.begin(), inner.end());
    }
    unit_groups = groups.size() - 1;
  }
  phase.groups.clear();
  for (const auto& g : groups) phase.groups.push_back(positions(g));
  int64_t inner = extent(groups.back());
  phase.lanes = LanesFor(host_, width);
  if (inner < phase.lanes) phase.lanes = inner >= 4 ? std::bit_ceil(static_cast<uint64_t>(inner)) : 0;
  phase.masked_tail = phase.lanes > 0 && (inner < phase.lanes || (inner % phase.lanes != 0 && AnyShared(phase)));
  if (groups.size() == 1 && !rows) {
    FinishFlat(phase, width);
    phase.note = absl::StrCat("flat: ", elements, " elements, ", phase.lanes, " lanes");
    Push(std::move(phase));
    return absl::OkStatus();
  }
  phase.unit_groups = static_cast<int>(unit_groups);
  phase.work_units = 1;
  for (size_t g = 0; g < unit_groups; ++g) phase.work_units *= extent(groups[g]);
  if (rows) {
    PlanRows(phase, w, elements / phase.work_units);
    phase.note = absl::StrCat("rows: ", phase.work_units, " of ", elements / phase.work_units, ", ", phase.lanes,
                              " lanes, ", phase.kept.size(), " kept");
  } else {
    if (phase.work_units < kMinParallelUnits && inner >= 8192 && phase.lanes > 0) {
      phase.inner_block = RoundUp(std::max<int64_t>(4096, CeilDiv(inner, 64)), phase.lanes);
      phase.work_units *= CeilDiv(inner, phase.inner_block);
    }
    phase.note = absl::StrCat("loops: ", phase.work_units, " units of ", elements / phase.work_units, ", ", phase.lanes,
                              " lanes");
  }
  phase.cycles += 0.25 * static_cast<double>(elements) + 20.0 * static_cast<double>(phase.work_units);
  Push(std::move(phase));
  return absl::OkStatus();
}

void Planner::PlanRows(Phase& phase, const GroupWalk& w, int64_t row) {
  std::vector<const Instruction*> reduces;
  for (const ReduceUse& u : w.reduces) {
    if (std::find(reduces.begin(), reduces.end(), u.reduce) == reduces.end()) reduces.push_back(u.reduce);
  }
  std::sort(reduces.begin(), reduces.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  FindJoint(phase, w, reduces);
  // Sweeps: one for each set of joined reductions, one for the outputs. What each computes, down to reductions.
  std::vector<std::vector<const Instruction*>> sweeps;
  absl::flat_hash_set<const Instruction*> seen;
  for (const Instruction* r : reduces) {
    if (seen.contains(r)) continue;
    std::vector<const Instruction*> together = {r};
    for (const auto& j : phase.joint) {
      if (std::find(j.begin(), j.end(), r) != j.end()) together = j;
    }
    std::vector<const Instruction*> starts;
    for (const Instruction* x : together) {
      seen.insert(x);
      for (int64_t i = 0; i < x->operand_count() / 2; ++i) starts.push_back(x->operand(i));
    }
    sweeps.push_back(std::move(starts));
  }
  std::vector<const Instruction*> outputs;
  for (const Target& t : phase.targets) {
    if (!t.row) outputs.push_back(t.instruction);
  }
  sweeps.push_back(outputs);
  absl::flat_hash_map<const Instruction*, int> count;
  for (const auto& starts : sweeps) {
    absl::flat_hash_set<const Instruction*> reached;
    std::vector<const Instruction*> stack = starts;
    while (!stack.empty()) {
      const Instruction* x = stack.back();
      stack.pop_back();
      if (!reached.insert(x).second) continue;
      ++count[x];
      if (x->Is(Opcode::kReduce) || materialized_.contains(x)) continue;
      for (const Instruction* o : x->operands()) stack.push_back(o);
    }
  }
  auto is_row = [&](const Instruction* x) {
    return x->shape().IsArray() && x->shape().num_elements() == phase.work_units * row && !x->Is(Opcode::kParameter) &&
           !materialized_.contains(x);
  };
  auto cost = [&](const Instruction* x) {
    absl::flat_hash_set<const Instruction*> reached;
    std::vector<const Instruction*> stack = {x};
    double c = 0;
    while (!stack.empty()) {
      const Instruction* y = stack.back();
      stack.pop_back();
      if (!reached.insert(y).second || y->Is(Opcode::kReduce)) continue;
      if (y->shape().IsArray() && y->shape().num_elements() * 2 > phase.work_units * row &&
          !y->Is(Opcode::kParameter)) {
        c += CostPerElement(*y);
        if (IsNarrowFloat(y->shape().element_type())) c += 0.15;
      }
      for (const Instruction* o : y->operands()) stack.push_back(o);
    }
    return c;
  };
  std::vector<const Instruction*> candidates;
  for (const auto& [x, n] : count) {
    if (n >= 2 && is_row(x)) candidates.push_back(x);
  }
  std::sort(candidates.begin(), candidates.end(), [](auto* a, auto* b) { return a->id() > b->id(); });
  int64_t bytes = 0;
  absl::flat_hash_set<const Instruction*> covered;
  for (const Instruction* x : candidates) {
    if (covered.contains(x) || cost(x) < 0.6 || row * RowBytes(x->shape().element_type()) + bytes > 512 * 1024)
      continue;
    // Only what every user wants whole: a value below a kept one is not needed again unless something else uses it.
    phase.kept.push_back(x);
    bytes += RoundUp(row * RowBytes(x->shape().element_type()) + 256, 64);
    std::vector<const Instruction*> stack(x->operands().begin(), x->operands().end());
    while (!stack.empty()) {
      const Instruction* y = stack.back();
      stack.pop_back();
      if (y->Is(Opcode::kReduce)) continue;
      bool outside = false;
      for (const Instruction* u : y->users())
        outside = outside || (u != x && !covered.contains(u) && count.contains(u));
      if (outside || !covered.insert(y).second) continue;
      for (const Instruction* o : y->operands()) stack.push_back(o);
    }
  }
  phase.kept_length = row;
  phase.scratch_bytes = bytes;
}

void Planner::FindJoint(Phase& phase, const GroupWalk& w, const std::vector<const Instruction*>& reduces) {
  auto depends = [](const Instruction* a, const Instruction* b) {  // a on b
    absl::flat_hash_set<const Instruction*> seen;
    std::vector<const Instruction*> stack(a->operands().begin(), a->operands().end());
    while (!stack.empty()) {
      const Instruction* x = stack.back();
      stack.pop_back();
      if (x == b) return true;
      if (!seen.insert(x).second) continue;
      for (const Instruction* o : x->operands()) stack.push_back(o);
    }
    return false;
  };
  auto index_of = [&](const Instruction* r) {
    const ReduceUse* found = nullptr;
    for (const ReduceUse& u : w.reduces) {
      if (u.reduce != r) continue;
      if (found != nullptr) return static_cast<const ReduceUse*>(nullptr);  // used at several places
      found = &u;
    }
    return found;
  };
  std::vector<bool> used(reduces.size(), false);
  for (size_t i = 0; i < reduces.size(); ++i) {
    if (used[i] || materialized_.contains(reduces[i])) continue;
    std::vector<const Instruction*> together = {reduces[i]};
    const ReduceUse* at = index_of(reduces[i]);
    for (size_t j = i + 1; at != nullptr && j < reduces.size(); ++j) {
      const Instruction* r = reduces[j];
      const ReduceUse* there = index_of(r);
      if (used[j] || there == nullptr || !(there->index == at->index) || materialized_.contains(r)) continue;
      if (SortedDims(*r) != SortedDims(*reduces[i])) continue;
      if (r->operand(0)->shape().dimensions() != reduces[i]->operand(0)->shape().dimensions()) continue;
      bool independent = true;
      for (const Instruction* x : together) independent = independent && !depends(r, x) && !depends(x, r);
      if (!independent) continue;
      used[j] = true;
      together.push_back(r);
    }
    if (together.size() > 1) phase.joint.push_back(together);
  }
}

absl::Status Planner::FinishReduction(Phase phase, GroupWalk& w, const std::vector<const ReduceUse*>& uses) {
  std::vector<const Instruction*> reduces;
  for (const ReduceUse* u : uses) {
    if (std::find(reduces.begin(), reduces.end(), u->reduce) == reduces.end()) reduces.push_back(u->reduce);
  }
  std::sort(reduces.begin(), reduces.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  FindJoint(phase, w, reduces);
  bool together = uses.size() == 1 ||
                  (phase.joint.size() == 1 && phase.joint[0].size() == reduces.size() && uses.size() == reduces.size());
  Index index = uses[0]->index;
  int width = WidthOf(w.visited, phase);
  int64_t elements = Product(phase.extents);
  double cycles = CyclesOf(w.visited, elements);
  ReductionChoice choice = ChooseReduction(w, materialized_, reduces, together ? &index : nullptr, width, host_);
  auto set_groups = [&](Phase& p) {
    p.groups.clear();
    for (const auto& g : choice.groups) {
      std::vector<int> r;
      for (VarId v : g)
        r.push_back(static_cast<int>(std::find(w.loops.vars.begin(), w.loops.vars.end(), v) - w.loops.vars.begin()));
      p.groups.push_back(std::move(r));
    }
  };
  if (choice.form == ReductionChoice::kLoop) return FinishLoop(std::move(phase), w, 0, false, false);

  Phase first = phase;
  set_groups(first);
  first.cycles = cycles;
  first.reduces = reduces;
  if (choice.form == ReductionChoice::kColumns) {
    first.kind = choice.split ? PhaseKind::kPartialColumns : PhaseKind::kColumns;
    first.lanes = choice.lanes;
    first.column_block = choice.column_block;
    first.unroll = choice.unroll;
    first.unit_groups = static_cast<int>(first.groups.size()) - 1;
    first.work_units = choice.outer * CeilDiv(choice.columns, choice.column_block);
    for (const Instruction* r : reduces) {
      for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
        first.scratch_bytes += RoundUp(choice.column_block * RowBytes(r->operand(i)->shape().element_type()) + 64, 64);
      }
    }
    first.note = absl::StrCat("columns: ", choice.columns, " in blocks of ", choice.column_block, ", ", first.unroll,
                              " rows at a time");
  } else {
    first.kind = choice.split ? PhaseKind::kPartials : PhaseKind::kScalars;
    first.unit_groups = static_cast<int>(first.groups.size());
    first.work_units = elements;
    first.note = absl::StrCat("reductions: ", elements);
  }
  if (!choice.split) {
    Push(std::move(first));
    return absl::OkStatus();
  }
  first.blocks = choice.blocks;
  first.block_size = choice.block_size;
  first.block_extent = choice.block_extent;
  first.work_units *= choice.blocks;
  absl::StrAppend(&first.note, ", cut into ", choice.blocks, " blocks");
  Phase last = phase;
  last.joint.clear();
  for (const Instruction* r : reduces) {
    std::vector<int> buffers;
    for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
      buffers.push_back(NewTemp(choice.blocks * elements * RowBytes(r->operand(i)->shape().element_type())));
    }
    first.partial_buffers.push_back(buffers);
    last.partials.push_back({r, buffers, choice.blocks, elements});
  }
  Push(std::move(first));
  RETURN_IF_ERROR(FinishLoop(std::move(last), w, 0, false, false));
  plan_.phases.back().cycles = static_cast<double>(elements * choice.blocks) * 2;
  return absl::OkStatus();
}

}  // namespace backplane::engine::codegen
