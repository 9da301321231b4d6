// Phases whose loops follow the elements of the outputs: flat and nested loops, and what they cost.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {
namespace {

constexpr size_t kMaxSegments = 4;                  // of one loop
constexpr int64_t kMaxSegmentInstructions = 300;    // of all of them
constexpr int64_t kMaxSegmentBytes = 256 * 1024;    // of results with several rows
constexpr int64_t kMaxUnrolledInstructions = 1500;  // with all copies

}  // namespace

int Planner::ComputeWidth(const AccessWalk::ArraySet& visited, absl::Span<const PhaseOutput> outputs) {
  int width = 1;
  for (const Instruction* x : visited) {
    if (x->shape().IsArray() && x->shape().rank() > 0)
      width = std::max(width, ComputedWidth(x->shape().element_type()));
  }
  for (const PhaseOutput& output : outputs) width = std::max(width, ComputedWidth(GetShape(output).element_type()));
  return width;
}

double Planner::EstimateCycles(const AccessWalk::ArraySet& visited, int64_t elements) {
  // Of a large array only what the loops reach counts: a row that is read or written in place, a slice. A reduction or
  // window reaches more than one element for each of its own.
  const bool reaches_more = std::any_of(visited.begin(), visited.end(), [&](const Instruction* x) {
    return !materialized_.contains(x) && (x->Is(Opcode::kBitcastConvert) || !x->called().empty());
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

bool Planner::PushUnrolled(Draft& draft, const GroupWalk& w, const std::vector<std::vector<VarId>>& groups) {
  if (groups.size() < 2) return false;
  // Vectors along a short last loop would cross its end and need other indices for each lane. A loop that decides
  // between the parts of a concatenate would compute all parts for each of them.
  auto decides = [&](const std::vector<VarId>& group) {
    return std::any_of(w.conditions.begin(), w.conditions.end(), [&](const Guard& guard) {
      bool found = false;
      w.vars.ForEachLoopVar(guard.e,
                            [&](VarId v) { found = found || std::find(group.begin(), group.end(), v) != group.end(); });
      return found;
    });
  };
  std::vector<std::vector<VarId>> kept, short_loops;
  int64_t copies = 1;
  for (size_t g = groups.size(); g-- > 0;) {
    const int64_t n = ComputeExtent(w.vars, groups[g]);
    const bool wanted = n <= kMaxUnrolled && copies * n <= kMaxUnrolled && (kept.empty() || decides(groups[g]));
    if (wanted) copies *= n;
    (wanted ? short_loops : kept).insert((wanted ? short_loops : kept).begin(), groups[g]);
  }
  if (short_loops.empty() || kept.empty()) return false;
  // Longer strides are no faster than indices that differ from lane to lane.
  const auto strided = std::count_if(w.accesses.begin(), w.accesses.end(), [&](const Access& a) {
    return std::abs(a.address.GetCoef(kept.back().back())) > kMaxUnrolled;
  });
  if (2 * strided > static_cast<int64_t>(w.accesses.size())) return false;
  if (copies * static_cast<int64_t>(w.visited.size()) > kMaxUnrolledInstructions) return false;
  const int width = ComputeWidth(w.visited, draft.outputs);
  const int64_t wanted = LanesFor(host_, width), inner = ComputeExtent(w.vars, kept.back());
  if (inner < 4) return false;
  LoopPhase loop;
  loop.lanes = std::min(wanted, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(inner))));
  loop.nest = MakeNest(draft, w, kept);
  for (const std::vector<int>& group : MakeNest(draft, w, short_loops).groups)
    loop.unrolled.insert(loop.unrolled.end(), group.begin(), group.end());
  loop.multi_output = std::move(draft.multi_output);
  loop.partials = std::move(draft.partials);
  loop.masked_tail = inner % loop.lanes != 0 && AnyShared(draft.outputs);
  loop.item_groups = static_cast<int>(kept.size()) - 1;
  const int64_t elements = Product(draft.nest.extents);
  Phase phase;
  phase.work_items = loop.item_groups > 0 ? elements / copies / inner : CeilDiv(inner, loop.lanes);
  phase.cycles = EstimateCycles(w.visited, elements) + 0.4 * static_cast<double>(elements) +
                 (loop.item_groups > 0 ? 20.0 * static_cast<double>(phase.work_items) : 0);
  phase.note = absl::StrCat("unrolled: ", elements / copies, " times ", copies, " elements, ", loop.lanes, " lanes");
  phase.outputs = std::move(draft.outputs);
  phase.kind = std::move(loop);
  Push(std::move(phase));
  return true;
}

bool Planner::PushSegments(const Draft& draft, const GroupWalk& w, const std::vector<std::vector<VarId>>& groups) {
  const int width = ComputeWidth(w.visited, draft.outputs);
  const int64_t wanted = LanesFor(host_, width), n = ComputeExtent(w.vars, groups.back());
  if (groups.back().size() != 1 || n < 4 * wanted || !draft.multi_output.empty() || !draft.partials.empty())
    return false;
  std::set<int64_t> bounds;  // at which conditions on the last loop change
  for (const Guard& g : w.conditions) {
    if (g.e.terms.size() != 1 || g.e.terms[0] != Term{groups.back()[0], 1}) continue;
    for (int64_t bound : {g.lo - g.e.constant, g.hi - g.e.constant}) {
      if (bound > 0 && bound < n) bounds.insert(bound);
    }
  }
  if (bounds.empty() || bounds.size() >= kMaxSegments) return false;
  if (static_cast<int64_t>((bounds.size() + 1) * w.visited.size()) > kMaxSegmentInstructions) return false;
  const int64_t rows = Product(draft.nest.extents) / n;
  // Each segment passes over all rows: only what stays in the cache meanwhile.
  if (rows > 1 && rows * n * width > kMaxSegmentBytes) return false;
  bounds.insert(n);
  int64_t begin = 0;
  for (int64_t end : bounds) {
    const int64_t length = end - begin, elements = rows * length;
    LoopPhase loop;
    loop.nest = MakeNest(draft, w, groups);
    loop.nest.extents.back() = length;
    loop.nest.whole_extent = n;
    loop.nest.segment_begin = begin;
    loop.item_groups = static_cast<int>(groups.size()) - 1;
    loop.lanes = LanesAlong(length, wanted);
    loop.masked_tail =
        loop.lanes > 0 && (length < loop.lanes || (length % loop.lanes != 0 && AnyShared(draft.outputs)));
    Phase phase;
    phase.outputs = draft.outputs;
    phase.work_items = loop.item_groups > 0 ? rows : loop.lanes > 0 ? CeilDiv(length, loop.lanes) : length;
    phase.cycles = EstimateCycles(w.visited, elements) + 0.25 * static_cast<double>(elements) +
                   (loop.item_groups > 0 ? 20.0 * static_cast<double>(rows) : 0);
    phase.note = absl::StrCat("segment: ", rows, " times ", length, " elements, ", loop.lanes, " lanes");
    phase.kind = std::move(loop);
    Push(std::move(phase));
    begin = end;
  }
  return true;
}

void Planner::PushLoop(Draft draft, const GroupWalk& w, bool allow_transpose) {
  const int width = ComputeWidth(w.visited, draft.outputs);
  const int64_t elements = Product(draft.nest.extents);
  const double cycles = EstimateCycles(w.visited, elements);
  std::vector<std::vector<VarId>> groups = MergeVars(w.vars, w.loops.vars, w.observed);
  if (groups.empty()) return PushFlat(std::move(draft), width, cycles, "one element");
  const bool only_moves = std::all_of(w.visited.begin(), w.visited.end(), [](const Instruction* x) {
    return MovesElements(*x) || x->operand_count() == 0;
  });
  if (!only_moves && PushUnrolled(draft, w, groups)) return;
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
  if (only_moves && PushUnrolled(draft, w, groups)) return;
  if (PushSegments(draft, w, groups)) return;
  // Short last loops join the next outer ones; their indices then differ from lane to lane.
  const int64_t wanted = LanesFor(host_, width);
  while (groups.size() > 1 && ComputeExtent(w.vars, groups.back()) < wanted / 2) {
    std::vector<VarId> inner = std::move(groups.back());
    groups.pop_back();
    groups.back().insert(groups.back().end(), inner.begin(), inner.end());
  }
  if (groups.size() == 1) return PushFlat(std::move(draft), width, cycles, "");
  LoopPhase loop;
  loop.nest = MakeNest(draft, w, groups);
  loop.multi_output = std::move(draft.multi_output);
  loop.partials = std::move(draft.partials);
  const int64_t inner = ComputeExtent(w.vars, groups.back());
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
