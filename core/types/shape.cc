#include "core/types/shape.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 62;
constexpr int kMaxDepth = 100;     // of nested tuples in text
constexpr size_t kMaxRank = 1024;  // larger ranks do not occur in programs
constexpr size_t kMaxTuple = 1u << 20;

void AppendShape(const Shape& s, bool with_layout, std::string* out) {
  if (s.IsTuple()) {
    *out += '(';
    for (int64_t i = 0; i < s.tuple_size(); ++i) {
      if (i > 0) *out += ", ";
      if (i > 0 && i % 5 == 0) absl::StrAppend(out, "/*index=", i, "*/");  // as XLA prints long tuples
      AppendShape(s.tuple_shapes(i), with_layout, out);
    }
    *out += ')';
    return;
  }
  absl::StrAppend(out, Name(s.element_type()), "[");
  for (int64_t i = 0; i < s.rank(); ++i) {
    if (i > 0) *out += ',';
    if (s.is_dynamic(i)) *out += "<=";
    absl::StrAppend(out, s.dimensions(i));
  }
  *out += ']';
  if (!with_layout || !s.has_layout()) return;
  std::string layout = s.layout().ToString();
  if (s.rank() > 0 || layout != "{}") *out += layout;
}

// Parses shapes at the front of a text.
class ShapeReader {
 public:
  explicit ShapeReader(absl::string_view text) : text_(text) {}

  size_t position() const { return pos_; }

  absl::StatusOr<Shape> Read(int depth) {
    if (depth > kMaxDepth) return Error("tuples nested too deep");
    Skip();
    if (Take('(')) {
      std::vector<Shape> elements;
      if (!Take(')')) {
        do {
          ASSIGN_OR_RETURN(Shape element, Read(depth + 1));
          elements.push_back(std::move(element));
          if (elements.size() > kMaxTuple) return Error("tuple with too many elements");
        } while (Take(','));
        if (!Take(')')) return Error("expected ',' or ')' in a tuple shape");
      }
      return Shape::Tuple(std::move(elements));
    }
    const size_t start = pos_;
    while (pos_ < text_.size() && (absl::ascii_isalnum(text_[pos_]) || text_[pos_] == '_')) ++pos_;
    const absl::string_view name = text_.substr(start, pos_ - start);
    std::optional<PrimitiveType> type = PrimitiveTypeFromName(name);
    if (!type || *type == PrimitiveType::kTuple) {
      pos_ = start;
      return Error(absl::StrCat("expected a shape, found '", text_.substr(start, 20), "'"));
    }
    if (pos_ >= text_.size() || text_[pos_] != '[') return Error(absl::StrCat("expected '[' after ", name));
    ++pos_;
    Shape shape;
    if (!IsArrayType(*type)) {
      if (!Take(']')) return Error(absl::StrCat("expected ']' after ", name, "["));
      shape = *type == PrimitiveType::kToken ? Shape::Token() : Shape::Opaque();
    } else {
      ASSIGN_OR_RETURN(shape, Dimensions(*type));
    }
    // A layout follows without white space; a brace after a blank starts something else, such as the body of a
    // computation.
    if (pos_ < text_.size() && text_[pos_] == '{') {
      if (!shape.IsArray()) return Error(absl::StrCat(name, " has no layout"));
      ++pos_;
      ASSIGN_OR_RETURN(Layout layout, ReadLayout());
      shape.set_layout(std::move(layout));
    }
    RETURN_IF_ERROR(shape.Validate());
    return shape;
  }

