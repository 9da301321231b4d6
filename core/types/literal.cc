#include "core/types/literal.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "absl/strings/str_cat.h"
#include "core/types/literal_convert.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr size_t kAlignment = 64;

// Returns zeroed memory. Large blocks come from calloc, so the operating system provides zero pages on first access.
std::shared_ptr<std::byte> Allocate(int64_t bytes) {
  void* raw = std::calloc(static_cast<size_t>(bytes) + kAlignment, 1);
  if (raw == nullptr) throw std::bad_alloc();
  const uintptr_t aligned = (reinterpret_cast<uintptr_t>(raw) + kAlignment - 1) & ~(kAlignment - 1);
  return std::shared_ptr<std::byte>(reinterpret_cast<std::byte*>(aligned), [raw](std::byte*) { std::free(raw); });
}

Shape WithTupleShapes(const std::vector<Literal>& elements) {
  std::vector<Shape> shapes;
  shapes.reserve(elements.size());
  for (const Literal& e : elements) shapes.push_back(e.shape());
  return Shape::Tuple(std::move(shapes));
}

}  // namespace

Literal::Literal(const Shape& shape) : shape_(shape.WithoutLayout()) {
  if (shape_.IsTuple()) {
    elements_.reserve(shape_.tuple_shapes().size());
    for (const Shape& s : shape_.tuple_shapes()) elements_.emplace_back(s);
  } else if (shape_.IsArray()) {
    data_ = Allocate(byte_size());
  }
}

absl::StatusOr<Literal> Literal::FromBytes(const Shape& shape, absl::Span<const std::byte> bytes) {
  RETURN_IF_ERROR(shape.Validate());
  if (!shape.IsArray()) {
    return absl::InvalidArgumentError(
        absl::StrCat("literal: bytes for the shape ", shape.ToString(), ", which is no array"));
  }
  if (static_cast<int64_t>(bytes.size()) != shape.byte_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("literal: ", shape.ToString(), " takes ", shape.byte_size(), " bytes, found ", bytes.size()));
  }
  Literal literal(shape);
  if (!bytes.empty()) std::memcpy(literal.data_.get(), bytes.data(), bytes.size());
  return literal;
}

Literal Literal::Borrow(const Shape& shape, const void* data) {
  Literal literal;
  literal.shape_ = shape.WithoutLayout();
  literal.data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(const_cast<void*>(data)), [](std::byte*) {});
  literal.borrowed_ = true;
  return literal;
}

Literal Literal::Tuple(std::vector<Literal> elements) {
  Literal literal;
  literal.shape_ = WithTupleShapes(elements);
  literal.elements_ = std::move(elements);
  return literal;
}

Literal Literal::Token() {
  Literal literal;
  literal.shape_ = Shape::Token();
  return literal;
}

Literal Literal::Scalar(PrimitiveType type, double value) {
  Literal literal(Shape::Scalar(type));
  literal.SetFromDouble(0, value);
  return literal;
}

Literal Literal::ScalarInt(PrimitiveType type, int64_t value) {
  Literal literal(Shape::Scalar(type));
  literal.SetFromInt(0, value);
  return literal;
}

std::byte* Literal::mutable_bytes() {
  if (data_ && (borrowed_ || data_.use_count() > 1)) {
    std::shared_ptr<std::byte> copy = Allocate(byte_size());
    std::memcpy(copy.get(), data_.get(), static_cast<size_t>(byte_size()));
    data_ = std::move(copy);
    borrowed_ = false;
  }
  return data_.get();
}

int64_t Literal::dynamic_size(int64_t dim) const {
  return dim < static_cast<int64_t>(dynamic_sizes_.size()) && dynamic_sizes_[dim] >= 0 ? dynamic_sizes_[dim]
                                                                                       : shape_.dimensions(dim);
}

void Literal::set_dynamic_size(int64_t dim, int64_t n) {
  if (dynamic_sizes_.empty()) dynamic_sizes_.assign(static_cast<size_t>(shape_.rank()), -1);
  dynamic_sizes_[dim] = n;
}

