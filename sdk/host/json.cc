#include "sdk/host/json.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/host/status.h"

namespace backplane::host {
namespace {

constexpr int kMaxDepth = 100;

// Returns the length of the UTF-8 sequence at the beginning, or 0 if there is no valid one (overlong forms and
// surrogates are invalid).
size_t Utf8Length(absl::string_view s) {
  auto at = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  auto tail = [&](size_t i) { return (at(i) & 0xC0) == 0x80; };
  const unsigned c = at(0);
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) return tail(1) ? 2 : 0;
  if (c >= 0xE0 && c <= 0xEF) {
    const unsigned code = (c & 0xF) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
    return tail(1) && tail(2) && code >= 0x800 && (code < 0xD800 || code > 0xDFFF) ? 3 : 0;
  }
  if (c >= 0xF0 && c <= 0xF4) {
    const unsigned code = (c & 7) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
    return tail(1) && tail(2) && tail(3) && code >= 0x10000 && code <= 0x10FFFF ? 4 : 0;
  }
  return 0;
}

void WriteString(absl::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const unsigned char c = static_cast<unsigned char>(text[0]);
    size_t n = 1;
    switch (c) {
      case '"':
        out->append("\\\"");
        break;
      case '\\':
        out->append("\\\\");
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\t':
        out->append("\\t");
        break;
      case '\r':
        out->append("\\r");
        break;
      default:
        if (c < 0x20) {
          absl::StrAppendFormat(out, "\\u%04x", c);
        } else if (n = Utf8Length(text); n != 0) {
          out->append(text.data(), n);
        } else {
          out->append("\\ufffd");
          n = 1;
        }
    }
    text.remove_prefix(n);
  }
  out->push_back('"');
}

void AppendUtf8(uint32_t code, std::string* out) {
  auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Json> Whole() {
    BP_ASSIGN_OR_RETURN(Json value, Value(0));
    Space();
    if (at_ != text_.size()) return Error("text after the value");
    return value;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n';
    }
    return absl::InvalidArgumentError(absl::StrCat("json: line ", line, " column ", column, ": ", what));
  }
  void Space() {
    while (at_ < text_.size() && absl::string_view(" \t\r\n").find(text_[at_]) != absl::string_view::npos) ++at_;
  }
  bool Take(absl::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  absl::StatusOr<Json> Value(int depth) {
    if (depth > kMaxDepth) return Error("nested too deeply");
    Space();
    if (at_ >= text_.size()) return Error("the text ends where a value is expected");
    switch (text_[at_]) {
      case '{':
        return ObjectValue(depth);
      case '[':
        return ArrayValue(depth);
      case '"': {
        BP_ASSIGN_OR_RETURN(std::string s, String());
        return Json(std::move(s));
      }
      default:
        break;
    }
    if (Take("true")) return Json(true);
    if (Take("false")) return Json(false);
    if (Take("null")) return Json();
    return Number();
  }

  absl::StatusOr<Json> ObjectValue(int depth) {
    Json object = Json::MakeObject();
    ++at_;
    Space();
    if (Take("}")) return object;
    while (true) {
      Space();
      if (at_ >= text_.size() || text_[at_] != '"') return Error("expected the name of a member");
      BP_ASSIGN_OR_RETURN(std::string name, String());
      Space();
      if (!Take(":")) return Error("expected ':'");
      BP_ASSIGN_OR_RETURN(Json value, Value(depth + 1));
      object.Set(name, std::move(value));
      Space();
      if (Take("}")) return object;
      if (!Take(",")) return Error("expected ',' or '}'");
    }
  }

  absl::StatusOr<Json> ArrayValue(int depth) {
    Json array = Json::MakeArray();
    ++at_;
    Space();
    if (Take("]")) return array;
    while (true) {
      BP_ASSIGN_OR_RETURN(Json value, Value(depth + 1));
      array.Push(std::move(value));
      Space();
      if (Take("]")) return array;
      if (!Take(",")) return Error("expected ',' or ']'");
    }
  }

  absl::StatusOr<uint32_t> Hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return Error("expected four hex digits");
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return code;
  }

  absl::StatusOr<std::string> String() {
    std::string out;
    for (++at_; at_ < text_.size();) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (static_cast<unsigned char>(c) < 0x20) return Error("control character in a string");
      if (c != '\\') {
        const size_t n = Utf8Length(text_.substr(at_));
        if (n == 0) return Error("not UTF-8");
        out.append(text_.data() + at_, n);
        at_ += n;
        continue;
      }
      ++at_;
      const char e = at_ < text_.size() ? text_[at_] : '\0';
      ++at_;
      constexpr absl::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
      if (e == 'u') {
        BP_ASSIGN_OR_RETURN(uint32_t code, Hex4());
        if (code >= 0xD800 && code < 0xDC00) {
          if (!Take("\\u")) return Error("half of a surrogate pair");
          BP_ASSIGN_OR_RETURN(uint32_t low, Hex4());
          if (low < 0xDC00 || low > 0xDFFF) return Error("half of a surrogate pair");
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        } else if (code >= 0xDC00 && code <= 0xDFFF) {
          return Error("half of a surrogate pair");
        }
        AppendUtf8(code, &out);
      } else if (size_t at = kNames.find(e); e != '\0' && at != absl::string_view::npos) {
        out.push_back(kValues[at]);
      } else {
        return Error("escape that is not known");
      }
    }
    return Error("the text ends in a string");
  }

  absl::StatusOr<Json> Number() {
    const size_t begin = at_;
    auto digits = [&] {
      const size_t first = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      return at_ - first;
    };
    Take("-");
    const size_t first = at_;
    if (digits() == 0 || (text_[first] == '0' && at_ - first > 1)) return at_ = begin, Error("expected a value");
    bool whole = true;
    if (Take(".")) {
      whole = false;
      if (digits() == 0) return Error("expected a digit");
    }
    if (Take("e") || Take("E")) {
      whole = false;
      if (!Take("+")) Take("-");
      if (digits() == 0) return Error("expected a digit");
    }
    const absl::string_view number = text_.substr(begin, at_ - begin);
    int64_t integer;
    if (whole && absl::SimpleAtoi(number, &integer)) return Json(integer);
    double real;
    if (!absl::SimpleAtod(number, &real)) return Error("number that cannot be read");
    return Json(real);
  }

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

