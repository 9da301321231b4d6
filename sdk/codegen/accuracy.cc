#include "sdk/codegen/accuracy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/types/float_format.h"
#include "sdk/codegen/vector_math.h"

namespace backplane::codegen {
namespace {

// No result is larger than one.
bool IsBoundedByOne(Opcode opcode) {
  return opcode == Opcode::kCos || opcode == Opcode::kSin || opcode == Opcode::kErf || opcode == Opcode::kLogistic ||
         opcode == Opcode::kTanh;
}

// The distance from one to the next number.
double Epsilon(PrimitiveType t) { return std::ldexp(1.0, -GetFloatFormat(t).mantissa_bits); }

}  // namespace

std::optional<double> FindErrorBound(Opcode opcode, PrimitiveType t, bool has_fma) {
  const std::optional<MathFn> fn = FindMathFn(opcode);
  const std::optional<MathError> error = fn ? VectorMath::GetErrorBound(*fn) : std::nullopt;
  if (!error) return std::nullopt;
  const double slack = has_fma ? 1 : 1.6;
  switch (t) {
    case PrimitiveType::kF32:
      return error->f32 * slack;
    case PrimitiveType::kF64:
      return error->f64 * slack;
    case PrimitiveType::kF8E8M0FNU:
      return 1;  // between powers of two the nearest one may be off by half
    default:
      if (!IsFloat(t)) return std::nullopt;
      return 0.51;  // computed in f32 and rounded once
  }
}

absl::Status CheckAccuracy(const Module& module, bool has_fma) {
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      const std::optional<ResultAccuracy>& wanted = i->result_accuracy();
      if (!wanted || wanted->mode != ResultAccuracy::Mode::kTolerance) continue;
      const PrimitiveType t = i->shape().element_type();
      const std::optional<double> bound = FindErrorBound(i->opcode(), t, has_fma);
      if (!bound) {
        return absl::UnimplementedError(absl::StrCat(i->name(), ": no bound is known for the error of ",
                                                     OpName(i->opcode()), " of ", Name(t),
                                                     ", a tolerance is asked for"));
      }
      const double eps = Epsilon(t), relative = std::max(wanted->rtol, static_cast<double>(wanted->ulps) * eps);
      // An error is at most so many units of at most eps times the result.
      if (relative >= *bound * eps || (IsBoundedByOne(i->opcode()) && wanted->atol >= *bound * eps)) continue;
      return absl::UnimplementedError(absl::StrCat(i->name(), ": ", OpName(i->opcode()), " of ", Name(t),
                                                   " is exact to ", *bound, " units of the last place (", *bound * eps,
                                                   " of the result), asked for are atol ", wanted->atol, ", rtol ",
                                                   wanted->rtol, ", ulps ", wanted->ulps));
    }
  }
  return absl::OkStatus();
}

}  // namespace backplane::codegen