  void Skip() {
    while (pos_ < text_.size()) {
      if (absl::ascii_isspace(text_[pos_])) {
        ++pos_;
      } else if (text_.substr(pos_, 2) == "/*") {
        const size_t end = text_.find("*/", pos_ + 2);
        if (end == absl::string_view::npos) return;
        pos_ = end + 2;
      } else {
        return;
      }
    }
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("shape: ", what, " at offset ", pos_));
  }
  bool Take(char c) {
    Skip();
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  absl::StatusOr<int64_t> Number() {
    Skip();
    const size_t start = pos_;
    while (pos_ < text_.size() && absl::ascii_isdigit(text_[pos_])) ++pos_;
    int64_t value;
    if (!absl::SimpleAtoi(text_.substr(start, pos_ - start), &value)) {
      pos_ = start;
      return Error("expected a number");
    }
    return value;
  }

  absl::StatusOr<Shape> Dimensions(PrimitiveType type) {
    DimVector dims;
    std::vector<int64_t> dynamic;
    if (!Take(']')) {
      do {
        if (Take('<')) {
          if (!Take('=')) return Error("expected '<=' before a bounded size");
          dynamic.push_back(static_cast<int64_t>(dims.size()));
        }
        Skip();
        if (pos_ < text_.size() && text_[pos_] == '?') {
          return absl::UnimplementedError(absl::StrCat("shape: unbounded dimension '?' at offset ", pos_));
        }
        ASSIGN_OR_RETURN(int64_t size, Number());
        dims.push_back(size);
        if (dims.size() > kMaxRank) return Error("too many dimensions");
      } while (Take(','));
      if (!Take(']')) return Error("expected ',' or ']' in dimensions");
    }
    Shape shape(type, dims);
    for (int64_t i : dynamic) shape.set_dynamic(i, true);
    return shape;
  }

  absl::StatusOr<int64_t> Parenthesized(absl::string_view what) {
    if (!Take('(')) return Error(absl::StrCat("expected '(' after ", what));
    ASSIGN_OR_RETURN(int64_t value, Number());
    if (!Take(')')) return Error(absl::StrCat("expected ')' after ", what, "(", value));
    return value;
  }

  // Parses a layout after the opening brace.
  absl::StatusOr<Layout> ReadLayout() {
    Layout layout;
    Skip();
    if (pos_ < text_.size() && absl::ascii_isdigit(text_[pos_])) {
      do {
        ASSIGN_OR_RETURN(int64_t dim, Number());
        layout.minor_to_major.push_back(dim);
        if (layout.minor_to_major.size() > kMaxRank) return Error("too many dimensions in a layout");
      } while (Take(','));
    }
    if (Take(':')) RETURN_IF_ERROR(ReadLayoutFields(&layout));
    if (!Take('}')) return Error("expected '}' after a layout");
    return layout;
  }

  // Parses the fields after the colon. Each field occurs at most once, in this order.
  absl::Status ReadLayoutFields(Layout* layout) {
    if (TakeKey("D")) RETURN_IF_ERROR(ReadDenseLevels());
    if (TakeKey("T")) {
      do {
        ASSIGN_OR_RETURN(Tile tile, ReadTile());
        layout->tiles.push_back(std::move(tile));
        if (layout->tiles.size() > kMaxRank) return Error("too many tiles");
      } while (Peek('('));
    }
    if (TakeKey("L")) {
      ASSIGN_OR_RETURN(layout->tail_alignment, Parenthesized("L"));
    }
    if (TakeKey("#")) {
      ASSIGN_OR_RETURN(layout->index_type, ParenthesizedType("#"));
    }
    if (TakeKey("*")) {
      ASSIGN_OR_RETURN(layout->pointer_type, ParenthesizedType("*"));
    }
    if (TakeKey("E")) {
      ASSIGN_OR_RETURN(layout->element_size_in_bits, Parenthesized("E"));
    }
    if (!Peeks("SC") && TakeKey("S")) {
      ASSIGN_OR_RETURN(layout->memory_space, Parenthesized("S"));
    }
    if (TakeKey("SC")) {
      do {
        ASSIGN_OR_RETURN(LayoutSplit split, ReadSplit());
        layout->splits.push_back(std::move(split));
        if (layout->splits.size() > kMaxRank) return Error("too many splits");
      } while (Peek('('));
    }
    if (TakeKey("M")) {
      ASSIGN_OR_RETURN(layout->metadata_prefix_bytes, Parenthesized("M"));
    }
    if (Peek('}') || pos_ >= text_.size()) return absl::OkStatus();
    return Error(absl::StrCat("layout field '", text_.substr(pos_, 1), "' is not known or does not stand here"));
  }

  // Older XLA printed sparse layouts: D for each dense dimension.
  absl::Status ReadDenseLevels() {
    if (!Take('(')) return Error("expected '(' after D");
    do {
      if (!Take('D')) return absl::UnimplementedError(absl::StrCat("shape: sparse layout at offset ", pos_));
    } while (Take(','));
    return Take(')') ? absl::OkStatus() : Error("expected ',' or ')' in D");
  }

  absl::StatusOr<PrimitiveType> ParenthesizedType(absl::string_view what) {
    if (!Take('(')) return Error(absl::StrCat("expected '(' after ", what));
    Skip();
    const size_t start = pos_;
    while (pos_ < text_.size() && absl::ascii_isalnum(text_[pos_])) ++pos_;
    const absl::string_view name = text_.substr(start, pos_ - start);
    const std::optional<PrimitiveType> type = PrimitiveTypeFromName(name);
    if (!type || !IsIntegral(*type)) {
      pos_ = start;
      return Error(absl::StrCat("expected a type of integers in ", what, "(), found '", name, "'"));
    }
    if (!Take(')')) return Error(absl::StrCat("expected ')' after ", what, "(", name));
    return *type;
  }

  absl::StatusOr<LayoutSplit> ReadSplit() {
    LayoutSplit split;
    if (!Take('(')) return Error("expected '(' of a split");
    ASSIGN_OR_RETURN(split.dimension, Number());
    if (!Take(':')) return Error("expected ':' after the dimension of a split");
    if (Take(')')) return split;
    do {
      ASSIGN_OR_RETURN(int64_t index, Number());
      split.indices.push_back(index);
    } while (Take(','));
    if (!Take(')')) return Error("expected ',' or ')' in a split");
    return split;
  }

  bool Peeks(absl::string_view key) {
    Skip();
    return text_.substr(pos_, key.size()) == key;
  }
  bool TakeKey(absl::string_view key) {
    if (!Peeks(key)) return false;
    pos_ += key.size();
    return true;
  }
  bool Peek(char c) {
    Skip();
    return pos_ < text_.size() && text_[pos_] == c;
  }

  absl::StatusOr<Tile> ReadTile() {
    if (!Take('(')) return Error("expected '(' of a tile");
    Tile tile;
    if (Take(')')) return tile;
    do {
      if (Take('*')) {
        tile.dims.push_back(Tile::kCombine);
      } else {
        ASSIGN_OR_RETURN(int64_t size, Number());
        tile.dims.push_back(size);
      }
      if (tile.dims.size() > kMaxRank) return Error("too many dimensions in a tile");
    } while (Take(','));
    if (!Take(')')) return Error("expected ',' or ')' in a tile");
    return tile;
  }

  absl::string_view text_;
  size_t pos_ = 0;
};

}  // namespace

