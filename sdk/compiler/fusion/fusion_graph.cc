#include "sdk/compiler/fusion/fusion_graph.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"

namespace backplane::compiler {
namespace {

void MergeSorted(std::vector<int>& to, const std::vector<int>& more) {
  const auto middle = to.insert(to.end(), more.begin(), more.end());
  std::inplace_merge(to.begin(), middle, to.end());
}

}  // namespace

FusionGraph::FusionGraph(Computation* computation, FusionPolicy* policy)
    : computation_(computation),
      policy_(policy),
      options_(policy->options()),
      spans_(static_cast<int>(computation->instruction_count())) {
  AddNodes();
  seen_nodes_.assign(nodes_.size(), 0);
  seen_groups_.assign(groups_.size(), 0);
  const CycleSearchLimits& limits = options_.cycle_search;
  searches_left_ = limits.total + limits.total_per_instruction * static_cast<int64_t>(nodes_.size());
  policy_->Start(*this);
}

absl::StatusOr<bool> FusionGraph::Fuse() {
  MergeProducers();
  policy_->Finish(*this);
  return Outline();
}

void FusionGraph::AddNodes() {
  absl::flat_hash_map<const Instruction*, int> number;
  nodes_.reserve(static_cast<size_t>(computation_->instruction_count()));
  std::vector<int> latest_reader(static_cast<size_t>(computation_->instruction_count()), -1);
  for (const auto& owned : computation_->instructions()) {
    const int n = node_count();
    number[owned.get()] = n;
    Node& node = nodes_.emplace_back();
    node.instruction = owned.get();
    node.escapes = owned->IsRoot();
    for (const Instruction* o : owned->operands()) {
      const int p = number.at(o);
      if (latest_reader[static_cast<size_t>(p)] == n) continue;
      latest_reader[static_cast<size_t>(p)] = n;
      node.operands.push_back(p);
    }
    node.is_copied = policy_->IsCopiedIntoReaders(*owned);
    has_copies_ |= node.is_copied;
    if (!node.is_copied) node.role = policy_->GetRole(*owned);
    if (node.role == FusionRole::kNotFusible) continue;
    node.group = group_count();
    Group& group = groups_.emplace_back();
    group.members = {n};
    group.inputs = node.operands;
    std::sort(group.inputs.begin(), group.inputs.end());
  }
}

void FusionGraph::MergeProducers() {
  for (int n = node_count() - 1; n >= 0; --n) {
    FinishUses(n);
    if (node(n).group >= 0 && !node(n).uses.empty()) FindGroup(n);
    policy_->AfterVisit(*this, n);
    AddUsesToOperands(n);
  }
}

// All readers have been visited, and have added themselves in any order, possibly several times.
void FusionGraph::FinishUses(int n) {
  std::vector<Use>& uses = nodes_[static_cast<size_t>(n)].uses;
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.node < b.node; });
  size_t kept = 0;
  for (const Use& use : uses) {
    if (kept > 0 && uses[kept - 1].node == use.node) {
      uses[kept - 1].repeats |= use.repeats;
    } else {
      uses[kept++] = use;
    }
  }
  uses.resize(kept);
}

void FusionGraph::AddUsesToOperands(int n) {
  const Node& reader = node(n);
  for (int p : reader.operands) {
    Node& operand = nodes_[static_cast<size_t>(p)];
    if (!reader.is_copied) {
      operand.uses.push_back({n, false});
      operand.escapes |= reader.group < 0;
      continue;
    }
    const bool enlarges = reader.instruction->Is(Opcode::kBroadcast) &&
                          reader.instruction->shape().num_elements() > operand.instruction->shape().num_elements();
    for (const Use& use : reader.uses) operand.uses.push_back({use.node, use.repeats || enlarges});
    operand.escapes |= reader.escapes;
  }
}

void FusionGraph::FindGroup(int n) {
  Node& producer = nodes_[static_cast<size_t>(n)];
  std::vector<int> targets;
  for (const Use& use : producer.uses) {
    if (group_of(use.node) >= 0) targets.push_back(group_of(use.node));
  }
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  if (targets.empty()) return;
  if (targets.size() == 1 && !producer.escapes) {
    if (CanMerge(n, targets[0], false)) Merge(producer.group, targets[0]);
    return;
  }
  if (!producer.escapes && policy_->ShouldCopyIntoReaders(*this, n, targets)) {
    groups_[static_cast<size_t>(producer.group)] = {};
    producer.group = -1;
    producer.is_copied = true;
    has_copies_ = true;
    return;
  }
  size_t tried = 0;
  for (int target : targets) {
    if (policy_->IsClosed(*this, target)) continue;
    if (++tried > options_.max_targets) break;
    if (!CanMerge(n, target, true)) continue;
    Merge(producer.group, target);
    return;
  }
}

bool FusionGraph::CanMerge(int n, int target, bool further_result) const {
  const MergeDecision decision = policy_->DecideMerge(*this, n, target, further_result);
  if (decision == MergeDecision::kRefuse) return false;
  // A producer that only the target reads cannot reach it another way.
  if (further_result && HasPathAround(group_of(n), target)) return false;
  return decision == MergeDecision::kAccept || CanPlan(group_of(n), target);
}

