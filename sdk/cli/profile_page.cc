#include "sdk/cli/profile_page.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/html.h"

namespace backplane::cli {
namespace {

// Which of the two rates needs more time for the work of an operation.
absl::string_view BoundOf(const ProfiledOperation& o, const PluginRates& rates) {
  const double compute = rates.flops_per_second > 0 ? o.flops / rates.flops_per_second : 0;
  const double memory = rates.bytes_per_second > 0 ? o.bytes_accessed / rates.bytes_per_second : 0;
  if (compute <= 0 && memory <= 0) return "other";
  return compute > memory ? "compute" : "memory";
}

std::string FormatRate(double work, double seconds, absl::string_view unit) {
  return work > 0 && seconds > 0 ? FormatScaled(work / seconds, unit) : "-";
}

std::string FormatKernel(const ProfiledOperation& o) {
  if (o.refusals.empty()) return EscapeHtml(o.kernel);
  std::string items;
  for (const std::string& refusal : o.refusals) absl::StrAppend(&items, "<li>", EscapeHtml(refusal), "</li>");
  return absl::StrCat("<details><summary>", EscapeHtml(o.kernel), "</summary>not used, because:<ul>", items,
                      "</ul></details>");
}

std::string Row(const ProfiledOperation& o, size_t number, const Profile& profile, double total) {
  const double runs = static_cast<double>(std::max<int64_t>(1, profile.runs));
  const double each = o.count > 0 ? o.seconds / static_cast<double>(o.count) : 0;
  const double fraction = FractionOfRates(o, profile.rates);
  const absl::string_view bound = BoundOf(o, profile.rates);
  std::string out =
      absl::StrCat("<tr id=\"o", number, "\"><td class=\"left\"><i class=\"dot ", bound, "\"></i>", EscapeHtml(o.name),
                   "<br/><code class=\"soft\">", EscapeHtml(o.opcode), "</code></td>");
  auto cell = [&](const std::string& text) { absl::StrAppend(&out, "<td>", text, "</td>"); };
  cell(absl::StrFormat("%.4g", static_cast<double>(o.count) / runs));
  cell(FormatTime(o.seconds / runs));
  cell(absl::StrFormat("%.1f %%", total > 0 ? 100 * o.seconds / total : 0));
  cell(FormatRate(o.flops, each, "FLOP/s"));
  cell(FormatRate(o.bytes_accessed, each, "B/s"));
  cell(fraction > 0 ? absl::StrFormat("%.0f %%", 100 * fraction) : "-");
  absl::StrAppend(&out, "<td class=\"left wrap\">", FormatKernel(o), "</td><td class=\"left wrap\">",
                  EscapeHtml(o.source), "</td></tr>\n");
  return out;
}

}  // namespace

std::string ProfilePage(const Profile& profile) {
  const double runs = static_cast<double>(std::max<int64_t>(1, profile.runs));
  double total = 0;
  for (const ProfiledOperation& o : profile.operations) total += o.seconds;
  const std::string title = absl::StrCat(profile.program, " on ", profile.plugin);
  std::string out = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      EscapeHtml(title), "</title>\n<style>", PageStyle(), "</style>\n</head>\n<body>\n<h1>", EscapeHtml(title),
      "</h1>\n<div class=\"soft\">", profile.runs, " runs</div>\n<div class=\"tiles\">\n",
      FormatTile("time of a run", FormatTime(profile.seconds / runs), "by the host's clock"),
      FormatTile("in operations", FormatTime(total / runs), "the sum over all devices"));
  double flops = 0, bytes = 0;
  for (const ProfiledOperation& o : profile.operations) {
    flops += o.flops * static_cast<double>(o.count) / runs;
    bytes += o.bytes_accessed * static_cast<double>(o.count) / runs;
  }
  absl::StrAppend(&out,
                  FormatTile("arithmetic", FormatScaled(flops, "FLOP"), FormatRate(flops, total / runs, "FLOP/s")),
                  FormatTile("memory", FormatScaled(bytes, "B"), FormatRate(bytes, total / runs, "B/s")));
  if (profile.rates.flops_per_second > 0) {
    absl::StrAppend(
        &out,
        FormatTile("this plugin reaches", FormatScaled(profile.rates.flops_per_second, "FLOP/s"),
                   profile.rates.flops_program),
        FormatTile("and", FormatScaled(profile.rates.bytes_per_second, "B/s"), profile.rates.bytes_program));
  }
  absl::StrAppend(&out, "</div>\n");
  if (total > 0) {
    absl::StrAppend(&out, "<h2>Where the time is</h2>\n<div class=\"strip\">");
    for (size_t i = 0; i < profile.operations.size(); ++i) {
      const ProfiledOperation& o = profile.operations[i];
      absl::StrAppend(&out, "<a class=\"", BoundOf(o, profile.rates),
                      "\" style=\"flex-grow: ", absl::StrFormat("%.6f", o.seconds / total), "\" href=\"#o", i,
                      "\" title=\"", EscapeHtml(o.name), ", ", FormatTime(o.seconds / runs), "\"></a>");
    }
    absl::StrAppend(&out,
                    "</div>\n<p class=\"soft\"><i class=\"dot memory\"></i>bound by memory &#160; "
                    "<i class=\"dot compute\"></i>bound by arithmetic &#160; <i class=\"dot other\"></i>unknown</p>\n");
  }
  absl::StrAppend(&out,
                  "<h2>Operations, the longest first</h2>\n<div class=\"card\"><table>\n<thead><tr>"
                  "<th class=\"left\">operation</th><th>times</th><th>time</th><th>share</th><th>arithmetic</th>"
                  "<th>memory</th><th>of the rate</th><th class=\"left\">kernel</th><th class=\"left\">source</th>"
                  "</tr></thead>\n<tbody>\n");
  for (size_t i = 0; i < profile.operations.size(); ++i)
    absl::StrAppend(&out, Row(profile.operations[i], i, profile, total));
  absl::StrAppend(
      &out,
      "</tbody></table></div>\n<h2>Notes</h2>\n<ul class=\"soft\">\n<li>Times are those of one run. An "
      "operation in a loop runs several times.</li>\n<li>Arithmetic and memory follow the definitions of the "
      "operations: each operand is read once and each result written once.</li>\n<li>The last percentage "
      "compares the time with the time that the work would take at the rates that the plugin reaches with one "
      "large product and one large addition. A cache is faster than memory, so values above 100 % "
      "occur.</li>\n");
  for (const std::string& warning : profile.trace.warnings)
    absl::StrAppend(&out, "<li>", EscapeHtml(warning), "</li>\n");
  absl::StrAppend(&out, "</ul>\n</body>\n</html>\n");
  return out;
}

}  // namespace backplane::cli