Shape Shape::Tuple(std::vector<Shape> elements) {
  Shape s;
  s.type_ = PrimitiveType::kTuple;
  s.tuple_ = std::move(elements);
  return s;
}

Shape Shape::Token() {
  Shape s;
  s.type_ = PrimitiveType::kToken;
  return s;
}

Shape Shape::Opaque() {
  Shape s;
  s.type_ = PrimitiveType::kOpaque;
  return s;
}

void Shape::set_dynamic(int64_t i, bool dynamic) {
  if (dynamic_.empty() && !dynamic) return;
  dynamic_.resize(dims_.size(), false);
  dynamic_[i] = dynamic;
  for (bool d : dynamic_) {
    if (d) return;
  }
  dynamic_.clear();
}

bool Shape::HasDynamicDimensions() const {
  if (!dynamic_.empty()) return true;
  for (const Shape& s : tuple_) {
    if (s.HasDynamicDimensions()) return true;
  }
  return false;
}

int64_t Shape::num_elements() const {
  if (!IsArray()) return 0;
  int64_t n = 1;
  for (int64_t d : dims_) n *= d;
  return n;
}

void Shape::clear_layout() {
  layout_.reset();
  for (Shape& s : tuple_) s.clear_layout();
}

void Shape::set_row_major() {
  if (IsArray()) layout_ = Layout::RowMajor(rank());
  for (Shape& s : tuple_) s.set_row_major();
}

Shape Shape::WithoutLayout() const {
  Shape s = *this;
  s.clear_layout();
  return s;
}

Shape Shape::WithElementType(PrimitiveType t) const {
  Shape s = *this;
  s.type_ = t;
  return s;
}