// Plans each trial anew. The plan of a trial cannot become that of the fusion: it refers to the instructions of its
// body, and the body changes with further merges and in the passes after fusion. Remembering the answers by the
// fingerprint of the body was tried and saves nothing, because building and hashing a body takes as long as planning
// it: a training step of 24 equal layers of a transformer took 1.07 s of processor time to compile either way.
bool FusionGraph::CanPlan(int a, int b) const {
  std::vector<int> members = group(a).members;
  MergeSorted(members, group(b).members);
  Module scratch("plan");
  absl::StatusOr<Outlined> outlined = MakeComputation(&scratch, members, "fused_computation");
  return outlined.ok() && policy_->CanPlan(*outlined->computation);
}

void FusionGraph::Merge(int from, int into) {
  if (from == into) return;
  policy_->BeforeMerge(*this, from, into);
  Group& a = groups_[static_cast<size_t>(into)];
  Group& b = groups_[static_cast<size_t>(from)];
  for (int m : b.members) nodes_[static_cast<size_t>(m)].group = into;
  MergeSorted(a.members, b.members);
  MergeSorted(a.inputs, b.inputs);
  a.inputs.erase(std::unique(a.inputs.begin(), a.inputs.end()), a.inputs.end());
  std::erase_if(a.inputs, [&](int i) { return group_of(i) == into; });
  b = {};
  spans_.Add(a.members.front(), a.members.back());
}

int FusionGraph::CountInputs(int a, int b) const {
  const std::vector<int>&x = group(a).inputs, &y = group(b).inputs;
  int count = 0;
  for (size_t i = 0, j = 0; i < x.size() || j < y.size();) {
    const int input = j == y.size() || (i < x.size() && x[i] <= y[j]) ? x[i] : y[j];
    if (i < x.size() && x[i] == input) ++i;
    if (j < y.size() && y[j] == input) ++j;
    if (group_of(input) != a && group_of(input) != b) ++count;
  }
  return count;
}

// ---- Paths between groups.

int FusionGraph::FindSearchLimit(int g) const {
  int limit = group(g).members.back();
  for (int until = limit; (until = spans_.FindLast(limit)) > limit;) limit = until;
  return limit;
}

void FusionGraph::StartSearch() const {
  ++search_;
  searched_ = 0;
}

bool FusionGraph::MarkNodeVisited(int n) const {
  if (seen_nodes_[static_cast<size_t>(n)] == search_) return false;
  seen_nodes_[static_cast<size_t>(n)] = search_;
  ++searched_;
  --searches_left_;
  return true;
}

bool FusionGraph::MarkGroupVisited(int g) const {
  if (seen_groups_[static_cast<size_t>(g)] == search_) return false;
  seen_groups_[static_cast<size_t>(g)] = search_;
  return true;
}

bool FusionGraph::IsSearchTooLong() const {
  return options_.cycle_search.total > 0 && searched_ > options_.cycle_search.short_search && searches_left_ < 0;
}

bool FusionGraph::Reads(int a, int b) const {
  for (int m : group(a).members) {
    for (int o : node(m).operands) {
      if (group_of(o) == b) return true;
    }
  }
  return false;
}

bool FusionGraph::HasPath(int a, int b) const { return Search(a, b, true); }
bool FusionGraph::HasPathAround(int a, int b) const { return Search(a, b, false); }

bool FusionGraph::Search(int a, int b, bool direct_counts) const {
  const int max_visits = options_.cycle_search.max_visits;
  // A search that counts its visits counts those behind the target, too: whether it exceeds its limit then depends on
  // what the groups reach, and not on how the search goes.
  const int limit = max_visits > 0 ? std::numeric_limits<int>::max() : FindSearchLimit(b);
  StartSearch();
  int visits = 0;
  std::vector<int> stack;
  auto reaches_target = [&](int m, bool is_start) {
    for (const Use& use : node(m).uses) {
      const int g = group_of(use.node);
      if (g == b && (!is_start || direct_counts)) return true;
      if (g == a || g == b || use.node > limit) continue;
      if (MarkNodeVisited(use.node)) stack.push_back(use.node);
    }
    return false;
  };
  for (int m : group(a).members) {
    if (reaches_target(m, true)) return true;
  }
  while (!stack.empty()) {
    if (IsSearchTooLong()) return true;
    const int m = stack.back();
    stack.pop_back();
    if (reaches_target(m, false)) return true;
    // The rest of a group runs with it: what its members reach is reached.
    const int g = group_of(m);
    if (g >= 0 && !MarkGroupVisited(g)) continue;
    if (max_visits > 0 && ++visits > max_visits) return true;
    if (g < 0) continue;
    for (int o : group(g).members) {
      if (MarkNodeVisited(o)) stack.push_back(o);
    }
  }
  return false;
}

}  // namespace backplane::compiler
