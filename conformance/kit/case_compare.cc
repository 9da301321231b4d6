// Compares results with the expectations of a case.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "conformance/kit/case_literal.h"

namespace backplane::conformance {
namespace {

using C = ElementClass;

std::string IndexText(const Array& array, int64_t linear) {
  std::string text;
  for (size_t d = array.dims.size(); d-- > 0;) {
    text = absl::StrCat(linear % array.dims[d], text.empty() ? "" : ",", text);
    linear /= array.dims[d];
  }
  return absl::StrCat("[", text, "]");
}

// Compares one float, or one part of a complex number. `step` is the spacing to use, or 0 for that of the format.
bool FloatAgrees(ElementType type, uint64_t want, uint64_t got, const Tolerance& tolerance, double step,
                 bool judge_distance) {
  const bool nan = IsNanBits(type, want);
  if (nan || IsNanBits(type, got)) return nan && IsNanBits(type, got);
  if (want == got) return true;
  if (tolerance.exact()) return false;
  const double x = DecodeBits(type, want), y = DecodeBits(type, got);
  if (std::isinf(x) || std::isinf(y)) return false;  // infinities are equal only if their bits are
  if (!judge_distance) return true;
  if (step > 0) return std::fabs(x - y) <= tolerance.ulp * step;
  if (tolerance.ulp > 0 && static_cast<double>(ComputeUlpDistance(type, want, got)) <= tolerance.ulp) return true;
  return std::fabs(x - y) <= tolerance.abs + tolerance.rel * std::fabs(x);
}

bool ComplexAgrees(const Array& expected, const Array& actual, int64_t i, const Tolerance& tolerance) {
  const ElementType type = GetPartType(expected.type);
  const uint64_t want[] = {ReadBits(expected, i, 0), ReadBits(expected, i, 1)};
  const uint64_t got[] = {ReadBits(actual, i, 0), ReadBits(actual, i, 1)};
  const double x[] = {DecodeBits(type, want[0]), DecodeBits(type, want[1])};
  const double y[] = {DecodeBits(type, got[0]), DecodeBits(type, got[1])};
  const double size = std::max(std::fabs(x[0]), std::fabs(x[1]));
  const bool finite = std::isfinite(x[0]) && std::isfinite(x[1]);
  if (!finite || tolerance.exact()) {  // by parts, because the magnitude is not finite
    return FloatAgrees(type, want[0], got[0], tolerance, 0, true) &&
           FloatAgrees(type, want[1], got[1], tolerance, 0, true);
  }
  if (!FloatAgrees(type, want[0], got[0], tolerance, 0, false) ||
      !FloatAgrees(type, want[1], got[1], tolerance, 0, false)) {
    return false;
  }
  if (tolerance.ulp > 0) {
    const double step = ComputeUlp(type, size);
    if (FloatAgrees(type, want[0], got[0], tolerance, step, true) &&
        FloatAgrees(type, want[1], got[1], tolerance, step, true)) {
      return true;
    }
  }
  return std::hypot(x[0] - y[0], x[1] - y[1]) <= tolerance.abs + tolerance.rel * std::hypot(x[0], x[1]);
}

bool IntegerAgrees(const Array& expected, const Array& actual, int64_t i, const Tolerance& tolerance) {
  if (ReadBits(expected, i) == ReadBits(actual, i)) return true;
  if (tolerance.exact() || Info(expected.type).cls == C::kPred) return false;
  const double x = ReadReal(expected, i), y = ReadReal(actual, i);
  return std::fabs(x - y) <= tolerance.abs + tolerance.rel * std::fabs(x);
}

// The Kolmogorov-Smirnov test: compares the largest distance between the distributions of the sample and the
// expectation with a bound that a correct generator exceeds in less than one of a hundred thousand runs.
absl::Status CompareDistribution(const Expected& expected, const Array& actual) {
  const int64_t n = actual.size();
  const bool integer = Info(actual.type).cls != C::kFloat;
  std::vector<double> sample(n);
  for (int64_t i = 0; i < n; ++i) {
    sample[i] = ReadReal(actual, i);
    if (std::isnan(sample[i]))
      return absl::InvalidArgumentError(absl::StrCat("element ", IndexText(actual, i), " is nan"));
    if (expected.kind == Expected::kUniform && (sample[i] < expected.low || sample[i] >= expected.high)) {
      return absl::InvalidArgumentError(absl::StrCat("element ", IndexText(actual, i), " is ", FormatElement(actual, i),
                                                     ", expected one in [", expected.low, ",", expected.high, ")"));
    }
  }
  std::sort(sample.begin(), sample.end());
  double worst = 0;
  for (int64_t i = 0; i < n;) {
    int64_t end = i + 1;
    while (end < n && sample[end] == sample[i]) ++end;
    const auto below = [&](double x) {
      return expected.kind == Expected::kUniform
                 ? std::clamp((x - expected.low) / (expected.high - expected.low), 0.0, 1.0)
                 : 0.5 * std::erfc((expected.low - x) / (expected.high * std::sqrt(2.0)));
    };
    // An integer k represents the interval [k, k+1); a float of a coarse format represents its spacing.
    const double step = integer ? 1 : ComputeUlp(actual.type, sample[i]);
    const double before = below(integer ? sample[i] : sample[i] - step), upto = below(sample[i] + step);
    worst = std::max({worst, before - static_cast<double>(i) / n, static_cast<double>(end) / n - upto});
    i = end;
  }
  const double bound = 2.5 / std::sqrt(static_cast<double>(std::max<int64_t>(n, 1)));
  if (worst <= bound) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the sample lies ", worst, " from its distribution, at most ", bound, " is plausible"));
}

}  // namespace

absl::Status Compare(const Expected& expected, const Array& actual) {
  const std::string shape = FormatShape(expected.value.type, expected.value.dims);
  if (expected.value.type != actual.type || expected.value.dims != actual.dims) {
    return absl::InvalidArgumentError(
        absl::StrCat("the result is ", FormatShape(actual.type, actual.dims), ", expected ", shape));
  }
  const ElementInfo& t = Info(actual.type);
  if (static_cast<int64_t>(actual.data.size()) != actual.size() * t.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(shape, ": ", actual.data.size(), " bytes came back, expected ", actual.size() * t.bytes));
  }
  if (t.cls == C::kPred) {
    for (int64_t i = 0; i < actual.size(); ++i) {
      if (ReadBits(actual, i) > 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(shape, ": element ", IndexText(actual, i), " is neither 0 nor 1"));
      }
    }
  }
  if (expected.kind == Expected::kAny) return absl::OkStatus();
  if (expected.kind != Expected::kValues) {
    const absl::Status s = CompareDistribution(expected, actual);
    return s.ok() ? s : absl::InvalidArgumentError(absl::StrCat(shape, ": ", s.message()));
  }
  int64_t first = -1, more = 0;
  for (int64_t i = 0; i < actual.size(); ++i) {
    if (!expected.ignored.empty() && expected.ignored[i]) continue;
    bool ok;
    if (t.cls == C::kComplex) {
      ok = ComplexAgrees(expected.value, actual, i, expected.tolerance);
    } else if (t.cls == C::kFloat) {
      ok = FloatAgrees(t.type, ReadBits(expected.value, i), ReadBits(actual, i), expected.tolerance, 0, true);
    } else {
      ok = IntegerAgrees(expected.value, actual, i, expected.tolerance);
    }
    if (ok) continue;
    if (first < 0)
      first = i;
    else
      ++more;
  }
  if (first < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(shape, ": element ", IndexText(actual, first), " is ", FormatElement(actual, first), ", expected ",
                   FormatElement(expected.value, first), more > 0 ? absl::StrCat(", ", more, " more differ") : ""));
}

}  // namespace backplane::conformance
