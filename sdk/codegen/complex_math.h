// Functions of complex numbers, from the real ones, as LLVM IR.
//
// The parts are doubles. Those of c64 are widened first (`narrow`): nothing then overflows on the way and a formula's
// roundings do not show. For c128 the formulas scale by powers of two where squares and sums would leave the range.
// Special values follow C's Annex G: an infinity with an angle that is none keeps its magnitude, a real number's
// function is real, a quotient by infinity is zero.
//
// Errors, relative to the modulus: c64 is rounded correctly but for the last place; c128 a few units in the last place,
// but power, whose error grows with the exponent times the logarithm, and atan2, whose error is absolute.
#ifndef BACKPLANE_SDK_CODEGEN_COMPLEX_MATH_H_
#define BACKPLANE_SDK_CODEGEN_COMPLEX_MATH_H_

#include <optional>

#include "sdk/codegen/element_emitter.h"

namespace backplane::codegen {

class ComplexMath {
 public:
  // `narrow`: the doubles hold values of floats. The emitter must outlive this object.
  ComplexMath(ElementEmitter* emitter, bool narrow) : emitter_(*emitter), b_(emitter->b()), narrow_(narrow) {}

  Val Mul(const Val& x, const Val& y);  // of any float type
  Val Div(const Val& x, const Val& y);
  Val Exp(const Val& x);
  Val Log(const Val& x);
  Val Sqrt(const Val& x);
  Val Power(const Val& x, const Val& y);
  Val Atan2(const Val& x, const Val& y);
  // An elementwise operation of one operand; nullopt when there is no code for it.
  std::optional<Val> Unary(Opcode opcode, const Val& x);

 protected:
  using Fn = MathFn;
  using Value = llvm::Value;
  struct Scaled {
    Val x;
    Value* small;  // the parts were below `least` ...
    Value* large;  // ... or above `most`, and x is them times a power of two
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
  // One of three numbers for parts that are small, large or neither.
  Value* Choose(const Scaled& s, double if_small, double if_large, double otherwise);

  Value* Larger(const Val& x);  // of the absolute values; of one NaN the other may be taken
  // x times a power of two where its larger part is below `least` or above `most`.
  Scaled Rescale(const Val& x, double least, double up, double most, double down);
  Value* Modulus(const Val& x);               // of parts whose squares stay in range
  Value* SquareMinusOne(Value* a, Value* b);  // |1 + a + bi|^2 - 1, whose terms may cancel, to nearly full precision

  ElementEmitter& emitter_;
  llvm::IRBuilder<>& b_;
  const bool narrow_;
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_COMPLEX_MATH_H_
