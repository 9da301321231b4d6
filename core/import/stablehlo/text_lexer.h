// Splits MLIR assembly into tokens. The lexer allocates no memory. A bad character gives kError, and the lexer
// continues after it. An unterminated string gives kError and then kEnd.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_LEXER_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_LEXER_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace backplane::stablehlo {

enum class TokenKind {
  kEnd,
  kError,
  kBareId,   // stablehlo.add, x, dense
  kPercent,  // %0: text without the sign
  kCaret,    // ^bb0
  kAt,       // @f or @"a b": text without the @, with the quotes
  kHash,     // #sdy.sharding, #loc3, #1: text without the sign
  kBang,     // !quant.uniform
  kInteger,  // 12 or 0x1F
  kFloat,    // 1.0e-5
  kString,   // text with its quotes, escapes as written
  kArrow,    // ->
  kPunct,    // one character
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  absl::string_view text;
  size_t position = 0;  // of the token's first character

  bool Is(char c) const { return kind == TokenKind::kPunct && text[0] == c; }
};

class Lexer {
 public:
  explicit Lexer(absl::string_view text) : text_(text) {}

  Token Next();
  size_t position() const { return position_; }
  void set_position(size_t position) { position_ = position; }
  absl::string_view text() const { return text_; }

 private:
  Token Make(TokenKind kind, size_t start, size_t skip);

  absl::string_view text_;
  size_t position_ = 0;
};

// Returns "line:column" of a position, both counted from one.
std::string LineAndColumn(absl::string_view text, size_t position);

// Sets *out to the value of a quoted string. Returns false for an invalid escape.
bool UnescapeString(absl::string_view quoted, std::string* out);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_LEXER_H_
