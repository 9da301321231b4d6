// What a TPU's compiler fuses, as a policy of sdk/compiler's fusion. The rules are in fuse_into_kernels.h.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_POLICY_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_POLICY_H_

#include <vector>

#include "sdk/compiler/fusion/fusion_graph.h"

namespace backplane::tpu {

class KernelPolicy : public compiler::FusionPolicy {
 public:
  // `widen`: whether fusions will compute narrow floats in f32 (rounding.h). A reduction of narrow floats then becomes
  // a fusion even if it is alone.
  explicit KernelPolicy(bool widen) : widen_(widen) {}

  compiler::FusionOptions options() const override;
  compiler::FusionRole GetRole(const Instruction& i) const override;
  bool IsCopiedIntoReaders(const Instruction& i) const override;
  void Start(const compiler::FusionGraph& graph) override;
  compiler::MergeDecision DecideMerge(const compiler::FusionGraph& graph, int producer, int target,
                                      bool further_result) const override;
  bool ShouldCopyIntoReaders(const compiler::FusionGraph& graph, int producer,
                             absl::Span<const int> targets) const override;
  void BeforeMerge(const compiler::FusionGraph& graph, int from, int into) override;
  void AfterVisit(const compiler::FusionGraph& graph, int node) override;
  bool NeedsFusion(const compiler::FusionGraph& graph, int group) const override;
  compiler::FusionLabel Describe(const compiler::FusionGraph& graph, int group,
                                 absl::Span<const int> results) const override;

 private:
  struct NodeFacts {
    bool prologue = false;  // produces an operand of its kernel's contraction
    // Reads the result of a contraction. It is better fused after that contraction than before the next one.
    bool epilogue = false;
    bool broadcast = false;  // read through a broadcast within its kernel
    double cost = 0;         // operations per element
    // Cost of this and the later operations that are recomputed with it (copies, prologues, broadcasts).
    double chain = 0;
  };
  struct GroupFacts {
    bool contracts = false, reduces = false, updates = false;
    int64_t reads = 0;      // operands that the members read from outside, counted once per read
    double prologue = 0;    // operations per element that produce its contraction's operands
    Shape iteration_space;  // the shape that the kernel iterates over
  };

  bool CanJoin(const compiler::FusionGraph& graph, int n, int t) const;
  bool CanBeFurtherResult(const compiler::FusionGraph& graph, int n, int t) const;
  // Returns the cost of n together with the operations in t that are recomputed whenever n is.
  double RecomputeCost(const compiler::FusionGraph& graph, int n, int t) const;
  // Returns the member whose metadata the fusion gets: its contraction, its reduction, or its costliest operation.
  int FindRepresentative(const compiler::FusionGraph& graph, int group) const;

  const bool widen_;
  std::vector<NodeFacts> nodes_;    // by the graph's numbers
  std::vector<GroupFacts> groups_;  // by the graph's numbers
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_POLICY_H_
