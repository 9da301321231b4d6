#include "sdk/cli/html.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace backplane::cli {
namespace {

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --ink: #1b2230; --soft: #5e6a7f; --line: #dfe3ea;
  --memory: #cf8414; --compute: #3b7dd8; --other: #7d889b; --bad: #c22f2f; }
@media (prefers-color-scheme: dark) { :root { --ground: #10141b; --card: #171c26; --ink: #e5e9f1; --soft: #9aa6bb;
  --line: #2a3140; --memory: #d8912a; --compute: #4a8be4; --other: #76829a; --bad: #f2726f; } }
* { box-sizing: border-box }
body { margin: 0; padding: 16px 20px 60px; font: 14px/1.45 system-ui, sans-serif; color: var(--ink);
  background: var(--ground); font-variant-numeric: tabular-nums }
h1 { font-size: 20px; margin: 0 0 4px } h2 { font-size: 15px; margin: 22px 0 8px }
.soft { color: var(--soft) } .bad { color: var(--bad); font-weight: 600 }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 12px; margin: 14px 0 }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px }
.tile b { display: block; font-size: 20px }
.card { overflow-x: auto; padding: 0 }
table { border-collapse: collapse; width: 100% }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap;
  vertical-align: top }
th { color: var(--soft); font-size: 12.5px } th.left, td.left { text-align: left }
td.wrap { white-space: normal; min-width: 24ch }
tr:last-child td { border-bottom: 0 }
tr:target { outline: 2px solid var(--compute) }
code { font: 12.5px/1.4 ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere }
a { color: inherit }
.strip { display: flex; height: 26px; border-radius: 6px; overflow: hidden; background: var(--line) }
.strip a { display: block; min-width: 1px; border-right: 1px solid var(--card) }
.memory { background: var(--memory) } .compute { background: var(--compute) } .other { background: var(--other) }
.dot { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 5px }
summary { cursor: pointer } ul { margin: 4px 0; padding-left: 18px }
)css";

}  // namespace

absl::string_view PageStyle() { return kStyle; }

std::string EscapeHtml(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
    }
  }
  return out;
}

std::string FormatScaled(double value, absl::string_view unit) {
  static constexpr std::array<std::pair<double, const char*>, 5> kSteps = {
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [size, prefix] : kSteps) {
    if (value >= size) return absl::StrFormat("%.3g %s%s", value / size, prefix, unit);
  }
  return absl::StrFormat("%.3g %s", value, unit);
}

std::string FormatTime(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.3g s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return seconds >= 1e-6 ? absl::StrFormat("%.3g us", seconds * 1e6) : absl::StrFormat("%.3g ns", seconds * 1e9);
}

std::string FormatTile(absl::string_view name, const std::string& value, const std::string& more) {
  return absl::StrCat("<div class=\"tile\"><span class=\"soft\">", name, "</span><b>", EscapeHtml(value),
                      "</b><span class=\"soft\">", EscapeHtml(more), "</span></div>\n");
}

}  // namespace backplane::cli
