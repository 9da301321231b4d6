// Shape of a value: an array (element type, dimensions, optional layout), a tuple of shapes, a token, or an opaque.
//
// A dimension may be dynamic: its size is then an upper bound (printed `<=n`). Sizes are never negative. A shape is a
// plain value, cheap to copy up to rank 6. Text form: f32[2,<=3]{1,0}, (f32[2], s32[]), token[].
#ifndef BACKPLANE_CORE_TYPES_SHAPE_H_
#define BACKPLANE_CORE_TYPES_SHAPE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/types/layout.h"
#include "core/types/primitive_type.h"

namespace backplane {

class Shape {
 public:
  Shape() = default;  // invalid
  Shape(PrimitiveType type, absl::Span<const int64_t> dims) : type_(type), dims_(dims.begin(), dims.end()) {}
  Shape(PrimitiveType type, std::initializer_list<int64_t> dims) : type_(type), dims_(dims.begin(), dims.end()) {}

  static Shape Scalar(PrimitiveType type) { return Shape(type, {}); }
  static Shape Tuple(std::vector<Shape> elements);
  static Shape Token();
  static Shape Opaque();

  PrimitiveType element_type() const { return type_; }
  void set_element_type(PrimitiveType t) { type_ = t; }
  bool IsArray() const { return IsArrayType(type_); }
  bool IsTuple() const { return type_ == PrimitiveType::kTuple; }
  bool IsToken() const { return type_ == PrimitiveType::kToken; }
  bool IsScalar() const { return IsArray() && dims_.empty(); }

  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  const DimVector& dimensions() const { return dims_; }
  int64_t dimensions(int64_t i) const { return dims_[i]; }
  void set_dimension(int64_t i, int64_t size) { dims_[i] = size; }

  bool is_dynamic(int64_t i) const { return i < static_cast<int64_t>(dynamic_.size()) && dynamic_[i]; }
  void set_dynamic(int64_t i, bool dynamic);
  bool HasDynamicDimensions() const;

  // Returns the number of elements, 1 for a scalar. Requires an array accepted by Validate(): does not check for
  // overflow.
  int64_t num_elements() const;
  int64_t byte_size() const { return num_elements() * ByteWidth(type_); }  // dense, row-major

  const std::vector<Shape>& tuple_shapes() const { return tuple_; }
  std::vector<Shape>& mutable_tuple_shapes() { return tuple_; }
  const Shape& tuple_shapes(int64_t i) const { return tuple_[i]; }
  int64_t tuple_size() const { return static_cast<int64_t>(tuple_.size()); }

  bool has_layout() const { return layout_.has_value(); }
  const Layout& layout() const { return *layout_; }
  Layout& mutable_layout() { return layout_ ? *layout_ : layout_.emplace(); }
  void set_layout(Layout layout) { layout_ = std::move(layout); }
  void clear_layout();   // recursively
  void set_row_major();  // recursively: every array gets the default layout
  // Whether an array is row-major, without tiles or padding (Layout::IsRowMajor). It is if it has no layout.
  bool IsRowMajor() const { return !layout_ || layout_->IsRowMajor(); }
  Shape WithoutLayout() const;
  Shape WithElementType(PrimitiveType t) const;

  // Returns InvalidArgument for an invalid element type, a negative size, an array of more than 2^62 bytes (a size of 0
  // counts as 1), or a layout that does not fit the dimensions.
  absl::Status Validate() const;

  std::string ToString(bool with_layout = false) const;

  // operator== ignores layouts; Identical compares them.
  bool operator==(const Shape& other) const;
  bool Identical(const Shape& other) const;

 private:
  PrimitiveType type_ = PrimitiveType::kInvalid;
  DimVector dims_;
  absl::InlinedVector<bool, 6> dynamic_;  // empty: all static
  std::vector<Shape> tuple_;
  std::optional<Layout> layout_;
};

// The signature of a computation.
struct ProgramShape {
  std::vector<Shape> parameters;
  std::vector<std::string> parameter_names;
  Shape result;
  std::string ToString() const;
};

// Calls fn(const Shape& leaf, const std::vector<int64_t>& index) for every non-tuple leaf, in order.
template <typename Fn>
void ForEachLeaf(const Shape& shape, Fn&& fn) {
  std::vector<int64_t> index;
  auto walk = [&](auto& self, const Shape& s) -> void {
    if (!s.IsTuple()) return (void)fn(s, index);
    for (int64_t i = 0; i < s.tuple_size(); ++i) {
      index.push_back(i);
      self(self, s.tuple_shapes(i));
      index.pop_back();
    }
  };
  walk(walk, shape);
}

// Returns the number of non-tuple leaves: 1 for an array.
int64_t CountLeaves(const Shape& shape);

// Returns the row-major strides of an array, in elements.
DimVector RowMajorStrides(absl::Span<const int64_t> dims);

// Parses a complete text. The layout is optional. Returns InvalidArgument with the offset of the error.
absl::StatusOr<Shape> ParseShape(absl::string_view text);
// Parses one shape at the front of `text` and removes it. A layout must follow the dimensions without white space.
absl::StatusOr<Shape> ConsumeShape(absl::string_view* text);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_SHAPE_H_
