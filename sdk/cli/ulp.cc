#include "sdk/cli/ulp.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/arrays.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

// Returns the position of a float among all values of its type, from its bits: neighbours differ by one, both zeros are
// 0.
int64_t OrderedPosition(uint64_t bits, int width) {
  const uint64_t sign = uint64_t{1} << (width - 1);
  return (bits & sign) != 0 ? -static_cast<int64_t>(bits & (sign - 1)) : static_cast<int64_t>(bits);
}

uint64_t Bits(const std::byte* at, int bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(bytes));  // little-endian, like all our targets
  return bits;
}

double PlainDistance(int64_t a, int64_t b) {
  const bool less = a < b;
  return static_cast<double>(less ? static_cast<uint64_t>(b) - static_cast<uint64_t>(a)
                                  : static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

struct Pair {
  double ulp, absolute;
};

// The distance of two real numbers.
Pair RealDistance(double a, double b, uint64_t bits_a, uint64_t bits_b, int width, bool biased) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? Pair{0, 0} : Pair{kInf, kInf};
  if (a == b) return {0, 0};
  const double absolute = std::abs(a - b);
  // A type without a sign bit (f8e8m0fnu) is compared by its bits, the others by their position.
  if (biased) return {PlainDistance(static_cast<int64_t>(bits_a), static_cast<int64_t>(bits_b)), absolute};
  return {PlainDistance(OrderedPosition(bits_a, width), OrderedPosition(bits_b, width)), absolute};
}

}  // namespace

absl::StatusOr<Difference> Compare(const host::HostArray& a, const host::HostArray& b, const Tolerance& tolerance) {
  if (a.type != b.type || a.dims != b.dims) {
    return absl::InvalidArgumentError(
        absl::StrCat("compare: ", host::FormatShape(a.type, a.dims), " with ", host::FormatShape(b.type, b.dims)));
  }
  BP_ASSIGN_OR_RETURN(const Literal la, ToLiteral(a));
  BP_ASSIGN_OR_RETURN(const Literal lb, ToLiteral(b));
  const PrimitiveType type = la.shape().element_type(), part = ComplexPart(type);
  const bool complex = IsComplex(type), real = IsFloat(part);
  const int width = BitWidth(part), bytes = host::HostBytesPerElement(a.type) / (complex ? 2 : 1);
  const uint64_t mask = width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  Difference out;
  out.count = la.num_elements();
  double worst = -1;
  for (int64_t i = 0; i < out.count; ++i) {
    const std::byte* at_a = la.bytes() + i * bytes * (complex ? 2 : 1);
    const std::byte* at_b = lb.bytes() + i * bytes * (complex ? 2 : 1);
    if (std::memcmp(at_a, at_b, static_cast<size_t>(bytes) * (complex ? 2 : 1)) == 0) continue;
    Pair distance{0, 0};
    if (!real) {
      const bool is_unsigned = IsUnsigned(type);
      const uint64_t ua = static_cast<uint64_t>(la.GetAsInt(i)), ub = static_cast<uint64_t>(lb.GetAsInt(i));
      const uint64_t apart = is_unsigned ? std::max(ua, ub) - std::min(ua, ub) : 0;
      const double d = is_unsigned ? static_cast<double>(apart) : PlainDistance(la.GetAsInt(i), lb.GetAsInt(i));
      distance = {d, d};
    } else {
      for (int p = 0; p < (complex ? 2 : 1); ++p) {
        const std::complex<double> ca = complex ? la.GetAsComplex(i) : la.GetAsDouble(i);
        const std::complex<double> cb = complex ? lb.GetAsComplex(i) : lb.GetAsDouble(i);
        const Pair d = RealDistance(p == 0 ? ca.real() : ca.imag(), p == 0 ? cb.real() : cb.imag(),
                                    Bits(at_a + p * bytes, bytes) & mask, Bits(at_b + p * bytes, bytes) & mask, width,
                                    part == PrimitiveType::kF8E8M0FNU);
        distance.ulp = std::max(distance.ulp, d.ulp);
        distance.absolute = std::max(distance.absolute, d.absolute);
      }
    }
    if (distance.ulp > tolerance.ulp && !(distance.absolute <= tolerance.absolute)) ++out.differing;
    out.max_absolute = std::max(out.max_absolute, distance.absolute);
    if (distance.ulp > worst && distance.ulp > 0) {
      worst = out.max_ulp = distance.ulp;
      out.worst = i;
    }
  }
  if (out.worst >= 0) {
    out.worst_a = ElementToString(la, out.worst);
    out.worst_b = ElementToString(lb, out.worst);
  }
  return out;
}

host::Json ToJson(const Difference& d) {
  host::Json json = host::Json::MakeObject();
  json.Set("elements", d.count)
      .Set("differing", d.differing)
      .Set("max_ulp", d.max_ulp)
      .Set("max_absolute", d.max_absolute);
  if (d.worst >= 0) json.Set("worst_element", d.worst).Set("worst_a", d.worst_a).Set("worst_b", d.worst_b);
  return json;
}

std::string FormatDistance(double ulp) { return std::isinf(ulp) ? "inf" : absl::StrFormat("%.0f", ulp); }

}  // namespace backplane::cli
