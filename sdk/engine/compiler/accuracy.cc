#include "sdk/engine/compiler/accuracy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/types/float_format.h"

namespace backplane::engine {
namespace {

struct Bounds {
  double f32, f64;
};

std::optional<Bounds> BoundsOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCbrt:
      return Bounds{0.6, 1};
    case Opcode::kCos:
    case Opcode::kSin:
      return Bounds{2, 1.5};
    case Opcode::kCosh:
    case Opcode::kExpm1:
      return Bounds{2, 2};
    case Opcode::kErf:
    case Opcode::kExp:
    case Opcode::kLog:
    case Opcode::kRsqrt:
      return Bounds{1.5, 1.5};
    case Opcode::kLog1p:
      return Bounds{2, 1.5};
    case Opcode::kLogistic:
    case Opcode::kTanh:
      return Bounds{2.5, 2.5};
    case Opcode::kSqrt:
      return Bounds{0.51, 0.51};
    case Opcode::kTan:
      return Bounds{0.6, 2.5};
    default:
      return std::nullopt;
  }
}

// No result is larger than one.
bool StaysBelowOne(Opcode opcode) {
  return opcode == Opcode::kCos || opcode == Opcode::kSin || opcode == Opcode::kErf || opcode == Opcode::kLogistic ||
         opcode == Opcode::kTanh;
}

// The distance from one to the next number.
double Epsilon(PrimitiveType t) { return std::ldexp(1.0, -FloatFormatOf(t).mantissa_bits); }

}  // namespace

std::optional<double> ErrorBound(Opcode opcode, PrimitiveType t, bool has_fma) {
  const std::optional<Bounds> bounds = BoundsOf(opcode);
  if (!bounds) return std::nullopt;
  const double slack = has_fma ? 1 : 1.6;
  switch (t) {
    case PrimitiveType::kF32:
      return bounds->f32 * slack;
    case PrimitiveType::kF64:
      return bounds->f64 * slack;
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
      const std::optional<double> bound = ErrorBound(i->opcode(), t, has_fma);
      if (!bound) {
        return absl::UnimplementedError(absl::StrCat(i->name(), ": no bound is known for the error of ",
                                                     OpName(i->opcode()), " of ", Name(t),
                                                     ", a tolerance is asked for"));
      }
      const double eps = Epsilon(t), relative = std::max(wanted->rtol, static_cast<double>(wanted->ulps) * eps);
      // An error is at most so many units of at most eps times the result.
      if (relative >= *bound * eps || (StaysBelowOne(i->opcode()) && wanted->atol >= *bound * eps)) continue;
      return absl::UnimplementedError(absl::StrCat(i->name(), ": ", OpName(i->opcode()), " of ", Name(t),
                                                   " is exact to ", *bound, " units of the last place (", *bound * eps,
                                                   " of the result), asked for are atol ", wanted->atol, ", rtol ",
                                                   wanted->rtol, ", ulps ", wanted->ulps));
    }
  }
  return absl::OkStatus();
}

}  // namespace backplane::engine
