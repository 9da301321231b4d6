// Tokenizes HLO text: names, numbers, strings, balanced braces, shapes. Every method first skips white space and
// comments. Positions are converted to line and column only for error messages. Holds a view of the text, which must
// outlive the lexer.
#ifndef BACKPLANE_CORE_TEXT_HLO_LEXER_H_
#define BACKPLANE_CORE_TEXT_HLO_LEXER_H_

#include <cstdint>
#include <string>

#include "core/ops/attribute_values.h"

namespace backplane {

class HloLexer {
 public:
  explicit HloLexer(absl::string_view text) : text_(text) {}

  // The position of the next token. set_position returns to it.
  size_t position() {
    Skip();
    return pos_;
  }
  void set_position(size_t pos) { pos_ = pos; }
  size_t remaining() const { return text_.size() - pos_; }
  absl::string_view text() const { return text_; }

  bool AtEnd() {
    Skip();
    return pos_ >= text_.size();
  }
  char Peek() {
    Skip();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }

  bool Take(absl::string_view punctuation);
  bool TakeWord(absl::string_view word);  // a complete name equal to `word`
  // Returns a letter or '_', followed by letters, digits, '_', '.', '-' (but not the '-' of "->"), or an empty view.
  absl::string_view Name();
  // Returns the characters of a number, including nan(0x1) and inf: up to white space or one of ",{}()[]:=", and a
  // payload in parentheses.
  absl::string_view Number();
  // Returns the longest run of characters from [A-Za-z0-9] and `more`.
  absl::string_view Run(absl::string_view more);
  absl::StatusOr<int64_t> Int();
  absl::StatusOr<bool> Bool();                         // true, false
  absl::StatusOr<std::string> String();                // in double quotes, with C escapes
  absl::StatusOr<absl::string_view> BalancedBraces();  // {...} with braces and strings inside, both ends included
  absl::StatusOr<backplane::Shape> Shape();
  absl::StatusOr<Ints> IntList();  // {1, 2}
  bool AtShape();                  // whether the next token starts a shape

  absl::Status Expect(absl::string_view punctuation, absl::string_view where);
  // Returns an error "hlo text 3:14: message" for the next token, or for an earlier position.
  absl::Status Error(absl::string_view message) { return ErrorAt(position(), message); }
  absl::Status ErrorAt(size_t pos, absl::string_view message) const;
  // Prefixes the message of another error with the position. Keeps its code.
  absl::Status Locate(size_t pos, const absl::Status& status) const;

 private:
  void Skip();
  absl::string_view text_;
  size_t pos_ = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_HLO_LEXER_H_
