// Turns loops and branches over single elements into kernels.
#ifndef BACKPLANE_SDK_COMPILER_OUTLINE_SCALAR_CONTROL_H_
#define BACKPLANE_SDK_COMPILER_OUTLINE_SCALAR_CONTROL_H_

#include <functional>

#include "core/passes/pass.h"

namespace backplane::compiler {

// Moves each loop or branch whose values are all single elements into a fusion, whose kernel runs it in registers. Run
// it before fusion, which does not change these fusions.
class OutlineScalarControl : public Pass {
 public:
  // `can_emit` tells whether the kernels of the target can contain a loop or branch with everything that it calls.
  explicit OutlineScalarControl(std::function<bool(const Instruction&)> can_emit) : can_emit_(std::move(can_emit)) {}
  absl::string_view name() const override { return "outline-scalar-control"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;
  bool NeedsSingleCallers() const override { return true; }

 private:
  absl::StatusOr<bool> RunOn(Computation* computation);
  const std::function<bool(const Instruction&)> can_emit_;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_OUTLINE_SCALAR_CONTROL_H_
