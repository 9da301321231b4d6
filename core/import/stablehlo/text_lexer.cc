#include "core/import/stablehlo/text_lexer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace backplane::stablehlo {
namespace {

bool IsIdStart(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsIdPart(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '.'; }
bool IsSuffixStart(char c) { return absl::ascii_isalpha(c) || c == '$' || c == '.' || c == '_' || c == '-'; }
bool IsSuffixPart(char c) { return absl::ascii_isalnum(c) || c == '$' || c == '.' || c == '_' || c == '-'; }

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Token Lexer::Make(TokenKind kind, size_t start, size_t skip) {
  Token t;
  t.kind = kind;
  t.position = start;
  t.text = text_.substr(start + skip, position_ - start - skip);
  return t;
}

Token Lexer::Next() {
  const size_t n = text_.size();
  for (;;) {
    while (position_ < n && absl::ascii_isspace(text_[position_])) ++position_;
    if (position_ + 1 < n && text_[position_] == '/' && text_[position_ + 1] == '/') {
      while (position_ < n && text_[position_] != '\n') ++position_;
      continue;
    }
    break;
  }
  size_t start = position_;
  if (start >= n) return Make(TokenKind::kEnd, n, 0);
  char c = text_[position_++];
  auto take_while = [&](auto&& wanted) {
    while (position_ < n && wanted(text_[position_])) ++position_;
  };
  auto take_string = [&] {
    while (position_ < n && text_[position_] != '"' && text_[position_] != '\n') {
      position_ += text_[position_] == '\\' ? 2 : 1;
    }
    if (position_ >= n || text_[position_] != '"') {
      position_ = n;
      return false;
    }
    ++position_;
    return true;
  };

  if (IsIdStart(c)) {
    take_while(IsIdPart);
    return Make(TokenKind::kBareId, start, 0);
  }
  if (absl::ascii_isdigit(c)) {
    if (c == '0' && position_ + 1 < n && text_[position_] == 'x' && HexValue(text_[position_ + 1]) >= 0) {
      ++position_;
      take_while([](char d) { return HexValue(d) >= 0; });
      return Make(TokenKind::kInteger, start, 0);
    }
    take_while(absl::ascii_isdigit);
    if (position_ >= n || text_[position_] != '.') return Make(TokenKind::kInteger, start, 0);
    ++position_;
    take_while(absl::ascii_isdigit);
    if (position_ < n && (text_[position_] == 'e' || text_[position_] == 'E')) {
      size_t p = position_ + 1;
      if (p < n && (text_[p] == '+' || text_[p] == '-')) ++p;
      if (p < n && absl::ascii_isdigit(text_[p])) {
        position_ = p;
        take_while(absl::ascii_isdigit);
      }
    }
    return Make(TokenKind::kFloat, start, 0);
  }
  switch (c) {
    case '"':
      return Make(take_string() ? TokenKind::kString : TokenKind::kError, start, 0);
    case '@':
      if (position_ < n && text_[position_] == '"') {
        ++position_;
        return Make(take_string() ? TokenKind::kAt : TokenKind::kError, start, 1);
      }
      if (position_ >= n || !IsIdStart(text_[position_])) return Make(TokenKind::kError, start, 0);
      take_while(IsIdPart);
      return Make(TokenKind::kAt, start, 1);
    case '%':
    case '^':
    case '#':
    case '!': {
      if (position_ < n && absl::ascii_isdigit(text_[position_])) {
        take_while(absl::ascii_isdigit);
      } else if (position_ < n && IsSuffixStart(text_[position_]) && text_.substr(position_, 2) != "-}") {
        take_while(IsSuffixPart);
        // An arrow right behind an identifier is not part of it.
        if (position_ < n && text_[position_] == '>' && text_[position_ - 1] == '-') --position_;
      } else {
        return Make(c == '#' ? TokenKind::kPunct : TokenKind::kError, start, 0);
      }
      TokenKind kind = c == '%'   ? TokenKind::kPercent
                       : c == '^' ? TokenKind::kCaret
                       : c == '#' ? TokenKind::kHash
                                  : TokenKind::kBang;
      return Make(kind, start, 1);
    }
    case '-':
      if (position_ < n && text_[position_] == '>') {
        ++position_;
        return Make(TokenKind::kArrow, start, 0);
      }
      return Make(TokenKind::kPunct, start, 0);
    case '(':
    case ')':
    case '{':
    case '}':
    case '[':
    case ']':
    case '<':
    case '>':
    case ',':
    case '=':
    case ':':
    case '?':
    case '*':
    case '+':
    case '|':
    case '/':
      return Make(TokenKind::kPunct, start, 0);
    default:
      return Make(TokenKind::kError, start, 0);
  }
}

std::string LineAndColumn(absl::string_view text, size_t position) {
  absl::string_view before = text.substr(0, std::min(position, text.size()));
  size_t line = 1 + std::count(before.begin(), before.end(), '\n');
  size_t start = before.rfind('\n');
  size_t column = start == absl::string_view::npos ? before.size() + 1 : before.size() - start;
  return absl::StrCat(line, ":", column);
}

bool UnescapeString(absl::string_view quoted, std::string* out) {
  out->clear();
  if (quoted.size() < 2) return false;
  absl::string_view s = quoted.substr(1, quoted.size() - 2);
  out->reserve(s.size());
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\') {
      out->push_back(s[i]);
      continue;
    }
    if (++i >= s.size()) return false;
    switch (s[i]) {
      case '"':
      case '\\':
        out->push_back(s[i]);
        continue;
      case 'n':
        out->push_back('\n');
        continue;
      case 't':
        out->push_back('\t');
        continue;
      default:
        break;
    }
    if (i + 1 >= s.size() || HexValue(s[i]) < 0 || HexValue(s[i + 1]) < 0) return false;
    out->push_back(static_cast<char>(HexValue(s[i]) * 16 + HexValue(s[i + 1])));
    ++i;
  }
  return true;
}

}  // namespace backplane::stablehlo
