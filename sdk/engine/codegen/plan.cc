#include "sdk/engine/codegen/plan.h"

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
namespace {

constexpr int64_t kWorthSplitting = 32768;  // reduced elements for one result

std::vector<int64_t> ExtentsOf(const Shape& s) {
  std::vector<int64_t> r;
  for (int64_t n : s.dimensions()) {
    if (n != 1) r.push_back(n);
  }
  return r;
}

}  // namespace

absl::StatusOr<FusionPlan> Planner::Run() {
  for (const auto& op : computation_.instructions()) {
    RETURN_IF_ERROR(CanEmit(*op));
    if (op->Is(Opcode::kParameter) && !op->shape().IsArray()) {
      return absl::UnimplementedError(
          absl::StrCat(op->name(), ": a kernel takes arrays, not ", op->shape().ToString()));
    }
  }
  std::vector<Target> outputs = OutputsOf(computation_);
  plan_.outputs = static_cast<int>(outputs.size());
  std::vector<Target> plain;
  for (const Target& t : outputs) {
    if (ShapeOf(t).num_elements() == 0) continue;
    ASSIGN_OR_RETURN(bool done, PlanSpecial(t, outputs));
    if (!done) plain.push_back(t);
  }
  RETURN_IF_ERROR(PlanTargets(std::move(plain)));
  return std::move(plan_);
}

int Planner::NewTemp(int64_t bytes) {
  plan_.temp_bytes.push_back(RoundUp(bytes, 64) + 64);
  return plan_.inputs + plan_.outputs + static_cast<int>(plan_.temp_bytes.size()) - 1;
}

void Planner::Push(Phase phase) {
  for (const Materialized& m : stored_) {
    if (materialized_.contains(m.instruction)) phase.reads.push_back(m);
  }
  plan_.phases.push_back(std::move(phase));
}

bool Planner::IsShared(int output_buffer) const {
  for (const InPlacePair& p : options_.shared) {
    if (p.output + plan_.inputs == output_buffer) return true;
  }
  return false;
}

