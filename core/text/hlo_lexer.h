// Walks over HLO text: names, numbers, strings, balanced braces, shapes; every Take skips blanks and comments first.
// Positions become line and column only in error messages. Holds a view of the text, which must outlive it.
#ifndef BACKPLANE_CORE_TEXT_HLO_LEXER_H_
#define BACKPLANE_CORE_TEXT_HLO_LEXER_H_

#include <cstdint>
#include <string>

#include "core/ops/attribute_values.h"

namespace backplane {

class HloLexer {
 public:
  explicit HloLexer(absl::string_view text) : text_(text) {}

  // Position of the next token, and back to one.
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
  bool TakeWord(absl::string_view word);  // a whole name equal to `word`
  // Letter or '_', then letters, digits, '_', '.', '-' (but not the '-' of "->"); empty when there is none.
  absl::string_view Name();
  // The characters of a number, also nan(0x1) or inf: up to a blank or one of ",{}()[]:=", and a payload in
  // parentheses.
  absl::string_view Number();
  // Characters out of [A-Za-z0-9] and `more`.
  absl::string_view Run(absl::string_view more);
  absl::StatusOr<int64_t> Int();
  absl::StatusOr<bool> Bool();                         // true, false
  absl::StatusOr<std::string> String();                // in double quotes, with C escapes
  absl::StatusOr<absl::string_view> BalancedBraces();  // {...} with braces and strings inside, both ends included
  absl::StatusOr<backplane::Shape> Shape();
  absl::StatusOr<Ints> IntList();  // {1, 2}
  bool AtShape();                  // is the next token the beginning of a shape?

  absl::Status Expect(absl::string_view punctuation, absl::string_view where);
  // "hlo text 3:14: message", at the next token or at a position taken before.
  absl::Status Error(absl::string_view message) { return ErrorAt(position(), message); }
  absl::Status ErrorAt(size_t pos, absl::string_view message) const;
  // Puts the place in front of another error's message; its code stays.
  absl::Status Locate(size_t pos, const absl::Status& status) const;

 private:
  void Skip();
  absl::string_view text_;
  size_t pos_ = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_HLO_LEXER_H_
