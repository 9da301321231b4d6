// Emits elementary functions of complex numbers as LLVM IR, on top of the real functions of VectorMath.
//
// All parts are doubles. Those of c64 are widened first (`narrow`), so that no intermediate value overflows and its
// rounding does not affect the result. For c128 the formulas scale by powers of two where squares and sums would
// overflow or underflow. Special values follow Annex G of the C standard: an infinity whose other part is NaN keeps its
// infinite magnitude, the function of a real number is real, and a quotient by infinity is zero.
//
// Errors are relative to the modulus. Results of c64 are correctly rounded except for the last place. Those of c128
// have errors of a few units in the last place, with two exceptions: the error of power grows with the exponent times
// the logarithm, and that of atan2 is absolute.
#ifndef BACKPLANE_SDK_CODEGEN_COMPLEX_MATH_H_
#define BACKPLANE_SDK_CODEGEN_COMPLEX_MATH_H_

#include <optional>

#include "sdk/codegen/element_emitter.h"

namespace backplane::codegen {

class ComplexMath {
 public:
  // `narrow`: the doubles hold values of type float. The emitter must outlive this object.
  ComplexMath(ElementEmitter* emitter, bool narrow) : emitter_(*emitter), b_(emitter->b()), narrow_(narrow) {}

  Val Mul(const Val& x, const Val& y);  // parts of any float type
  Val Div(const Val& x, const Val& y);
  Val Exp(const Val& x);
  Val Log(const Val& x);
  Val Sqrt(const Val& x);
  Val Power(const Val& x, const Val& y);
  Val Atan2(const Val& x, const Val& y);
  // Emits an elementwise operation with one operand. Returns nullopt if there is no code for it.
  std::optional<Val> Unary(Opcode opcode, const Val& x);

 protected:
  using Fn = MathFn;
  using Value = llvm::Value;
  struct Scaled {
    Val x;
    Value* small;  // the parts were below `least` ...
    Value* large;  // ... or above `most`; x has been scaled by a power of two then
  };

  Value* M(Fn fn, Value* x, Value* y = nullptr) { return emitter_.math().Emit(b_, fn, x, y); }
  Value* Num(Value* like, double c) { return llvm::ConstantFP::get(like->getType(), c); }
  Value* Inf(Value* like) { return llvm::ConstantFP::getInfinity(like->getType()); }
  Value* Nan(Value* like) { return llvm::ConstantFP::getNaN(like->getType()); }
  Value* Abs(Value* v) { return M(Fn::kAbs, v); }
  Value* Finite(Value* v) { return b_.CreateFCmpOLT(Abs(v), Inf(v)); }
  Value* Infinite(Value* v) { return b_.CreateFCmpOEQ(Abs(v), Inf(v)); }
  Value* IsZero(Value* v) { return b_.CreateFCmpOEQ(v, Num(v, 0)); }
  Value* Select(Value* c, Value* x, Value* y) { return b_.CreateSelect(c, x, y); }
  Value* Fma(Value* x, Value* y, Value* z);
  // Returns one of three constants, depending on whether the parts were small, large or neither.
  Value* Choose(const Scaled& s, double if_small, double if_large, double otherwise);

  Value* Larger(const Val& x);  // the larger absolute value of the parts; if one is NaN, may return the other
  // Multiplies x by the power of two `up` if its larger part is below `least`, or by `down` if it is above `most`.
  Scaled Rescale(const Val& x, double least, double up, double most, double down);
  Value* Modulus(const Val& x);               // requires that the squares of the parts neither overflow nor underflow
  Value* SquareMinusOne(Value* a, Value* b);  // |1 + a + bi|^2 - 1, whose terms may cancel, to nearly full precision

  ElementEmitter& emitter_;
  llvm::IRBuilder<>& b_;
  const bool narrow_;
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_COMPLEX_MATH_H_
