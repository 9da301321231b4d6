// The tools that the vector_math_*.cc files write IR with. Private to them.
#ifndef BACKPLANE_SDK_CODEGEN_VECTOR_MATH_EMITTER_H_
#define BACKPLANE_SDK_CODEGEN_VECTOR_MATH_EMITTER_H_

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "sdk/codegen/ir_target.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/vector_math.h"

namespace backplane::codegen {

using V = llvm::Value*;

// Emits arithmetic on values of one type: float or double, scalar or vector.
class MathEmitter {
 public:
  MathEmitter(llvm::IRBuilderBase& b, llvm::Module* module, const IrTarget* target, llvm::Type* type)
      : b(b), module(module), target(target), type(type), f64(type->getScalarType()->isDoubleTy()) {
    llvm::Type* element = f64 ? b.getInt64Ty() : b.getInt32Ty();
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    lanes = vector == nullptr ? 0 : static_cast<int>(vector->getNumElements());
    int_type = vector == nullptr ? element : llvm::FixedVectorType::get(element, lanes);
  }

  // --- constants -------------------------------------------------------------------------------------------------
  V C(double x) { return llvm::ConstantFP::get(type, x); }
  V I(int64_t x) { return llvm::ConstantInt::get(int_type, static_cast<uint64_t>(x), true); }
  V Inf() { return llvm::ConstantFP::getInfinity(type); }
  V NaN() { return llvm::ConstantFP::getQNaN(type); }
  int mantissa_bits() const { return f64 ? 52 : 23; }
  int exponent_bias() const { return f64 ? 1023 : 127; }

  // --- float arithmetic ------------------------------------------------------------------------------------------
  V Add(V x, V y) { return b.CreateFAdd(x, y); }
  V Sub(V x, V y) { return b.CreateFSub(x, y); }
  V Mul(V x, V y) { return b.CreateFMul(x, y); }
  V Div(V x, V y) { return b.CreateFDiv(x, y); }
  V Neg(V x) { return b.CreateFNeg(x); }
  V Abs(V x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  V Sqrt(V x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  // To whole numbers.
  V RoundEven(V x) { return target->has_rounding ? Rounding(llvm::Intrinsic::rint, x) : RoundByAdding(x); }
  V Trunc(V x) { return Whole(llvm::Intrinsic::trunc, x); }
  V Floor(V x) { return Whole(llvm::Intrinsic::floor, x); }
  V Ceil(V x) { return Whole(llvm::Intrinsic::ceil, x); }
  V CopySign(V magnitude, V sign) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign); }
  // x * y + z, in one rounding where the machine has it.
  V Fma(V x, V y, V z) {
    if (!target->has_fma) return b.CreateFAdd(b.CreateFMul(x, y), z);
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {x, y, z});
  }
  // z - x * y
  V FmaNeg(V x, V y, V z) { return Fma(Neg(x), y, z); }

  // Horner; coefficients from the constant term up.
  V Poly(V x, std::initializer_list<double> coefficients) {
    const double* c = coefficients.begin();
    int i = static_cast<int>(coefficients.size()) - 1;
    V sum = C(c[i]);
    for (--i; i >= 0; --i) sum = Fma(sum, x, C(c[i]));
    return sum;
  }

  // --- comparisons; all false on NaN unless said -----------------------------------------------------------------
  V Lt(V x, V y) { return b.CreateFCmpOLT(x, y); }
  V Le(V x, V y) { return b.CreateFCmpOLE(x, y); }
  V Gt(V x, V y) { return b.CreateFCmpOGT(x, y); }
  V Ge(V x, V y) { return b.CreateFCmpOGE(x, y); }
  V Eq(V x, V y) { return b.CreateFCmpOEQ(x, y); }
  V IsNaN(V x) { return b.CreateFCmpUNO(x, x); }
  V Select(V c, V x, V y) { return b.CreateSelect(c, x, y); }
  // The smaller or larger of a constant and x; NaN stays NaN. One instruction.
  V ClampAbove(V x, double limit) { return Select(b.CreateFCmpOLT(C(limit), x), C(limit), x); }
  V ClampBelow(V x, double limit) { return Select(b.CreateFCmpOGT(C(limit), x), C(limit), x); }

  // --- bits ------------------------------------------------------------------------------------------------------
  V Bits(V x) { return b.CreateBitCast(x, int_type); }
  V Float(V bits) { return b.CreateBitCast(bits, type); }
  // Adding this rounds to a whole number that then stands in the low bits, for |x| < 2^22 or 2^51.
  V Magic() { return C(f64 ? 6755399441055744.0 : 12582912.0); }
  struct Rounded {
    V value;  // as a float
    V bits;   // its low bits are the number's, in two's complement; the upper ones are not
  };
  Rounded RoundSmall(V x) {
    V t = Add(x, Magic());
    return {Sub(t, Magic()), Bits(t)};
  }
  Rounded RoundSmallProduct(V x, double factor) {
    V t = Fma(x, C(factor), Magic());
    return {Sub(t, Magic()), Bits(t)};
  }
  // 2^n for n in the normal range, from Rounded::bits.
  V PowerOfTwo(V rounded_bits, int add = 0) {
    return Float(b.CreateShl(b.CreateAdd(rounded_bits, I(exponent_bias() + add)), I(mantissa_bits())));
  }

