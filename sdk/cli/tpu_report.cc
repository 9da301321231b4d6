// backplane tpu-report: shows how a program would run on a TPU, on one page.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/command.h"
#include "sdk/cli/command_files.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/program.h"
#include "sdk/cli/temporary_folder.h"
#include "sdk/host/json.h"
#include "sdk/host/status.h"
#include "sdk/report/page.h"

namespace backplane::cli {
namespace {

namespace fs = std::filesystem;
using host::Json;

constexpr char kPluginName[] = "tpu_emulator";

struct TpuReportOptions {
  PluginOptions plugin_options;
  std::string plugin, program, topology, out = "tpu_report.html", trace;
  std::vector<std::string> chips, against;
  int64_t replicas = 0, partitions = 0;
};

// What the plugin wrote for one program on one chip.
struct Report {
  std::string title, json, trace;
  Json document;
  absl::Status refused;  // not OK: the program does not fit; the document shows how it would run
};

// Returns the emulator of this build or installation, or else one that hosts would find by its name.
std::string FindEmulator(const TpuReportOptions& o) {
  if (!o.plugin.empty()) return o.plugin;
  const std::string beside = FindCommandLibrary("plugins", absl::StrCat("pjrt_backplane_", kPluginName, ".so"));
  return beside.empty() ? kPluginName : beside;
}

std::string Base(const std::string& path) { return path == "-" ? "program" : fs::path(path).filename().string(); }

double Number(const Json* json, absl::string_view name) {
  const Json* value = json == nullptr ? nullptr : json->Find(name);
  if (value == nullptr) return 0;
  if (const int64_t* whole = value->integer()) return static_cast<double>(*whole);
  return value->real() == nullptr ? 0 : *value->real();
}

std::string Text(const Json& json, absl::string_view name) {
  const Json* value = json.Find(name);
  return value == nullptr || value->string() == nullptr ? "" : *value->string();
}

const Json::Array& List(const Json& json, absl::string_view name) {
  static const Json::Array kEmpty;
  const Json* value = json.Find(name);
  return value == nullptr || value->array() == nullptr ? kEmpty : *value->array();
}

absl::StatusOr<Report> ReportOf(const ProgramFile& file, const std::string& chip, const TpuReportOptions& o) {
  BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(file));
  BP_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make("tpu-report"));
  PluginOptions options = o.plugin_options;
  // Quoted, so that text that looks like a number stays text.
  if (!chip.empty()) options.options.push_back(absl::StrCat("chip=\"", chip, "\""));
  if (!o.topology.empty()) options.options.push_back(absl::StrCat("topology=\"", o.topology, "\""));
  options.options.push_back(absl::StrCat("report=\"", folder.path(), "\""));
  BP_ASSIGN_OR_RETURN(const Session session, OpenSession(FindEmulator(o), options));

  host::CompileOptions compile;
  const int64_t replicas = o.replicas > 0 || file.module == nullptr ? o.replicas : file.module->config().num_replicas;
  const int64_t partitions =
      o.partitions > 0 || file.module == nullptr ? o.partitions : file.module->config().num_partitions;
  compile.num_replicas = static_cast<int>(std::max<int64_t>(1, replicas));
  compile.num_partitions = static_cast<int>(std::max<int64_t>(1, partitions));
  compile.use_spmd_partitioning = compile.num_partitions > 1;
  const absl::Status compiled = CompileOn(session, program, compile).status();
  if (!compiled.ok() && compiled.code() != absl::StatusCode::kResourceExhausted) return compiled;

  std::vector<std::string> documents;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path(), error)) {
    const std::string path = entry.path().string();
    if (absl::EndsWith(path, ".json") && !absl::EndsWith(path, ".trace.json")) documents.push_back(path);
  }
  if (!compiled.ok() && documents.empty()) return compiled;
  if (documents.size() != 1) {
    return FromPlugin(absl::InternalError(absl::StrCat("tpu-report: ", session.found.name, ": wrote ", documents.size(),
                                                       " reports of one program, expected 1")));
  }
  Report report;
  report.refused = compiled;
  BP_ASSIGN_OR_RETURN(report.json, ReadFile(documents[0]));
  BP_ASSIGN_OR_RETURN(report.trace,
                      ReadFile(absl::StrCat(documents[0].substr(0, documents[0].size() - 5), ".trace.json")));
  absl::StatusOr<Json> document = Json::Parse(report.json);
  BP_RETURN_IF_ERROR(FromPlugin(host::AddContext(document.status(), "tpu-report: what the plugin wrote")));
  report.document = *std::move(document);
  report.title = absl::StrCat(Base(file.path), " on ", Text(report.document, "machine_name"));
  return report;
}

