#include "sdk/cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace backplane::cli {
namespace {

bool WantsColor(FILE* file) {
  const char *no = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  if (no != nullptr && *no != '\0') return false;
  return isatty(fileno(file)) == 1 && term != nullptr && absl::string_view(term) != "dumb";
}

const char* Code(Style style) {
  switch (style) {
    case Style::kBold:
      return "\033[1m";
    case Style::kDim:
      return "\033[2m";
    case Style::kGood:
      return "\033[32m";
    case Style::kBad:
      return "\033[31m";
    case Style::kNote:
      return "\033[36m";
    case Style::kPlain:
      break;
  }
  return "";
}

// Counts characters and not bytes, so that text with accents is aligned.
size_t Width(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Terminal::Terminal(FILE* out, FILE* err) : out_(out), err_(err), color_(WantsColor(out)), err_color_(WantsColor(err)) {}

void Terminal::set_color(absl::string_view when) {
  if (when == "always") color_ = err_color_ = true;
  if (when == "never") color_ = err_color_ = false;
}

void Terminal::Print(absl::string_view text) { fwrite(text.data(), 1, text.size(), out_); }

void Terminal::PrintJson(const host::Json& value) { Print(absl::StrCat(value.Text(2), "\n")); }

void Terminal::Note(absl::string_view text) {
  if (!json_) fprintf(err_, "%.*s\n", static_cast<int>(text.size()), text.data());
}

void Terminal::Error(absl::string_view text) {
  fprintf(err_, "%sbackplane:%s %.*s\n", err_color_ ? Code(Style::kBad) : "", err_color_ ? "\033[0m" : "",
          static_cast<int>(text.size()), text.data());
}

std::string Terminal::ApplyStyle(Style style, absl::string_view text) const {
  if (!color_ || style == Style::kPlain) return std::string(text);
  return absl::StrCat(Code(style), text, "\033[0m");
}

void Terminal::ShowProgress(absl::string_view what, size_t done, size_t total) {
  fflush(out_);  // output so far must not wait in a buffer during long work
  if (json_ || isatty(fileno(err_)) != 1 || total == 0) return;
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (done >= total) {
    if (bar_shown_) fprintf(err_, "\r\033[K");
    bar_shown_ = false;
  } else if (now - last_bar_ > 0.1) {
    constexpr size_t kWidth = 30;
    const size_t filled = kWidth * done / total;
    fprintf(err_, "\r%.*s [%s%s] %zu/%zu\033[K", static_cast<int>(what.size()), what.data(),
            std::string(filled, '#').c_str(), std::string(kWidth - filled, ' ').c_str(), done, total);
    bar_shown_ = true;
    last_bar_ = now;
  }
  fflush(err_);
}

void Terminal::ClearProgress() {
  if (!json_ && isatty(fileno(err_)) == 1) fprintf(err_, "\r\033[K");
  bar_shown_ = false;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - Width(row[c]), ' ');
      const bool to_right = std::find(right.begin(), right.end(), c) != right.end();
      absl::StrAppend(&line, c > 0 ? "  " : "", to_right ? space : "", row[c], to_right ? "" : space);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string Bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return unit == 0 ? absl::StrFormat("%.0f B", bytes) : absl::StrFormat("%.1f %s", bytes, kUnits[unit]);
}

}  // namespace backplane::cli
