#include "core/ir/ops/row_programs_test.h"
#include "core/types/status_macros.h"

namespace backplane::rows {
namespace {

using namespace hlo;  // NOLINT: every line names functions of it

ResultAccuracy Within(double rtol) { return {ResultAccuracy::Mode::kTolerance, 0, rtol, 0}; }

}  // namespace

// One row without and one with an accuracy asked for.
#define FUNCTION(fn, in, out)                                    \
  ROW(#fn, "~1e-6 " out, { return fn(b, C(b, "f32[2]", in)); }), \
      ROW(#fn " (result_accuracy)", "~1e-6 " out, { return fn(b, C(b, "f32[2]", in), Within(1e-5)); })

// One row with equal shapes; one with a matrix of two equal rows on the left and a vector on the right.
#define BINARY(fn, type, x, y, out)                                           \
  ROW(#fn, out, { return fn(b, C(b, type "[3]", x), C(b, type "[3]", y)); }), \
      ROW(#fn " (broadcast_dimensions)", "{" out "," out "}",                 \
          { return fn(b, C(b, type "[2,3]", "{" x "," x "}"), C(b, type "[3]", y), {1}); })

// On one vector for all directions; NaN and the zeros for the total order.
#define COMPARISON(fn, plain, total)                                                                         \
  BINARY(fn, "s32", "{1,2,3}", "{2,2,2}", plain), ROW(#fn "TotalOrder", "{" total "," total "}", {           \
    return fn##TotalOrder(b, C(b, "f32[2,3]", "{{-0,nan,1},{-0,nan,1}}"), C(b, "f32[3]", "{0,nan,2}"), {1}); \
  })

std::vector<RowProgram> ElementwiseRows() {
  return {
      ROW("Abs", "{2, 0, 2}", { return Abs(b, C(b, "s32[3]", "{-2, 0, 2}")); }),
      FUNCTION(Cbrt, "{8, -27}", "{2, -3}"),
      ROW("Ceil", "{-0, 1, 2}", { return Ceil(b, C(b, "f32[3]", "{-0.8, 0.25, 2}")); }),
      ROW("Clz", "{{64, 63}, {56, 0}}", { return Clz(b, C(b, "s64[2,2]", "{{0, 1}, {128, -1}}")); }),
      FUNCTION(Cos, "{0, 1}", "{1, 0.5403023}"),
      FUNCTION(Cosh, "{0, 1}", "{1, 1.5430806}"),
      FUNCTION(Erf, "{0, 1}", "{0, 0.84270079}"),
      FUNCTION(Exp, "{0, 1}", "{1, 2.7182818}"),
      FUNCTION(Expm1, "{0, 1e-5}", "{0, 1.000005e-05}"),
      ROW("Floor", "{-1, 0, 2}", { return Floor(b, C(b, "f32[3]", "{-0.8, 0.25, 2}")); }),
      ROW("Imag", "{2, -4}", { return Imag(b, C(b, "c64[2]", "{(1, 2), (3, -4)}")); }),
      ROW("IsFinite", "{1, 0, 0}", { return IsFinite(b, C(b, "f32[3]", "{1, inf, nan}")); }),
      FUNCTION(Log, "{1, 10}", "{0, 2.3025851}"),
      FUNCTION(Log1p, "{0, 1e-5}", "{0, 9.99995e-06}"),
      FUNCTION(Logistic, "{0, 1}", "{0.5, 0.73105858}"),
      ROW("Neg", "{-1, 2}", { return Neg(b, C(b, "s32[2]", "{1, -2}")); }),
      ROW("Not", "{{-2, -3}, {-4, -5}}", { return Not(b, C(b, "s32[2,2]", "{{1, 2}, {3, 4}}")); }),
      ROW("PopulationCount", "{0, 1, 1, 7}", { return PopulationCount(b, C(b, "s32[4]", "{0, 1, 2, 127}")); }),
      ROW("Real", "{1, 3}", { return Real(b, C(b, "c64[2]", "{(1, 2), (3, -4)}")); }),
      ROW("Round", "{-3, 0, 1, 1, 3}", { return Round(b, C(b, "f32[5]", "{-2.5, 0.4, 0.5, 0.6, 2.5}")); }),
      ROW("RoundNearestAfz", "{-3, 0, 1, 1, 3}",
          { return RoundNearestAfz(b, C(b, "f32[5]", "{-2.5, 0.4, 0.5, 0.6, 2.5}")); }),
      ROW("RoundNearestEven", "{-2, 0, 0, 1, 2}",
          { return RoundNearestEven(b, C(b, "f32[5]", "{-2.5, 0.4, 0.5, 0.6, 2.5}")); }),
      FUNCTION(Rsqrt, "{4, 0.25}", "{0.5, 2}"),
      ROW("Sign", "{nan, -1, -0, 0, 1}", { return Sign(b, C(b, "f32[5]", "{nan, -3, -0, 0, 2}")); }),
      FUNCTION(Sin, "{0, 1}", "{0, 0.84147098}"),
      FUNCTION(Sqrt, "{9, 2}", "{3, 1.4142136}"),
      FUNCTION(Tan, "{0, 1}", "{0, 1.5574077}"),
      FUNCTION(Tanh, "{0, 1}", "{0, 0.76159416}"),

      BINARY(Add, "s32", "{1,2,3}", "{10,20,30}", "{11,22,33}"),
      BINARY(And, "s32", "{1,2,3}", "{5,6,7}", "{1,2,3}"),
      BINARY(Atan2, "f64", "{0,1,-1}", "{1,0,0}", "{0,1.5707963267948966,-1.5707963267948966}"),
      BINARY(Complex, "f32", "{1,2,3}", "{4,5,6}", "{(1,4),(2,5),(3,6)}"),
      BINARY(Div, "s32", "{17,-17,17}", "{3,3,-3}", "{5,-5,-5}"),
      BINARY(Max, "f32", "{1,nan,-0}", "{2,1,0}", "{2,nan,0}"),
      BINARY(Min, "f32", "{1,nan,-0}", "{2,1,0}", "{1,nan,-0}"),
      BINARY(Mul, "s32", "{1,2,3}", "{10,20,30}", "{10,40,90}"),
      BINARY(Or, "s32", "{1,2,3}", "{5,6,8}", "{5,6,11}"),
      BINARY(Pow, "s32", "{-2,5,3}", "{2,2,3}", "{4,25,27}"),
      BINARY(Rem, "s32", "{17,-17,17}", "{3,3,-3}", "{2,-2,2}"),
      BINARY(ShiftLeft, "s32", "{-1,1,1}", "{1,3,32}", "{-2,8,0}"),
      BINARY(ShiftRightArithmetic, "s32", "{-1,8,-8}", "{1,3,32}", "{-1,1,-1}"),
      BINARY(ShiftRightLogical, "s32", "{-1,8,-8}", "{28,3,32}", "{15,1,0}"),
      BINARY(Sub, "s32", "{1,2,3}", "{10,20,30}", "{-9,-18,-27}"),
      BINARY(Xor, "s32", "{1,2,3}", "{5,6,8}", "{4,4,11}"),

      ROW("Compare", "{1, 0}",
          {
            return Compare(b, C(b, "f32[2]", "{1, 3}"), C(b, "f32[2]", "{1.1, 2.9}"), {}, ComparisonDirection::kLt,
                           ComparisonType::kFloat);
          }),
      COMPARISON(Eq, "{0,1,0}", "{0,1,0}"),
      COMPARISON(Ne, "{1,0,1}", "{1,0,1}"),
      COMPARISON(Ge, "{0,1,1}", "{0,1,0}"),
      COMPARISON(Gt, "{0,0,1}", "{0,0,0}"),
      COMPARISON(Le, "{1,1,0}", "{1,1,1}"),
      COMPARISON(Lt, "{1,0,0}", "{1,0,1}"),

      ROW("Clamp", "{0, 5, 6}",
          { return Clamp(b, C(b, "s32[]", "0"), C(b, "s32[3]", "{-1, 5, 9}"), C(b, "s32[]", "6")); }),
      ROW("Select", "({1, 200, 300, 4}, {1, 2})",
          {
            Value x = C(b, "s32[4]", "{1, 2, 3, 4}"), y = C(b, "s32[4]", "{100, 200, 300, 400}");
            ASSIGN_OR_RETURN(Value lanes, Select(b, C(b, "pred[4]", "{1, 0, 0, 1}"), x, y));
            ASSIGN_OR_RETURN(Value first, Tuple(b, {lanes, C(b, "s32[2]", "{1, 2}")}));
            ASSIGN_OR_RETURN(Value second, Tuple(b, {y, C(b, "s32[2]", "{3, 4}")}));
            return Select(b, C(b, "pred[]", "true"), first, second);  // of tuples
          }),

      ROW("BitcastConvertType", "{1065353216, 1073741824}",
          { return BitcastConvertType(b, C(b, "f32[2]", "{1, 2}"), PrimitiveType::kS32); }),
      ROW("Bitcast", "{{1, 2}, {3, 4}, {5, 6}}",
          { return CreateBitcast(b, S("f32[3,2]"), C(b, "f32[2,3]", "{{1, 2, 3}, {4, 5, 6}}")); }),
      ROW("ConvertElementType", "{0, 1, 2}",
          { return ConvertElementType(b, C(b, "s32[3]", "{0, 1, 2}"), PrimitiveType::kF32); }),
      ROW("ReducePrecision", "{65504, inf, 0}",
          { return ReducePrecision(b, C(b, "f32[3]", "{65519, 65520, 0}"), 5, 10); }),
  };
}

}  // namespace backplane::rows