absl::Status Shape::Validate() const {
  if (!IsValidPrimitiveType(static_cast<int>(type_))) {
    return absl::InvalidArgumentError(absl::StrCat("shape: invalid element type ", static_cast<int>(type_)));
  }
  if (IsTuple()) {
    if (!dims_.empty()) return absl::InvalidArgumentError("shape: a tuple has no dimensions");
    for (const Shape& s : tuple_) RETURN_IF_ERROR(s.Validate());
    return absl::OkStatus();
  }
  if (!tuple_.empty()) return absl::InvalidArgumentError("shape: only a tuple has elements");
  if (!IsArray()) {
    if (!dims_.empty()) return absl::InvalidArgumentError(absl::StrCat("shape: ", Name(type_), " has no dimensions"));
    return absl::OkStatus();
  }
  // Counts a size of zero as one, so that strides are bounded too.
  int64_t bytes = ByteWidth(type_);
  for (int64_t d : dims_) {
    if (d < 0) return absl::InvalidArgumentError(absl::StrCat("shape: negative size in ", ToString()));
    const int64_t n = d > 0 ? d : 1;
    if (n > kMaxBytes / bytes) {
      return absl::InvalidArgumentError(absl::StrCat("shape: ", ToString(), " is larger than 2^62 bytes"));
    }
    bytes *= n;
  }
  if (!layout_) return absl::OkStatus();
  if (static_cast<int64_t>(layout_->minor_to_major.size()) != rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: layout ", layout_->ToString(), " does not fit the rank of ", ToString()));
  }
  absl::InlinedVector<bool, 8> seen(dims_.size(), false);
  for (int64_t d : layout_->minor_to_major) {
    if (d < 0 || d >= rank() || seen[d]) {
      return absl::InvalidArgumentError(absl::StrCat("shape: layout ", layout_->ToString(), " is no permutation"));
    }
    seen[d] = true;
  }
  for (const Tile& tile : layout_->tiles) {
    for (int64_t d : tile.dims) {
      if (d <= 0 && d != Tile::kCombine) {
        return absl::InvalidArgumentError(absl::StrCat("shape: layout ", layout_->ToString(), " has an empty tile"));
      }
    }
  }
  if (layout_->element_size_in_bits < 0 || layout_->memory_space < 0 || layout_->metadata_prefix_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("shape: layout ", layout_->ToString(), " has a negative field"));
  }
  if (layout_->tail_alignment < 1) {
    return absl::InvalidArgumentError(absl::StrCat("shape: layout ", layout_->ToString(), " is aligned to no element"));
  }
  for (const LayoutSplit& split : layout_->splits) {
    bool good = split.dimension >= 0 && split.dimension < rank();
    for (size_t i = 0; good && i < split.indices.size(); ++i) {
      good = split.indices[i] >= (i == 0 ? 0 : split.indices[i - 1] + 1) &&
             split.indices[i] <= dims_[static_cast<size_t>(split.dimension)];
    }
    if (!good) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape: a split of layout ", layout_->ToString(), " does not fit ", ToString()));
    }
  }
  return absl::OkStatus();
}

std::string Shape::ToString(bool with_layout) const {
  std::string out;
  AppendShape(*this, with_layout, &out);
  return out;
}

bool Shape::operator==(const Shape& other) const {
  return type_ == other.type_ && dims_ == other.dims_ && dynamic_ == other.dynamic_ && tuple_ == other.tuple_;
}

bool Shape::Identical(const Shape& other) const {
  if (type_ != other.type_ || dims_ != other.dims_ || dynamic_ != other.dynamic_ || layout_ != other.layout_ ||
      tuple_.size() != other.tuple_.size()) {
    return false;
  }
  for (size_t i = 0; i < tuple_.size(); ++i) {
    if (!tuple_[i].Identical(other.tuple_[i])) return false;
  }
  return true;
}

std::string ProgramShape::ToString() const {
  std::string out = "(";
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool named = i < parameter_names.size() && !parameter_names[i].empty();
    absl::StrAppend(&out, i > 0 ? ", " : "", named ? parameter_names[i] : absl::StrCat("p", i), ": ",
                    parameters[i].ToString());
  }
  return absl::StrCat(out, ") -> ", result.ToString());
}

int64_t CountLeaves(const Shape& shape) {
  if (!shape.IsTuple()) return 1;
  int64_t count = 0;
  for (const Shape& element : shape.tuple_shapes()) count += CountLeaves(element);
  return count;
}

DimVector RowMajorStrides(absl::Span<const int64_t> dims) {
  DimVector strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

absl::StatusOr<Shape> ConsumeShape(absl::string_view* text) {
  ShapeReader reader(*text);
  ASSIGN_OR_RETURN(Shape shape, reader.Read(0));
  text->remove_prefix(reader.position());
  return shape;
}

absl::StatusOr<Shape> ParseShape(absl::string_view text) {
  ShapeReader reader(text);
  ASSIGN_OR_RETURN(Shape shape, reader.Read(0));
  reader.Skip();
  if (reader.position() != text.size()) {
    return absl::InvalidArgumentError(absl::StrCat("shape: text after the shape at offset ", reader.position()));
  }
  return shape;
}

}  // namespace backplane
