// A value on the host: a dense row-major array of one element type, a tuple of values, or a token.
//
// Array data is shared and copy-on-write: copying a Literal is cheap, mutable_bytes() makes the data unique first.
// Elements narrower than a byte take one byte each (see primitive_type.h); pred is 0 or 1. Data is 64-byte aligned.
// A literal of a dynamic shape holds the bound's storage; dynamic_size(i) is the actual size.
// Thread-safety: const access from many threads; mutation needs exclusive access to that Literal object.
#ifndef BACKPLANE_CORE_TYPES_LITERAL_H_
#define BACKPLANE_CORE_TYPES_LITERAL_H_

#include <complex>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/types/numeric.h"
#include "core/types/shape.h"

namespace backplane {

class Literal {
 public:
  Literal() = default;  // invalid
  // Zero-filled. The shape and its tuple elements must be valid. Drops the layout.
  explicit Literal(const Shape& shape);

  // Takes ownership of bytes in the storage form. Returns an error if the size is not shape.byte_size().
  static absl::StatusOr<Literal> FromBytes(const Shape& shape, absl::Span<const std::byte> bytes);
  // Refers to memory that must outlive every copy of the literal. mutable_bytes() copies it first.
  static Literal Borrow(const Shape& shape, const void* data);
  static Literal Tuple(std::vector<Literal> elements);
  static Literal Token();
  // Converts a double or int64 to one element of the type, as the `convert` operation does.
  static Literal Scalar(PrimitiveType type, double value);
  static Literal ScalarInt(PrimitiveType type, int64_t value);
  // Native C++ types: bool, intN_t, uintN_t, float, double, std::complex, and the classes of numeric.h.
  // `values` are row-major and as many as the shape has elements.
  template <typename T>
  static Literal FromValues(absl::Span<const int64_t> dims, absl::Span<const T> values);

  const Shape& shape() const { return shape_; }
  bool valid() const { return shape_.element_type() != PrimitiveType::kInvalid; }
  int64_t num_elements() const { return shape_.num_elements(); }
  int64_t byte_size() const { return shape_.byte_size(); }

  const std::byte* bytes() const { return data_.get(); }
  std::byte* mutable_bytes();
  bool unique() const { return data_ && !borrowed_ && data_.use_count() == 1; }  // mutable_bytes() would not copy
  template <typename T>
  absl::Span<const T> data() const {
    return absl::Span<const T>(reinterpret_cast<const T*>(data_.get()), static_cast<size_t>(num_elements()));
  }
  template <typename T>
  absl::Span<T> mutable_data() {
    return absl::Span<T>(reinterpret_cast<T*>(mutable_bytes()), static_cast<size_t>(num_elements()));
  }

  const std::vector<Literal>& elements() const { return elements_; }
  std::vector<Literal>& mutable_elements() { return elements_; }

  int64_t dynamic_size(int64_t dim) const;  // the bound if the dimension is static or the size was never set
  void set_dynamic_size(int64_t dim, int64_t n);

  // Returns an element, by its row-major linear index, as a wider type.
  double GetAsDouble(int64_t linear) const;  // integers and floats; for complex the real part
  int64_t GetAsInt(int64_t linear) const;    // integers, pred; floats truncate
  std::complex<double> GetAsComplex(int64_t linear) const;
  void SetFromDouble(int64_t linear, double value);
  void SetFromInt(int64_t linear, int64_t value);

  bool IsAllEqual() const;         // whether all elements have the same bits; false for zero elements
  bool IsAll(double value) const;  // whether every element equals the value (numbers or pred)

  // Whether shape and bits are equal. NaN equals NaN of the same bits.
  bool operator==(const Literal& other) const;
  // Returns the elements converted to another type, as HLO `convert` does.
  absl::StatusOr<Literal> Convert(PrimitiveType to) const;
  // Returns the same elements with other dimensions.
  absl::StatusOr<Literal> Reshape(absl::Span<const int64_t> dims) const;

  // Returns HLO constant text: 1.5, {1, 2}, { {1,2}, {3,4} }, (tuple). Prints {...} for more than `limit` elements.
  std::string ToString(int64_t limit = INT64_MAX) const;

 private:
  Shape shape_;
  std::shared_ptr<std::byte> data_;
  bool borrowed_ = false;
  std::vector<Literal> elements_;
  std::vector<int64_t> dynamic_sizes_;
};

// Returns decimal text as XLA prints it. It parses to the same value of the type; nan, inf, -nan, (re, im) for complex.
std::string ElementToString(const Literal& literal, int64_t linear);
// Parses one number of HLO text (true, -3, 1.5e-3, 0x1p-3, nan, -nan, nan(0x7fc01), (re, im)) into an element. Integers
// must fit the type; decimals are rounded to it.
absl::Status ParseElement(absl::string_view text, Literal* literal, int64_t linear);

template <typename T>
Literal Literal::FromValues(absl::Span<const int64_t> dims, absl::Span<const T> values) {
  Literal literal(Shape(kPrimitiveTypeOf<T>, dims));
  absl::Span<T> data = literal.mutable_data<T>();
  for (size_t i = 0; i < data.size() && i < values.size(); ++i) data[i] = values[i];
  return literal;
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_LITERAL_H_
