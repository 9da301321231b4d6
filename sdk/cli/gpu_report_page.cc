#include "sdk/cli/gpu_report_page.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/html.h"
#include "sdk/cli/terminal.h"

namespace backplane::cli {
namespace {

using host::Json;

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

std::string GetName(const LaunchView& view) {
  const std::string name = Text(*view.launch, "name"), kind = Text(*view.launch, "kind");
  if (kind == "kernel") return name;
  const absl::string_view what = kind == "host" ? "on the host" : kind == "collective" ? "between devices" : "copy";
  return absl::StrCat(what, name.empty() ? "" : ": ", name);
}

std::string BoundOf(const LaunchView& view) {
  const std::string bound = Text(*view.launch, "bound");
  return bound == "memory" || bound == "compute" ? bound : "other";
}

std::string Instructions(const Json& launch) {
  const Json::Array& list = List(launch, "instructions");
  const std::string note = Text(launch, "note");
  std::string out = note.empty() ? "" : absl::StrCat("<div class=\"soft\">", EscapeHtml(note), "</div>");
  if (list.empty()) return out;
  std::string items, first;
  for (const Json& i : list) {
    const std::string source = Text(i, "source_file"), op_name = Text(i, "op_name");
    const int64_t line = static_cast<int64_t>(Number(i, "source_line"));
    if (first.empty()) first = op_name;
    absl::StrAppend(&items, "<li><code>", EscapeHtml(Text(i, "opcode")), " ", EscapeHtml(Text(i, "shape")), "</code> ",
                    EscapeHtml(op_name), source.empty() ? "" : " <span class=\"soft\">", EscapeHtml(source),
                    line > 0 ? absl::StrCat(":", line) : "", source.empty() ? "" : "</span>", "</li>");
  }
  absl::StrAppend(&out, "<details><summary>", list.size(), list.size() == 1 ? " instruction" : " instructions",
                  first.empty() ? "" : ": ", EscapeHtml(first), "</summary><ul>", items, "</ul></details>");
  return out;
}

std::string Row(const LaunchView& view, double total_seconds) {
  const Json& launch = *view.launch;
  const Json& kernel = view.kernel == nullptr ? Null() : *view.kernel;
  const bool timed = IsNumber(Member(launch, "memory_seconds"));
  const std::string bound = BoundOf(view);
  std::string out = absl::StrCat("<tr id=\"l", view.number, "\"><td>", view.number, "</td><td class=\"left\">",
                                 EscapeHtml(GetName(view)), "<br/><code class=\"soft\">",
                                 EscapeHtml(Text(kernel, "name")), "</code></td>");
  auto cell = [&](const std::string& text, bool bad = false) {
    absl::StrAppend(&out, bad ? "<td class=\"bad\">" : "<td>", EscapeHtml(text), "</td>");
  };
  cell(absl::StrCat(view.executions, IsFalse(launch, "executions_known") ? " or more" : ""));
  cell(timed ? FormatTime(view.seconds) : "-");
  cell(timed && total_seconds > 0 ? absl::StrFormat("%.1f %%", 100 * view.seconds / total_seconds) : "-");
  absl::StrAppend(&out, "<td class=\"left\">", timed ? absl::StrCat("<i class=\"dot ", bound, "\"></i>", bound) : "-",
                  "</td>");
  cell(Bytes(Number(launch, "read_bytes")));
  cell(Bytes(Number(launch, "written_bytes")));
  cell(FormatScaled(Number(launch, "flops"), "FLOP"));
  absl::StrAppend(&out, "<td class=\"left\">", EscapeHtml(Text(launch, "type")), " ", EscapeHtml(Text(launch, "unit")),
                  "</td>");
  cell(FormatKnown(kernel, "blocks"));
  cell(FormatKnown(kernel, "threads"));
  cell(FormatKnown(kernel, "occupancy"));
  for (const char* name : {"vgprs", "agprs", "sgprs"}) cell(FormatKnown(kernel, name));
  cell(IsNumber(Member(kernel, "shared_bytes")) ? Bytes(Number(kernel, "shared_bytes")) : "-");
  for (const char* name : {"scratch_bytes", "spilled_registers"})
    cell(FormatKnown(kernel, name), Number(kernel, name) > 0);
  absl::StrAppend(&out, "<td class=\"left\">", EscapeHtml(Text(kernel, "plan")), "</td><td class=\"left wrap\">",
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

std::string MakeGpuReportPage(const std::string& title, const Json& document) {
  const Json& totals = Member(document, "totals");
  const Json& machine = Member(document, "machine");
  const std::vector<LaunchView> launches = ViewLaunches(document);
  const double seconds = Number(totals, "seconds");
  const bool timed = IsNumber(Member(totals, "seconds"));
  const std::string least = IsFalse(totals, "trip_counts_known") ? " or more" : "";
  std::string out = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      EscapeHtml(title), "</title>\n<style>", PageStyle(), "</style>\n</head>\n<body>\n<h1>", EscapeHtml(title),
      "</h1>\n<div class=\"soft\">", EscapeHtml(Text(document, "module")), ", compiled for ",
      EscapeHtml(Text(document, "target")), "; ", EscapeHtml(MachineText(document)), "</div>\n<div class=\"tiles\">\n");
  absl::StrAppend(
      &out,
      FormatTile("least time of a run", timed ? FormatTime(seconds) : "-", timed ? "from the peaks" : "no peaks known"),
      FormatTile("bound by memory",
                 timed && seconds > 0
                     ? absl::StrFormat("%.0f %%", 100 * Number(totals, "memory_bound_seconds") / seconds)
                     : "-",
                 "of that time"),
      FormatTile("launches", absl::StrCat(Number(totals, "launches"), least),
                 absl::StrCat(List(document, "kernels").size(), " different kernels")),
      FormatTile("steps on the host", absl::StrCat(Number(totals, "host_steps"), least),
                 "operands are copied to the host"),
      FormatTile("read", Bytes(Number(totals, "read_bytes")), "of the GPU's memory"),
      FormatTile("written", Bytes(Number(totals, "written_bytes")), "to the GPU's memory"),
      FormatTile("arithmetic", FormatScaled(Number(totals, "flops"), "FLOP"),
                 FormatScaled(Number(totals, "transcendentals"), "transcendental functions")),
      "</div>\n");
  if (timed && seconds > 0) {
    absl::StrAppend(&out, "<h2>Where the time is</h2>\n<div class=\"strip\">");
    for (const LaunchView& view : launches) {
      if (view.seconds <= 0) continue;
      absl::StrAppend(&out, "<a class=\"", BoundOf(view),
                      "\" style=\"flex-grow: ", absl::StrFormat("%.6f", view.seconds / seconds), "\" href=\"#l",
                      view.number, "\" title=\"", EscapeHtml(GetName(view)), ", ", FormatTime(view.seconds), "\"></a>");
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
                  EscapeHtml(MachineText(document)),
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

std::string MakeGpuReportSummary(const std::string& title, const Json& document) {
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
                    GetName(view), BoundOf(view), Text(kernel, "plan")});
  }
  if (!rows.empty()) absl::StrAppend(&out, "  most time in\n", FormatTable(rows, {0, 1}));
  return out;
}

}  // namespace backplane::cli
