#include "sdk/engine/codegen/plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/engine/codegen/classify.h"
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

// ---- Phases -------------------------------------------------------------------------------------------------------

int64_t LoopNest::ComputeExtent(size_t group) const {
  int64_t n = 1;
  for (int i : groups[group]) n *= extents[static_cast<size_t>(i)];
  return n;
}

const LoopNest* Phase::nest() const {
  return std::visit(
      [](const auto& k) -> const LoopNest* {
        if constexpr (requires { k.nest; }) return &k.nest;
        return nullptr;
      },
      kind);
}

const Instruction* Phase::operation() const {
  return std::visit(
      [](const auto& k) -> const Instruction* {
        if constexpr (requires { k.operation; }) return k.operation;
        return nullptr;
      },
      kind);
}

const Shape& GetShape(const PhaseOutput& output) {
  const Shape& s = output.instruction->shape();
  return s.IsTuple() ? s.tuple_shapes(output.element) : s;
}

int64_t LanesFor(const jit::HostInfo& host, int width) {
  return std::clamp<int64_t>(2 * host.target.vector_bytes / std::max(width, 1), 4, 64);
}

int64_t ComputeExtent(const VarTable& vars, absl::Span<const VarId> group) {
  int64_t n = 1;
  for (VarId v : group) n *= vars.extent(v);
  return n;
}

int64_t LanesAlong(int64_t extent, int64_t lanes) {
  if (extent >= lanes) return lanes;
  return extent >= 4 ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent))) : 0;
}

std::vector<PhaseOutput> CollectOutputs(const Computation& computation) {
  const Instruction* root = computation.root();
  int first = static_cast<int>(computation.parameters().size());
  std::vector<PhaseOutput> r;
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

// ---- Loops as variables of the index algebra ----------------------------------------------------------------------

PhaseLoops MakeLoops(VarTable& vars, const LoopNest& nest) {
  PhaseLoops loops;
  for (int64_t n : nest.extents) loops.vars.push_back(vars.Loop(n));
  int64_t stride = 1;
  for (size_t i = nest.extents.size(); i-- > 0;) {
    loops.position.Add(Affine::Var(loops.vars[i]), stride);
    const bool is_segment = i + 1 == nest.extents.size() && nest.whole_extent > 0;
    stride *= is_segment ? nest.whole_extent : nest.extents[i];
  }
  loops.position.constant = nest.segment_begin;
  for (const auto& g : nest.groups) {
    std::vector<VarId> group;
    for (int i : g) group.push_back(loops.vars[static_cast<size_t>(i)]);
    loops.groups.push_back(std::move(group));
  }
  return loops;
}

std::vector<Affine> UnrolledPositions(const VarTable& vars, const PhaseLoops& loops, absl::Span<const int> unrolled) {
  std::vector<Affine> positions = {loops.position};
  for (int i : unrolled) {
    const VarId v = loops.vars[static_cast<size_t>(i)];
    const int64_t stride = loops.position.GetCoef(v);
    std::vector<Affine> next;
    for (const Affine& p : positions) {
      for (int64_t k = 0; k < vars.extent(v); ++k) next.push_back(p.Plus(Affine::Var(v), -stride).Plus(k * stride));
    }
    positions = std::move(next);
  }
  return positions;
}

Index OutputIndex(VarTable& vars, const PhaseLoops& loops, const PhaseOutput& output) {
  const bool fills = output.container && output.container->Is(Opcode::kSelectAndScatter);
  const Shape& shape = fills ? output.container->shape() : GetShape(output);
  if (!output.per_row) return Delinearize(vars, loops.position, shape.dimensions());
  // The outer loops whose extents make the output's elements.
  size_t outer = 0;
  for (int64_t seen = 1; outer < loops.vars.size() && seen < shape.num_elements(); ++outer) {
    seen *= vars.extent(loops.vars[outer]);
  }
  Affine position;
  int64_t stride = 1;
  for (size_t i = outer; i-- > 0;) {
    position.Add(Affine::Var(loops.vars[i]), stride);
    stride *= vars.extent(loops.vars[i]);
  }
  return Delinearize(vars, position, shape.dimensions());
}

Affine StoreAddress(VarTable& vars, const PhaseOutput& output, const Index& index) {
  if (output.container == nullptr) return Linearize(index, GetShape(output).dimensions());
  const Instruction& container = *output.container;
  const DimVector& dims = container.shape().dimensions();
  Index at = index;
  if (container.Is(Opcode::kDynamicUpdateSlice)) {
    // The element of the result that comes from this element of the update.
    for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
      int64_t hi = dims[d] - output.instruction->shape().dimensions(d);
      const Instruction* s = container.operand(2);
      Index start;
      if (s->shape().rank() == 1) {
        start.push_back(Affine::Const(d));
      } else {
        s = container.operand(2 + d);
      }
      at[d].Add(vars.Runtime(s, start, 0, hi));
    }
  } else if (container.Is(Opcode::kConcatenate)) {
    int64_t d = container.dimensions()[0];
    for (int i = 0; i < output.part; ++i) at[d].constant += container.operand(i)->shape().dimensions(d);
  }
  return Linearize(at, dims);
}

