// Short Fourier transforms of numbers in registers, with the additions of the definition in the same order
// (core/ops/families/fft_passes.h).
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_FFT_BUTTERFLIES_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_FFT_BUTTERFLIES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// A complex number. A part that is null is zero.
struct FftNumber {
  llvm::Value* r = nullptr;
  llvm::Value* i = nullptr;
};

class FftButterflies {
 public:
  // Computes in `type`, float or double. `length`: of the lines, from whose roots those of a radix are taken.
  // `real_order`: as the definition adds in its transforms of real lines.
  FftButterflies(llvm::IRBuilder<>& b, llvm::Type* type, int64_t length, bool forward, bool real_order)
      : b_(b), type_(type), length_(length), forward_(forward), real_order_(real_order) {}

  // The largest radix of Transform. Larger ones would need too many registers.
  static constexpr int64_t kMaxRadix = 13;
  std::vector<FftNumber> Transform(std::vector<FftNumber> x);

  // The parts of a transform of an odd radix by its definition. `sums` has x[0] and, for 0 < j < (n + 1) / 2,
  // x[j] + x[n - j], and `differences` those of x[j] - x[n - j], from j = 1. `roots` are those of j l, from j = 1.
  FftNumber AddAll(const std::vector<FftNumber>& sums);
  std::pair<FftNumber, FftNumber> AddProducts(const std::vector<FftNumber>& sums,
                                              const std::vector<FftNumber>& differences,
                                              const std::vector<FftNumber>& roots);

  FftNumber Add(FftNumber x, FftNumber y) { return {Plus(x.r, y.r), Plus(x.i, y.i)}; }
  FftNumber Subtract(FftNumber x, FftNumber y) { return {Minus(x.r, y.r), Minus(x.i, y.i)}; }
  FftNumber Conjugate(FftNumber x) { return {x.r, Negate(x.i)}; }
  FftNumber Scale(FftNumber x, double factor) { return {Times(x.r, Constant(factor)), Times(x.i, Constant(factor))}; }
  // Multiplies by a root of unity exp(2 pi i e), or in a forward transform by its conjugate.
  FftNumber ApplyTwiddle(FftNumber x, FftNumber root);

  llvm::Value* Plus(llvm::Value* x, llvm::Value* y);
  llvm::Value* Minus(llvm::Value* x, llvm::Value* y);
  llvm::Value* Negate(llvm::Value* x) { return x == nullptr ? nullptr : b_.CreateFNeg(x); }
  llvm::Value* Times(llvm::Value* x, llvm::Value* y) {
    return x == nullptr || y == nullptr ? nullptr : b_.CreateFMul(x, y);
  }
  llvm::Value* Constant(double x) { return llvm::ConstantFP::get(type_, x); }

 private:
  // Multiplies by -i in a forward transform, by i in an inverse one.
  FftNumber RotateByQuarter(FftNumber x);
  std::vector<FftNumber> Transform3(const std::vector<FftNumber>& x);
  std::vector<FftNumber> Transform4(const std::vector<FftNumber>& x);
  std::vector<FftNumber> Transform5(const std::vector<FftNumber>& x);
  std::vector<FftNumber> Transform8(const std::vector<FftNumber>& x);
  std::vector<FftNumber> TransformOdd(const std::vector<FftNumber>& x);

  llvm::IRBuilder<>& b_;
  llvm::Type* const type_;
  const int64_t length_;
  const bool forward_, real_order_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_FFT_BUTTERFLIES_H_
