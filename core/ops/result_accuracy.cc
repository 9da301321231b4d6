#include "core/ops/result_accuracy.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace backplane {

absl::Status CheckResultAccuracy(Opcode opcode, absl::string_view name, const ResultAccuracy& a) {
  auto fail = [&](absl::string_view label, absl::string_view text) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", text, " [", label, "]"));
  };
  if (!Info(opcode).Has(kResultAccuracy)) {
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
