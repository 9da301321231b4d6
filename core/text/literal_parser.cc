#include "absl/strings/str_cat.h"
#include "core/text/hlo_parser.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kMaxElidedBytes = int64_t{1} << 32;

// Returns the text of one element; complex numbers have their own parentheses.
absl::string_view ElementText(HloLexer& lexer, absl::string_view whole, PrimitiveType type) {
  if (!IsComplex(type) || lexer.Peek() != '(') return lexer.Number();
  const size_t start = lexer.position();
  lexer.Take("(");
  lexer.Number();
  lexer.Take(",");
  lexer.Number();
  lexer.Take(")");
  const size_t end = whole.size() - lexer.remaining();
  return whole.substr(start, end - start);
}

absl::Status ParseArray(HloLexer& lexer, absl::string_view whole, int64_t dim, int64_t& linear, Literal* literal) {
  const Shape& shape = literal->shape();
  if (dim == shape.rank()) {
    const size_t at = lexer.position();
    absl::Status s = ParseElement(ElementText(lexer, whole, shape.element_type()), literal, linear++);
    return s.ok() ? s : lexer.Locate(at, s);
  }
  const size_t at = lexer.position();
  RETURN_IF_ERROR(lexer.Expect("{", "of a literal"));
  for (int64_t i = 0; i < shape.dimensions(dim); ++i) {
    if (i > 0 && !lexer.Take(",")) {
      return lexer.ErrorAt(at, absl::StrCat("literal of ", shape.ToString(), " has ", i, " of ", shape.dimensions(dim),
                                            " elements in dimension ", dim));
    }
    RETURN_IF_ERROR(ParseArray(lexer, whole, dim + 1, linear, literal));
  }
  if (lexer.Peek() == ',') {
    return lexer.ErrorAt(at, absl::StrCat("literal of ", shape.ToString(), " has more than ", shape.dimensions(dim),
                                          " elements in dimension ", dim));
  }
  return lexer.Expect("}", "after a literal");
}

absl::StatusOr<Literal> Parse(HloLexer& lexer, absl::string_view whole, const Shape& shape,
                              const HloParseOptions& options) {
  if (shape.IsTuple()) {
    RETURN_IF_ERROR(lexer.Expect("(", "of a tuple literal"));
    std::vector<Literal> elements;
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(lexer.Expect(",", "between the elements of a tuple literal"));
      if (lexer.AtShape() && !shape.tuple_shapes(i).IsTuple() && !IsComplex(shape.tuple_shapes(i).element_type())) {
        RETURN_IF_ERROR(lexer.Shape().status());  // some printers repeat the shape of the element
      }
      ASSIGN_OR_RETURN(Literal element, Parse(lexer, whole, shape.tuple_shapes(i), options));
      elements.push_back(std::move(element));
    }
    RETURN_IF_ERROR(lexer.Expect(")", "after a tuple literal"));
    return Literal::Tuple(std::move(elements));
  }
  if (!shape.IsArray()) return lexer.Error(absl::StrCat("no literal has the shape ", shape.ToString()));
  const size_t at = lexer.position();
  lexer.Take("{");
  if (lexer.Take("...")) {
    RETURN_IF_ERROR(lexer.Expect("}", "after an elided literal"));
    if (!options.elided_constants_as_zeros) {
      return lexer.ErrorAt(at, "the values of this constant were left out when the text was printed: {...}");
    }
    if (shape.byte_size() > kMaxElidedBytes) return lexer.ErrorAt(at, "elided constant of more than 2^32 bytes");
    return Literal(shape);
  }
  lexer.set_position(at);
  // Each element takes at least one character, so the text bounds the memory.
  if (shape.num_elements() > static_cast<int64_t>(lexer.remaining())) {
    return lexer.Error(absl::StrCat("literal of ", shape.ToString(), " in too short a text"));
  }
  // An empty array has a short form: {} for f32[2,0].
  Literal literal(shape);
  int64_t linear = 0;
  if (shape.num_elements() == 0) {
    RETURN_IF_ERROR(lexer.BalancedBraces().status());
    return literal;
  }
  RETURN_IF_ERROR(ParseArray(lexer, whole, 0, linear, &literal));
  return literal;
}

}  // namespace

absl::StatusOr<Literal> ParseLiteral(HloLexer& lexer, const Shape& shape, const HloParseOptions& options) {
  return Parse(lexer, lexer.text(), shape, options);
}

absl::StatusOr<Literal> ParseLiteral(const Shape& shape, absl::string_view text) {
  RETURN_IF_ERROR(shape.Validate());
  HloLexer lexer(text);
  ASSIGN_OR_RETURN(Literal literal, ParseLiteral(lexer, shape, {}));
  if (!lexer.AtEnd()) return lexer.Error("text after the literal");
  return literal;
}

}  // namespace backplane
