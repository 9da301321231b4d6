// The decisions of a target when instructions are grouped into kernels. FusionGraph does everything else.
//
// Grouping goes from consumers to producers. For each instruction that a kernel can contain, from the last one to the
// first, FusionGraph looks at the groups that read it and asks the policy:
//
//   readers                                    what happens                      function called
//   all in one group                           the producer may join it          DecideMerge, CanPlan
//   in several groups, or outside of them      it may be copied into each        ShouldCopyIntoReaders
//                                              or join one as a further result   DecideMerge, CanPlan
//
// FusionGraph ensures that no merge creates a cycle. Afterwards Finish may merge groups that do not read each other,
// and every group that NeedsFusion accepts becomes a fusion instruction with a computation of its own.
//
// To write a policy for a new target, derive from FusionPolicy and define GetRole, DecideMerge and Describe. A policy
// keeps its data about nodes and groups in tables of its own, indexed by their numbers: Start sizes them, BeforeMerge
// updates them. A policy object is used for one computation.
//
// Cost. GetRole and IsCopiedIntoReaders are called once per instruction. DecideMerge is called once for each producer
// with one reading group, and for at most FusionOptions::max_targets groups for any other producer. It should examine
// the producer, its uses and the group, never the whole graph. CanPlan is by far the most expensive function:
// DecideMerge should return kAccept or kRefuse wherever it can decide without it.
#ifndef BACKPLANE_SDK_COMPILER_FUSION_FUSION_POLICY_H_
#define BACKPLANE_SDK_COMPILER_FUSION_FUSION_POLICY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "core/ir/computation.h"

namespace backplane::compiler {

class FusionGraph;

// The role of an instruction in a kernel. FusionGraph itself distinguishes only kNotFusible from the others.
enum class FusionRole : uint8_t {
  kNotFusible,   // in no kernel
  kElementwise,  // computes each element from the same element of each operand
  kIndexing,     // reads each element from another element of an operand: slice, pad, gather, reshape, ...
  kTranspose,    // an indexing operation that the target treats differently
  kReduction,    // combines elements of its operand
  kWindow,       // combines the elements of windows: reduce-window, select-and-scatter
  kUpdate,       // writes some elements of an array in place: dynamic-update-slice, scatter
  kContraction,  // dot, convolution
  kAlone,        // a kernel of its own, which nothing joins
};

// A policy's decision about a merge.
enum class MergeDecision : uint8_t {
  kRefuse,
  kIfPlannable,  // if CanPlan accepts the merged group
  kAccept,
};

// The name and kind of the fusion instruction of a group.
struct FusionLabel {
  std::string name;              // wished name of the fusion instruction
  std::string computation_name;  // wished name of its computation
  FusionKind kind = FusionKind::kLoop;
  const Instruction* metadata = nullptr;  // the member whose metadata the fusion gets
};

// Limits on searches for cycles. A search that exceeds them counts as one that found a cycle, so the groups stay apart.
struct CycleSearchLimits {
  // Groups and single instructions that one search may visit; 0: any number.
  int max_visits = 0;
  // The number of instructions that all searches of a computation may visit: `total`, plus `total_per_instruction` for
  // each instruction. When it is used up, searches that visit more than `short_search` fail. 0: any number.
  int64_t total = 0, total_per_instruction = 0, short_search = 0;
};

struct FusionOptions {
  CycleSearchLimits cycle_search;
  // The number of groups with which a producer with several readers may be tried.
  size_t max_targets = SIZE_MAX;
  // Members of one group that apply equal operations to equal operands become one instruction.
  bool merge_equal_members = false;
  // Members keep their name, sharding, frontend attributes, accuracy and annotations. If false, computations that
  // compute the same values are equal.
  bool keep_annotations = true;
  // True: a fusion is placed directly before the last of its members. False: it is placed before the first other
  // instruction that needs its result.
  bool keep_positions = true;
};

class FusionPolicy {
 public:
  virtual ~FusionPolicy() = default;

  virtual FusionOptions options() const { return {}; }

  // ---- Single instructions.

  virtual FusionRole GetRole(const Instruction& instruction) const = 0;
  // Whether each group that reads the instruction gets a copy of it, because it is nearly free: a scalar constant, an
  // iota, a broadcast. Such an instruction is a member of no group, and its readers count as readers of its operands.
  // Called before GetRole, which is not called for such an instruction.
  virtual bool IsCopiedIntoReaders(const Instruction& instruction) const { return false; }

  // Called when the graph has been numbered and every fusible instruction is a group of its own.
  virtual void Start(const FusionGraph& graph) {}

  // ---- Merging. `producer` is the number of an instruction; `target` of a group that reads it.

  // Whether merging the group of the producer into the target is profitable. `further_result`: other groups read the
  // producer as well, so the merged kernel must also store it.
  virtual MergeDecision DecideMerge(const FusionGraph& graph, int producer, int target, bool further_result) const = 0;
  // Whether the producer is computed in each group that reads it rather than once. Called if several groups read it. If
  // true, the producer is not stored, as with IsCopiedIntoReaders.
  virtual bool ShouldCopyIntoReaders(const FusionGraph& graph, int producer, absl::Span<const int> targets) const {
    return false;
  }
  // Whether the target can compile the computation, which is that of a merged group as it would be outlined.
  virtual bool CanPlan(const Computation& kernel) const { return true; }
  // Whether nothing may join the group. FusionGraph does not offer such a group to producers with several readers.
  virtual bool IsClosed(const FusionGraph& graph, int group) const { return false; }

  // Called before group `from` becomes a part of group `into`.
  virtual void BeforeMerge(const FusionGraph& graph, int from, int into) {}
  // Called when the instruction has its final group or will be copied into its readers. Its operands are visited later.
  virtual void AfterVisit(const FusionGraph& graph, int node) {}
  // Called after all producers have been visited. May merge further groups that do not read each other
  // (FusionGraph::Merge), after it has checked that this creates no cycle.
  virtual void Finish(FusionGraph& graph) {}

  // ---- Outlining.

  // Whether the group becomes a fusion. Otherwise its members stay as they are.
  virtual bool NeedsFusion(const FusionGraph& graph, int group) const { return true; }
  // `results`: the members that the fusion returns, ascending.
  virtual FusionLabel Describe(const FusionGraph& graph, int group, absl::Span<const int> results) const = 0;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_FUSION_FUSION_POLICY_H_
