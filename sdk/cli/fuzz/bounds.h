// Error bounds: how far the results of two correct implementations of a program may differ. The bound of each value is
// computed along the data flow, from the arguments, which are exact, to the results.
//
// Each instruction is evaluated by its definition. Each element of its value gets two absolute bounds (of the modulus
// for complex numbers). 0 means that the bits must be equal, infinity that the element is undecided.
//
//   seen   how far the result of a correct implementation may be from the evaluator's
//   used   the same for the value that operations inside the program read, which may not have been rounded: a fused
//          multiply-add does not round the product, and a fusion of bf16 operations may keep f32 values
//
// The rules:
//
//   moved data, integers, predicates   the bits must be equal. Integer arithmetic is exact. An integer that is
//       converted from a float is undecided if the float's interval contains several integers, and so is everything
//       computed from it.
//   + - * / sqrt, rounding, conversions   IEEE determines the result: for exact operands, `seen` is 0, and `used` is
//       the rounding error, which is 0 if the exact result can be represented. So programs on small integers stay
//       exact.
//   other functions   a number of units in the last place of the result (kFunctionUlps).
//   operands with bounds   the function is evaluated in f64 at both ends of each operand's interval; twice the largest
//       change is added. This covers a jump (floor, sign, a branch cut) between the ends. If a pole or the end of the
//       domain is inside the interval, the result is undecided.
//   compare, select, convert to integer   undecided if the intervals permit several results.
//   sums (reduce, window, dot, convolution, scatter)   may be computed in any order. The bound is the sum of the bounds
//       of the terms plus n * unit * (sum of magnitudes), or 0 if every partial sum in every order can be represented.
//       Products below the smallest subnormal number are rounded separately or, in a fused multiply-add, with the sum;
//       for these, n times the smallest subnormal number is added.
//   max, min, sort of one array   the largest bound of the elements, because order statistics change by at most that.
//   sorting by key, arg-max, top-k indices   decided if the keys are exact.
//   cholesky, triangular solve   backward stable: unit * n * condition, with the condition computed from the value.
//   fft   log2(n) * unit * sum of magnitudes of the line. Batch normalization: by its formula; undecided if a term may
//       overflow although the result does not.
//   loops, branches, calls   followed with their bounds; an undecided branch makes its results undecided.
//
// A NaN must be a NaN with any bits. What depends on its sign or payload (bitcast-convert, a total order, sorting) is
// undecided, and so is the result for types without NaN. If a bound is not 0, the sign of a zero is free.
#ifndef BACKPLANE_SDK_CLI_FUZZ_BOUNDS_H_
#define BACKPLANE_SDK_CLI_FUZZ_BOUNDS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/builder.h"

namespace backplane::cli::fuzz {

// The error of a transcendental function in units in the last place, for f32 and f64. The error of the CPU plugin's
// functions is below 2.5 (sdk/codegen/vector_math.h), and that of the evaluator's libm is at most 1. Narrower types are
// computed in f32 and rounded: slightly more than 1.
inline constexpr double kFunctionUlps = 4;

struct BoundedValue {
  Literal value;                       // arrays and tokens; tuples have `elements`
  Literal seen, used;                  // f64 of the value's dimensions; invalid: 0 everywhere
  std::vector<BoundedValue> elements;  // of a tuple
  bool is_tuple = false;

  bool exact() const;         // whether both bounds are 0 everywhere
  Literal ToLiteral() const;  // the value, tuples put together
  static BoundedValue Exact(Literal value);
  // Returns a value of which only the shape is known.
  static BoundedValue Undecided(Literal value);
};

// Returns element i of a bound.
inline double BoundAt(const Literal& bound, int64_t i) {
  return bound.valid() ? bound.data<double>()[static_cast<size_t>(i)] : 0.0;
}

// Returns the distance of neighbouring values of a float type at v (of the real type for complex types); 0 for other
// types.
double ComputeUnitInLastPlace(PrimitiveType type, double v);
// Returns 2^-m for m stored bits of mantissa; 0 for types that are not floats.
double GetEpsilon(PrimitiveType type);
double MaxFinite(PrimitiveType type);
bool HasNanValues(PrimitiveType type);     // whether the float type has a NaN
bool HasNegativeZero(PrimitiveType type);  // whether the float type has a -0

// Evaluates one instruction on operands with bounds, and bounds the error of its result. Must not be called for
// parameters.
absl::StatusOr<BoundedValue> BoundInstruction(const Instruction& instruction,
                                              absl::Span<const BoundedValue* const> operands);
// Does the same for a computation. `all`, if given, receives the results for each of its instructions.
absl::StatusOr<BoundedValue> BoundComputation(const Computation& computation, absl::Span<const BoundedValue> arguments,
                                              absl::flat_hash_map<const Instruction*, BoundedValue>* all = nullptr);

// ---- Used by several files bounds_*.cc.

// The types that determine how an operation computes: those of its operands, and `result`, the element type of a
// declared shape. `combiner` is the operation of the called computation.
absl::StatusOr<Literal> EvaluateInF64(const Instruction& like, absl::Span<const Literal> operands,
                                      PrimitiveType result = PrimitiveType::kF64,
                                      std::optional<Opcode> combiner = std::nullopt);
Literal Zeros(const Shape& like);                               // f64 of these dimensions
Literal ExpandBounds(const Literal& bound, const Shape& like);  // never invalid
Literal ComputeMagnitudes(const Literal& value);                // f64; moduli of complex numbers
bool HasNan(const Literal& value);
double FindGreatest(const Literal& bound);  // 0 for none
void Drop(Literal& bound);                  // makes a bound of zeros invalid
// Bound for sums of n terms with magnitudes that add up to S, in any order. 0 if all partial sums are exact.
double SumUnit(const std::vector<const Literal*>& terms, PrimitiveType type, double n, double greatest_sum);
// Returns the exponent of the lowest bit that is set in any finite element; 4096 if there is none.
int GetLowestBitExponent(const Literal& value);
// Whether the type's smallest subnormal number is at most 2^granule. Otherwise products with lower bits are rounded
// even if the mantissa has enough bits.
bool HasNoUnderflow(PrimitiveType type, int granule);

std::optional<Opcode> FindBinary(const Computation& body, int64_t component, int64_t components);

// Returns the literal with bounds, with every element exact or every element undecided.
BoundedValue MakeBoundedValue(const Literal& value, bool exact);
// Returns the instruction's value by its definition.
absl::StatusOr<Literal> EvaluateValue(const Instruction& i, absl::Span<const BoundedValue* const> ops);

absl::StatusOr<BoundedValue> BoundControl(const Instruction& i, absl::Span<const BoundedValue* const> ops);
absl::StatusOr<BoundedValue> BoundElementwise(const Instruction& i, absl::Span<const BoundedValue* const> ops);
absl::StatusOr<BoundedValue> BoundReduction(const Instruction& i, absl::Span<const BoundedValue* const> ops);
absl::StatusOr<BoundedValue> BoundScatter(const Instruction& i, absl::Span<const BoundedValue* const> ops);
absl::StatusOr<BoundedValue> BoundContraction(const Instruction& i, absl::Span<const BoundedValue* const> ops);
absl::StatusOr<BoundedValue> BoundNumerics(const Instruction& i, absl::Span<const BoundedValue* const> ops);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_BOUNDS_H_
