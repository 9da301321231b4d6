// Expresses Fourier transforms that have no kernel by those that have one.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_LEGALIZE_FFTS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_LEGALIZE_FFTS_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// A transform that DivideIntoStages refuses becomes transforms of complex numbers along one dimension after another. Of
// these, one whose length has a large prime factor becomes a convolution in c128, by transforms of a power of two
// (Bluestein). A transform of real numbers that are too many for a block becomes one of complex numbers.
//
// Run it before fusion.
class LegalizeFfts : public Pass {
 public:
  absl::string_view name() const override { return "legalize-ffts"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_LEGALIZE_FFTS_H_
