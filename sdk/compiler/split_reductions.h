// A pass for reductions whose innermost part is too short for vectors.
#ifndef BACKPLANE_SDK_COMPILER_SPLIT_REDUCTIONS_H_
#define BACKPLANE_SDK_COMPILER_SPLIT_REDUCTIONS_H_

#include "core/passes/pass.h"

namespace backplane::compiler {

// Splits a reduction over outer dimensions and over a short innermost part, with kept dimensions between them, as in
// the statistics of group normalization (f32[images,height,width,groups,10] over height, width and the last dimension).
// First the outer dimensions are reduced, for which the kept dimensions and the innermost part form long rows, then the
// innermost part of the small result. Only for sums that start from zero, and for minima, maxima, and, or.
class SplitReductions : public Pass {
 public:
  absl::string_view name() const override { return "split-reductions"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_SPLIT_REDUCTIONS_H_
