#include "plugins/tpu_emulator/program/kernel_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "plugins/tpu_emulator/program/operation_traits.h"

namespace backplane::tpu {

using compiler::FusionGraph;
using compiler::FusionRole;
using compiler::MergeDecision;

namespace {

constexpr size_t kMaxMembers = 1000;  // instructions per kernel
constexpr int64_t kMaxReads = 256;    // operands that a kernel's instructions read from outside, counted once per read
constexpr double kMaxRecomputeCost = 6;  // operations per element that may be computed more than once
constexpr double kMaxPrologueCost = 10;  // operations per element, over all that produce a contraction's operands
constexpr size_t kMaxDuplicates = 6;     // kernels that one value is duplicated into
constexpr int kMaxSearch = 400;          // kernels that a search for a cycle visits

bool HaveSameDimensions(const Shape& a, const Shape& b) { return a.dimensions() == b.dimensions(); }

// Whether the transpose moves only dimensions of size 1.
bool KeepsOrder(const Instruction& transpose) {
  int64_t last = -1;
  for (size_t d = 0; d < transpose.dimensions().size(); ++d) {
    if (transpose.shape().dimensions(static_cast<int64_t>(d)) == 1) continue;
    if (transpose.dimensions()[d] < last) return false;
    last = transpose.dimensions()[d];
  }
  return true;
}

}  // namespace

compiler::FusionOptions KernelPolicy::options() const {
  compiler::FusionOptions options;
  options.cycle_search.max_visits = kMaxSearch;
  return options;
}

// kIndexing: slice, pad, concatenate, reverse, dynamic-slice, reshapes within tiles. kTranspose moves elements between
// tiles and is fused into contractions only. Windows are never fused with others.
FusionRole KernelPolicy::GetRole(const Instruction& i) const {
  if (!i.shape().IsArray() || i.HasSideEffect() || !i.control_predecessors().empty()) return FusionRole::kNotFusible;
  if (i.shape().HasDynamicDimensions() || i.shape().num_elements() == 0) return FusionRole::kNotFusible;
  for (const Instruction* o : i.operands()) {
    if (!o->shape().IsArray() || o->shape().HasDynamicDimensions() || o->shape().num_elements() == 0)
      return FusionRole::kNotFusible;
  }
  if (IsScalarUnitOp(i)) return FusionRole::kNotFusible;
  switch (i.opcode()) {
    case Opcode::kCopy:
      return FusionRole::kNotFusible;
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kReverse:
    case Opcode::kDynamicSlice:
      return FusionRole::kIndexing;
    case Opcode::kReshape:
      return KeepsTiles(i.operand(0)->shape(), i.shape()) ? FusionRole::kIndexing : FusionRole::kNotFusible;
    case Opcode::kTranspose:
      return KeepsOrder(i) ? FusionRole::kIndexing : FusionRole::kTranspose;
    case Opcode::kDynamicUpdateSlice:
      return FusionRole::kUpdate;
    case Opcode::kReduce:
      return FusionRole::kReduction;
    default:
      if (IsContraction(i)) return FusionRole::kContraction;
      if (i.info().Has(OpTrait::kReducesWindows)) return FusionRole::kWindow;
      return i.info().Has(OpTrait::kElementwise) ? FusionRole::kElementwise : FusionRole::kNotFusible;
  }
}

bool KernelPolicy::IsCopiedIntoReaders(const Instruction& i) const {
  if (i.Is(Opcode::kConstant)) return i.shape().IsScalar();
  if (i.Is(Opcode::kBroadcast))
    return !i.shape().HasDynamicDimensions() && !i.operand(0)->shape().HasDynamicDimensions();
  return i.Is(Opcode::kIota);
}

void KernelPolicy::Start(const FusionGraph& graph) {
  nodes_.assign(static_cast<size_t>(graph.node_count()), {});
  groups_.assign(static_cast<size_t>(graph.group_count()), {});
  for (int n = 0; n < graph.node_count(); ++n) {
    const FusionGraph::Node& node = graph.node(n);
    const Instruction& i = *node.instruction;
    NodeFacts& facts = nodes_[n];
    facts.cost = node.role == FusionRole::kElementwise ? ComputeVectorCost(i.opcode()) : 1;
    for (int p : node.operands) {
      const Instruction& operand = graph.instruction(p);
      facts.epilogue |= node.role == FusionRole::kElementwise && operand.users().size() == 1 &&
                        HaveSameDimensions(operand.shape(), i.shape()) &&
                        (graph.node(p).role == FusionRole::kContraction || nodes_[p].epilogue);
    }
    if (node.group < 0) continue;
    GroupFacts& g = groups_[node.group];
    g.contracts = node.role == FusionRole::kContraction;
    g.reduces = node.role == FusionRole::kReduction;
    g.updates = node.role == FusionRole::kUpdate;
    g.reads = i.operand_count();
    g.iteration_space = g.reduces ? i.operand(0)->shape() : g.updates ? i.operand(1)->shape() : i.shape();
  }
}

MergeDecision KernelPolicy::DecideMerge(const FusionGraph& graph, int producer, int target, bool further_result) const {
  if (further_result && !CanBeFurtherResult(graph, producer, target)) return MergeDecision::kRefuse;
  return CanJoin(graph, producer, target) ? MergeDecision::kAccept : MergeDecision::kRefuse;
}

double KernelPolicy::RecomputeCost(const FusionGraph& graph, int n, int t) const {
  double chain = nodes_[n].chain;
  for (const FusionGraph::Use& use : graph.node(n).uses) {
    const NodeFacts& user = nodes_[use.node];
    if (graph.group_of(use.node) == t && (user.prologue || user.broadcast)) chain = std::max(chain, user.chain);
  }
  return chain + nodes_[n].cost;
}

bool KernelPolicy::CanJoin(const FusionGraph& graph, int n, int t) const {
  const FusionGraph::Node& node = graph.node(n);
  const Instruction& i = *node.instruction;
  const GroupFacts& g = groups_[t];
  if (node.role == FusionRole::kUpdate || node.role == FusionRole::kWindow ||
      graph.group(t).members.size() >= kMaxMembers || g.reads + i.operand_count() > kMaxReads)
    return false;
  bool broadcast = false, makes_operand = false, other = false, elementwise = true, element_for_element = true;
  double moved = 0;  // elements of n that slices and similar operations read
  for (const FusionGraph::Use& use : node.uses) {
    const FusionGraph::Node& user = graph.node(use.node);
    if (user.group != t) continue;
    if (user.role == FusionRole::kWindow) return false;
    const Shape& shape = user.instruction->shape();
    const bool operand = user.role == FusionRole::kContraction || nodes_[use.node].prologue;
    makes_operand |= operand;
    other |= !operand;
    broadcast |= use.repeats || nodes_[use.node].broadcast;
    elementwise &= !use.repeats && (user.role == FusionRole::kElementwise || user.instruction->Is(Opcode::kReshape)) &&
                   shape.num_elements() == i.shape().num_elements();
    element_for_element &=
        !use.repeats && (user.role == FusionRole::kElementwise || user.role == FusionRole::kReduction) &&
        (user.role == FusionRole::kReduction ? HaveSameDimensions(user.instruction->operand(0)->shape(), i.shape())
                                             : HaveSameDimensions(shape, i.shape()));
    // The updated array must stay in memory because the kernel updates it in place.
    if (user.role == FusionRole::kUpdate && user.instruction->operand(0) == &i) return false;
    if (user.role == FusionRole::kIndexing)
      moved += static_cast<double>(std::min(shape.num_elements(), i.shape().num_elements()));
  }
  const bool heavy = node.role == FusionRole::kContraction || node.role == FusionRole::kReduction;
  if (makes_operand) {
    return !other && !broadcast && !heavy && !nodes_[n].epilogue && RecomputeCost(graph, n, t) <= kMaxRecomputeCost &&
           g.prologue + nodes_[n].cost <= kMaxPrologueCost;
  }
  if (node.role == FusionRole::kTranspose) return false;
  if (broadcast || moved > 1.01 * static_cast<double>(i.shape().num_elements()))
    return !heavy && RecomputeCost(graph, n, t) <= kMaxRecomputeCost;
  if (!heavy) return true;
  // The users must iterate over the elements of the result. A reduction of a contraction's result does.
  if (g.updates || g.contracts) return false;
  if (node.role == FusionRole::kContraction && g.reduces)
    return element_for_element && HaveSameDimensions(i.shape(), g.iteration_space);
  if (!elementwise) return false;
  if (node.role == FusionRole::kReduction && g.reduces)
    return HaveSameDimensions(i.operand(0)->shape(), g.iteration_space);
  return !g.reduces && i.shape().num_elements() == g.iteration_space.num_elements();
}

// Whether n can be another result of t, which iterates over the same elements.
bool KernelPolicy::CanBeFurtherResult(const FusionGraph& graph, int n, int t) const {
  const FusionGraph::Node& node = graph.node(n);
  const GroupFacts& g = groups_[t];
  if (node.role != FusionRole::kElementwise && node.role != FusionRole::kContraction) return false;
  if (g.contracts || g.updates || !HaveSameDimensions(node.instruction->shape(), g.iteration_space)) return false;
  return std::all_of(node.uses.begin(), node.uses.end(), [&](const FusionGraph::Use& use) {
    const FusionGraph::Node& user = graph.node(use.node);
    return user.group != t || (!use.repeats && !nodes_[use.node].broadcast &&
                               (user.role == FusionRole::kElementwise || user.role == FusionRole::kReduction));
  });
}

// Whether duplicating n into the kernels of all of its users moves fewer bytes than storing it.
bool KernelPolicy::ShouldCopyIntoReaders(const FusionGraph& graph, int n, absl::Span<const int> targets) const {
  const FusionGraph::Node& node = graph.node(n);
  const Shape& shape = node.instruction->shape();
  if (nodes_[n].epilogue || targets.size() > kMaxDuplicates || shape.IsScalar()) return false;
  if (node.role != FusionRole::kElementwise && node.role != FusionRole::kIndexing) return false;
  if (nodes_[n].cost + nodes_[n].chain > kMaxRecomputeCost) return false;
  double reads = 0;  // in arrays of the size of n
  const double own = static_cast<double>(shape.num_elements());
  for (int p : node.operands) {
    if (graph.node(p).is_copied) continue;
    reads += std::min(1.0, static_cast<double>(graph.instruction(p).shape().num_elements()) / own);
  }
  const double kernels = static_cast<double>(targets.size());
  if (kernels * reads >= reads + 1 + kernels) return false;
  return std::all_of(targets.begin(), targets.end(), [&](int t) { return CanJoin(graph, n, t); });
}

void KernelPolicy::BeforeMerge(const FusionGraph& graph, int from, int into) {
  const int n = graph.group(from).members[0];  // producers are alone when they are visited
  const FusionGraph::Node& node = graph.node(n);
  NodeFacts& facts = nodes_[n];
  GroupFacts& g = groups_[into];
  const double chain = RecomputeCost(graph, n, into);
  for (const FusionGraph::Use& use : node.uses) {
    const FusionGraph::Node& user = graph.node(use.node);
    if (user.group != into) continue;
    facts.prologue |= user.role == FusionRole::kContraction || nodes_[use.node].prologue;
    facts.broadcast |= use.repeats || nodes_[use.node].broadcast;
    --g.reads;
  }
  if (facts.prologue || facts.broadcast) facts.chain = chain;
  if (facts.prologue) g.prologue += facts.cost;
  g.reads += node.instruction->operand_count();
  g.contracts |= node.role == FusionRole::kContraction;
  if (node.role == FusionRole::kReduction) {
    g.reduces = true;
    g.iteration_space = node.instruction->operand(0)->shape();
  }
}

void KernelPolicy::AfterVisit(const FusionGraph& graph, int n) {
  const FusionGraph::Node& node = graph.node(n);
  if (!node.is_copied) return;
  // The operands of a copy are recomputed with it. Sources cost nothing.
  NodeFacts& facts = nodes_[n];
  if (node.role != FusionRole::kNotFusible) facts.chain += facts.cost;
  for (int p : node.operands) nodes_[p].chain = std::max(nodes_[p].chain, facts.chain);
}

// Whether the group becomes a fusion, rather than staying the single instruction that it is.
bool KernelPolicy::NeedsFusion(const FusionGraph& graph, int group) const {
  const std::vector<int>& members = graph.group(group).members;
  const GroupFacts& g = groups_[group];
  if (members.size() > 1 || g.contracts) return true;
  const FusionGraph::Node& only = graph.node(members[0]);
  const bool window = only.role == FusionRole::kWindow;
  if (widen_ && (g.reduces || window) && IsNarrowFloat(only.instruction->shape().element_type())) return true;
  if (window) return false;
  return std::any_of(only.operands.begin(), only.operands.end(),
                     [&](int p) { return graph.node(p).is_copied && !graph.instruction(p).shape().IsScalar(); });
}

int KernelPolicy::FindRepresentative(const FusionGraph& graph, int group) const {
  const std::vector<int>& members = graph.group(group).members;
  int best = members.back();
  double most = -1;
  for (int m : members) {
    const FusionGraph::Node& node = graph.node(m);
    if (node.instruction->metadata().empty()) continue;
    const double weight = node.role == FusionRole::kContraction ? 1000
                          : node.role == FusionRole::kReduction ? 100
                          : node.role == FusionRole::kUpdate    ? 50
                                                                : nodes_[m].cost;
    if (weight >= most) {
      most = weight;
      best = m;
    }
  }
  return best;
}

compiler::FusionLabel KernelPolicy::Describe(const FusionGraph& graph, int group, absl::Span<const int> results) const {
  const std::vector<int>& members = graph.group(group).members;
  std::string name;
  int shown = 0;
  for (auto m = members.rbegin(); m != members.rend() && shown < 3; ++m) {
    const Instruction& i = graph.instruction(*m);
    if (i.Is(Opcode::kReshape) && members.size() > 1) continue;
    name = absl::StrCat(OpName(i.opcode()), shown > 0 ? "_" : "", name);
    ++shown;
  }
  const FusionKind kind = groups_[group].contracts ? FusionKind::kOutput
                          : groups_[group].reduces ? FusionKind::kInput
                                                   : FusionKind::kLoop;
  return {absl::StrCat(name, "_fusion"), absl::StrCat("fused_", name), kind,
          &graph.instruction(FindRepresentative(graph, group))};
}

}  // namespace backplane::tpu