const Json* Json::Find(absl::string_view name) const {
  if (const Object* members = object(); members != nullptr) {
    for (const auto& [key, value] : *members) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

Json& Json::Set(absl::string_view name, Json value) {
  if (is_null()) value_ = Object();
  Object& members = std::get<Object>(value_);
  for (auto& [key, old] : members) {
    if (key == name) return old = std::move(value), *this;
  }
  members.emplace_back(std::string(name), std::move(value));
  return *this;
}

Json& Json::Push(Json value) {
  if (is_null()) value_ = Array();
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

void Json::Write(int indent, int level, std::string* out) const {
  auto line = [&](int at) {
    if (indent > 0) absl::StrAppend(out, "\n", std::string(static_cast<size_t>(indent) * at, ' '));
  };
  if (is_null()) {
    out->append("null");
  } else if (const bool* b = boolean()) {
    out->append(*b ? "true" : "false");
  } else if (const int64_t* i = integer()) {
    absl::StrAppend(out, *i);
  } else if (const double* r = real()) {
    if (std::isfinite(*r)) {
      std::string text = absl::StrFormat("%.15g", *r);  // tries 15 digits, then 17, which always read back the same
      double back;
      if (!absl::SimpleAtod(text, &back) || back != *r) text = absl::StrFormat("%.17g", *r);
      out->append(text);
    } else {
      out->append(std::isnan(*r) ? "\"nan\"" : *r > 0 ? "\"inf\"" : "\"-inf\"");
    }
  } else if (const std::string* s = string()) {
    WriteString(*s, out);
  } else if (const Array* elements = array()) {
    out->push_back('[');
    for (size_t i = 0; i < elements->size(); ++i) {
      if (i > 0) out->append(indent > 0 ? "," : ", ");
      line(level + 1);
      (*elements)[i].Write(indent, level + 1, out);
    }
    if (!elements->empty()) line(level);
    out->push_back(']');
  } else {
    const Object& members = *object();
    out->push_back('{');
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out->append(indent > 0 ? "," : ", ");
      line(level + 1);
      WriteString(members[i].first, out);
      out->append(": ");
      members[i].second.Write(indent, level + 1, out);
    }
    if (!members.empty()) line(level);
    out->push_back('}');
  }
}

std::string Json::Text(int indent) const {
  std::string out;
  Write(indent, 0, &out);
  return out;
}

absl::StatusOr<Json> Json::Parse(absl::string_view text) { return Parser(text).Whole(); }

}  // namespace backplane::host
