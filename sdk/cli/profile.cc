#include "sdk/cli/profile.h"

#include <algorithm>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/analysis/work.h"
#include "core/import/import.h"
#include "core/text/hlo_parser.h"
#include "sdk/cli/clock.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/program.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

constexpr double kLongEnough = 0.01;  // seconds of a run that measures a rate

std::vector<const host::Buffer*> TakeAddresses(const std::vector<host::Buffer>& buffers) {
  std::vector<const host::Buffer*> pointers;
  for (const host::Buffer& buffer : buffers) pointers.push_back(&buffer);
  return pointers;
}

// Returns the shortest time of five runs of a program of two equal f32 arrays.
absl::StatusOr<double> TimeBinary(const Session& session, const std::string& hlo, std::vector<int64_t> dims) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(hlo);
  if (!module.ok()) return module.status();
  BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(**module));
  BP_ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, program));
  size_t elements = 1;
  for (const int64_t d : dims) elements *= static_cast<size_t>(d);
  const std::vector<float> ones(elements, 1.0f);
  const host::HostArray array = host::HostArray::Of<float>(std::move(dims), ones);
  BP_ASSIGN_OR_RETURN(const std::vector<host::Buffer> buffers, ToDevice(session, {array, array}));
  const std::vector<const host::Buffer*> arguments = TakeAddresses(buffers);
  BP_RETURN_IF_ERROR(RunToCompletion(executable, arguments));
  double best = 1e30;
  for (int run = 0; run < 5; ++run) {
    const double begin = Now();
    BP_RETURN_IF_ERROR(RunToCompletion(executable, arguments));
    best = std::min(best, Now() - begin);
    if (best > 20 * kLongEnough) break;
  }
  return best;
}

// The instructions of a program by name. Those of the entry win over others of the same name.
absl::flat_hash_map<std::string, const Instruction*> InstructionsByName(const Module& module) {
  absl::flat_hash_map<std::string, const Instruction*> all;
  for (const auto& i : module.entry()->instructions()) all.try_emplace(i->name(), i.get());
  for (const Computation* c : module.PostOrder()) {
    for (const auto& i : c->instructions()) all.try_emplace(i->name(), i.get());
  }
  return all;
}

std::string FormatSource(const OpMetadata& metadata) {
  std::string source = metadata.op_name;
  if (!metadata.source_file.empty()) {
    const size_t slash = metadata.source_file.rfind('/');
    absl::StrAppend(&source, source.empty() ? "" : " ",
                    slash == std::string::npos ? metadata.source_file : metadata.source_file.substr(slash + 1), ":",
                    metadata.source_line);
  }
  return source;
}

void AddWork(const Module& module, std::vector<ProfiledOperation>* operations) {
  const absl::flat_hash_map<std::string, const Instruction*> instructions = InstructionsByName(module);
  for (ProfiledOperation& operation : *operations) {
    const auto at = instructions.find(operation.name);
    if (at == instructions.end()) continue;
    const Cost work = CountWork(*at->second);
    operation.opcode = std::string(OpName(at->second->opcode()));
    operation.source = FormatSource(at->second->metadata());
    operation.flops = work.flops;
    operation.bytes_accessed = work.bytes_accessed;
  }
}

std::string FormatRate(double per_second) { return per_second > 0 ? absl::StrFormat("%.1f", per_second / 1e9) : ""; }

}  // namespace

absl::StatusOr<PluginRates> MeasureRates(const Session& session) {
  PluginRates rates;
  for (int64_t n = 128; n <= 2048; n *= 2) {
    const std::string name = absl::StrCat("f32[", n, ",", n, "]");
    BP_ASSIGN_OR_RETURN(
        const double seconds,
        TimeBinary(session,
                   absl::StrReplaceAll("HloModule rate\nENTRY e { x = $ parameter(0) y = $ parameter(1) ROOT r = $ "
                                       "dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
                                       {{"$", name}}),
                   {n, n}));
    const double flops = 2.0 * static_cast<double>(n * n * n) / seconds;
    if (flops > rates.flops_per_second) {
      rates.flops_per_second = flops;
      rates.flops_program = absl::StrCat("dot ", name);
    }
    if (seconds > kLongEnough) break;
  }
  for (int64_t n = int64_t{1} << 18; n <= int64_t{1} << 25; n *= 4) {
    const std::string name = absl::StrCat("f32[", n, "]");
    BP_ASSIGN_OR_RETURN(const double seconds,
                        TimeBinary(session,
                                   absl::StrReplaceAll("HloModule rate\nENTRY e { x = $ parameter(0) y = $ "
                                                       "parameter(1) ROOT r = $ add(x, y) }",
                                                       {{"$", name}}),
                                   {n}));
    // The last one counts: smaller arrays may fit a cache.
    rates.bytes_per_second = 12.0 * static_cast<double>(n) / seconds;
    rates.bytes_program = absl::StrCat("add ", name);
    if (seconds > kLongEnough) break;
  }
  return rates;
}

