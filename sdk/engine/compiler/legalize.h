// Brings what a host may send into the few forms that kernels and library calls take.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_LEGALIZE_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_LEGALIZE_H_

#include "core/passes/pass.h"
#include "sdk/engine/compiler/own_steps.h"

namespace backplane::engine {

// Dots: operand dims that are no single stride are transposed first, element types without a kernel are converted
// (f8 and f4 to f32, s4 and s2 to s8), and a transpose of the result is taken over by the dot where the library can
// write it so. Convolutions: element types likewise.
class LegalizeContractions : public Pass {
 public:
  // `own`: of the plugin, may be null; what it takes stays as it is.
  explicit LegalizeContractions(const OwnSteps* own = nullptr) : own_(own) {}
  absl::string_view name() const override { return "legalize-contractions"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  const OwnSteps* own_;
};

// Operations on element types for which there is no kernel, in terms of those for which there is one: factorizations,
// top-k and random numbers in a wider type; bitcasts to and from complex numbers and types narrower than a byte by
// shifts.
class LegalizeTypes : public Pass {
 public:
  absl::string_view name() const override { return "legalize-types"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

// Arrays that a host or a custom call wants in another order than row-major: a transpose makes the order, a bitcast
// says that the bytes are right. Afterwards every other array of the program is row-major.
class LegalizeLayouts : public Pass {
 public:
  absl::string_view name() const override { return "legalize-layouts"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_LEGALIZE_H_
