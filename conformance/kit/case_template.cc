#include "conformance/kit/case_template.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "conformance/kit/case_types.h"

namespace backplane::conformance {
namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxText = size_t{1} << 20;

bool IsNameChar(char c) { return absl::ascii_isalnum(c) || c == '_'; }

absl::StatusOr<std::string> ValueOf(absl::string_view value, absl::string_view suffix, bool mlir) {
  std::optional<ElementType> type = ElementTypeFromName(value);
  if (!type) {
    if (suffix.empty()) return std::string(value);
    return absl::InvalidArgumentError(absl::StrCat("'", value, "' is no element type and has no .", suffix));
  }
  if (suffix == "part") type = GetPartType(*type);
  if (suffix == "complex") type = GetComplexType(*type);
  if (suffix == "uint") type = GetUnsignedType(*type);
  if (!type) return absl::InvalidArgumentError(absl::StrCat(value, " has no .", suffix));
  return std::string(mlir ? Info(*type).mlir : Info(*type).name);
}

absl::Status Append(absl::string_view text, const Scope& scope, bool mlir, int depth, std::string* out) {
  if (depth > kMaxDepth) return absl::InvalidArgumentError(absl::StrCat("texts are nested deeper than ", kMaxDepth));
  for (size_t i = 0; i < text.size();) {
    if (out->size() > kMaxText) return absl::InvalidArgumentError("the text is longer than a megabyte");
    const size_t dollar = text.find('$', i);
    absl::StrAppend(out, text.substr(i, dollar - i));
    if (dollar == absl::string_view::npos) break;
    i = dollar + 1;
    if (i < text.size() && text[i] == '$') {
      out->push_back('$');
      ++i;
      continue;
    }
    const bool braced = i < text.size() && text[i] == '{';
    if (braced) ++i;
    const auto word = [&] {
      size_t end = i;
      while (end < text.size() && IsNameChar(text[end])) ++end;
      const absl::string_view w = text.substr(i, end - i);
      i = end;
      return w;
    };
    const std::string name(word());
    if (name.empty()) return absl::InvalidArgumentError("'$' without a name");
    absl::string_view suffix;
    for (absl::string_view s : {"part", "complex", "uint"}) {
      if (text.substr(i, 1) == "." && text.substr(i + 1, s.size()) == s &&
          (i + 1 + s.size() == text.size() || !IsNameChar(text[i + 1 + s.size()]))) {
        suffix = s;
        i += 1 + s.size();
        break;
      }
    }
    if (braced && (i >= text.size() || text[i++] != '}')) {
      return absl::InvalidArgumentError(absl::StrCat("'${", name, "' is not closed"));
    }
    if (const auto it = scope.variables.find(name); it != scope.variables.end()) {
      const absl::StatusOr<std::string> value = ValueOf(it->second, suffix, mlir);
      if (!value.ok()) return absl::InvalidArgumentError(absl::StrCat("$", name, ": ", value.status().message()));
      out->append(*value);
    } else if (const auto let = scope.texts.find(name); let != scope.texts.end()) {
      if (absl::Status s = Append(let->second, scope, mlir, depth + 1, out); !s.ok()) return s;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("$", name, " is not defined"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Substitute(absl::string_view text, const Scope& scope, bool mlir) {
  std::string out;
  if (absl::Status s = Append(text, scope, mlir, 0, &out); !s.ok()) return s;
  return out;
}

}  // namespace backplane::conformance