absl::StatusOr<Profile> ProfileProgram(const Session& session, const host::LoadedExecutable& executable,
                                       const std::vector<host::Buffer>& arguments, int64_t runs) {
  Profile profile;
  profile.runs = runs;
  BP_ASSIGN_OR_RETURN(host::Profiler profiler, host::Profiler::Create(*session.plugin));
  const std::vector<const host::Buffer*> pointers = TakeAddresses(arguments);
  for (int warmup = 0; warmup < 2; ++warmup) BP_RETURN_IF_ERROR(RunToCompletion(executable, pointers));
  BP_RETURN_IF_ERROR(profiler.Start());
  const double begin = Now();
  for (int64_t run = 0; run < runs; ++run) BP_RETURN_IF_ERROR(RunToCompletion(executable, pointers));
  profile.seconds = Now() - begin;
  BP_ASSIGN_OR_RETURN(profile.trace, profiler.Stop());

  // A plugin may record whole programs only. Those are shown if there are no operations.
  bool any_operation = false;
  for (const host::TracePlane& plane : profile.trace.planes) {
    for (const host::TraceLine& line : plane.lines) {
      for (const host::TraceEvent& event : line.events) any_operation |= event.is_operation;
    }
  }
  std::map<std::string, ProfiledOperation> by_name;
  for (const host::TracePlane& plane : profile.trace.planes) {
    for (const host::TraceLine& line : plane.lines) {
      for (const host::TraceEvent& event : line.events) {
        if (any_operation && !event.is_operation) continue;
        ProfiledOperation& operation = by_name[event.name];
        operation.name = event.name;
        ++operation.count;
        operation.seconds += static_cast<double>(event.duration_ps) * 1e-12;
      }
    }
  }
  for (auto& [name, operation] : by_name) profile.operations.push_back(std::move(operation));
  std::stable_sort(profile.operations.begin(), profile.operations.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  if (absl::StatusOr<std::string> log = ReadCompileLog(session, executable); log.ok()) {
    AddKernels(*log, &profile.operations);
  }
  // A plugin may not return its optimized program, or in a form that we cannot read. Then the times stand alone.
  absl::StatusOr<host::Executable> compiled = executable.GetExecutable();
  if (compiled.ok()) {
    absl::StatusOr<host::Program> optimized = compiled->OptimizedProgram();
    if (optimized.ok()) {
      absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram(optimized->format, optimized->code);
      if (module.ok()) AddWork(**module, &profile.operations);
    }
  }
  return profile;
}

void AddKernels(absl::string_view compile_log, std::vector<ProfiledOperation>* operations) {
  absl::flat_hash_map<absl::string_view, ProfiledOperation*> by_name;
  for (ProfiledOperation& operation : *operations) by_name.emplace(operation.name, &operation);
  ProfiledOperation* last = nullptr;
  for (absl::string_view line : absl::StrSplit(compile_log, '\n')) {
    if (absl::ConsumePrefix(&line, "  ")) {
      if (last != nullptr) last->refusals.emplace_back(line);
      continue;
    }
    const size_t colon = line.find(": ");
    const auto found = by_name.find(line.substr(0, colon));
    last = colon == absl::string_view::npos || found == by_name.end() ? nullptr : found->second;
    if (last != nullptr) last->kernel = std::string(line.substr(colon + 2));
  }
}

double FractionOfRates(const ProfiledOperation& operation, const PluginRates& rates) {
  if (operation.seconds <= 0 || operation.count == 0) return 0;
  double least = 0;
  if (rates.flops_per_second > 0) least = std::max(least, operation.flops / rates.flops_per_second);
  if (rates.bytes_per_second > 0) least = std::max(least, operation.bytes_accessed / rates.bytes_per_second);
  return least * static_cast<double>(operation.count) / operation.seconds;
}

std::string FormatProfile(const Profile& profile, const Terminal& terminal) {
  double total = 0;
  for (const ProfiledOperation& o : profile.operations) total += o.seconds;
  const double runs = static_cast<double>(std::max<int64_t>(1, profile.runs));
  std::vector<std::vector<std::string>> rows = {
      {"operation", "opcode", "times", "us", "%", "GFLOP/s", "GB/s", "% of rate", "source"}};
  for (const ProfiledOperation& o : profile.operations) {
    const double each = o.seconds / static_cast<double>(o.count);
    const double fraction = FractionOfRates(o, profile.rates);
    rows.push_back({o.name, o.opcode, absl::StrFormat("%.4g", static_cast<double>(o.count) / runs),
                    absl::StrFormat("%.1f", o.seconds / runs * 1e6),
                    absl::StrFormat("%.1f", total > 0 ? 100 * o.seconds / total : 0),
                    each > 0 ? FormatRate(o.flops / each) : "", each > 0 ? FormatRate(o.bytes_accessed / each) : "",
                    fraction > 0 ? absl::StrFormat("%.0f", 100 * fraction) : "", o.source});
  }
  std::string text =
      absl::StrCat(terminal.ApplyStyle(Style::kBold, "profile"),
                   absl::StrFormat(": %d runs, %.1f us each by the host's clock, %.1f us in operations\n", profile.runs,
                                   profile.seconds / runs * 1e6, total / runs * 1e6));
  if (profile.rates.flops_per_second > 0) {
    absl::StrAppendFormat(&text, "rates of this plugin: %.1f GFLOP/s (%s), %.1f GB/s (%s)\n",
                          profile.rates.flops_per_second / 1e9, profile.rates.flops_program,
                          profile.rates.bytes_per_second / 1e9, profile.rates.bytes_program);
  }
  for (const std::string& warning : profile.trace.warnings) absl::StrAppend(&text, "warning: ", warning, "\n");
  return absl::StrCat(text, FormatTable(rows, {2, 3, 4, 5, 6, 7}));
}

host::Json ProfileJson(const Profile& profile) {
  using host::Json;
  Json list = Json::MakeArray();
  for (const ProfiledOperation& o : profile.operations) {
    list.Push(Json::MakeObject()
                  .Set("name", o.name)
                  .Set("opcode", o.opcode)
                  .Set("source", o.source)
                  .Set("count", o.count)
                  .Set("seconds", o.seconds)
                  .Set("flops", o.flops)
                  .Set("bytes_accessed", o.bytes_accessed)
                  .Set("fraction_of_rates", FractionOfRates(o, profile.rates))
                  .Set("kernel", o.kernel));
  }
  return Json::MakeObject()
      .Set("runs", profile.runs)
      .Set("seconds", profile.seconds)
      .Set("flops_per_second", profile.rates.flops_per_second)
      .Set("bytes_per_second", profile.rates.bytes_per_second)
      .Set("operations", std::move(list));
}

std::string PrintChromeTrace(const host::DeviceTrace& trace) {
  using host::Json;
  Json events = Json::MakeArray();
  int64_t first = INT64_MAX;
  for (const host::TracePlane& plane : trace.planes) {
    for (const host::TraceLine& line : plane.lines) {
      for (const host::TraceEvent& event : line.events) first = std::min(first, event.start_ps);
    }
  }
  int64_t process = 0;
  for (const host::TracePlane& plane : trace.planes) {
    ++process;
    events.Push(Json::MakeObject()
                    .Set("ph", "M")
                    .Set("name", "process_name")
                    .Set("pid", process)
                    .Set("args", Json::MakeObject().Set("name", plane.name)));
    int64_t thread = 0;
    for (const host::TraceLine& line : plane.lines) {
      ++thread;
      events.Push(Json::MakeObject()
                      .Set("ph", "M")
                      .Set("name", "thread_name")
                      .Set("pid", process)
                      .Set("tid", thread)
                      .Set("args", Json::MakeObject().Set("name", line.name)));
      for (const host::TraceEvent& event : line.events) {
        events.Push(Json::MakeObject()
                        .Set("ph", "X")
                        .Set("name", event.name)
                        .Set("pid", process)
                        .Set("tid", thread)
                        .Set("ts", static_cast<double>(event.start_ps - first) * 1e-6)
                        .Set("dur", static_cast<double>(event.duration_ps) * 1e-6)
                        .Set("args", Json::MakeObject().Set("program", event.program)));
      }
    }
  }
  return Json::MakeObject().Set("displayTimeUnit", "ns").Set("traceEvents", std::move(events)).Text();
}

}  // namespace backplane::cli