Index ValueIndex(const PhaseOutput& output, const Index& index) {
  const Shape& shape = output.instruction->shape();
  return shape.IsArray() && shape.rank() == 0 ? Index{} : index;
}

// ---- Planning -----------------------------------------------------------------------------------------------------

absl::StatusOr<FusionPlan> BuildFusionPlan(const Computation& computation, const KernelOptions& options) {
  return Planner(computation, options).Run();
}

absl::StatusOr<FusionPlan> Planner::Run() {
  for (const auto& op : computation_.instructions()) {
    RETURN_IF_ERROR(CanEmit(*op));
    if (op->Is(Opcode::kParameter) && !op->shape().IsArray()) {
      return absl::UnimplementedError(
          absl::StrCat(op->name(), ": a kernel takes arrays, not ", op->shape().ToString()));
    }
  }
  std::vector<PhaseOutput> outputs = CollectOutputs(computation_);
  plan_.outputs = static_cast<int>(outputs.size());
  std::vector<PhaseOutput> plain;
  for (const PhaseOutput& output : outputs) {
    if (GetShape(output).num_elements() == 0) continue;
    ASSIGN_OR_RETURN(bool done, PlanSpecial(output, outputs));
    if (!done) plain.push_back(output);
  }
  RETURN_IF_ERROR(PlanOutputs(std::move(plain)));
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

bool Planner::AnyShared(absl::Span<const PhaseOutput> outputs) const {
  return std::any_of(outputs.begin(), outputs.end(), [&](const PhaseOutput& o) { return IsShared(o.buffer); });
}

absl::Status Planner::PlanOutputs(std::vector<PhaseOutput> outputs) {
  std::stable_sort(outputs.begin(), outputs.end(), [](const PhaseOutput& a, const PhaseOutput& b) {
    return GetShape(a).num_elements() > GetShape(b).num_elements();
  });
  std::vector<PhaseOutput> rest;
  std::vector<PhaseOutput> group;
  for (const PhaseOutput& output : outputs) {
    if (group.empty()) {
      group.push_back(output);
    } else if (group[0].container == nullptr && output.container == nullptr &&
               ExtentsOf(GetShape(output)) == ExtentsOf(GetShape(group[0]))) {
      group.push_back(output);
    } else {
      rest.push_back(output);
    }
  }
  if (group.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(PlanGroup(std::move(group), rest));
  return PlanOutputs(std::move(rest));
}

LoopNest MakeNest(const Draft& draft, const GroupWalk& w, const std::vector<std::vector<VarId>>& groups) {
  LoopNest nest;
  nest.extents = draft.nest.extents;
  const std::vector<VarId>& vars = w.loops.vars;
  for (const std::vector<VarId>& g : groups) {
    nest.groups.emplace_back();
    for (VarId v : g) {
      nest.groups.back().push_back(static_cast<int>(std::find(vars.begin(), vars.end(), v) - vars.begin()));
    }
  }
  return nest;
}

GroupWalk Planner::Walk(Draft& draft) {
  for (int attempt = 0;; ++attempt) {
    GroupWalk w;
    w.loops = MakeLoops(w.vars, draft.nest);
    AccessWalk walk(w.vars, materialized_);
    std::vector<Affine> stores;
    for (const PhaseOutput& output : draft.outputs) {
      Index index = OutputIndex(w.vars, w.loops, output);
      walk.Visit(output.instruction, ValueIndex(output, index));
      stores.push_back(StoreAddress(w.vars, output, index));
    }
    walk.Finish();
    w.accesses = walk.accesses();
    w.reduces = walk.reduces();
    w.observed = walk.observed();
    w.conditions = walk.conditions();
    for (size_t i = 0; i < stores.size(); ++i) {
      if (!draft.outputs[i].per_row) w.observed.push_back(stores[i]);
    }
    w.visited = walk.visited();
    w.too_complex = walk.too_complex();
    if (attempt == 12 || !ApplySplits(w.vars.splits(), w.loops.vars, draft.nest.extents)) return w;
  }
}

std::set<VarId> Planner::CollectLoopVars(const VarTable& vars, const Index& index) {
  std::set<VarId> r;
  for (const Affine& e : index) vars.ForEachLoopVar(e, [&](VarId v) { r.insert(v); });
  return r;
}

absl::Status Planner::PlanGroup(std::vector<PhaseOutput> group, std::vector<PhaseOutput>& rest) {
  Draft draft;
  draft.outputs = std::move(group);
  draft.nest.extents = ExtentsOf(GetShape(draft.outputs[0]));
  for (int round = 0; round < 64; ++round) {
    GroupWalk w = Walk(draft);
    if (w.too_complex) {
      return absl::UnimplementedError(
          absl::StrCat(draft.outputs[0].instruction->name(), ": the fusion reads too many different elements"));
    }
    std::set<VarId> root(w.loops.vars.begin(), w.loops.vars.end());
    int64_t elements = Product(draft.nest.extents);
    // Reductions worth a loop structure of their own.
    std::vector<const ReduceUse*> uses;
    std::vector<const Instruction*> ahead;  // to be computed by phases of their own
    std::set<VarId> item_vars;
    for (const ReduceUse& u : w.reduces) {
      int64_t reduced = 1;
      for (int64_t d : SortedDims(*u.reduce)) reduced *= u.reduce->operand(0)->shape().dimensions(d);
      std::set<VarId> deps = CollectLoopVars(w.vars, u.index);
      bool foreign = false;
      int64_t evaluations = 1;
      for (VarId v : deps) {
        foreign = foreign || !root.contains(v);
        evaluations *= w.vars.extent(v);
      }
      if (reduced <= 16 && evaluations <= 2 * FirstShape(*u.reduce).num_elements()) continue;
      if (foreign) {
        ahead.push_back(u.reduce);
        continue;
      }
      uses.push_back(&u);
      item_vars.insert(deps.begin(), deps.end());
    }
    bool all = item_vars.size() == root.size();
    int64_t items = 1;
    for (VarId v : item_vars) items *= w.vars.extent(v);
    if (!uses.empty() && ahead.empty()) {
      // A row kernel wants its work items first and something left for the rows.
      bool prefix = true;
      for (size_t i = 0; i < item_vars.size(); ++i) prefix = prefix && item_vars.contains(w.loops.vars[i]);
      bool few = !all && items < kMinParallelItems && elements / std::max<int64_t>(items, 1) >= kWorthSplitting;
      for (const ReduceUse* u : uses) {
        if ((!all && (!prefix || few)) || items > 1.5 * static_cast<double>(FirstShape(*u->reduce).num_elements())) {
          ahead.push_back(u->reduce);
        }
      }
    }
    if (!ahead.empty()) {
      RETURN_IF_ERROR(Materialize(ahead));
      continue;
    }
    if (uses.empty()) {
      PushLoop(std::move(draft), w, true);
      return absl::OkStatus();
    }
    if (!all) {
      // Outputs with one element for each row are written by the same work items.
      bool added = false;
      for (auto it = rest.begin(); it != rest.end();) {
        if (GetShape(*it).num_elements() == items && it->container == nullptr &&
            draft.outputs[0].container == nullptr && FitsRows(draft, *it, item_vars.size())) {
          PhaseOutput output = *it;
          output.per_row = true;
          draft.outputs.push_back(output);
          it = rest.erase(it);
          added = true;
        } else {
          ++it;
        }
      }
      if (added) continue;
      PushRows(std::move(draft), w, item_vars.size());
      return absl::OkStatus();
    }
    if (PushReduction(draft, w, uses)) return absl::OkStatus();
    for (const ReduceUse* u : uses) ahead.push_back(u->reduce);
    RETURN_IF_ERROR(Materialize(ahead));
  }
  return absl::InternalError("the fusion cannot be cut into phases");
}

bool Planner::FitsRows(const Draft& draft, const PhaseOutput& output, size_t item_vars) {
  Draft trial = draft;
  PhaseOutput row = output;
  row.per_row = true;
  trial.outputs.push_back(row);
  size_t before = trial.nest.extents.size();
  GroupWalk w = Walk(trial);
  if (trial.nest.extents.size() != before) return false;
  std::set<VarId> allowed(w.loops.vars.begin(), w.loops.vars.begin() + static_cast<int64_t>(item_vars));
  for (const ReduceUse& u : w.reduces) {
    for (VarId v : CollectLoopVars(w.vars, u.index)) {
      if (!allowed.contains(v)) return false;
    }
  }
  return true;
}

absl::Status Planner::Materialize(const std::vector<const Instruction*>& reduces) {
  std::vector<PhaseOutput> outputs;
  std::vector<const Instruction*> sorted = reduces;
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
      outputs.push_back({r, static_cast<int>(i), buffer});
      stored_.push_back({r, static_cast<int>(i), buffer});
    }
    done.push_back(r);
  }
  if (outputs.empty()) return absl::InternalError("a reduction cannot be computed ahead");
  RETURN_IF_ERROR(PlanOutputs(outputs));
  for (const Instruction* r : done) materialized_.insert(r);
  return absl::OkStatus();
}

}  // namespace backplane::engine::codegen
