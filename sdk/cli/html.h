// What the pages that the command writes have in common. A page is one file that needs no other file, no network and no
// script, and is well-formed XML as well.
#ifndef BACKPLANE_SDK_CLI_HTML_H_
#define BACKPLANE_SDK_CLI_HTML_H_

#include <string>

#include "absl/strings/string_view.h"

namespace backplane::cli {

// Returns the style sheet. Its classes: tiles, tile; card (around a table); strip with links of the classes memory,
// compute and other, whose flex-grow is their share; dot of these classes; soft, bad, left, wrap.
absl::string_view PageStyle();

// Returns text as HTML that is XML as well, which has no control characters.
std::string EscapeHtml(absl::string_view text);

// Returns a number with a prefix: "1.5 GFLOP" of 1.5e9 and "FLOP".
std::string FormatScaled(double value, absl::string_view unit);
// Returns "1.5 ms" and so on.
std::string FormatTime(double seconds);
// Returns a tile: a large value with a name above and more below. `name` is HTML, the others are text.
std::string FormatTile(absl::string_view name, const std::string& value, const std::string& more);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_HTML_H_
