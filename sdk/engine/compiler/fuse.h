// Groups instructions into kernels.
//
// Afterwards every computation that runs by itself (the entry, loop bodies and conditions, branches) holds only
// parameters, constants, tuples, aliases (reshape, bitcast), library calls (dot, convolution, sort, ...), control flow,
// and fusions, each of which codegen::PlanKernel accepts. What no kernel can contain is left as it is, for a thunk.
//
// Rules, from consumers to producers:
//   - A producer whose users are all in one kernel joins it, if it is evaluated about once for each of its elements
//     there, or is cheap. Nothing is computed many times to save one store.
//   - Sources and broadcasts are copied to each user: reading the small operand again costs nothing.
//   - A row reduction joins the kernel that uses it on the same rows (softmax, layer norm).
//   - Kernels over the same elements that share operands become one with several outputs, where no cycle arises.
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
