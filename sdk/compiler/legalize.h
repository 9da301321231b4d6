// Brings what a host may send into the few forms that a target's kernels and library calls take.
#ifndef BACKPLANE_SDK_COMPILER_LEGALIZE_H_
#define BACKPLANE_SDK_COMPILER_LEGALIZE_H_

#include <functional>

#include "core/passes/pass.h"

namespace backplane::compiler {

// What a target multiplies.
struct ContractionRules {
  // Whether there are kernels for operands and results of the type. There must be some for f32, s8 and u8.
  std::function<bool(PrimitiveType)> supports_type;
  // Instructions that the target runs in a way of its own; they stay as they are. May be empty: none.
  std::function<bool(const Instruction&)> is_claimed;
};

// Dots: operands whose dimensions are no single runs (dot_strides.h) are transposed first, element types without a
// kernel are converted (floats to f32, integers to s8 or u8), and the dot writes its result transposed where a
// transpose follows and the result stays a matrix with strides. Convolutions: element types likewise.
class LegalizeContractions : public Pass {
 public:
  explicit LegalizeContractions(ContractionRules rules) : rules_(std::move(rules)) {}
  absl::string_view name() const override { return "legalize-contractions"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  bool IsClaimed(const Instruction& i) const { return rules_.is_claimed && rules_.is_claimed(i); }
  const ContractionRules rules_;
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

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_LEGALIZE_H_
