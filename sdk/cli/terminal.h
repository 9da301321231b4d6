// Where a command writes: text for people, with colour on a terminal only, or JSON.
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

  // Results, to standard output.
  void Print(absl::string_view text);
  void PrintJson(const host::Json& value);
  // For people only, to standard error: what goes on, and errors.
  void Note(absl::string_view text);
  void Error(absl::string_view text);
  std::string Styled(Style style, absl::string_view text) const;

  // A bar on standard error while long work goes on; nothing when that is no terminal. `done` of `total` drawn at most
  // ten times a second; a bar that is complete is taken away.
  void Progress(absl::string_view what, size_t done, size_t total);
  // Takes away a bar that a process which is gone may have left behind.
  void TakeBarAway();

 private:
  FILE *out_, *err_;
  bool json_ = false, color_, err_color_, bar_shown_ = false;
  double last_bar_ = 0;
};

// Rows with their columns aligned, two spaces between; a trailing newline. Columns in `right` are set to the right.
std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right = {});

// "1.5 MiB"; "640 B".
std::string Bytes(double bytes);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_TERMINAL_H_