absl::Status Planner::PlanTargets(std::vector<Target> targets) {
  std::stable_sort(targets.begin(), targets.end(), [](const Target& a, const Target& b) {
    return ShapeOf(a).num_elements() > ShapeOf(b).num_elements();
  });
  std::vector<Target> rest;
  std::vector<Target> group;
  for (const Target& t : targets) {
    if (group.empty()) {
      group.push_back(t);
    } else if (group[0].window == nullptr && t.window == nullptr &&
               ExtentsOf(ShapeOf(t)) == ExtentsOf(ShapeOf(group[0]))) {
      group.push_back(t);
    } else {
      rest.push_back(t);
    }
  }
  if (group.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(PlanGroup(std::move(group), rest));
  return PlanTargets(std::move(rest));
}

GroupWalk Planner::Walk(Phase& phase) {
  for (int attempt = 0;; ++attempt) {
    GroupWalk w;
    phase.groups.clear();
    w.loops = MakeLoops(w.vars, phase);
    AccessWalk walk(w.vars, materialized_);
    std::vector<Affine> stores;
    for (const Target& t : phase.targets) {
      Index index = TargetIndex(w.vars, phase, w.loops, t);
      walk.Visit(t.instruction, ValueIndex(t, index));
      stores.push_back(StoreAddress(w.vars, t, index));
    }
    walk.Finish();
    w.accesses = walk.accesses();
    w.reduces = walk.reduces();
    w.observed = walk.observed();
    for (size_t i = 0; i < stores.size(); ++i) {
      if (!phase.targets[i].row) w.observed.push_back(stores[i]);
    }
    w.visited = walk.visited();
    w.too_complex = walk.too_complex();
    if (attempt == 12 || !ApplySplits(w.vars.splits(), w.loops.vars, phase.extents)) return w;
  }
}

Index Planner::ValueIndex(const Target& t, const Index& index) {
  // A scalar that fills an array has no index.
  return t.instruction->shape().IsArray() && t.instruction->shape().rank() == 0 ? Index{} : index;
}

std::set<VarId> Planner::LoopVarsOf(const VarTable& vars, const Index& index) {
  std::set<VarId> r;
  for (const Affine& e : index) vars.ForEachLoopVar(e, [&](VarId v) { r.insert(v); });
  return r;
}

absl::Status Planner::PlanGroup(std::vector<Target> group, std::vector<Target>& rest) {
  Phase phase;
  phase.targets = std::move(group);
  phase.extents = ExtentsOf(ShapeOf(phase.targets[0]));
  for (int round = 0; round < 64; ++round) {
    GroupWalk w = Walk(phase);
    if (w.too_complex) {
      return absl::UnimplementedError(
          absl::StrCat(phase.targets[0].instruction->name(), ": the fusion reads too many different elements"));
    }
    std::set<VarId> root(w.loops.vars.begin(), w.loops.vars.end());
    int64_t elements = Product(phase.extents);
    // Reductions worth a loop structure of their own.
    std::vector<const ReduceUse*> uses;
    std::vector<const Instruction*> cut;
    std::set<VarId> unit_vars;
    for (const ReduceUse& u : w.reduces) {
      int64_t reduced = 1;
      for (int64_t d : SortedDims(*u.reduce)) reduced *= u.reduce->operand(0)->shape().dimensions(d);
      std::set<VarId> deps = LoopVarsOf(w.vars, u.index);
      bool foreign = false;
      int64_t evaluations = 1;
      for (VarId v : deps) {
        foreign = foreign || !root.contains(v);
        evaluations *= w.vars.extent(v);
      }
      if (reduced <= 16 && evaluations <= 2 * FirstShape(*u.reduce).num_elements()) continue;
      if (foreign) {
        cut.push_back(u.reduce);
        continue;
      }
      uses.push_back(&u);
      unit_vars.insert(deps.begin(), deps.end());
    }
    bool all = unit_vars.size() == root.size();
    if (!uses.empty() && cut.empty()) {
      int64_t units = 1;
      for (VarId v : unit_vars) units *= w.vars.extent(v);
      // A row kernel wants its units first and something left to sweep over.
      bool prefix = true;
      for (size_t i = 0; i < unit_vars.size(); ++i) prefix = prefix && unit_vars.contains(w.loops.vars[i]);
      bool few = !all && units < kMinParallelUnits && elements / std::max<int64_t>(units, 1) >= kWorthSplitting;
      for (const ReduceUse* u : uses) {
        if ((!all && (!prefix || few)) || units > 1.5 * static_cast<double>(FirstShape(*u->reduce).num_elements())) {
          cut.push_back(u->reduce);
        }
      }
    }
    if (!cut.empty()) {
      RETURN_IF_ERROR(Materialize(cut));
      continue;
    }
    if (uses.empty()) return FinishLoop(std::move(phase), w, 0, false);
    if (!all) {
      // Outputs with one element for each row are written by the same units.
      int64_t units = 1;
      for (VarId v : unit_vars) units *= w.vars.extent(v);
      bool added = false;
      for (auto it = rest.begin(); it != rest.end();) {
        if (ShapeOf(*it).num_elements() == units && it->window == nullptr && phase.targets[0].window == nullptr &&
            FitsRows(phase, *it, unit_vars.size())) {
          Target t = *it;
          t.row = true;
          phase.targets.push_back(t);
          it = rest.erase(it);
          added = true;
        } else {
          ++it;
        }
      }
      if (added) continue;
      return FinishLoop(std::move(phase), w, unit_vars.size(), true);
    }
    return FinishReduction(std::move(phase), w, uses);
  }
  return absl::InternalError("the fusion cannot be cut into phases");
}

bool Planner::FitsRows(const Phase& phase, const Target& t, size_t unit_vars) {
  Phase trial = phase;
  Target row = t;
  row.row = true;
  trial.targets.push_back(row);
  size_t before = trial.extents.size();
  GroupWalk w = Walk(trial);
  if (trial.extents.size() != before) return false;
  std::set<VarId> allowed(w.loops.vars.begin(), w.loops.vars.begin() + unit_vars);
  for (const ReduceUse& u : w.reduces) {
    for (VarId v : LoopVarsOf(w.vars, u.index)) {
      if (!allowed.contains(v)) return false;
    }
  }
  return true;
}

absl::Status Planner::Materialize(const std::vector<const Instruction*>& cut) {
  std::vector<Target> targets;
  std::vector<const Instruction*> sorted = cut;
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<const Instruction*> done;
  for (const Instruction* r : sorted) {
    if (materialized_.contains(r)) continue;
    // An output that is this very reduction is written here as well, and read from there.
    int64_t n = r->operand_count() / 2;
    for (int64_t i = 0; i < n; ++i) {
      const Shape& s = r->shape().IsTuple() ? r->shape().tuple_shapes(i) : r->shape();
      int buffer = NewTemp(s.byte_size());
      targets.push_back({r, static_cast<int>(i), buffer});
      stored_.push_back({r, static_cast<int>(i), buffer});
    }
    done.push_back(r);
  }
  if (targets.empty()) return absl::InternalError("a reduction cannot be computed ahead");
  RETURN_IF_ERROR(PlanTargets(targets));
  for (const Instruction* r : done) materialized_.insert(r);
  return absl::OkStatus();
}

absl::StatusOr<FusionPlan> BuildFusionPlan(const Computation& computation, const KernelOptions& options) {
  return Planner(computation, options).Run();
}

std::vector<Target> OutputsOf(const Computation& computation) {
  const Instruction* root = computation.root();
  int first = static_cast<int>(computation.parameters().size());
  std::vector<Target> r;
  auto add = [&](const Instruction* op, int element) {
    if (op->Is(Opcode::kGetTupleElement)) {
      element = static_cast<int>(op->tuple_index());
      op = op->operand(0);
    }
    r.push_back({op, element, first + static_cast<int>(r.size())});
  };
  if (root->Is(Opcode::kTuple)) {
    for (const Instruction* op : root->operands()) add(op, 0);
  } else if (root->shape().IsTuple()) {
    for (int64_t i = 0; i < root->shape().tuple_size(); ++i) add(root, static_cast<int>(i));
  } else {
    add(root, 0);
  }
  return r;
}

PhaseLoops MakeLoops(VarTable& vars, const Phase& phase) {
  PhaseLoops loops;
  for (int64_t n : phase.extents) loops.vars.push_back(vars.Loop(n));
  int64_t stride = 1;
  for (size_t i = phase.extents.size(); i-- > 0;) {
    loops.position.Add(Affine::Var(loops.vars[i]), stride);
    stride *= phase.extents[i];
  }
  for (const auto& g : phase.groups) {
    std::vector<VarId> group;
    for (int i : g) group.push_back(loops.vars[i]);
    loops.groups.push_back(std::move(group));
  }
  return loops;
}

Index TargetIndex(VarTable& vars, const Phase& phase, const PhaseLoops& loops, const Target& t) {
  const Shape& shape = t.window && t.window->Is(Opcode::kSelectAndScatter) ? t.window->shape() : ShapeOf(t);
  Affine position = loops.position;
  if (t.row) {
    int64_t n = shape.num_elements(), seen = 1;
    size_t units = 0;
    while (units < phase.extents.size() && seen < n) seen *= phase.extents[units++];
    position = {};
    int64_t stride = 1;
    for (size_t i = units; i-- > 0;) {
      position.Add(Affine::Var(loops.vars[i]), stride);
      stride *= phase.extents[i];
    }
  }
  return Delinearize(vars, position, shape.dimensions());
}

Affine StoreAddress(VarTable& vars, const Target& t, const Index& index) {
  if (t.window == nullptr) return Linearize(index, ShapeOf(t).dimensions());
  const DimVector& dims = t.window->shape().dimensions();
  Index at = index;
  if (t.window->Is(Opcode::kDynamicUpdateSlice)) {
    // The element of the result that comes from this element of the update.
    for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
      int64_t hi = dims[d] - t.instruction->shape().dimensions(d);
      const Instruction* s = t.window->operand(2);
      Index start;
      if (s->shape().rank() == 1) {
        start.push_back(Affine::Const(d));
      } else {
        s = t.window->operand(2 + d);
      }
      at[d].Add(vars.Runtime(s, start, 0, hi));
    }
  } else if (t.window->Is(Opcode::kConcatenate)) {
    int64_t d = t.window->dimensions()[0];
    for (int i = 0; i < t.part; ++i) at[d].constant += t.window->operand(i)->shape().dimensions(d);
  }
  return Linearize(at, dims);
}

}  // namespace backplane::engine::codegen
