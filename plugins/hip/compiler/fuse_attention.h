// Makes one instruction, a custom fusion, of each attention (sdk/compiler/attention.h) that one kernel computes faster
// than separate products and a softmax (attention_plan.h).
//
// Attention whose scores or weights have other users stays as it is: the backward pass of a training step reads them.
// Where a mask may hide whole tiles of keys, the fusion has one operand more than its body reads: whether all values
// are finite.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_FUSE_ATTENTION_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_FUSE_ATTENTION_H_

#include "core/passes/pass.h"
#include "plugins/hip/lowering/lowering.h"

namespace backplane::hip {

class FuseAttention : public Pass {
 public:
  explicit FuseAttention(GpuTarget target) : target_(std::move(target)) {}
  absl::string_view name() const override { return "fuse-attention"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  const GpuTarget target_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_FUSE_ATTENTION_H_
