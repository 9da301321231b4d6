// Phases whose work items make rows: the passes over a row, and what is staged between them.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

using backplane::codegen::IsNarrowFloat;

namespace {

bool Contains(absl::Span<const Instruction* const> list, const Instruction* x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

bool DependsOn(const Instruction* a, const Instruction* b) {
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
}

}  // namespace

void Planner::PushRows(Draft draft, const GroupWalk& w, size_t item_vars) {
  const int width = ComputeWidth(w.visited, draft.outputs);
  const int64_t elements = Product(draft.nest.extents);
  const absl::Span<const VarId> vars = w.loops.vars;
  // Joined loops; those of the work items stay apart from those of the rows.
  std::vector<std::vector<VarId>> groups = MergeVars(w.vars, vars.subspan(0, item_vars), w.observed);
  RowPhase rows;
  rows.item_groups = static_cast<int>(groups.size());
  for (auto& g : MergeVars(w.vars, vars.subspan(item_vars), w.observed)) groups.push_back(std::move(g));
  rows.nest = MakeNest(draft, w, groups);
  const int64_t inner = ComputeExtent(w.vars, groups.back());
  rows.lanes = LanesAlong(inner, LanesFor(host_, width));
  rows.masked_tail = rows.lanes > 0 && (inner < rows.lanes || (inner % rows.lanes != 0 && AnyShared(draft.outputs)));
  Phase phase;
  phase.work_items = 1;
  for (int g = 0; g < rows.item_groups; ++g) phase.work_items *= rows.nest.ComputeExtent(static_cast<size_t>(g));
  phase.outputs = std::move(draft.outputs);
  rows.row_length = elements / phase.work_items;
  StageRows(phase, rows, w);
  phase.note = absl::StrCat("rows: ", phase.work_items, " of ", rows.row_length, ", ", rows.lanes, " lanes, ",
                            rows.staged.size(), " staged");
  phase.cycles = EstimateCycles(w.visited, elements) + 0.25 * static_cast<double>(elements) +
                 20.0 * static_cast<double>(phase.work_items);
  phase.kind = std::move(rows);
  Push(std::move(phase));
}

void Planner::StageRows(Phase& phase, RowPhase& rows, const GroupWalk& w) {
  const int64_t row = rows.row_length;
  std::vector<const Instruction*> reduces;
  for (const ReduceUse& u : w.reduces) {
    if (!Contains(reduces, u.reduce)) reduces.push_back(u.reduce);
  }
  std::sort(reduces.begin(), reduces.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  rows.multi_output = FindMultiOutput(w, reduces);
  // Passes: one for each set of reductions that share it, one for the outputs. What each computes, down to reductions.
  std::vector<std::vector<const Instruction*>> passes;
  absl::flat_hash_set<const Instruction*> seen;
  for (const Instruction* r : reduces) {
    if (seen.contains(r)) continue;
    MultiOutput together = {r};
    for (const MultiOutput& m : rows.multi_output) {
      if (Contains(m, r)) together = m;
    }
    std::vector<const Instruction*> starts;
    for (const Instruction* x : together) {
      seen.insert(x);
      for (int64_t i = 0; i < x->operand_count() / 2; ++i) starts.push_back(x->operand(i));
    }
    passes.push_back(std::move(starts));
  }
  std::vector<const Instruction*> outputs;
  for (const PhaseOutput& output : phase.outputs) {
    if (!output.per_row) outputs.push_back(output.instruction);
  }
  passes.push_back(outputs);
  absl::flat_hash_map<const Instruction*, int> count;  // of passes that compute it
  for (const auto& starts : passes) {
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
    return x->shape().IsArray() && x->shape().num_elements() == phase.work_items * row && !x->Is(Opcode::kParameter) &&
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
      if (y->shape().IsArray() && y->shape().num_elements() * 2 > phase.work_items * row &&
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
    const int64_t row_bytes = row * ComputedBytes(x->shape().element_type());
    if (covered.contains(x) || cost(x) < 0.6 || row_bytes + bytes > 512 * 1024) continue;
    // A value below a staged one is not needed again unless something else uses it.
    rows.staged.push_back(x);
    bytes += RoundUp(row_bytes + 256, 64);
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
  phase.scratch_bytes = bytes;
}

std::vector<MultiOutput> Planner::FindMultiOutput(const GroupWalk& w, const std::vector<const Instruction*>& reduces) {
  // The only use of a reduction; null when it is used at several indices.
  auto use_of = [&](const Instruction* r) -> const ReduceUse* {
    const ReduceUse* found = nullptr;
    for (const ReduceUse& u : w.reduces) {
      if (u.reduce != r) continue;
      if (found != nullptr) return nullptr;
      found = &u;
    }
    return found;
  };
  std::vector<MultiOutput> result;
  std::vector<bool> used(reduces.size(), false);
  for (size_t i = 0; i < reduces.size(); ++i) {
    if (used[i] || materialized_.contains(reduces[i])) continue;
    MultiOutput together = {reduces[i]};
    const ReduceUse* use = use_of(reduces[i]);
    for (size_t j = i + 1; use != nullptr && j < reduces.size(); ++j) {
      const Instruction* r = reduces[j];
      const ReduceUse* other = use_of(r);
      if (used[j] || other == nullptr || !(other->index == use->index) || materialized_.contains(r)) continue;
      if (SortedDims(*r) != SortedDims(*reduces[i])) continue;
      if (r->operand(0)->shape().dimensions() != reduces[i]->operand(0)->shape().dimensions()) continue;
      bool independent = true;
      for (const Instruction* x : together) independent = independent && !DependsOn(r, x) && !DependsOn(x, r);
      if (!independent) continue;
      used[j] = true;
      together.push_back(r);
    }
    if (together.size() > 1) result.push_back(std::move(together));
  }
  return result;
}

}  // namespace backplane::engine::codegen
