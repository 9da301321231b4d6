// Which instructions one GPU kernel computes together.
//
// A launch costs some microseconds and memory is slow beside arithmetic, so a producer joins the kernel that reads it
// wherever its elements are computed about once there, or are cheap. A reduction that a block shares joins what reads
// it along the same rows, as far as RowCheck (kernel_plan.cc) allows it: softmax and layer norm are one kernel each.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_FUSION_POLICY_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_FUSION_POLICY_H_

#include <vector>

#include "core/passes/pass.h"
#include "sdk/compiler/fusion/fusion_graph.h"

namespace backplane::hip {

class GpuFusionPolicy : public compiler::FusionPolicy {
 public:
  compiler::FusionOptions options() const override;
  compiler::FusionRole GetRole(const Instruction& instruction) const override;
  bool IsCopiedIntoReaders(const Instruction& instruction) const override;
  void Start(const compiler::FusionGraph& graph) override;
  compiler::MergeDecision DecideMerge(const compiler::FusionGraph& graph, int producer, int target,
                                      bool further_result) const override;
  bool CanPlan(const Computation& kernel) const override;
  void BeforeMerge(const compiler::FusionGraph& graph, int from, int into) override;
  bool NeedsFusion(const compiler::FusionGraph& graph, int group) const override;
  compiler::FusionLabel Describe(const compiler::FusionGraph& graph, int group,
                                 absl::Span<const int> results) const override;

 private:
  struct Facts {
    bool has_shared_reduction = false;  // has a reduction that a block shares
    bool has_reduction = false;         // has any reduction
    bool is_simple = true;              // computes each element by itself
  };
  bool IsReadElementwise(const compiler::FusionGraph& graph, int producer, int target) const;

  std::vector<Facts> facts_;  // by group
};

// Groups the instructions of a module into kernels.
class FuseForGpu : public Pass {
 public:
  absl::string_view name() const override { return "fuse-for-gpu"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_FUSION_POLICY_H_