// Reads the result of an earlier compilation (TILEDTPU_REPORT) instead of a program.
bool IsDocument(const ProgramFile& file) {
  return absl::StartsWith(file.bytes, "{\"format\":\"backplane.tpu_report\"");
}

absl::StatusOr<Report> ParseReport(const ProgramFile& file) {
  Report report;
  report.json = file.bytes;
  BP_ASSIGN_OR_RETURN(report.document, Json::Parse(report.json));
  if (Number(&report.document, "version") != 1) {
    return absl::InvalidArgumentError(absl::StrCat(file.path, ": a report of another version, expected 1"));
  }
  report.title = absl::StrCat(Base(file.path), " on ", Text(report.document, "machine_name"));
  if (absl::EndsWith(file.path, ".json")) {  // its trace, if it is in the same folder
    const std::string trace = absl::StrCat(file.path.substr(0, file.path.size() - 5), ".trace.json");
    std::error_code error;
    if (fs::is_regular_file(trace, error)) {
      BP_ASSIGN_OR_RETURN(report.trace, ReadFile(trace));
    }
  }
  return report;
}

// Writes one trace of all reports, with a process for each report.
absl::StatusOr<std::string> MergedTrace(const std::vector<Report>& reports) {
  for (const Report& r : reports) {
    if (r.trace.empty()) return absl::NotFoundError(absl::StrCat("tpu-report: ", r.title, ": has no trace beside it"));
  }
  if (reports.size() == 1) return reports[0].trace;
  Json events = Json::MakeArray();
  for (size_t i = 0; i < reports.size(); ++i) {
    absl::StatusOr<Json> trace = Json::Parse(reports[i].trace);
    BP_RETURN_IF_ERROR(FromPlugin(host::AddContext(trace.status(), "tpu-report: the trace the plugin wrote")));
    for (const Json& event : List(*trace, "traceEvents")) {
      if (event.object() == nullptr) continue;
      Json copy = Json::MakeObject();
      for (const auto& [name, value] : *event.object()) {
        const bool process = name == "args" && Text(event, "name") == "process_name";
        copy.Set(name, name == "pid" ? Json(i + 1)
                       : process     ? Json::MakeObject().Set("name", reports[i].title)
                                     : value);
      }
      events.Push(std::move(copy));
    }
  }
  return Json::MakeObject().Set("displayTimeUnit", "ns").Set("traceEvents", std::move(events)).Text();
}

double TotalSeconds(const Json& kernel) {
  return Number(&kernel, "seconds") * (kernel.Find("executions") == nullptr ? 1 : Number(&kernel, "executions"));
}

// Returns the member of an object of numbers with the largest value.
std::string FindLargestMember(const Json* numbers) {
  std::string most;
  double value = 0;
  if (numbers == nullptr || numbers->object() == nullptr) return most;
  for (const auto& [name, unused] : *numbers->object()) {
    if (Number(numbers, name) > value) value = Number(numbers, name), most = name;
  }
  return most;
}

