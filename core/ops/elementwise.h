// Elementwise operations on plain arrays. The evaluator's elementwise operations and the scalar programs that
// reductions, sorts and scatters call (scalar_program.h) share this arithmetic.
#ifndef BACKPLANE_CORE_OPS_ELEMENTWISE_H_
#define BACKPLANE_CORE_OPS_ELEMENTWISE_H_

#include <cstdint>
#include <optional>

#include "core/ops/op_info.h"

namespace backplane {

// An elementwise operation for one combination of element types. A plain value; Run is thread-safe.
class ElementwiseKernel {
 public:
  // Computes `n` elements of a native type. `params` holds, for reduce-precision, the exponent bits and the mantissa
  // bits, and the biased exponent below which numbers of a narrower stored type are subnormal.
  using Loop = void (*)(const void* const* in, void* out, int64_t n, const int64_t* params);

  // Returns nullopt if the operation is not elementwise or does not exist for these types. Supports convert, and
  // bitcast-convert between types of equal width.
  static std::optional<ElementwiseKernel> Make(Opcode opcode, const Attributes& attrs,
                                               absl::Span<const PrimitiveType> operands, PrimitiveType result);

  // Computes out[i] = op(in[0][i], in[1][i], ...) for i < n. `out` may be the same array as an input of equal element
  // width.
  void Run(const void* const* in, void* out, int64_t n) const {
    if (direct_)
      loop_(in, out, n, params_);
    else
      RunThroughBlocks(in, out, n);
  }

 private:
  void RunThroughBlocks(const void* const* in, void* out, int64_t n) const;

  Loop loop_ = nullptr;
  bool direct_ = true;
  bool convert_ = false;  // element type conversion instead of a loop
  bool wrap_ = false;     // results are integers narrower than a byte
  bool mask_ = false;     // operand 0 must lose its sign extension first
  int arity_ = 1;
  PrimitiveType stored_[3] = {}, computed_[3] = {};
  PrimitiveType stored_result_{}, computed_result_{};
  int64_t params_[3] = {0, 0, 0};
};

// Return the loop of an operation, or null if the type does not have the operation. SelectFloatLoop takes f32 and f64,
// SelectIntegerLoop the integers of 8 to 64 bits, SelectComplexLoop c64 and c128.
ElementwiseKernel::Loop SelectFloatLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type);
ElementwiseKernel::Loop SelectIntegerLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type);
ElementwiseKernel::Loop SelectComplexLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_ELEMENTWISE_H_
