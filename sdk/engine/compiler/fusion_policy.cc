#include "sdk/engine/compiler/fusion_policy.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/classify.h"

namespace backplane::engine {

using codegen::FusionRole;
using compiler::FusionGraph;
using compiler::MergeDecision;

namespace {

constexpr int kMaxInstructions = 320;  // of one kernel: code size grows with it; constants and broadcasts are free
constexpr int kMaxParameters = 48;
constexpr double kMaxIndices = 6;          // at which a kernel's code computes one instruction
constexpr double kCheapCycles = 1.5;       // what may be computed more than once
constexpr double kCallCycles = 1000;       // of a kernel that runs in this thread
constexpr double kScalarCost = 8;          // of an element that is not computed in a vector, in elements that are
constexpr double kLoadCycles = 0.3;        // of an element that is stored instead
constexpr double kKernelCycles = 4096;     // saved in all, from which a kernel of its own is worth while
constexpr size_t kMaxTargets = 64;         // kernels tried for a value that several read
constexpr size_t kMaxTries = 6;            // at merging one kernel of single elements with others
constexpr size_t kMaxSiblings = 512;       // readers of one value that a kernel may be merged with, the nearest ones
constexpr int64_t kLargeShared = 1024;     // elements from which kernels that read the same array are merged
constexpr int64_t kSmallPart = 4;          // parts of an array that are at most this fraction are read before an update
constexpr int64_t kLargeTranspose = 4096;  // elements from which a transpose is better a kernel of its own
constexpr int64_t kLargestFused = 16 << 20;  // bytes up to which it is not, for one elementwise reader

bool HasDims(const Shape& a, absl::Span<const int64_t> dims) {
  return std::equal(a.dimensions().begin(), a.dimensions().end(), dims.begin(), dims.end());
}
bool HaveSameDims(const Shape& a, const Shape& b) { return a.dimensions() == b.dimensions(); }

std::vector<int64_t> GetDims(const Shape& s) { return {s.dimensions().begin(), s.dimensions().end()}; }

bool MovesMinorDimension(const Instruction& transpose) {
  const Ints& perm = transpose.dimensions();
  // Dims of size one do not count.
  int64_t last = -1;
  for (size_t d = 0; d < perm.size(); ++d) {
    if (transpose.shape().dimensions(static_cast<int64_t>(d)) != 1) last = perm[d];
  }
  if (last < 0) return false;
  for (int64_t d = last + 1; d < transpose.operand(0)->shape().rank(); ++d) {
    if (transpose.operand(0)->shape().dimensions(d) != 1) return true;
  }
  return false;
}

// Whether kernels have a copy of their code for each element of the innermost dimension (engine/codegen's LoopPhase).
bool IsMinorUnrolled(const Shape& s) {
  for (int64_t d = s.rank(); d-- > 0;) {
    if (s.dimensions(d) != 1) return s.dimensions(d) <= codegen::kMaxUnrolled;
  }
  return true;
}

bool IsLargeTranspose(const Instruction& i) {
  return i.Is(Opcode::kTranspose) && i.shape().num_elements() >= kLargeTranspose && MovesMinorDimension(i) &&
         !IsMinorUnrolled(i.shape());
}

// Of the elements of a result, the fraction that comes from this operand, if kernels choose between the operands when
// they are compiled and not for each element.
double FractionFrom(const Instruction& result, const Instruction* operand) {
  if (!result.Is(Opcode::kConcatenate)) return 1;
  const int64_t d = result.dimensions()[0], extent = result.shape().dimensions(d);
  if (extent > codegen::kMaxUnrolled) return 1;
  int64_t from = 0;
  for (const Instruction* o : result.operands()) from += o == operand ? o->shape().dimensions(d) : 0;
  return static_cast<double>(from) / static_cast<double>(std::max<int64_t>(extent, 1));
}

// Whether the instruction reads exactly the elements that the dynamic-update-slice replaces.
bool ReadsUpdatedPart(const Instruction& read, const Instruction& update) {
  if (!read.Is(Opcode::kDynamicSlice) || !HaveSameDims(read.shape(), update.operand(1)->shape())) return false;
  const auto starts = read.operands().subspan(1), updated = update.operands().subspan(2);
  return std::equal(starts.begin(), starts.end(), updated.begin(), updated.end());
}

// Whether this is a reshape such as f32[8] to f32[8,1], as sums with kept dimensions are followed by.
bool AddsOrDropsUnitDimensions(const Instruction& i) {
  if (!i.Is(Opcode::kReshape)) return false;
  auto others = [](const Shape& s) {
    std::vector<int64_t> dims = GetDims(s);
    std::erase(dims, 1);
    return dims;
  };
  return others(i.shape()) == others(i.operand(0)->shape());
}

int64_t CountElements(const Instruction& i) {
  const Shape& s = i.shape();
  return s.IsArray() ? s.num_elements() : s.tuple_size() > 0 ? s.tuple_shapes(0).num_elements() : 1;
}

}  // namespace

compiler::FusionOptions EngineFusionPolicy::options() const {
  compiler::FusionOptions options;
  options.cycle_search = {.max_visits = 0, .total = 1000000, .total_per_instruction = 500, .short_search = 256};
  options.max_targets = kMaxTargets;
  options.merge_equal_members = true;  // the copies of DuplicateCheapProducers that are in one kernel
  options.keep_annotations = false;    // equal kernels are compiled once
  options.keep_positions = false;
  return options;
}

FusionRole EngineFusionPolicy::GetRole(const Instruction& i) const {
  if (i.Is(Opcode::kParameter) || i.Is(Opcode::kTuple) || i.Is(Opcode::kGetTupleElement))
    return FusionRole::kNotFusible;
  if (i.Is(Opcode::kConstant) && !i.shape().IsScalar()) return FusionRole::kNotFusible;
  if (IsClaimedBy(lowering_, i)) return FusionRole::kNotFusible;
  const FusionRole role = codegen::Classify(i).role;
  // Of several results: get-tuple-elements, which stay outside, read them.
  if (!i.shape().IsArray() && role != FusionRole::kReduction && role != FusionRole::kWindow &&
      role != FusionRole::kUpdate && role != FusionRole::kAlone)
    return FusionRole::kNotFusible;
  return role;
}

void EngineFusionPolicy::Start(const FusionGraph& graph) {
  costs_.assign(static_cast<size_t>(graph.node_count()), 0);
  facts_.assign(static_cast<size_t>(graph.group_count()), {});
  for (int n = 0; n < graph.node_count(); ++n) {
    if (graph.group_of(n) < 0) continue;
    const Instruction& i = graph.instruction(n);
    costs_[n] = codegen::CostPerElement(i);
    Facts& facts = facts_[graph.group_of(n)];
    facts.weight = IsFreeSource(i) ? 0 : 1;
    facts.alone = graph.node(n).role == FusionRole::kAlone;
    if (graph.node(n).role == FusionRole::kUpdate) facts.update = n;
    facts.has_reduction = graph.node(n).role == FusionRole::kReduction;
    if (i.shape().IsArray()) {
      facts.space = GetDims(i.shape());
    } else if (i.shape().tuple_size() > 0) {
      facts.space = GetDims(i.shape().tuple_shapes(0));
    }
  }
}

void EngineFusionPolicy::BeforeMerge(const FusionGraph& graph, int from, int into) {
  Facts& a = facts_[into];
  Facts& b = facts_[from];
  if (b.has_reduction) {
    const std::vector<int64_t> rows = RowSpace(graph, from);
    if (!rows.empty() && rows == a.space) a.has_row_consumer = true;
  }
  a.weight += b.weight;
  a.update = std::max(a.update, b.update);
  a.has_reduction |= b.has_reduction;
  a.has_row_consumer |= b.has_row_consumer;
  b = {};
}

bool EngineFusionPolicy::CanPlan(const Computation& kernel) const { return codegen::CanPlanKernel(kernel).ok(); }

// ---- Whether a producer joins a kernel that reads it.

MergeDecision EngineFusionPolicy::DecideMerge(const FusionGraph& graph, int n, int target, bool further_result) const {
  const FusionGraph::Node& p = graph.node(n);
  if (IsShortBroadcast(*p.instruction)) return MergeDecision::kRefuse;
  // A reduce with several results is followed by get-tuple-elements, which stay outside.
  if (!p.instruction->shape().IsArray()) return MergeDecision::kRefuse;
  if (p.role == FusionRole::kUpdate || p.role == FusionRole::kWindow || p.role == FusionRole::kAlone)
    return MergeDecision::kRefuse;
  if (!further_result) return DecideJoin(graph, n, target);
  // One kernel with one result more, where everything is over the same elements, or per row of them.
  const Facts& facts = facts_[target];
  const bool same_space = p.role == FusionRole::kElementwise && HasDims(p.instruction->shape(), facts.space);
  if (facts.has_reduction || p.role == FusionRole::kReduction) {
    const bool rows =
        FeedsRows(graph, n, target) || (same_space && facts.has_row_consumer && !RowSpace(graph, target).empty());
    if (!rows || DecideJoin(graph, n, target) == MergeDecision::kRefuse) return MergeDecision::kRefuse;
    return MergeDecision::kIfPlannable;
  }
  if (!same_space || !AreAllUsersElementwise(graph, n, target)) return MergeDecision::kRefuse;
  return DecideJoin(graph, n, target);
}

MergeDecision EngineFusionPolicy::DecideJoin(const FusionGraph& graph, int n, int target) const {
  const FusionGraph::Node& p = graph.node(n);
  const Facts& own = facts_[p.group];
  const Facts& facts = facts_[target];
  if (facts.alone || own.alone) return MergeDecision::kRefuse;
  if (own.weight + facts.weight > kMaxInstructions) return MergeDecision::kRefuse;
  if (graph.CountInputs(p.group, target) > kMaxParameters) return MergeDecision::kRefuse;
  if (IsLargeTranspose(*p.instruction) && !IsOnlyReadElementwise(graph, n, target)) return MergeDecision::kRefuse;
  if (p.role == FusionRole::kReduction || own.has_reduction) return JudgeReduction(graph, n, target);
  if (PreventsWorkInPlace(graph, n, target) || PreventsUpdateInPlace(graph, n, target)) return MergeDecision::kRefuse;

  // How often each element of p is computed in the kernel.
  double times = 0;
  double distinct = 0;
  for (const FusionGraph::Use& use : p.uses) {
    if (graph.group_of(use.node) != target) continue;
    const FusionGraph::Node& c = graph.node(use.node);
    if (IsLargeTranspose(*c.instruction)) return MergeDecision::kRefuse;
    double t = 1;
    const double out = static_cast<double>(std::max<int64_t>(1, CountElements(*c.instruction)));
    const double in = static_cast<double>(std::max<int64_t>(1, p.instruction->shape().num_elements()));
    switch (c.role) {
      case FusionRole::kElementwise:
      case FusionRole::kReduction:
        break;
      case FusionRole::kWindow:
        return costs_[n] <= kCheapCycles && graph.group(p.group).members.size() <= 2 ? MergeDecision::kAccept
                                                                                     : MergeDecision::kRefuse;
      case FusionRole::kUpdate:
        // The updated operand must stay a buffer: the kernel works in place on it.
        if (c.instruction->operand(0) == p.instruction) return MergeDecision::kRefuse;
        if (IsCostlyInScatter(graph, n, *c.instruction)) return MergeDecision::kRefuse;
        break;
      default:
        t = std::max(1.0, out / in * FractionFrom(*c.instruction, p.instruction));
        // A slice computes its part of the elements, other operations each of them at another index.
        distinct += c.instruction->Is(Opcode::kSlice) ? out / in : 1.0;
    }
    times = std::max(times, t);
  }
  if (distinct > 0 && !facts.has_reduction && !IsCodeSmall(graph, n, target)) return MergeDecision::kRefuse;
  times = std::max(times, 1.0) * std::max(1.0, distinct);
  const double repeated = CountRepeats(graph, n, target, 4);
  if ((times > 1 || repeated > 0) && !FeedsRows(graph, n, target)) {
    double cost = 0;
    for (int m : graph.group(p.group).members) cost += costs_[m];
    if ((times > 1 && cost > kCheapCycles) || (cost - kLoadCycles) * repeated > kKernelCycles)
      return MergeDecision::kRefuse;
  }
  return MergeDecision::kAccept;
}

// Whether it costs more to compute n's group for one update at a time, as such a scatter does, than to store its
// result.
bool EngineFusionPolicy::IsCostlyInScatter(const FusionGraph& graph, int n, const Instruction& update) const {
  if (!update.Is(Opcode::kScatter) || codegen::ScattersRows(update)) return false;
  double cost = 0;  // of an element that is computed alone
  for (int m : graph.group(graph.group_of(n)).members) cost += kScalarCost * costs_[m];
  const double saved = (cost - kLoadCycles) * static_cast<double>(CountElements(graph.instruction(n)));
  return cost > kCheapCycles && saved > kCallCycles;
}

// The elements of arrays of the target that have n in each of their rows, so that it is computed again for every row.
// (A value that is the same along a row is computed once for each, unless the row is shorter than a vector.)
double EngineFusionPolicy::CountRepeats(const FusionGraph& graph, int n, int target, int depth) const {
  double repeats = 0;
  for (const FusionGraph::Use& use : graph.node(n).uses) {
    if (graph.group_of(use.node) != target) continue;
    const Instruction& user = graph.instruction(use.node);
    if (user.Is(Opcode::kReshape) && depth > 0) {
      repeats = std::max(repeats, CountRepeats(graph, use.node, target, depth - 1));
    } else if (user.Is(Opcode::kBroadcast) && !user.dimensions().empty() && CountRepeatsInRow(user) < kShortRow &&
               user.shape().num_elements() > user.operand(0)->shape().num_elements() * CountRepeatsInRow(user)) {
      repeats = std::max(repeats, static_cast<double>(user.shape().num_elements()));
    }
  }
  return repeats;
}

// A kernel that reads one element of an array for all elements of its result cannot overwrite the array with the
// result. Loops do that with their state, which is copied otherwise.
bool EngineFusionPolicy::PreventsWorkInPlace(const FusionGraph& graph, int n, int target) const {
  const Instruction& i = graph.instruction(n);
  if (!i.Is(Opcode::kSlice) && !i.Is(Opcode::kDynamicSlice)) return false;
  const Shape& read = i.operand(0)->shape();
  if (i.shape().num_elements() != 1 || read.num_elements() < kLargeShared || !HasDims(read, facts_[target].space))
    return false;
  const std::vector<int>& inputs = graph.group(target).inputs;
  return std::binary_search(inputs.begin(), inputs.end(), graph.node(n).operands[0]);
}

// A kernel that updates a part of an array and reads other elements of it cannot work in place, and copies all of the
// array. It is better to read them in a kernel of its own, before the update.
bool EngineFusionPolicy::PreventsUpdateInPlace(const FusionGraph& graph, int n, int target) const {
  const int updater = facts_[target].update;
  if (updater < 0) return false;
  const Instruction& update = graph.instruction(updater);
  const bool is_scatter = update.Is(Opcode::kScatter);
  const Instruction* value = update.operand(is_scatter ? update.operand_count() - 1 : 1);
  if (value->shape().num_elements() == 1) return false;  // is computed before the element is written
  if (graph.instruction(n).shape().num_elements() > update.operand(0)->shape().num_elements() / kSmallPart)
    return false;
  const FusionGraph::Group& own = graph.group(graph.group_of(n));
  const int updated = graph.node(updater).operands[0];
  if (!std::binary_search(own.inputs.begin(), own.inputs.end(), updated)) return false;
  return std::any_of(own.members.begin(), own.members.end(), [&](int m) {
    const std::vector<int>& operands = graph.node(m).operands;
    if (std::find(operands.begin(), operands.end(), updated) == operands.end()) return false;
    return is_scatter || !ReadsUpdatedPart(graph.instruction(m), update);
  });
}

MergeDecision EngineFusionPolicy::JudgeReduction(const FusionGraph& graph, int n, int target) const {
  const FusionGraph::Node& p = graph.node(n);
  const Facts& facts = facts_[target];
  if (facts.update >= 0) return MergeDecision::kRefuse;  // its elements are not those of the array that is updated
  // A reduction that reads this one is computed with it only if both walk along the same rows. Otherwise each of its
  // elements would compute this one again, as in a chain of products of a matrix and a vector.
  const Downstream downstream = FindDownstream(graph, n, target);
  if (downstream.has_reduction && !downstream.by_rows) return MergeDecision::kRefuse;
  // Users at the reduced shape: the epilogue of the reduction.
  bool at_reduced = !downstream.has_reduction;
  for (const FusionGraph::Use& use : p.uses) {
    if (graph.group_of(use.node) != target) continue;
    const FusionGraph::Node& c = graph.node(use.node);
    if (c.role != FusionRole::kElementwise || !HaveSameDims(c.instruction->shape(), p.instruction->shape()))
      at_reduced = false;
  }
  if (at_reduced && HasDims(p.instruction->shape(), facts.space) && !facts.has_row_consumer) {
    for (int m : graph.group(target).members) {
      const FusionGraph::Node& member = graph.node(m);
      if (member.role == FusionRole::kIndexing && !member.instruction->Is(Opcode::kBroadcast))
        return MergeDecision::kRefuse;
      if (member.role == FusionRole::kWindow) return MergeDecision::kRefuse;
    }
    return MergeDecision::kIfPlannable;
  }
  const Instruction* reduce = FindReduction(graph, n);
  if (!codegen::IsRowReduction(*reduce)) return MergeDecision::kRefuse;
  // The kernel's space must be the rows that the reduction read, or have reductions of the same rows.
  const Shape& input = reduce->operand(0)->shape();
  return HasDims(input, facts.space) || HasDims(input, RowSpace(graph, target)) ? MergeDecision::kIfPlannable
                                                                                : MergeDecision::kRefuse;
}

// What the members of the target do with n.
EngineFusionPolicy::Downstream EngineFusionPolicy::FindDownstream(const FusionGraph& graph, int n, int target) const {
  Downstream found;
  absl::flat_hash_set<int> seen;
  std::vector<int> stack = {n};
  while (!stack.empty()) {
    const int at = stack.back();
    stack.pop_back();
    for (const FusionGraph::Use& use : graph.node(at).uses) {
      if (graph.group_of(use.node) != target || !seen.insert(use.node).second) continue;
      const FusionGraph::Node& user = graph.node(use.node);
      found.has_reduction |= user.role == FusionRole::kReduction;
      if (user.role == FusionRole::kIndexing && !AddsOrDropsUnitDimensions(*user.instruction)) {
        // A value of each row, repeated along the row.
        const bool along_rows =
            user.instruction->Is(Opcode::kBroadcast) && !user.instruction->dimensions().empty() &&
            user.instruction->dimensions().back() + 1 == static_cast<int64_t>(user.instruction->dimensions().size());
        found.by_rows &= along_rows;
      }
      stack.push_back(use.node);
    }
  }
  return found;
}

const Instruction* EngineFusionPolicy::FindReduction(const FusionGraph& graph, int n) const {
  if (graph.node(n).role == FusionRole::kReduction) return &graph.instruction(n);
  for (int m : graph.group(graph.group_of(n)).members) {
    if (graph.node(m).role == FusionRole::kReduction) return &graph.instruction(m);
  }
  return &graph.instruction(n);
}

std::vector<int64_t> EngineFusionPolicy::RowSpace(const FusionGraph& graph, int group) const {
  for (int m : graph.group(group).members) {
    if (graph.node(m).role == FusionRole::kReduction && codegen::IsRowReduction(graph.instruction(m)))
      return GetDims(graph.instruction(m).operand(0)->shape());
  }
  return {};
}

// n is a value of each row of the target's elements: a row reduction of them, or arithmetic on such.
bool EngineFusionPolicy::FeedsRows(const FusionGraph& graph, int n, int target) const {
  std::vector<int64_t> space = RowSpace(graph, target);
  if (space.empty()) space = facts_[target].space;
  return LeadsToRowReduction(graph, n, space, 12);
}

bool EngineFusionPolicy::LeadsToRowReduction(const FusionGraph& graph, int n, absl::Span<const int64_t> space,
                                             int depth) const {
  const FusionGraph::Node& p = graph.node(n);
  const Shape& shape = p.instruction->shape();
  if (p.role == FusionRole::kReduction) {
    return shape.IsArray() && codegen::IsRowReduction(*p.instruction) &&
           HasDims(p.instruction->operand(0)->shape(), space);
  }
  if (p.role != FusionRole::kElementwise || depth == 0 || static_cast<size_t>(shape.rank()) >= space.size())
    return false;
  return std::any_of(p.operands.begin(), p.operands.end(), [&](int o) {
    return HaveSameDims(graph.instruction(o).shape(), shape) && LeadsToRowReduction(graph, o, space, depth - 1);
  });
}

// Whether a transpose has one reader, in a kernel of elementwise operations without another transpose. The kernel then
// reads it in tiles, and it need not be stored. A larger array is faster apart: its own kernel prefetches and streams.
bool EngineFusionPolicy::IsOnlyReadElementwise(const FusionGraph& graph, int n, int target) const {
  const FusionGraph::Node& p = graph.node(n);
  const Facts& facts = facts_[target];
  if (p.instruction->shape().byte_size() > kLargestFused || p.escapes || p.uses.size() != 1 || facts.has_reduction ||
      facts.update >= 0 || !HasDims(p.instruction->shape(), facts.space) || !AreAllUsersElementwise(graph, n, target))
    return false;
  const std::vector<int>& members = graph.group(target).members;
  return std::all_of(members.begin(), members.end(), [&](int m) {
    const Instruction& i = graph.instruction(m);
    return graph.node(m).role == FusionRole::kElementwise || i.Is(Opcode::kBroadcast);
  });
}

bool EngineFusionPolicy::AreAllUsersElementwise(const FusionGraph& graph, int n, int group) const {
  for (const FusionGraph::Use& use : graph.node(n).uses) {
    if (graph.group_of(use.node) == group &&
        (graph.node(use.node).role != FusionRole::kElementwise ||
         !HaveSameDims(graph.instruction(use.node).shape(), graph.instruction(n).shape()))) {
      return false;
    }
  }
  const std::vector<int>& members = graph.group(group).members;
  return std::all_of(members.begin(), members.end(), [&](int m) {
    const FusionRole role = graph.node(m).role;
    return role == FusionRole::kElementwise || role == FusionRole::kIndexing;
  });
}

// Whether a kernel of these groups has a copy of its code for each element along the short dimensions of all its
// concatenates (Planner::PushUnrolled). Each copy then has one operand of each concatenate; otherwise the code has all.
bool EngineFusionPolicy::HasCopyPerOperand(const FusionGraph& graph, absl::Span<const int> groups) const {
  std::set<std::pair<int64_t, int64_t>> dimensions;  // number and extent
  int64_t copies = 1;
  for (int group : groups) {
    for (int m : graph.group(group).members) {
      const Instruction& i = graph.instruction(m);
      if (!i.Is(Opcode::kConcatenate)) continue;
      const int64_t d = i.dimensions()[0], extent = i.shape().dimensions(d);
      if (extent > codegen::kMaxUnrolled || !dimensions.emplace(d, extent).second) continue;
      copies *= std::max<int64_t>(extent, 1);
      if (copies > codegen::kMaxUnrolled) return false;
    }
  }
  return true;
}

// At how many indices the code of a kernel computes instruction n, given that for its users: users that only move
// elements ask for other ones than the rest.
double EngineFusionPolicy::CountIndices(const FusionGraph& graph, int n, int group, bool has_copies,
                                        const absl::flat_hash_map<int, double>& known) const {
  double same = 0, moved = 0;
  for (const FusionGraph::Use& use : graph.node(n).uses) {
    if (graph.group_of(use.node) != group) continue;
    const double times = known.at(use.node);
    if (graph.node(use.node).role == FusionRole::kIndexing) {
      // An operand that stands in a concatenation twice is in the code twice.
      const auto operands = graph.instruction(use.node).operands();
      const auto copies = std::count(operands.begin(), operands.end(), &graph.instruction(n));
      moved += times * (copies > 1 || !has_copies ? static_cast<double>(copies)
                                                  : FractionFrom(graph.instruction(use.node), &graph.instruction(n)));
    } else {
      same = std::max(same, times);
    }
  }
  return std::max(1.0, same + moved);
}

// Whether the code stays small when n's group joins: each level of slices and pads of one value, as a scan by halves
// has them, doubles what is below.
bool EngineFusionPolicy::IsCodeSmall(const FusionGraph& graph, int n, int target) const {
  const std::vector<int>& members = graph.group(target).members;
  absl::flat_hash_map<int, double> indices;
  const bool has_copies = HasCopyPerOperand(graph, {target, graph.group_of(n)});
  double total = 0;
  for (auto m = members.rbegin(); m != members.rend(); ++m)
    total += indices[*m] = CountIndices(graph, *m, target, has_copies, indices);
  const double here = CountIndices(graph, n, target, has_copies, indices);
  total += here * static_cast<double>(graph.group(graph.group_of(n)).members.size());
  return here <= kMaxIndices && total <= 2 * kMaxInstructions;
}

// ---- Kernels that do not read each other.

void EngineFusionPolicy::Finish(FusionGraph& graph) {
  MergeSiblings(graph);
  MergeScalars(graph);
}

// Kernels of the same space that read the same large array become one with several results.
void EngineFusionPolicy::MergeSiblings(FusionGraph& graph) const {
  std::vector<int> seen_by(static_cast<size_t>(graph.group_count()), -1);  // the last value whose readers had the group
  for (int n = 0; n < graph.node_count(); ++n) {
    const Shape& s = graph.instruction(n).shape();
    if (!s.IsArray() || s.num_elements() < kLargeShared || graph.node(n).uses.size() < 2) continue;
    std::vector<int> readers;
    for (const FusionGraph::Use& use : graph.node(n).uses) {
      const int g = graph.group_of(use.node);
      if (g < 0 || g == graph.group_of(n) || seen_by[g] == n) continue;
      seen_by[g] = n;
      if (MayBeSibling(graph, g, s)) readers.push_back(g);
    }
    for (size_t i = 0; i + 1 < readers.size(); ++i) {
      const size_t end = std::min(readers.size(), i + 1 + kMaxSiblings);
      for (size_t j = i + 1; j < end; ++j) {
        const int a = readers[i], b = readers[j];
        if (graph.group(a).members.empty() || graph.group(b).members.empty()) continue;
        if (DoSiblingsFit(graph, a, b)) graph.Merge(b, a);
      }
    }
  }
}

bool EngineFusionPolicy::MayBeSibling(const FusionGraph& graph, int group, const Shape& shared) const {
  const Facts& facts = facts_[group];
  if (facts.alone || facts.has_reduction || !HasDims(shared, facts.space)) return false;
  const std::vector<int>& members = graph.group(group).members;
  return std::all_of(members.begin(), members.end(), [&](int m) {
    return graph.node(m).role == FusionRole::kElementwise || graph.instruction(m).Is(Opcode::kBroadcast) ||
           graph.instruction(m).Is(Opcode::kIota);
  });
}

// Of two that may be siblings.
bool EngineFusionPolicy::DoSiblingsFit(const FusionGraph& graph, int a, int b) const {
  if (facts_[a].weight + facts_[b].weight > kMaxInstructions || graph.CountInputs(a, b) > kMaxParameters / 2)
    return false;
  if (graph.Reads(a, b) || graph.Reads(b, a)) return false;  // needs the intermediate: leave
  return !graph.HasPath(a, b) && !graph.HasPath(b, a);
}

// Arithmetic on single elements: a kernel costs more to call than such a one to run.
void EngineFusionPolicy::MergeScalars(FusionGraph& graph) const {
  std::vector<int> kernels;
  for (int g = 0; g < graph.group_count(); ++g) {
    if (!IsScalarKernel(graph, g)) continue;
    bool merged = false;
    for (size_t k = kernels.size(); k-- > 0 && kernels.size() - k <= kMaxTries && !merged;) {
      const int other = kernels[k];
      if (facts_[g].weight + facts_[other].weight > kMaxInstructions) continue;
      if (graph.CountInputs(g, other) > kMaxParameters / 2) continue;
      if (graph.HasPathAround(g, other) || graph.HasPathAround(other, g)) continue;
      graph.Merge(g, other);
      merged = true;
    }
    if (!merged) kernels.push_back(g);
  }
}

bool EngineFusionPolicy::IsScalarKernel(const FusionGraph& graph, int group) const {
  const Facts& facts = facts_[group];
  const std::vector<int>& members = graph.group(group).members;
  if (members.empty() || facts.alone || facts.has_reduction || facts.weight == 0) return false;
  return std::all_of(members.begin(), members.end(), [&](int m) {
    const Instruction& i = graph.instruction(m);
    return i.shape().IsArray() && i.shape().num_elements() == 1 &&
           (graph.node(m).role == FusionRole::kElementwise || IsFreeSource(i));
  });
}

// ---- Outlining.

bool EngineFusionPolicy::NeedsFusion(const FusionGraph& graph, int group) const {
  const std::vector<int>& members = graph.group(group).members;
  if (members.size() > 1) return true;
  // Aliases and scalar constants need no kernel.
  const Instruction& only = graph.instruction(members[0]);
  return !only.Is(Opcode::kReshape) && !only.Is(Opcode::kBitcast) && !only.Is(Opcode::kConstant);
}

compiler::FusionLabel EngineFusionPolicy::Describe(const FusionGraph& graph, int group,
                                                   absl::Span<const int> results) const {
  std::string name;
  int shown = 0;
  const std::vector<int>& members = graph.group(group).members;
  for (auto m = members.rbegin(); m != members.rend() && shown < 3; ++m) {
    const Instruction& i = graph.instruction(*m);
    if (i.Is(Opcode::kConstant) || i.Is(Opcode::kBroadcast)) continue;
    name = absl::StrCat(OpName(i.opcode()), shown > 0 ? "_" : "", name);
    ++shown;
  }
  if (name.empty()) name = "broadcast";
  return {absl::StrCat(name, "_fusion"), "fused_computation", FusionKind::kLoop, &graph.instruction(results.back())};
}

}  // namespace backplane::engine
