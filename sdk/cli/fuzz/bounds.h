// How far apart two right implementations of a program may be: an error bound beside every value, carried along the
// data flow from the arguments, which are exact, to the results.
//
// Each instruction is evaluated by its definition, and to its value come two bounds for each element, both absolute (of
// the modulus for complex numbers), 0 for "the same bits" and infinity for "not decided":
//
//   seen   how far a right implementation's result may lie from the evaluator's
//   used   the same for what consumers inside the program read, which may not have been rounded: a fused multiply-add
//          skips the rounding of the product, a fusion of bf16 operations may keep f32 between them
//
// The rules, each in its place below:
//
//   moved data, integers, predicates   bits. Integer arithmetic is exact; an integer made from a float that could as
//   well
//       be another one is not decided, and so is everything computed from it.
//   + - * / sqrt, rounding, conversions   IEEE says the result: seen 0 for exact operands; used is the rounding error
//       that was made, which is 0 wherever the exact result can be represented, so that programs over small whole
//       numbers stay exact throughout.
//   other functions   a number of units in the last place (kFunctionUlps) at the result.
//   operands with bounds   the function is evaluated in f64 at both ends of each operand's interval; the greatest
//       change, doubled, is added. A jump (floor, sign, a branch cut) between the ends is thereby counted as such;
//       a pole or the end of the domain inside the interval leaves the result undecided.
//   compare, select, convert to integer   not decided where the intervals leave the answer open.
//   sums (reduce, window, dot, convolution, scatter)   any order: bounds of the terms + n * unit * sum of magnitudes;
//       0 where every partial sum in every order can be represented. Products that reach below the least subnormal
//       number are rounded one by one or, in a fused multiply-add, with the sum: n of those numbers more.
//   max, min, sort of one array   the greatest bound of the elements, for order statistics move by no more.
//   sorting by key, arg-max, top-k places   decided when the keys are exact.
//   cholesky, triangular solve   backward stable: unit * n * condition, the condition computed from the value.
//   fft   log2(n) * unit * sum of magnitudes of the line. Batch normalization: by its formula; not decided where a
//       term of it may leave the range although the result does not.
//   loops, branches, calls   followed with their bounds; a branch that is not decided leaves its results undecided.
//
// A NaN must be a NaN, whatever its bits; what depends on its sign or payload (bitcast-convert, a total order, sorting)
// is not decided, nor what a type without NaN has in its place. Where a bound is not 0 the sign of a zero is free.
#ifndef BACKPLANE_SDK_CLI_FUZZ_BOUNDS_H_
#define BACKPLANE_SDK_CLI_FUZZ_BOUNDS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/builder.h"

namespace backplane::cli::fuzz {

// Units in the last place that a transcendental function may be wrong by, for f32 and f64. The CPU plugin's own measure
// stays below 2.5 (sdk/codegen/vector_math.h), and the evaluator's libm adds up to 1. Narrower types are computed
// in f32 and rounded: 1 and a little.
inline constexpr double kFunctionUlps = 4;

struct Judged {
  Literal value;                 // arrays and tokens; tuples have `elements`
  Literal seen, used;            // f64 of the value's dimensions; invalid: 0 everywhere
  std::vector<Judged> elements;  // of a tuple
  bool is_tuple = false;

  bool exact() const;         // both bounds 0 everywhere
  Literal ToLiteral() const;  // the value, tuples put together
  static Judged Exact(Literal value);
  // A value of which nothing but the shape is known.
  static Judged Undecided(Literal value);
};

// Element i of a bound.
inline double BoundAt(const Literal& bound, int64_t i) {
  return bound.valid() ? bound.data<double>()[static_cast<size_t>(i)] : 0.0;
}

// The distance of neighbouring values of a float type at v (of the part for complex types); 0 for others.
double UnitInLastPlace(PrimitiveType type, double v);
// 2^-m for m stored bits of mantissa; 0 for types that are no floats.
double UnitOf(PrimitiveType type);
double MaxFinite(PrimitiveType type);
bool HasNanValues(PrimitiveType type);     // of a float type: whether any of its bits mean NaN
bool HasNegativeZero(PrimitiveType type);  // likewise -0

// One instruction whose operands are judged. Parameters are not instructions to judge.
absl::StatusOr<Judged> JudgeInstruction(const Instruction& instruction, absl::Span<const Judged* const> operands);
// A whole computation; `all`, if given, receives the judgement of each of its instructions.
absl::StatusOr<Judged> JudgeComputation(const Computation& computation, absl::Span<const Judged> arguments,
                                        absl::flat_hash_map<const Instruction*, Judged>* all = nullptr);

// ---- Shared by the files bounds_*.cc.

// The instruction with other operands: their element types say what it computes in; `result` is the element type of a
// declared shape. `combiner`: the operation of the called computation.
absl::StatusOr<Literal> Shadow(const Instruction& like, absl::Span<const Literal> operands,
                               PrimitiveType result = PrimitiveType::kF64,
                               std::optional<Opcode> combiner = std::nullopt);
Literal Zeros(const Shape& like);                           // f64 of these dimensions
Literal BoundsOf(const Literal& bound, const Shape& like);  // never invalid
Literal Magnitudes(const Literal& value);                   // f64; moduli of complex numbers
bool HasNan(const Literal& value);
double Greatest(const Literal& bound);  // 0 for none
void Drop(Literal& bound);              // makes a bound of zeros invalid
// Sums of n terms whose magnitudes add to S: any order agrees within this, 0 when all partial sums are exact.
double SumUnit(const std::vector<const Literal*>& terms, PrimitiveType type, double n, double greatest_sum);
// The exponent of the lowest bit set in any finite element; 4096 when there is none.
int Granule(const Literal& value);
// Whether the type's least subnormal number reaches down to 2^granule: a product with lower bits is rounded although
// the mantissa has bits to spare.
bool HasNoUnderflow(PrimitiveType type, int granule);

std::optional<Opcode> BinaryOf(const Computation& body, int64_t component, int64_t components);

// A tuple's literal taken apart, every element undecided or exact.
Judged JudgedWithUniformBounds(const Literal& value, bool exact);
// The instruction's value by its definition.
absl::StatusOr<Literal> ValueOf(const Instruction& i, absl::Span<const Judged* const> ops);

absl::StatusOr<Judged> JudgeControl(const Instruction& i, absl::Span<const Judged* const> ops);
absl::StatusOr<Judged> JudgeElementwise(const Instruction& i, absl::Span<const Judged* const> ops);
absl::StatusOr<Judged> JudgeReduction(const Instruction& i, absl::Span<const Judged* const> ops);
absl::StatusOr<Judged> JudgeScatter(const Instruction& i, absl::Span<const Judged* const> ops);
absl::StatusOr<Judged> JudgeContraction(const Instruction& i, absl::Span<const Judged* const> ops);
absl::StatusOr<Judged> JudgeNumerics(const Instruction& i, absl::Span<const Judged* const> ops);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_BOUNDS_H_