// The part of a report that `--json` prints. The page and the files of TILEDTPU_REPORT contain everything.
Json Facts(const Report& report) {
  const Json& d = report.document;
  const Json* totals = d.Find("totals");
  Json facts = Json::MakeObject();
  facts.Set("title", report.title).Set("module", Text(d, "module")).Set("machine", Text(d, "machine_name"));
  facts.Set("devices", static_cast<int64_t>(Number(&d, "devices")));
  for (const char* name : {"seconds", "cycles", "flops", "transcendentals", "hbm_bytes"}) {
    facts.Set(name, Number(totals, name));
  }
  const Json* bounds = totals == nullptr ? nullptr : totals->Find("seconds_by_bound");
  facts.Set("bound", FindLargestMember(bounds))
      .Set("seconds_by_bound", bounds == nullptr ? Json::MakeObject() : *bounds);
  bool known = true;
  for (const Json& loop : List(d, "loops")) known = known && loop.Find("known") == nullptr;
  facts.Set("lower_bound", !known);
  if (d.Find("runs") != nullptr) facts.Set("runs", static_cast<int64_t>(Number(&d, "runs")));
  const Json* hbm = d.Find("hbm");
  facts.Set("hbm_peak", static_cast<int64_t>(Number(hbm, "peak")));
  facts.Set("hbm_capacity", static_cast<int64_t>(Number(hbm, "capacity")));
  std::vector<const Json*> kernels;
  for (const Json& k : List(d, "kernels")) kernels.push_back(&k);
  facts.Set("kernels", kernels.size());
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Json* a, const Json* b) { return TotalSeconds(*a) > TotalSeconds(*b); });
  Json top = Json::MakeArray();
  for (size_t i = 0; i < std::min<size_t>(5, kernels.size()); ++i) {
    const Json& k = *kernels[i];
    top.Push(
        Json::MakeObject()
            .Set("name", Text(k, "name"))
            .Set("category", Text(k, "category"))
            .Set("bound", Text(k, "bound"))
            .Set("seconds", TotalSeconds(k))
            .Set("executions", k.Find("executions") == nullptr ? 1 : static_cast<int64_t>(Number(&k, "executions")))
            .Set("op_name", Text(k, "op_name"))
            .Set("source_file", Text(k, "source_file"))
            .Set("source_line", static_cast<int64_t>(Number(&k, "source_line"))));
  }
  facts.Set("top_kernels", std::move(top));
  const Json* worst = nullptr;
  auto waste = [](const Json& b) { return Number(&b, "padded_bytes") - Number(&b, "unpadded_bytes"); };
  for (const Json& b : List(d, "buffers")) {
    if (Text(b, "space") == "hbm" && waste(b) > (worst == nullptr ? 0 : waste(*worst))) worst = &b;
  }
  facts.Set("worst_padding", worst == nullptr ? Json() : *worst);
  facts.Set("notes", Json(List(d, "notes")));
  if (const Json* refusal = d.Find("refusal"); refusal != nullptr) {
    facts.Set("refusal", Json::MakeObject()
                             .Set("message", Text(*refusal, "message"))
                             .Set("required_bytes", static_cast<int64_t>(Number(refusal, "required_bytes")))
                             .Set("limit_bytes", static_cast<int64_t>(Number(refusal, "limit_bytes")))
                             .Set("remedies", Json(List(*refusal, "remedies"))));
  }
  return facts;
}

std::string Seconds(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.3g s", seconds);
  return seconds >= 1e-3 ? absl::StrFormat("%.3g ms", seconds * 1e3) : absl::StrFormat("%.3g us", seconds * 1e6);
}

// For a report of a program that was run: how often it ran.
std::string FormatRunCount(const Report& report) {
  const double runs = Number(&report.document, "runs");
  if (runs <= 0) return "";
  return absl::StrFormat("  ran     %.0f times, %s in all\n", runs,
                         Seconds(runs * Number(report.document.Find("totals"), "seconds")));
}

// Prints reports side by side, each compared with the first.
std::string Comparison(const std::vector<Report>& reports, const Terminal& terminal) {
  std::vector<std::vector<std::string>> rows = {{"", "time", "against the first", "bound", "kernels", "HBM peak"}};
  for (std::string& head : rows[0]) head = terminal.ApplyStyle(Style::kBold, head);
  const double first = Number(reports[0].document.Find("totals"), "seconds");
  for (const Report& r : reports) {
    const Json* totals = r.document.Find("totals");
    const double seconds = Number(totals, "seconds");
    std::string ratio;
    if (&r != &reports[0] && first > 0 && seconds > 0) {
      ratio = seconds <= first ? absl::StrFormat("%.2fx as fast", first / seconds)
                               : absl::StrFormat("%.2fx as long", seconds / first);
    }
    rows.push_back({r.title, Seconds(seconds), ratio,
                    totals == nullptr ? "" : FindLargestMember(totals->Find("seconds_by_bound")),
                    absl::StrCat(List(r.document, "kernels").size()), Bytes(Number(r.document.Find("hbm"), "peak"))});
  }
  return FormatTable(rows, {1, 2, 4, 5});
}

// The page is written, but a program that does not fit is a failure, for scripts that check the exit status.
absl::Status FirstRefusal(const std::vector<Report>& reports) {
  for (const Report& r : reports) {
    if (!r.refused.ok()) return r.refused;
  }
  return absl::OkStatus();
}

