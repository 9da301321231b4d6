#include "core/text/hlo_lexer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNamePart(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
}

}  // namespace

void HloLexer::Skip() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
      ++pos_;
    } else if (c == '/' && absl::StartsWith(text_.substr(pos_), "/*")) {
      const size_t end = text_.find("*/", pos_ + 2);
      if (end == absl::string_view::npos) return;
      pos_ = end + 2;
    } else if (c == '/' && absl::StartsWith(text_.substr(pos_), "//")) {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else {
      return;
    }
  }
}

bool HloLexer::Take(absl::string_view punctuation) {
  Skip();
  if (!absl::StartsWith(text_.substr(pos_), punctuation)) return false;
  pos_ += punctuation.size();
  return true;
}

absl::string_view HloLexer::Name() {
  Skip();
  const size_t start = pos_;
  if (pos_ < text_.size() && IsNameStart(text_[pos_])) {
    while (pos_ < text_.size() && IsNamePart(text_[pos_]) && !absl::StartsWith(text_.substr(pos_), "->")) ++pos_;
  }
  return text_.substr(start, pos_ - start);
}

bool HloLexer::TakeWord(absl::string_view word) {
  const size_t start = position();
  if (Name() == word) return true;
  pos_ = start;
  return false;
}

absl::string_view HloLexer::Number() {
  Skip();
  const size_t start = pos_;
  while (pos_ < text_.size() && !absl::ascii_isspace(static_cast<unsigned char>(text_[pos_])) &&
         !absl::StrContains(",{}()[]:=", text_[pos_])) {
    ++pos_;
  }
  if (absl::StrContains(text_.substr(start, pos_ - start), "nan") && absl::StartsWith(text_.substr(pos_), "(0x")) {
    const size_t end = text_.find(')', pos_);
    if (end != absl::string_view::npos) pos_ = end + 1;
  }
  return text_.substr(start, pos_ - start);
}

absl::string_view HloLexer::Run(absl::string_view more) {
  Skip();
  const size_t start = pos_;
  while (pos_ < text_.size() &&
         (absl::ascii_isalnum(static_cast<unsigned char>(text_[pos_])) || absl::StrContains(more, text_[pos_]))) {
    ++pos_;
  }
  return text_.substr(start, pos_ - start);
}

absl::StatusOr<int64_t> HloLexer::Int() {
  const size_t start = position();
  int64_t value;
  if (!absl::SimpleAtoi(Run("-"), &value)) {
    pos_ = start;
    return Error("expected an integer");
  }
  return value;
}

absl::StatusOr<bool> HloLexer::Bool() {
  if (TakeWord("true")) return true;
  if (TakeWord("false")) return false;
  return Error("expected true or false");
}

absl::StatusOr<std::string> HloLexer::String() {
  const size_t start = position();
  if (!Take("\"")) return Error("expected a string");
  const size_t first = pos_;
  while (pos_ < text_.size() && text_[pos_] != '"') pos_ += text_[pos_] == '\\' ? 2 : 1;
  if (pos_ >= text_.size()) {
    pos_ = start;
    return Error("string without an end");
  }
  std::string value, error;
  const absl::string_view inner = text_.substr(first, pos_ - first);
  ++pos_;
  if (!absl::CUnescape(inner, &value, &error)) return ErrorAt(start, absl::StrCat("bad escape in a string: ", error));
  return value;
}

absl::StatusOr<absl::string_view> HloLexer::BalancedBraces() {
  const size_t start = position();
  if (Peek() != '{') return Error("expected '{'");
  int64_t depth = 0;
  bool quoted = false;
  for (; pos_ < text_.size(); ++pos_) {
    const char c = text_[pos_];
    if (quoted) {
      if (c == '\\')
        ++pos_;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      ++pos_;
      return text_.substr(start, pos_ - start);
    }
  }
  pos_ = start;
  return Error("'{' without its '}'");
}

absl::StatusOr<backplane::Shape> HloLexer::Shape() {
  Skip();
  absl::string_view rest = text_.substr(pos_);
  absl::StatusOr<backplane::Shape> shape = ConsumeShape(&rest);
  if (!shape.ok()) return Locate(pos_, shape.status());
  pos_ = text_.size() - rest.size();
  return shape;
}

bool HloLexer::AtShape() {
  const size_t start = position();
  bool is = Peek() == '(';
  if (!is) {
    const absl::string_view word = Run("_");
    is = !word.empty() && pos_ < text_.size() && text_[pos_] == '[';
  }
  pos_ = start;
  return is;
}

absl::StatusOr<Ints> HloLexer::IntList() {
  Ints values;
  RETURN_IF_ERROR(Expect("{", "before a list of integers"));
  if (Take("}")) return values;
  do {
    ASSIGN_OR_RETURN(int64_t v, Int());
    values.push_back(v);
  } while (Take(","));
  RETURN_IF_ERROR(Expect("}", "after a list of integers"));
  return values;
}

absl::Status HloLexer::Expect(absl::string_view punctuation, absl::string_view where) {
  if (Take(punctuation)) return absl::OkStatus();
  std::string found = AtEnd() ? "the end" : absl::StrCat("'", absl::CHexEscape(text_.substr(pos_, 12)), "'");
  return Error(absl::StrCat("expected '", punctuation, "' ", where, ", found ", found));
}

absl::Status HloLexer::ErrorAt(size_t pos, absl::string_view message) const {
  return Locate(pos, absl::InvalidArgumentError(message));
}

absl::Status HloLexer::Locate(size_t pos, const absl::Status& status) const {
  pos = std::min(pos, text_.size());
  const absl::string_view before = text_.substr(0, pos);
  const size_t newline = before.rfind('\n');
  const size_t column = newline == absl::string_view::npos ? pos + 1 : pos - newline;
  return absl::Status(status.code(), absl::StrCat("hlo text ", std::count(before.begin(), before.end(), '\n') + 1, ":",
                                                  column, ": ", status.message()));
}

}  // namespace backplane
