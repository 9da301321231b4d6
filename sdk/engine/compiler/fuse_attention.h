// Makes one instruction, a custom fusion, of each attention (sdk/compiler/attention.h) that one pass over memory
// computes faster than separate products and a softmax.
//
// Attention whose scores or probabilities have other users stays as it is: the backward pass of a training step reads
// them. Runs before dots are legalized.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_FUSE_ATTENTION_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_FUSE_ATTENTION_H_

#include "core/passes/pass.h"
#include "sdk/engine/compiler/custom_lowering.h"

namespace backplane::engine {

class FuseAttention : public Pass {
 public:
  // `lowering` may be null. Products that it claims stay as they are.
  explicit FuseAttention(const CustomLowering* lowering = nullptr) : lowering_(lowering) {}
  absl::string_view name() const override { return "fuse-attention"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  const CustomLowering* lowering_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_FUSE_ATTENTION_H_
