// Phases whose loops follow the elements of the outputs: flat and nested loops, and what they cost.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

int Planner::WidthOf(const AccessWalk::ArraySet& visited, absl::Span<const PhaseOutput> outputs) {
  int width = 1;
  for (const Instruction* x : visited) {
    if (x->shape().IsArray() && x->shape().rank() > 0)
      width = std::max(width, ComputedWidth(x->shape().element_type()));
  }
  for (const PhaseOutput& output : outputs) width = std::max(width, ComputedWidth(ShapeOf(output).element_type()));
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

void Planner::PushFlat(Draft draft, int width, double cycles, std::string note) {
  const int64_t n = Product(draft.nest.extents);
  LoopPhase loop;
  loop.nest = std::move(draft.nest);
  loop.nest.groups = {{}};
  for (size_t i = 0; i < loop.nest.extents.size(); ++i) loop.nest.groups[0].push_back(static_cast<int>(i));
  loop.multi_output = std::move(draft.multi_output);
  loop.partials = std::move(draft.partials);
  loop.lanes = LanesAlong(n, LanesFor(host_, width));
  loop.masked_tail = loop.lanes > 0 && (n < loop.lanes || (n % loop.lanes != 0 && AnyShared(draft.outputs)));
  Phase phase;
  phase.outputs = std::move(draft.outputs);
  phase.work_items = loop.lanes > 0 ? CeilDiv(n, loop.lanes) : n;
  phase.cycles = cycles + 0.25 * static_cast<double>(n);
  phase.note = note.empty() ? absl::StrCat("flat: ", n, " elements, ", loop.lanes, " lanes") : std::move(note);
  phase.kind = std::move(loop);
  Push(std::move(phase));
}

void Planner::PushLoop(Draft draft, const GroupWalk& w, bool allow_transpose) {
  const int width = WidthOf(w.visited, draft.outputs);
  const int64_t elements = Product(draft.nest.extents);
  const double cycles = CyclesOf(w.visited, elements);
  std::vector<std::vector<VarId>> groups = MergeVars(w.vars, w.loops.vars, w.observed);
  if (groups.empty()) return PushFlat(std::move(draft), width, cycles, "one element");
  if (allow_transpose && !AnyShared(draft.outputs)) {
    if (std::optional<Phase> phase = PlanTranspose(draft, w, groups, host_)) {
      if (const auto* copy = std::get_if<TransposeCopyPhase>(&phase->kind)) {
        // It takes as long as its bytes: about 14 GB/s in the caches.
        phase->cycles = 0.25 * static_cast<double>(elements * copy->tiles.width);
      } else {
        phase->cycles = cycles + static_cast<double>(elements);
      }
      phase->outputs = std::move(draft.outputs);
      return Push(std::move(*phase));
    }
  }
  // Short last loops join the next outer ones; their indices then differ from lane to lane.
  const int64_t wanted = LanesFor(host_, width);
  while (groups.size() > 1 && ExtentOf(w.vars, groups.back()) < wanted / 2) {
    std::vector<VarId> inner = std::move(groups.back());
    groups.pop_back();
    groups.back().insert(groups.back().end(), inner.begin(), inner.end());
  }
  if (groups.size() == 1) return PushFlat(std::move(draft), width, cycles, "");
  LoopPhase loop;
  loop.nest = NestOf(draft, w, groups);
  loop.multi_output = std::move(draft.multi_output);
  loop.partials = std::move(draft.partials);
  const int64_t inner = ExtentOf(w.vars, groups.back());
  loop.lanes = LanesAlong(inner, wanted);
  loop.masked_tail = loop.lanes > 0 && (inner < loop.lanes || (inner % loop.lanes != 0 && AnyShared(draft.outputs)));
  loop.item_groups = static_cast<int>(groups.size()) - 1;
  Phase phase;
  phase.work_items = elements / inner;
  if (phase.work_items < kMinParallelItems && inner >= 8192 && loop.lanes > 0) {
    loop.inner_block = RoundUp(std::max<int64_t>(4096, CeilDiv(inner, 64)), loop.lanes);
    phase.work_items *= CeilDiv(inner, loop.inner_block);
  }
  phase.note = absl::StrCat("loops: ", phase.work_items, " work items of ", elements / phase.work_items, ", ",
                            loop.lanes, " lanes");
  phase.cycles = cycles + 0.25 * static_cast<double>(elements) + 20.0 * static_cast<double>(phase.work_items);
  phase.outputs = std::move(draft.outputs);
  phase.kind = std::move(loop);
  Push(std::move(phase));
}

}  // namespace backplane::engine::codegen
