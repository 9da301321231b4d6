// Passes that convert programs to the forms that the kernels and library calls of a target support.
#ifndef BACKPLANE_SDK_COMPILER_LEGALIZE_H_
#define BACKPLANE_SDK_COMPILER_LEGALIZE_H_

#include <functional>

#include "core/passes/pass.h"

namespace backplane::compiler {

// The contractions that a target supports.
struct ContractionRules {
  // Whether there are kernels for operands and results of this type. f32, s8 and u8 must be supported.
  std::function<bool(PrimitiveType)> supports_type;
  // Returns true for convolutions of other floats that the target computes faster in f32, conversions included. Empty:
  // none.
  std::function<bool(const Instruction&)> convolves_in_f32;
  // Returns true for instructions that the target implements itself; they stay unchanged. Empty: none.
  std::function<bool(const Instruction&)> is_claimed;
};

// Legalizes dots and convolutions. Operands of a dot whose dimensions do not form single runs (dot_strides.h) are
// transposed first. Element types without a kernel are converted: floats to f32, integers to s8 or u8. A dot writes its
// result transposed if a transpose follows and the result is still a matrix with strides. For convolutions only element
// types are converted.
class LegalizeContractions : public Pass {
 public:
  explicit LegalizeContractions(ContractionRules rules) : rules_(std::move(rules)) {}
  absl::string_view name() const override { return "legalize-contractions"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  bool IsClaimed(const Instruction& i) const { return rules_.is_claimed && rules_.is_claimed(i); }
  const ContractionRules rules_;
};

// Expresses operations on element types without a kernel by operations on other types. Factorizations, top-k and random
// numbers use a wider type. Bitcasts to and from complex numbers and types narrower than a byte use shifts.
class LegalizeTypes : public Pass {
 public:
  absl::string_view name() const override { return "legalize-types"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

// Makes all arrays of the program row-major. If a host or a custom call requests another layout, a transpose produces
// that order and a bitcast declares it.
class LegalizeLayouts : public Pass {
 public:
  absl::string_view name() const override { return "legalize-layouts"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_LEGALIZE_H_
