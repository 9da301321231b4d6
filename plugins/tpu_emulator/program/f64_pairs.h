// f64 arithmetic with the precision of a TPU: two f32 whose sum is the value.
//
// A TPU's vector unit has no f64. Its compiler splits every f64 argument into a leading and a trailing f32 and computes
// with the pairs. They have the range of f32 and a significand of 48 bits or a little more, or fewer if the trailing
// part underflows. This pass makes a program compute with that precision on any backend whose f64 is IEEE double
// precision: the result of each operation is rounded to the nearest pair.
//
// Round(x) is h + l with h = f32(x) and l = f32(x - h), both to nearest, ties to even. A value beyond the range of f32
// becomes an infinity. Zeros keep their sign, and subnormal f32 numbers are kept. The rule is:
//   - Arguments, constants, and the results of custom calls, host transfers and random generators are rounded once.
//   - An operation is computed in f64 on pairs, and its result is rounded. For + - * / and sqrt the result is the pair
//     nearest to the IEEE result. These are exact: negate, abs, sign, maximum, minimum, clamp, select, comparisons,
//     data movement, and conversions from integers of at most 32 bits and from narrower floats.
//   - A conversion to f32 gives h. A conversion to an integer or a narrower float converts the sum h + l.
//   - A reduction (reduce, reduce-window, scatter, select-and-scatter) rounds after each application of its combiner.
//   - A dot rounds each product, adds them in increasing order of the contracted index, and rounds each sum.
//   - Convolutions, Fourier transforms, decompositions, collective sums and sort comparators are computed in IEEE f64.
//     All but the comparators round their results.
//   - complex128 is two such numbers; a complex operation rounds both parts of its result.
// The machine's own algorithms (sums and products of pairs in f32) may be off by a few units of the 48th bit where this
// rule is exact. The emulator has the same precision and range, but not the same bits.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_F64_PAIRS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_F64_PAIRS_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// Rounds x to the nearest pair. Infinities and NaN are preserved.
double RoundToPair(double x);

// Applies the rule to a module without fusions, dynamic sizes and layouts. The result has the same bits on every host
// and number of threads if the backend's f64 is IEEE and if it applies unknown combiners in order.
class ComputeF64InPairs : public Pass {
 public:
  absl::string_view name() const override { return "compute-f64-in-pairs"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_F64_PAIRS_H_
