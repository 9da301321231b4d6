// f64 as a TPU has it: two f32 whose sum is the value.
//
// A TPU's vector unit knows no f64. Its compiler splits every f64 argument into a leading and a trailing f32 and
// computes with the pairs: the range of f32, 48 bits or a little more of significand, fewer where the trailing part
// falls below f32's smallest number. This pass makes a program compute so, on any backend that runs f64 as IEEE double
// precision: after each operation it rounds to the nearest pair.
//
// The rule. Round(x) = h + l with h = f32(x) and l = f32(x - h), both to nearest, ties to even; an x that f32 cannot
// hold becomes an infinity, zeros keep their sign, f32's subnormal numbers are kept. Then:
//   - an argument, a constant, whatever a custom call, a host or a random generator gives is rounded once;
//   - an operation is computed in f64 on pairs, and its result rounded. For + - * / and sqrt that is the nearest pair
//     of the IEEE result; negate, abs, sign, maximum, minimum, clamp, select, comparisons, whatever moves elements, and
//     conversions from integers of at most 32 bits and from narrower floats are exact;
//   - a conversion to f32 gives h; to integers and narrower floats, what the sum h + l gives;
//   - a reduction (reduce, reduce-window, scatter, select-and-scatter) rounds after each step of its combiner;
//   - a dot is products, each rounded, and sums in increasing order of the contracted index, rounded after each;
//   - a convolution, a Fourier transform, a decomposition, a collective's sum and a comparator of a sort are computed
//     as in IEEE mode; the first four round their results;
//   - complex128 is two such numbers; a complex operation rounds both parts of its result.
// The machine's own algorithms (sums and products of pairs in f32) can be off by some units of the 48th bit where this
// rule is exact: the same precision and range, not the same bits.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_F64_PAIRS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_F64_PAIRS_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// The rule's Round. Infinities and NaN stay.
double RoundToPair(double x);

// Of a module without fusions, dynamic sizes and layouts. Bits do not depend on host or number of threads as long as
// the backend's f64 is IEEE for each operation and it combines in order with a combiner that it does not know.
class ComputeF64InPairs : public Pass {
 public:
  absl::string_view name() const override { return "compute-f64-in-pairs"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_F64_PAIRS_H_
