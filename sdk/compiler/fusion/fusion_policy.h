// What a target decides when instructions are grouped into kernels. FusionGraph does everything else.
//
// Grouping goes from consumers to producers. For each instruction that a kernel can contain, from the last one to the
// first, FusionGraph looks at the groups that read it and asks the policy:
//
//   readers                                    what happens                      asked
//   all in one group                           the producer may join it          JudgeMerge, CanPlan
//   in several groups, or outside of them      it may be copied into each        ShouldCopyIntoReaders
//                                              or join one as a further result   JudgeMerge, CanPlan
//
// FusionGraph makes sure that no merge creates a cycle. Afterwards Finish may merge groups that do not read each other,
// and every group that NeedsFusion accepts becomes a fusion instruction with a computation of its own.
//
// A policy for a new target: derive from FusionPolicy and define GetRole, JudgeMerge and Describe. A policy keeps what
// it must know of nodes and groups in tables of its own, indexed by their numbers: Start sizes them, BeforeMerge
// updates them. One policy object serves one computation.
//
// Time. RoleOf and IsCopiedIntoReaders are asked once for each instruction. JudgeMerge is asked once for each producer
// with one reading group, and for at most FusionOptions::max_targets groups of another; it should look at the
// producer, at its uses and at the group, never at the whole graph. CanPlan is by far the costliest question:
// JudgeMerge answers kAccept or kRefuse wherever it can tell without.
#ifndef BACKPLANE_SDK_COMPILER_FUSION_FUSION_POLICY_H_
#define BACKPLANE_SDK_COMPILER_FUSION_FUSION_POLICY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "core/ir/computation.h"

namespace backplane::compiler {

class FusionGraph;

// What an instruction can be in a kernel. FusionGraph itself only tells kNotFusible from the rest.
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

// A policy's answer about a merge.
enum class MergeVerdict : uint8_t {
  kRefuse,
  kIfPlannable,  // if CanPlan accepts the merged group
  kAccept,
};

// How the fusion instruction of a group is labelled.
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
  // Instructions that all searches of a computation may visit: so many, and so many more for each instruction. Once
  // they are spent, searches that visit more than `short_search` fail. 0: any number.
  int64_t total = 0, total_per_instruction = 0, short_search = 0;
};

struct FusionOptions {
  CycleSearchLimits cycle_search;
  // Groups that a producer with several readers may be tried with.
  size_t max_targets = SIZE_MAX;
  // Members of one group that compute the same of the same operands become one instruction.
  bool merge_equal_members = false;
  // Members keep their name, sharding, frontend attributes, accuracy and annotations. Without them, computations that
  // compute the same are equal.
  bool keep_annotations = true;
  // A fusion is placed directly before the last of its members. Otherwise it is placed where its result is first
  // needed, from the program's other instructions on.
  bool keep_positions = true;
};

class FusionPolicy {
 public:
  virtual ~FusionPolicy() = default;

  virtual FusionOptions options() const { return {}; }

  // ---- Single instructions.

  virtual FusionRole GetRole(const Instruction& instruction) const = 0;
  // Whether each group that reads the instruction gets a copy of it, as it costs next to nothing: a scalar constant, an
  // iota, a broadcast. It then is a member of no group, and its readers count as readers of its operands. Asked first;
  // GetRole is not asked about such an instruction.
  virtual bool IsCopiedIntoReaders(const Instruction& instruction) const { return false; }

  // The graph is numbered, and every fusible instruction is a group of its own.
  virtual void Start(const FusionGraph& graph) {}

  // ---- Merging. `producer` is the number of an instruction; `target` of a group that reads it.

  // Whether it pays that the producer's group becomes a part of the target. `further_result`: others read the producer,
  // too, so that the merged kernel must also store it.
  virtual MergeVerdict JudgeMerge(const FusionGraph& graph, int producer, int target, bool further_result) const = 0;
  // Whether the producer is computed in each of the groups that read it rather than once. Asked where several groups
  // read it. Then nothing stores the producer, as with IsCopiedIntoReaders.
  virtual bool ShouldCopyIntoReaders(const FusionGraph& graph, int producer, absl::Span<const int> targets) const {
    return false;
  }
  // Whether the target can make a kernel of the computation: that of a merged group, as it would be outlined.
  virtual bool CanPlan(const Computation& kernel) const { return true; }
  // Whether nothing may join the group. FusionGraph does not offer such a group to producers with several readers.
  virtual bool IsClosed(const FusionGraph& graph, int group) const { return false; }

  // Group `from` is about to become a part of group `into`.
  virtual void BeforeMerge(const FusionGraph& graph, int from, int into) {}
  // The instruction has found its group, or is copied into its readers. Its operands come later.
  virtual void AfterVisit(const FusionGraph& graph, int node) {}
  // All producers have been visited. May merge further groups (FusionGraph::Merge) that do not read each other, after
  // it has made sure that this creates no cycle.
  virtual void Finish(FusionGraph& graph) {}

  // ---- Outlining.

  // Whether the group becomes a fusion. Otherwise its members stay as they are.
  virtual bool NeedsFusion(const FusionGraph& graph, int group) const { return true; }
  // `results`: the members that the fusion returns, ascending.
  virtual FusionLabel Describe(const FusionGraph& graph, int group, absl::Span<const int> results) const = 0;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_FUSION_FUSION_POLICY_H_
