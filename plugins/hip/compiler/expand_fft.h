// Expresses Fourier transforms by matrix products.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_EXPAND_FFT_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_EXPAND_FFT_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// A transform of length n = n1 n2 becomes transforms of length n1, a multiplication by roots of unity, and transforms
// of length n2 (Cooley and Tukey). Short ones are products with the matrix of roots. A transform whose length has a
// large prime factor becomes a convolution, by transforms of a power of two (Bluestein). Transforms of several
// dimensions are done along one after another.
//
// Run it before LegalizeContractions.
class ExpandFft : public Pass {
 public:
  absl::string_view name() const override { return "expand-fft"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_EXPAND_FFT_H_