double Literal::GetAsDouble(int64_t linear) const {
  double out;
  ReadElements(shape_.element_type(), data_.get(), linear, 1, &out);
  return out;
}

int64_t Literal::GetAsInt(int64_t linear) const {
  if (IsFloat(shape_.element_type()) || IsComplex(shape_.element_type())) {
    return SaturateToInt<int64_t>(GetAsDouble(linear));
  }
  int64_t out;
  ReadElements(shape_.element_type(), data_.get(), linear, 1, &out);
  return out;
}

std::complex<double> Literal::GetAsComplex(int64_t linear) const {
  std::complex<double> out;
  ReadElements(shape_.element_type(), data_.get(), linear, 1, &out);
  return out;
}

void Literal::SetFromDouble(int64_t linear, double value) {
  WriteElements(shape_.element_type(), mutable_bytes(), linear, 1, &value);
}

void Literal::SetFromInt(int64_t linear, int64_t value) {
  WriteElements(shape_.element_type(), mutable_bytes(), linear, 1, &value);
}

bool Literal::IsAllEqual() const {
  if (!shape_.IsArray() || num_elements() == 0) return false;
  const size_t width = static_cast<size_t>(ByteWidth(shape_.element_type()));
  const size_t size = static_cast<size_t>(byte_size());
  // Compares each byte with the byte one element further.
  return size == width || std::memcmp(data_.get(), data_.get() + width, size - width) == 0;
}

bool Literal::IsAll(double value) const {
  if (!shape_.IsArray()) return false;
  const int64_t n = num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (IsComplex(shape_.element_type())) {
      if (GetAsComplex(i) != std::complex<double>(value)) return false;
    } else if (IsIntegral(shape_.element_type()) && BitWidth(shape_.element_type()) == 64) {
      // Doubles above 2^53 do not represent all integers, so the comparison is on integers.
      if (value != std::trunc(value)) return false;
      const bool is_unsigned = IsUnsigned(shape_.element_type());
      if (is_unsigned ? data<uint64_t>()[i] != SaturateToInt<uint64_t>(value) || value < 0 || value >= 0x1p64
                      : data<int64_t>()[i] != SaturateToInt<int64_t>(value) || value < -0x1p63 || value >= 0x1p63) {
        return false;
      }
    } else if (GetAsDouble(i) != value) {
      return false;
    }
    if (i == 0 && IsAllEqual()) return true;
  }
  return true;
}

bool Literal::operator==(const Literal& other) const {
  if (!(shape_ == other.shape_) || elements_ != other.elements_) return false;
  for (int64_t i = 0; i < shape_.rank(); ++i) {
    if (dynamic_size(i) != other.dynamic_size(i)) return false;
  }
  if (!shape_.IsArray() || data_ == other.data_ || byte_size() == 0) return true;
  return std::memcmp(data_.get(), other.data_.get(), static_cast<size_t>(byte_size())) == 0;
}

absl::StatusOr<Literal> Literal::Convert(PrimitiveType to) const {
  if (!shape_.IsArray() || !IsArrayType(to)) {
    return absl::InvalidArgumentError(
        absl::StrCat("literal: no conversion from ", shape_.ToString(), " to ", Name(to)));
  }
  if (to == shape_.element_type()) return *this;
  Literal result(shape_.WithElementType(to));
  result.dynamic_sizes_ = dynamic_sizes_;
  ConvertElements(shape_.element_type(), data_.get(), to, result.data_.get(), num_elements());
  return result;
}

absl::StatusOr<Literal> Literal::Reshape(absl::Span<const int64_t> dims) const {
  Shape shape(shape_.element_type(), dims);
  RETURN_IF_ERROR(shape.Validate());
  if (!shape_.IsArray() || shape_.HasDynamicDimensions() || shape.num_elements() != num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("literal: no reshape from ", shape_.ToString(), " to ", shape.ToString()));
  }
  Literal result = *this;
  result.shape_ = std::move(shape);
  result.dynamic_sizes_.clear();
  return result;
}

}  // namespace backplane
