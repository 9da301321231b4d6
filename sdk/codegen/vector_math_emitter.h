// Helpers for writing IR, private to the vector_math_*.cc files.
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
  // Returns x * y + z, with one rounding if the machine has a fused multiply-add.
  V Fma(V x, V y, V z) {
    if (!target->has_fma) return b.CreateFAdd(b.CreateFMul(x, y), z);
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {x, y, z});
  }
  // z - x * y
  V FmaNeg(V x, V y, V z) { return Fma(Neg(x), y, z); }

  // Evaluates a polynomial by Horner's rule. The coefficients begin with the constant term.
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
  // Returns the smaller or the larger one of x and a constant; NaN stays NaN. One instruction.
  V ClampAbove(V x, double limit) { return Select(b.CreateFCmpOLT(C(limit), x), C(limit), x); }
  V ClampBelow(V x, double limit) { return Select(b.CreateFCmpOGT(C(limit), x), C(limit), x); }

  // --- bits ------------------------------------------------------------------------------------------------------
  V Bits(V x) { return b.CreateBitCast(x, int_type); }
  V Float(V bits) { return b.CreateBitCast(bits, type); }
  // Returns a constant whose addition rounds to an integer, which is then in the low bits. Requires |x| < 2^22 (float)
  // or 2^51 (double).
  V GetRoundingConstant() { return C(f64 ? 6755399441055744.0 : 12582912.0); }
  struct Rounded {
    V value;  // as a float
    V bits;   // the low bits are the integer in two's complement; the upper bits are unspecified
  };
  Rounded RoundSmall(V x) {
    V t = Add(x, GetRoundingConstant());
    return {Sub(t, GetRoundingConstant()), Bits(t)};
  }
  Rounded RoundSmallProduct(V x, double factor) {
    V t = Fma(x, C(factor), GetRoundingConstant());
    return {Sub(t, GetRoundingConstant()), Bits(t)};
  }
  // Returns 2^n for n in the range of normal exponents. Takes Rounded::bits.
  V PowerOfTwo(V rounded_bits, int add = 0) {
    return Float(b.CreateShl(b.CreateAdd(rounded_bits, I(exponent_bias() + add)), I(mantissa_bits())));
  }

  // Whether the AVX-512 instructions that scale and split floats can be used for this type.
  bool HasAvx512() const { return target->has_avx512 && lanes > 0; }
  // Returns x * 2^n with one rounding, for any integral n.
  V Scalef(V x, V n);
  // GetExp returns the exponent as a float; -inf for 0, inf for inf. GetMant returns the fraction in [0.75, 1.5); NaN
  // for negative numbers.
  V GetExp(V x);
  V GetMant(V x);

  // Returns x * 2^n for the result of RoundSmall, with correct underflow and overflow.
  V ScaleByRounded(V x, const Rounded& n);

  // --- pieces ----------------------------------------------------------------------------------------------------
  // Returns `count` lanes of `x` from lane `begin` on. Those past the end of `x` are unspecified.
  V ExtractLanes(V x, int begin, int count);
  V Join(const std::vector<V>& pieces);
  // Applies `fn` to pieces of `count` lanes, of which the last may be padded, or to the complete values if they have
  // `count` lanes.
  V ApplyInPieces(const std::vector<V>& xs, int count, const std::function<V(const std::vector<V>&)>& fn);

  // Calls the internal function `name` for this type on at most `max_lanes` lanes at a time. Creates the function with
  // `body` if the module does not contain it yet.
  V CallOutOfLine(const std::string& name, const std::vector<V>& xs, int max_lanes,
                  const std::function<V(MathEmitter&, const std::vector<V>&)>& body);

  // A scalar function: the number of its parameters, the element types of its results, and the function that emits its
  // body.
  struct ScalarFunction {
    const char* name;
    size_t parameters;
    std::vector<llvm::Type*> results;
    std::function<std::vector<V>(MathEmitter&, const std::vector<V>&)> body;
  };
  // Returns the function in this module. If it does not exist, declares it if the target has links_exact_math, else
  // defines it.
  llvm::Function* FindOrMake(const ScalarFunction& f);
  // Calls the function for each lane, in a loop over memory if there are several. Adds basic blocks, so it may be used
  // only within CallOutOfLine.
  std::vector<V> EachLane(const ScalarFunction& f, const std::vector<V>& xs);

  // Returns whether the condition is true for any lane.
  V Any(V condition) { return lanes == 0 ? condition : b.CreateOrReduce(condition); }

  // Returns an emitter for another element type with the same number of lanes.
  MathEmitter As(llvm::Type* element) {
    return MathEmitter(b, module, target, lanes == 0 ? element : llvm::FixedVectorType::get(element, lanes));
  }

  // Emits floor, ceil or trunc, also for machines that have no such instruction.
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

// A function of one operand: its emitter and its error bound.
struct MathFunction {
  MathFn fn;
  V (*emit)(MathEmitter& e, V x);
  MathError error;
};
// Return the functions that a file implements.
absl::Span<const MathFunction> ExpFunctions();   // vector_math_exp.cc
absl::Span<const MathFunction> LogFunctions();   // vector_math_log.cc
absl::Span<const MathFunction> TrigFunctions();  // vector_math_trig.cc

V EmitPow(MathEmitter& e, V x, V y);    // vector_math_log.cc
V EmitAtan2(MathEmitter& e, V y, V x);  // vector_math_trig.cc

// x = quadrant * pi/2 + hi + lo, where |hi| exceeds pi/4 at most slightly. The quadrant is in the low bits of an
// integer.
struct ReducedAngle {
  V hi, lo, quadrant;
};

// vector_math_exact.cc
//
// Requires |x| >= 2^16; the result of other lanes is unspecified. NaN for infinity. lo is zero for f32.
ReducedAngle ReduceHugeAngle(MathEmitter& e, V x);
// Returns the remainder as C's fmod does, for all operands.
V ExactRemainder(MathEmitter& e, V x, V y);

// The fraction, in [0.75, 1.5), and the exponent, as a float, of a positive finite x. For zero and negative x they are
// finite but meaningless.
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
