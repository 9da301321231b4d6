// Groups the instructions of a computation into kernels and turns each group into a fusion instruction.
//
// The graph numbers the instructions of a computation in their order. A group is a set of instructions that becomes one
// kernel. It runs after everything that its members read and before everything that reads its members. The graph of
// groups must therefore stay free of cycles, which FusionGraph checks before each merge. The policy decides which
// merges are profitable (fusion_policy.h).
//
// Numbers of nodes are stable. Numbers of groups are stable as well: a merge empties one of the two.
//
// Time and memory are linear in the size of the computation, except for sorting and for searches for cycles, which
// FusionOptions::cycle_search bounds. Deterministic. Not thread-safe.
#ifndef BACKPLANE_SDK_COMPILER_FUSION_FUSION_GRAPH_H_
#define BACKPLANE_SDK_COMPILER_FUSION_FUSION_GRAPH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/module.h"
#include "sdk/compiler/fusion/fusion_policy.h"
#include "sdk/compiler/fusion/group_spans.h"

namespace backplane::compiler {

class FusionGraph {
 public:
  // One reader of a node.
  struct Use {
    int node = 0;
    // The reader reads the node through a copied broadcast, so it reads elements more than once.
    bool repeats = false;
  };
  struct Node {
    Instruction* instruction = nullptr;  // after its group is outlined: the replacement
    FusionRole role = FusionRole::kNotFusible;
    bool is_copied = false;     // each reading group gets a copy; a member of no group
    bool escapes = false;       // it is the root, or is read outside of all groups
    int group = -1;             // -1: no group
    std::vector<int> operands;  // without duplicates, in the order of the instruction's operands
    // The readers, where copied nodes are replaced by their readers. Without duplicates, ascending. Complete after the
    // node has been visited.
    std::vector<Use> uses;
  };
  struct Group {
    std::vector<int> members;  // ascending; empty once the group has been merged into another
    std::vector<int> inputs;   // nodes outside of the group that members read, ascending
  };

  // The computation and the policy must outlive the graph.
  FusionGraph(Computation* computation, FusionPolicy* policy);
  FusionGraph(const FusionGraph&) = delete;
  FusionGraph& operator=(const FusionGraph&) = delete;

  // Merges groups as the policy decides and outlines them. Returns whether a fusion was created. After an error the
  // module must be discarded.
  absl::StatusOr<bool> Fuse();

  // ---- The parts of Fuse.

  void MergeProducers();
  absl::StatusOr<bool> Outline();

  // ---- For policies.

  int node_count() const { return static_cast<int>(nodes_.size()); }
  int group_count() const { return static_cast<int>(groups_.size()); }
  const Node& node(int n) const { return nodes_[static_cast<size_t>(n)]; }
  const Group& group(int g) const { return groups_[static_cast<size_t>(g)]; }
  int group_of(int n) const { return node(n).group; }
  const Instruction& instruction(int n) const { return *node(n).instruction; }

  // Returns how many values from outside a merged group of `a` and `b` would read. Takes time linear in their inputs.
  int CountInputs(int a, int b) const;
  // Whether a member of `a` reads a member of `b`.
  bool Reads(int a, int b) const;
  // Whether values of group `a` reach group `b`, directly or through other groups. Also true if a limit is exceeded.
  bool HasPath(int a, int b) const;
  // Whether values of group `a` reach group `b` through instructions outside of both, so that merging the two would
  // create a cycle. Also true if a limit is exceeded.
  bool HasPathAround(int a, int b) const;
  // Moves all members of `from` to `into`. The caller must have checked that this creates no cycle.
  void Merge(int from, int into);

 private:
  void AddNodes();
  void FindGroup(int n);
  bool CanMerge(int n, int target, bool further_result) const;
  void FinishUses(int n);
  void AddUsesToOperands(int n);

  // Whether one kernel can contain both groups.
  bool CanPlan(int a, int b) const;
  // Returns the members, each preceded by the copied nodes that it reads.
  std::vector<int> ListWithCopies(const std::vector<int>& members) const;
  struct Outlined {
    Computation* computation = nullptr;
    std::vector<int> inputs;   // node of each parameter
    std::vector<int> results;  // node of each result, ascending
  };
  // Creates a computation of the members in `module`, which may differ from the graph's module.
  absl::StatusOr<Outlined> MakeComputation(Module* module, const std::vector<int>& members,
                                           absl::string_view name) const;
  std::vector<int> FindResults(const std::vector<int>& members) const;
  absl::Status OutlineGroup(int g);
  absl::Status CheckOrder() const;

  bool Search(int a, int b, bool direct_counts) const;
  // Returns a node after which nothing can be needed by the group. It may come after the last member, because a group
  // runs as a whole.
  int FindSearchLimit(int group) const;
  void StartSearch() const;
  bool MarkNodeVisited(int n) const;  // true the first time in a search
  bool MarkGroupVisited(int g) const;
  bool IsSearchTooLong() const;

  Computation* const computation_;
  FusionPolicy* const policy_;
  const FusionOptions options_;
  std::vector<Node> nodes_;
  std::vector<Group> groups_;
  bool has_copies_ = false;
  GroupSpans spans_;
  // State of the searches. Visited nodes and groups are marked with the number of the search.
  mutable int64_t search_ = 0, searched_ = 0, searches_left_ = 0;
  mutable std::vector<int64_t> seen_nodes_, seen_groups_;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_FUSION_FUSION_GRAPH_H_
