#include "conformance/kit/json.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace backplane::conformance {
namespace {

// The length of the UTF-8 sequence that begins here, or 0 when there is none.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char c = byte(0);
  const size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : (c & 0xF0) == 0xE0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (n == 0 || n > text.size()) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return n;
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Json> Parse() {
    Json value;
    if (!Value(&value, 0)) return Wrong();
    Blank();
    if (at_ != text_.size()) return Wrong();
    return value;
  }

 private:
  absl::Status Wrong() const { return absl::InvalidArgumentError(absl::StrCat("not JSON at offset ", at_)); }
  void Blank() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool Eat(absl::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool Value(Json* value, int depth) {
    Blank();
    if (depth > 64 || at_ >= text_.size()) return false;
    switch (text_[at_]) {
      case '{':
        return Members(value, depth);
      case '[':
        return Items(value, depth);
      case '"':
        value->kind = Json::kString;
        return String(&value->string);
      case 't':
        value->kind = Json::kBool;
        value->boolean = true;
        return Eat("true");
      case 'f':
        value->kind = Json::kBool;
        return Eat("false");
      case 'n':
        return Eat("null");
      default:
        return Number(value);
    }
  }

  bool Number(Json* value) {
    const size_t begin = at_;
    while (at_ < text_.size() && absl::string_view("+-.eE0123456789").find(text_[at_]) != absl::string_view::npos)
      ++at_;
    value->kind = Json::kNumber;
    return at_ > begin && absl::SimpleAtod(text_.substr(begin, at_ - begin), &value->number);
  }

  bool Items(Json* value, int depth) {
    value->kind = Json::kArray;
    ++at_;
    Blank();
    if (Eat("]")) return true;
    do {
      value->items.emplace_back();
      if (!Value(&value->items.back(), depth + 1)) return false;
      Blank();
    } while (Eat(","));
    return Eat("]");
  }

  bool Members(Json* value, int depth) {
    value->kind = Json::kObject;
    ++at_;
    Blank();
    if (Eat("}")) return true;
    do {
      Blank();
      value->members.emplace_back();
      if (at_ >= text_.size() || text_[at_] != '"' || !String(&value->members.back().first)) return false;
      Blank();
      if (!Eat(":") || !Value(&value->members.back().second, depth + 1)) return false;
      Blank();
    } while (Eat(","));
    return Eat("}");
  }

  bool String(std::string* out) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        out->push_back(text_[at_++]);
        continue;
      }
      if (++at_ >= text_.size()) return false;
      const char c = text_[at_++];
      static constexpr absl::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
      if (const size_t i = kFrom.find(c); i != absl::string_view::npos) {
        out->push_back(kTo[i]);
      } else if (c == 'u' && at_ + 4 <= text_.size()) {
        uint32_t code = 0;
        if (!absl::SimpleHexAtoi(text_.substr(at_, 4), &code)) return false;
        at_ += 4;
        // We write escapes for control characters only; others are kept as they are in UTF-8.
        if (code < 0x80) {
          out->push_back(static_cast<char>(code));
        } else if (code < 0x800) {
          out->push_back(static_cast<char>(0xC0 | code >> 6));
          out->push_back(static_cast<char>(0x80 | (code & 63)));
        } else {
          out->push_back(static_cast<char>(0xE0 | code >> 12));
          out->push_back(static_cast<char>(0x80 | (code >> 6 & 63)));
          out->push_back(static_cast<char>(0x80 | (code & 63)));
        }
      } else {
        return false;
      }
    }
    return Eat("\"");
  }

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string JsonQuote(absl::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t n = Utf8Length(text);
    const char c = text[0];
    if (n == 0) {
      out.push_back('?');
      text.remove_prefix(1);
      continue;
    }
    if (n > 1) {
      out.append(text.data(), n);
    } else if (c == '"' || c == '\\') {
      out.append({'\\', c});
    } else if (c == '\n') {
      out.append("\\n");
    } else if (static_cast<unsigned char>(c) < ' ' || c == 127) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out.push_back(c);
    }
    text.remove_prefix(n);
  }
  out.push_back('"');
  return out;
}

const Json* Json::Find(absl::string_view name) const {
  for (const auto& [key, value] : members) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string Json::Text(absl::string_view name) const {
  const Json* member = Find(name);
  return member != nullptr && member->kind == kString ? member->string : "";
}

absl::StatusOr<Json> ParseJson(absl::string_view text) { return Parser(text).Parse(); }

}  // namespace backplane::conformance
