// The output of a command: text, with colour on terminals only, or JSON.
#ifndef BACKPLANE_SDK_CLI_TERMINAL_H_
#define BACKPLANE_SDK_CLI_TERMINAL_H_

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/host/json.h"

namespace backplane::cli {

enum class Style { kPlain, kBold, kDim, kGood, kBad, kNote };

class Terminal {
 public:
  Terminal(FILE* out, FILE* err);
  // "auto" (on a terminal, unless NO_COLOR is set or TERM is dumb), "always" or "never".
  void set_color(absl::string_view when);
  void set_json(bool json) { json_ = json; }
  bool json() const { return json_; }
  bool color() const { return color_; }

  // Writes results to standard output.
  void Print(absl::string_view text);
  void PrintJson(const host::Json& value);
  // Writes text to standard error, unless the output is JSON: progress and errors.
  void Note(absl::string_view text);
  void Error(absl::string_view text);
  std::string ApplyStyle(Style style, absl::string_view text) const;

  // Draws a progress bar on standard error, if that is a terminal, at most ten times a second. Removes the bar when it
  // is complete.
  void ShowProgress(absl::string_view what, size_t done, size_t total);
  // Removes a bar that a process which has ended may have left behind.
  void ClearProgress();

 private:
  FILE *out_, *err_;
  bool json_ = false, color_, err_color_, bar_shown_ = false;
  double last_bar_ = 0;
};

// Returns rows with aligned columns, two spaces between them, and a trailing newline. Columns in `right` are
// right-aligned.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right = {});

// Returns "1.5 MiB", "640 B" and so on.
std::string Bytes(double bytes);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_TERMINAL_H_