  // Whether AVX-512's float manipulation can be used on this type.
  bool HasAvx512() const { return target->has_avx512 && lanes > 0; }
  // x * 2^n with one rounding, n whole and of any size.
  V Scalef(V x, V n);
  // Exponent as a float; -inf for 0, inf for inf. Fraction in [0.75, 1.5); NaN for negative numbers.
  V GetExp(V x);
  V GetMant(V x);

  // x * 2^n for the result of RoundSmall, with underflow and overflow as they should be.
  V ScaleByRounded(V x, const Rounded& n);

  // --- pieces ----------------------------------------------------------------------------------------------------
  V Piece(V x, int begin, int count);
  V Join(const std::vector<V>& pieces);
  // Applies `fn` to pieces of `count` lanes (the last may be padded to it), or at once if that is what there is.
  V ByPieces(const std::vector<V>& xs, int count, const std::function<V(const std::vector<V>&)>& fn);

  // Calls the internal function `name` for this type, with at most `max_lanes` lanes at a time, making its body first
  // if the module does not have it yet.
  V CallOutOfLine(const std::string& name, const std::vector<V>& xs, int max_lanes,
                  const std::function<V(MathEmitter&, const std::vector<V>&)>& body);

  // A function of scalars: how many it takes, the types of what it gives (their elements), and what makes its body.
  struct ScalarFunction {
    const char* name;
    size_t parameters;
    std::vector<llvm::Type*> results;
    std::function<std::vector<V>(MathEmitter&, const std::vector<V>&)> body;
  };
  // Declares it in the module when the target links exact math, else defines it there, once.
  llvm::Function* FindOrMake(const ScalarFunction& f);
  // Calls it for each lane, in a loop over memory when there is more than one. Adds blocks: only within CallOutOfLine.
  std::vector<V> EachLane(const ScalarFunction& f, const std::vector<V>& xs);

  // True if any lane is.
  V Any(V condition) { return lanes == 0 ? condition : b.CreateOrReduce(condition); }

  // The same emitter for another element type with the same lanes.
  MathEmitter As(llvm::Type* element) {
    return MathEmitter(b, module, target, lanes == 0 ? element : llvm::FixedVectorType::get(element, lanes));
  }

  // Any of floor, ceil and trunc, also where the machine has none of them.
  V Whole(llvm::Intrinsic::ID id, V x);
  V Rounding(llvm::Intrinsic::ID id, V x) { return b.CreateUnaryIntrinsic(id, x); }
  V RoundByAdding(V x);

  llvm::IRBuilderBase& b;
  llvm::Module* module;
  const IrTarget* target;
  llvm::Type* type;
  llvm::Type* int_type;
  bool f64;
  int lanes;  // 0: scalar
};

// A function of one operand, and what is known of its code.
struct MathFunction {
  MathFn fn;
  V (*emit)(MathEmitter& e, V x);
  MathError error;
};
// All functions of a file, each with a line at the file's end.
absl::Span<const MathFunction> ExpFunctions();   // vector_math_exp.cc
absl::Span<const MathFunction> LogFunctions();   // vector_math_log.cc
absl::Span<const MathFunction> TrigFunctions();  // vector_math_trig.cc

V EmitPow(MathEmitter& e, V x, V y);    // vector_math_log.cc
V EmitAtan2(MathEmitter& e, V y, V x);  // vector_math_trig.cc

// x = quadrant * pi/2 + hi + lo, |hi| at most pi/4 or a little more. The quadrant stands in the low bits of an integer.
struct ReducedAngle {
  V hi, lo, quadrant;
};

// vector_math_exact.cc
//
// For |x| of at least 2^16, lanes with less get anything. NaN for infinity. lo is zero for f32.
ReducedAngle ReduceHugeAngle(MathEmitter& e, V x);
// As C's fmod, for all operands.
V ExactRemainder(MathEmitter& e, V x, V y);

// fraction in [0.75, 1.5) and exponent, of positive finite x (zero and negative: finite garbage). `exponent` as float.
struct FractionAndExponent {
  V fraction, exponent;
};
FractionAndExponent SplitPositive(MathEmitter& e, V x);

// Double-double arithmetic.
struct DoubleValue {
  V hi, lo;
};
DoubleValue FastTwoSum(MathEmitter& e, V larger, V smaller);
DoubleValue TwoSum(MathEmitter& e, V x, V y);
DoubleValue TwoProduct(MathEmitter& e, V x, V y);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_VECTOR_MATH_EMITTER_H_