absl::Status TpuReport(const TpuReportOptions& o, Terminal& terminal, int* exit_code) {
  std::vector<ProgramFile> files;
  BP_ASSIGN_OR_RETURN(files.emplace_back(), ReadProgram(o.program));
  for (const std::string& path : o.against) {
    BP_ASSIGN_OR_RETURN(files.emplace_back(), ReadProgram(path));
  }
  const std::vector<std::string> chips = o.chips.empty() ? std::vector<std::string>{""} : o.chips;
  std::vector<Report> reports;
  for (const std::string& chip : chips) {
    for (const ProgramFile& file : files) {
      if (IsDocument(file)) {
        if (&chip == &chips[0]) {
          BP_ASSIGN_OR_RETURN(reports.emplace_back(), ParseReport(file));
        }
        continue;
      }
      terminal.ShowProgress("tpu-report", reports.size(), chips.size() * files.size());
      BP_ASSIGN_OR_RETURN(reports.emplace_back(), ReportOf(file, chip, o));
    }
  }
  terminal.ShowProgress("tpu-report", reports.size(), reports.size());

  std::vector<report::PageDocument> documents;
  for (const Report& r : reports) documents.push_back({r.title, r.json});
  BP_RETURN_IF_ERROR(WriteFile(o.out, report::FormatPage(documents)));
  if (!o.trace.empty()) {
    BP_ASSIGN_OR_RETURN(const std::string trace, MergedTrace(reports));
    BP_RETURN_IF_ERROR(WriteFile(o.trace, trace));
  }
  if (terminal.json()) {
    Json list = Json::MakeArray();
    for (const Report& r : reports) list.Push(Facts(r));
    Json json = Json::MakeObject().Set("page", o.out);
    if (!o.trace.empty()) json.Set("trace", o.trace);
    terminal.PrintJson(json.Set("reports", std::move(list)));
    if (!FirstRefusal(reports).ok()) *exit_code = kPluginFailed;  // the document describes the error
    return absl::OkStatus();
  }
  for (const Report& r : reports) {
    std::string text = Text(r.document, "summary");
    // Its first line names the module; the name from the command line is clearer.
    const size_t line = std::min(text.find('\n'), text.size());
    const bool devices = Number(&r.document, "devices") > 1;
    terminal.Print(absl::StrCat(terminal.ApplyStyle(Style::kBold, r.title),
                                devices ? absl::StrCat(", one of ", Number(&r.document, "devices"), " devices") : "",
                                text.substr(line), FormatRunCount(r), "\n"));
  }
  if (reports.size() > 1) terminal.Print(absl::StrCat(Comparison(reports, terminal), "\n"));
  terminal.Note(absl::StrCat("tpu-report: ", o.out, " (open in a browser)",
                             o.trace.empty() ? "" : absl::StrCat(", ", o.trace, " (for ui.perfetto.dev)")));
  return FirstRefusal(reports);
}

}  // namespace

Command TpuReportCommand() {
  auto o = std::make_shared<TpuReportOptions>();
  Command command{"tpu-report", "writes a page that shows how a program would run on a TPU, with times"};
  command.options.push_back({"program",
                             &o->program,
                             "the program, in any form ('-': standard input), or a report's .json",
                             "PROGRAM",
                             true,
                             {},
                             true});
  command.options.push_back({"--chip,-c", &o->chips,
                             "v4, v5e, v5p, v6e, tpu7x, or a machine as JSON; may come many times, to compare",
                             "CHIP"});
  command.options.push_back(
      {"--topology", &o->topology, "devices along each axis, as in 2x2; one when not given", "SIZES"});
  command.options.push_back(
      {"--against,-a", &o->against, "another program to compare with; may be repeated", "PROGRAM", false, {}, true});
  command.options.push_back({"--out,--output,-O", &o->out, "the page", "FILE", false, {}, true});
  command.options.push_back({"--trace", &o->trace, "also write a trace for Perfetto", "FILE", false, {}, true});
  command.options.push_back(AtLeast(1, {"--replicas", &o->replicas, "replicas; default: those of the program", "N"}));
  command.options.push_back(
      AtLeast(1, {"--partitions", &o->partitions, "partitions; default: those of the program", "N"}));
  command.options.push_back({"--plugin,-p",
                             &o->plugin,
                             "the emulator; default: that of this build or installation",
                             "PLUGIN",
                             false,
                             {},
                             true});
  o->plugin_options.AddTo(&command);
  command.details =
      "The program is compiled for the chip and not run. The page needs no network; docs/tpu_report.md says how to "
      "read it.\n"
      "  backplane tpu-report step.mlir\n"
      "  backplane tpu-report step.mlir --chip v5e --chip v6e --trace step.trace.json\n"
      "  backplane tpu-report step.mlir --against step_padded.mlir --chip v5p --topology 2x2\n"
      "  backplane tpu-report before.mlir --against reports/p71_0003_jit_step.json\n"
      "With TILEDTPU_REPORT=FOLDER in its environment a running JAX leaves a page and a .json of each program it "
      "compiles.";
  command.state = o;
  command.run = [o](Terminal& terminal, int* exit_code) { return TpuReport(*o, terminal, exit_code); };
  return command;
}

}  // namespace backplane::cli
