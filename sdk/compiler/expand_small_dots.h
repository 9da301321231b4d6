// A pass for products of matrices so small that calling a library for each costs more than the arithmetic.
#ifndef BACKPLANE_SDK_COMPILER_EXPAND_SMALL_DOTS_H_
#define BACKPLANE_SDK_COMPILER_EXPAND_SMALL_DOTS_H_

#include <functional>

#include "core/passes/pass.h"

namespace backplane::compiler {

// Rewrites small dots (3x3 matrices for each element of a batch, vectors of 3, points times a 3x3 matrix) as
// broadcasts, a multiplication and a sum, which fuse with their neighbours; a transpose of the sum may follow. A dot
// stays if the library is estimated to be faster, or if the operands have common dimensions in different orders.
// Accumulates in the type of the result, in f32 for bf16 and f16.
class ExpandSmallDots : public Pass {
 public:
  // The sizes of a dot as a batch of products of an m x k and a k x n matrix.
  struct Sizes {
    double batch = 1, m = 1, n = 1, k = 1;
    double bytes = 4;  // of an element of the result, at least 4
  };

  // `is_claimed` returns true for instructions that the target implements itself. Empty: none. `is_faster` says which
  // dots are expanded. Empty: those of which this is estimated for a CPU and its library.
  explicit ExpandSmallDots(std::function<bool(const Instruction&)> is_claimed = nullptr,
                           std::function<bool(const Sizes&)> is_faster = nullptr)
      : is_claimed_(std::move(is_claimed)), is_faster_(std::move(is_faster)) {}
  absl::string_view name() const override { return "expand-small-dots"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  const std::function<bool(const Instruction&)> is_claimed_;
  const std::function<bool(const Sizes&)> is_faster_;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_EXPAND_SMALL_DOTS_H_
