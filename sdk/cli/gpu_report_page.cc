#include "sdk/cli/gpu_report_page.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/terminal.h"

namespace backplane::cli {
namespace {

using host::Json;

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

const Json& Null() {
  static const Json kNull;
  return kNull;
}

const Json& Member(const Json& json, absl::string_view name) {
  const Json* member = json.Find(name);
  return member == nullptr ? Null() : *member;
}

bool IsNumber(const Json& json) { return json.integer() != nullptr || json.real() != nullptr; }

double Number(const Json& json, absl::string_view name) {
  const Json& value = Member(json, name);
  if (value.integer() != nullptr) return static_cast<double>(*value.integer());
  return value.real() == nullptr ? 0 : *value.real();
}

std::string Text(const Json& json, absl::string_view name) {
  const Json& value = Member(json, name);
  return value.string() == nullptr ? "" : *value.string();
}

const Json::Array& List(const Json& json, absl::string_view name) {
  static const Json::Array kEmpty;
  const Json& value = Member(json, name);
  return value.array() == nullptr ? kEmpty : *value.array();
}

bool IsFalse(const Json& json, absl::string_view name) {
  const Json& value = Member(json, name);
  return value.boolean() != nullptr && !*value.boolean();
}

// Text in HTML that is XML as well, which has no control characters.
std::string Escape(absl::string_view text) {
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

// A number of a kernel that the compiler may not know, as it does not for PTX.
std::string FormatKnown(const Json& json, absl::string_view name) {
  const Json& value = Member(json, name);
  return IsNumber(value) ? absl::StrCat(static_cast<int64_t>(Number(json, name))) : "-";
}

struct LaunchView {
  const Json* launch;
  const Json* kernel;  // null: a copy, or work of the host
  size_t number;
  double executions, seconds;  // of all executions; 0: unknown
};

std::vector<LaunchView> ViewLaunches(const Json& document) {
  const Json::Array& kernels = List(document, "kernels");
  std::vector<LaunchView> views;
  for (const Json& launch : List(document, "launches")) {
    LaunchView view{&launch, nullptr, views.size(), Number(launch, "executions"), 0};
    const int64_t* kernel = Member(launch, "kernel").integer();
    if (kernel != nullptr && *kernel >= 0 && static_cast<size_t>(*kernel) < kernels.size())
      view.kernel = &kernels[static_cast<size_t>(*kernel)];
    view.seconds = view.executions * std::max(Number(launch, "memory_seconds"), Number(launch, "compute_seconds"));
    views.push_back(view);
  }
  return views;
}

std::string NameOf(const LaunchView& view) {
  const std::string name = Text(*view.launch, "name"), kind = Text(*view.launch, "kind");
  if (kind == "kernel") return name;
  const absl::string_view what = kind == "host" ? "on the host" : kind == "collective" ? "between devices" : "copy";
  return absl::StrCat(what, name.empty() ? "" : ": ", name);
}

std::string BoundOf(const LaunchView& view) {
  const std::string bound = Text(*view.launch, "bound");
  return bound == "memory" || bound == "compute" ? bound : "other";
}

std::string Tile(absl::string_view name, const std::string& value, const std::string& more) {
  return absl::StrCat("<div class=\"tile\"><span class=\"soft\">", name, "</span><b>", Escape(value),
                      "</b><span class=\"soft\">", Escape(more), "</span></div>\n");
}

std::string Instructions(const Json& launch) {
  const Json::Array& list = List(launch, "instructions");
  const std::string note = Text(launch, "note");
  std::string out = note.empty() ? "" : absl::StrCat("<div class=\"soft\">", Escape(note), "</div>");
  if (list.empty()) return out;
  std::string items, first;
  for (const Json& i : list) {
    const std::string source = Text(i, "source_file"), op_name = Text(i, "op_name");
    const int64_t line = static_cast<int64_t>(Number(i, "source_line"));
    if (first.empty()) first = op_name;
    absl::StrAppend(&items, "<li><code>", Escape(Text(i, "opcode")), " ", Escape(Text(i, "shape")), "</code> ",
                    Escape(op_name), source.empty() ? "" : " <span class=\"soft\">", Escape(source),
                    line > 0 ? absl::StrCat(":", line) : "", source.empty() ? "" : "</span>", "</li>");
  }
  absl::StrAppend(&out, "<details><summary>", list.size(), list.size() == 1 ? " instruction" : " instructions",
                  first.empty() ? "" : ": ", Escape(first), "</summary><ul>", items, "</ul></details>");
  return out;
}

std::string Row(const LaunchView& view, double total_seconds) {
  const Json& launch = *view.launch;
  const Json& kernel = view.kernel == nullptr ? Null() : *view.kernel;
  const bool timed = IsNumber(Member(launch, "memory_seconds"));
  const std::string bound = BoundOf(view);
  std::string out =
      absl::StrCat("<tr id=\"l", view.number, "\"><td>", view.number, "</td><td class=\"left\">", Escape(NameOf(view)),
                   "<br/><code class=\"soft\">", Escape(Text(kernel, "name")), "</code></td>");
  auto cell = [&](const std::string& text, bool bad = false) {
    absl::StrAppend(&out, bad ? "<td class=\"bad\">" : "<td>", Escape(text), "</td>");
  };
  cell(absl::StrCat(view.executions, IsFalse(launch, "executions_known") ? " or more" : ""));
  cell(timed ? FormatTime(view.seconds) : "-");
  cell(timed && total_seconds > 0 ? absl::StrFormat("%.1f %%", 100 * view.seconds / total_seconds) : "-");
  absl::StrAppend(&out, "<td class=\"left\">", timed ? absl::StrCat("<i class=\"dot ", bound, "\"></i>", bound) : "-",
                  "</td>");
  cell(Bytes(Number(launch, "read_bytes")));
  cell(Bytes(Number(launch, "written_bytes")));
  cell(FormatScaled(Number(launch, "flops"), "FLOP"));
  absl::StrAppend(&out, "<td class=\"left\">", Escape(Text(launch, "type")), " ", Escape(Text(launch, "unit")),
                  "</td>");
  cell(FormatKnown(kernel, "blocks"));
  cell(FormatKnown(kernel, "threads"));
  cell(FormatKnown(kernel, "occupancy"));
  for (const char* name : {"vgprs", "agprs", "sgprs"}) cell(FormatKnown(kernel, name));
  cell(IsNumber(Member(kernel, "shared_bytes")) ? Bytes(Number(kernel, "shared_bytes")) : "-");
  for (const char* name : {"scratch_bytes", "spilled_registers"})
    cell(FormatKnown(kernel, name), Number(kernel, name) > 0);
  absl::StrAppend(&out, "<td class=\"left\">", Escape(Text(kernel, "plan")), "</td><td class=\"left wrap\">",
                  Instructions(launch), "</td></tr>\n");
  return out;
}

std::string MachineText(const Json& document) {
  const Json& m = Member(document, "machine");
  if (Text(m, "gpu").empty()) {
    return "No peaks are known for this target, so there is neither a bound nor a time.";
  }
  std::string text = absl::StrCat(
      Text(m, "gpu"), ": memory ", FormatScaled(Number(m, "memory_bytes_per_second"), "B/s"), ", vector f32 ",
      FormatScaled(Number(m, "vector_f32"), "FLOP/s"), ", f64 ", FormatScaled(Number(m, "vector_f64"), "FLOP/s"));
  for (const char* type : {"f32", "f16", "bf16", "s8"}) {
    const std::string name = absl::StrCat("matrix_", type);
    if (Number(m, name) > 0)
      absl::StrAppend(&text, ", matrix ", type, " ", FormatScaled(Number(m, name), type[0] == 's' ? "OP/s" : "FLOP/s"));
  }
  return absl::StrCat(text, ". Source: ", Text(m, "source"), ".");
}

}  // namespace

std::string GpuReportPage(const std::string& title, const Json& document) {
  const Json& totals = Member(document, "totals");
  const Json& machine = Member(document, "machine");
  const std::vector<LaunchView> launches = ViewLaunches(document);
  const double seconds = Number(totals, "seconds");
  const bool timed = IsNumber(Member(totals, "seconds"));
  const std::string least = IsFalse(totals, "trip_counts_known") ? " or more" : "";
  std::string out = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      Escape(title), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<h1>", Escape(title),
      "</h1>\n<div class=\"soft\">", Escape(Text(document, "module")), ", compiled for ",
      Escape(Text(document, "target")), "; ", Escape(MachineText(document)), "</div>\n<div class=\"tiles\">\n");
  absl::StrAppend(
      &out, Tile("least time of a run", timed ? FormatTime(seconds) : "-", timed ? "from the peaks" : "no peaks known"),
      Tile("bound by memory",
           timed && seconds > 0 ? absl::StrFormat("%.0f %%", 100 * Number(totals, "memory_bound_seconds") / seconds)
                                : "-",
           "of that time"),
      Tile("launches", absl::StrCat(Number(totals, "launches"), least),
           absl::StrCat(List(document, "kernels").size(), " different kernels")),
      Tile("steps on the host", absl::StrCat(Number(totals, "host_steps"), least), "operands are copied to the host"),
      Tile("read", Bytes(Number(totals, "read_bytes")), "of the GPU's memory"),
      Tile("written", Bytes(Number(totals, "written_bytes")), "to the GPU's memory"),
      Tile("arithmetic", FormatScaled(Number(totals, "flops"), "FLOP"),
           FormatScaled(Number(totals, "transcendentals"), "transcendental functions")),
      "</div>\n");
  if (timed && seconds > 0) {
    absl::StrAppend(&out, "<h2>Where the time is</h2>\n<div class=\"strip\">");
    for (const LaunchView& view : launches) {
      if (view.seconds <= 0) continue;
      absl::StrAppend(&out, "<a class=\"", BoundOf(view),
                      "\" style=\"flex-grow: ", absl::StrFormat("%.6f", view.seconds / seconds), "\" href=\"#l",
                      view.number, "\" title=\"", Escape(NameOf(view)), ", ", FormatTime(view.seconds), "\"></a>");
    }
    absl::StrAppend(&out,
                    "</div>\n<p class=\"soft\"><i class=\"dot memory\"></i>bound by memory &#160; "
                    "<i class=\"dot compute\"></i>bound by arithmetic</p>\n");
  }
  absl::StrAppend(&out, "<h2>Launches, in order</h2>\n<div class=\"card\"><table>\n<thead><tr>");
  static constexpr const char* kHeads[] = {"#",       "-launch", "times", "least time", "share",   "-bound", "read",
                                           "written", "work",    "-unit", "blocks",     "threads", "waves",  "VGPRs",
                                           "AGPRs",   "SGPRs",   "LDS",   "scratch",    "spilled", "-plan",  "-source"};
  for (const absl::string_view head : kHeads) {
    const bool left = head[0] == '-';
    absl::StrAppend(&out, left ? "<th class=\"left\">" : "<th>", left ? head.substr(1) : head, "</th>");
  }
  absl::StrAppend(&out, "</tr></thead>\n<tbody>\n");
  for (const LaunchView& view : launches) absl::StrAppend(&out, Row(view, seconds));
  absl::StrAppend(&out, "</tbody></table></div>\n<h2>Notes</h2>\n<ul class=\"soft\">\n<li>",
                  Escape(MachineText(document)),
                  "</li>\n<li>The least time of a launch is the longer of its bytes over the peak bandwidth and its "
                  "arithmetic over the peak rate. It is a bound and no measurement. It leaves out the start of the "
                  "launch, caches, transcendental functions and work of the host.</li>\n"
                  "<li>An array counts once for each launch that reads it; of an array that is sliced or gathered "
                  "from, the elements that are taken count.</li>\n<li>Waves are those of a SIMD that run at once, as "
                  "registers and shared memory (LDS) allow, of at most ",
                  IsNumber(Member(machine, "max_waves")) ? FormatKnown(machine, "max_waves") : "an unknown number",
                  ". VGPRs include AGPRs where both share a file.</li>\n<li>Loops of unknown trip count count as one "
                  "iteration, and every branch counts.</li>\n</ul>\n</body>\n</html>\n");
  return out;
}

std::string GpuReportSummary(const std::string& title, const Json& document) {
  const Json& totals = Member(document, "totals");
  std::string out = absl::StrCat(title, "\n");
  const double seconds = Number(totals, "seconds");
  if (IsNumber(Member(totals, "seconds"))) {
    absl::StrAppend(&out, "  least time  ", FormatTime(seconds), " on ", Text(Member(document, "machine"), "gpu"));
    if (seconds > 0) {
      absl::StrAppendFormat(&out, ", %.1f %% of it bound by memory",
                            100 * Number(totals, "memory_bound_seconds") / seconds);
    }
    absl::StrAppend(&out, "\n");
  }
  absl::StrAppend(&out, "  launches    ", Number(totals, "launches"), " of ", List(document, "kernels").size(),
                  " kernels, ", Number(totals, "host_steps"), " steps on the host",
                  IsFalse(totals, "trip_counts_known") ? "; loops of unknown trip count count once" : "", "\n");
  absl::StrAppend(&out, "  memory      ", Bytes(Number(totals, "read_bytes")), " read, ",
                  Bytes(Number(totals, "written_bytes")), " written\n  arithmetic  ",
                  FormatScaled(Number(totals, "flops"), "FLOP"), "\n");
  std::vector<LaunchView> launches = ViewLaunches(document);
  std::stable_sort(launches.begin(), launches.end(),
                   [](const LaunchView& a, const LaunchView& b) { return a.seconds > b.seconds; });
  std::vector<std::vector<std::string>> rows;
  for (const LaunchView& view : launches) {
    if (rows.size() == 5 || view.seconds <= 0) break;
    const Json& kernel = view.kernel == nullptr ? Null() : *view.kernel;
    rows.push_back({absl::StrFormat("    %.1f %%", 100 * view.seconds / seconds), FormatTime(view.seconds),
                    NameOf(view), BoundOf(view), Text(kernel, "plan")});
  }
  if (!rows.empty()) absl::StrAppend(&out, "  most time in\n", Table(rows, {0, 1}));
  return out;
}

}  // namespace backplane::cli
