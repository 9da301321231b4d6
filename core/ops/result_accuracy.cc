#include "core/ops/result_accuracy.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace backplane {

bool TakesResultAccuracy(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCbrt:
    case Opcode::kCos:
    case Opcode::kCosh:
    case Opcode::kErf:
    case Opcode::kExp:
    case Opcode::kExpm1:
    case Opcode::kLog:
    case Opcode::kLog1p:
    case Opcode::kLogistic:
    case Opcode::kRsqrt:
    case Opcode::kSin:
    case Opcode::kSqrt:
    case Opcode::kTan:
    case Opcode::kTanh:
      return true;
    default:
      return false;
  }
}

absl::Status CheckResultAccuracy(Opcode opcode, absl::string_view name, const ResultAccuracy& a) {
  auto fail = [&](absl::string_view label, absl::string_view text) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", text, " [", label, "]"));
  };
  if (!TakesResultAccuracy(opcode)) {
    return fail("result_accuracy_i1", absl::StrCat(OpName(opcode), " takes no result accuracy"));
  }
  if (!std::isfinite(a.atol) || !std::isfinite(a.rtol) || a.atol < 0 || a.rtol < 0 || a.ulps < 0) {
    return fail("result_accuracy_c1",
                absl::StrCat("the bounds of a result accuracy must be finite and not negative, found atol ", a.atol,
                             ", rtol ", a.rtol, ", ulps ", a.ulps));
  }
  const bool bounded = a.atol != 0 || a.rtol != 0 || a.ulps != 0;
  if (a.mode != ResultAccuracy::Mode::kTolerance && bounded) {
    return fail("result_accuracy_c2", "a result accuracy has bounds, but its mode is not tolerance");
  }
  if (a.mode == ResultAccuracy::Mode::kTolerance && !bounded) {
    return fail("result_accuracy_c3", "a result accuracy of mode tolerance has no bound");
  }
  return absl::OkStatus();
}

}  // namespace backplane
