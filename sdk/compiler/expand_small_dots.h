// A pass for products of matrices so small that calling a library for each costs more than the arithmetic.
#ifndef BACKPLANE_SDK_COMPILER_EXPAND_SMALL_DOTS_H_
#define BACKPLANE_SDK_COMPILER_EXPAND_SMALL_DOTS_H_

#include <functional>

#include "core/passes/pass.h"

namespace backplane::compiler {

// Rewrites small dots (3x3 matrices for each element of a batch, vectors of 3, points times a 3x3 matrix) as broadcasts,
// a multiplication and a sum, which fuse with their neighbours; a transpose of the sum may follow. A dot stays if the
// library is estimated to be faster, or if the operands have common dimensions in different orders. Accumulates in the
// type of the result, in f32 for bf16 and f16.
class ExpandSmallDots : public Pass {
 public:
  // `is_claimed` returns true for instructions that the target implements itself. Empty: none.
  explicit ExpandSmallDots(std::function<bool(const Instruction&)> is_claimed = nullptr)
      : is_claimed_(std::move(is_claimed)) {}
  absl::string_view name() const override { return "expand-small-dots"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  const std::function<bool(const Instruction&)> is_claimed_;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_EXPAND_SMALL_DOTS_H_
