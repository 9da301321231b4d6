// Groups instructions into kernels.
//
// Afterwards every computation that is executed by itself (the entry, loop bodies and conditions, branches) contains
// only parameters, constants, tuples, aliases (reshape, bitcast), library calls (dot, convolution, sort, ...), control
// flow, and fusions that codegen::PlanKernel accepts. Other instructions that no kernel can contain stay as they are
// and become thunks of their own.
//
// fusion_policy.h decides which instructions are fused. sdk/compiler/fusion forms the groups.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_FUSE_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_FUSE_H_

#include "core/passes/pass.h"
#include "sdk/engine/compiler/custom_lowering.h"

namespace backplane::engine {

class Fuse : public Pass {
 public:
  // `lowering` may be null. Instructions that it claims are not fused.
  explicit Fuse(const CustomLowering* lowering = nullptr) : lowering_(lowering) {}
  absl::string_view name() const override { return "fuse"; }
  absl::StatusOr<bool> Run(Module* module) override;
  bool NeedsSingleCallers() const override { return true; }

 private:
  const CustomLowering* lowering_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_FUSE_H_
