// Groups instructions into kernels.
//
// Afterwards every computation that runs by itself (the entry, loop bodies and conditions, branches) holds only
// parameters, constants, tuples, aliases (reshape, bitcast), library calls (dot, convolution, sort, ...), control flow,
// and fusions, each of which codegen::PlanKernel accepts. What no kernel can contain is left as it is, for a thunk.
//
// What joins what: fusion_policy.h. How groups are made: sdk/compiler/fusion.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_FUSE_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_FUSE_H_

#include "core/passes/pass.h"
#include "sdk/engine/compiler/custom_lowering.h"

namespace backplane::engine {

class Fuse : public Pass {
 public:
  // `lowering`: of the plugin, may be null; what it claims joins no kernel.
  explicit Fuse(const CustomLowering* lowering = nullptr) : lowering_(lowering) {}
  absl::string_view name() const override { return "fuse"; }
  absl::StatusOr<bool> Run(Module* module) override;
  bool NeedsSingleCallers() const override { return true; }

 private:
  const CustomLowering* lowering_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_FUSE_H_
