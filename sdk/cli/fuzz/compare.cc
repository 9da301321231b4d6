#include "sdk/cli/fuzz/compare.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/fuzz/bounds_util.h"

namespace backplane::cli::fuzz {
namespace {

bool SamePart(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace

bool IsWithin(const Literal& meant, const Literal& found, int64_t i, double bound) {
  if (std::isinf(bound)) return true;
  const PrimitiveType type = meant.shape().element_type();
  const size_t bytes = static_cast<size_t>(ByteWidth(type));
  if (std::memcmp(meant.bytes() + i * ByteWidth(type), found.bytes() + i * ByteWidth(type), bytes) == 0) return true;
  if (!IsFloat(ComplexPart(type))) return false;
  const std::complex<double> a = NumberAt(meant, i), b = NumberAt(found, i);
  if (bound == 0) return SamePart(a.real(), b.real()) && SamePart(a.imag(), b.imag());
  double distance = 0;
  for (const auto& [x, y] : {std::pair(a.real(), b.real()), std::pair(a.imag(), b.imag())}) {
    if (std::isnan(x) || std::isnan(y)) {
      if (!(std::isnan(x) && std::isnan(y))) return false;
    } else if (x != y) {
      if (std::isinf(x) || std::isinf(y)) return false;
      distance = std::hypot(distance, x - y);
    }
  }
  return distance <= bound;
}

std::vector<const BoundedValue*> Leaves(const BoundedValue& result) {
  std::vector<const BoundedValue*> leaves;
  if (!result.is_tuple) return {&result};
  for (const BoundedValue& e : result.elements) {
    for (const BoundedValue* l : Leaves(e)) leaves.push_back(l);
  }
  return leaves;
}

std::string Mismatch::ToString() const {
  if (shape.empty()) return absl::StrCat("result ", result, ": expected ", expected, ", found ", found);
  return absl::StrCat("result ", result, " ", shape, ": ", differing, " elements, [", element, "] expected ", expected,
                      ", found ", found, bound == 0 ? ", to the bit" : absl::StrFormat(", bound %.3g", bound));
}

std::optional<Mismatch> CompareResults(const BoundedValue& meant, const std::vector<Literal>& found, Power* power) {
  const std::vector<const BoundedValue*> leaves = Leaves(meant);
  Mismatch m;
  if (leaves.size() != found.size()) {
    m.expected = absl::StrCat(leaves.size(), " results");
    m.found = absl::StrCat(found.size());
    return m;
  }
  std::optional<Mismatch> first;
  for (size_t r = 0; r < leaves.size(); ++r) {
    const BoundedValue& want = *leaves[r];
    const Literal& have = found[r];
    m = Mismatch();
    m.result = static_cast<int64_t>(r);
    if (!(want.value.shape() == have.shape())) {
      m.expected = want.value.shape().ToString();
      m.found = have.shape().ToString();
      return m;
    }
    for (int64_t i = 0; i < have.num_elements(); ++i) {
      const double bound = BoundAt(want.seen, i);
      if (power != nullptr) ++(bound == 0 ? power->bitwise : std::isinf(bound) ? power->undecided : power->bounded);
      if (IsWithin(want.value, have, i, bound)) continue;
      if (m.differing++ > 0) continue;
      m.shape = have.shape().ToString();
      m.element = i;
      m.expected = ElementToString(want.value, i);
      m.found = ElementToString(have, i);
      m.bound = bound;
      if (IsFloat(ComplexPart(have.shape().element_type()))) {
        const double least = std::ldexp(ComputeUnitInLastPlace(have.shape().element_type(), 0),
                                        static_cast<int>(-std::log2(GetEpsilon(have.shape().element_type()))));
        for (const std::complex<double> v : {NumberAt(want.value, i), NumberAt(have, i)}) {
          for (const double part : {v.real(), v.imag()}) {
            m.nan = m.nan || std::isnan(part);
            m.infinite = m.infinite || std::isinf(part);
            m.subnormal = m.subnormal || (part != 0 && std::abs(part) < least);
          }
        }
        m.zero_sign = NumberAt(want.value, i) == NumberAt(have, i);
      }
    }
    if (m.differing > 0 && !first.has_value()) first = m;
  }
  return first;
}

}  // namespace backplane::cli::fuzz
