// backplane bench: measures how long a program takes on several plugins.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/arrays.h"
#include "sdk/cli/clock.h"
#include "sdk/cli/command.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/program.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

struct BenchOptions {
  PluginOptions plugin;
  std::string program;
  std::vector<std::string> plugins, inputs;
  int64_t seed = 0, runs = 0, warmup = 3;
  double seconds = 2;
};

struct Times {
  std::string plugin;
  double compile = 0;
  std::vector<double> runs;  // seconds, sorted
  double At(double part) const { return runs[static_cast<size_t>(part * static_cast<double>(runs.size() - 1) + 0.5)]; }
};

std::string Duration(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.2f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3f ms", seconds * 1e3);
  return absl::StrFormat("%.3f s", seconds);
}

// Runs the program once and measures the time from the call until the last result is ready.
absl::Status RunTimed(const host::LoadedExecutable& executable, const std::vector<const host::Buffer*>& arguments,
                      double* seconds) {
  const double begin = Now();
  BP_RETURN_IF_ERROR(RunToCompletion(executable, arguments));
  *seconds = Now() - begin;
  return absl::OkStatus();
}

absl::StatusOr<Times> Measure(const BenchOptions& o, const std::string& which, const host::Program& program,
                              const std::vector<host::HostArray>& inputs, Terminal& terminal) {
  BP_ASSIGN_OR_RETURN(const Session session, OpenSession(which, o.plugin));
  Times times;
  times.plugin = session.found.name;
  double begin = Now();
  BP_ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, program));
  times.compile = Now() - begin;
  BP_ASSIGN_OR_RETURN(const std::vector<host::Buffer> buffers, ToDevice(session, inputs));
  std::vector<const host::Buffer*> arguments;
  for (const host::Buffer& buffer : buffers) arguments.push_back(&buffer);
  double seconds = 0;
  for (int64_t i = 0; i < o.warmup; ++i) BP_RETURN_IF_ERROR(FromPlugin(RunTimed(executable, arguments, &seconds)));
  begin = Now();
  while (o.runs > 0 ? static_cast<int64_t>(times.runs.size()) < o.runs
                    : (times.runs.size() < 3 || Now() - begin < o.seconds) && times.runs.size() < 1000000) {
    BP_RETURN_IF_ERROR(FromPlugin(RunTimed(executable, arguments, &seconds)));
    times.runs.push_back(seconds);
    if (o.runs > 0) {
      terminal.ShowProgress(which, times.runs.size(), static_cast<size_t>(o.runs));
    } else {
      terminal.ShowProgress(which, static_cast<size_t>(std::min((Now() - begin) / o.seconds, 1.0) * 100), 100);
    }
  }
  terminal.ShowProgress(which, 1, 1);
  std::sort(times.runs.begin(), times.runs.end());
  return times;
}

absl::Status Bench(const BenchOptions& o, Terminal& terminal) {
  if (o.runs < 0 || o.warmup < 0 || !(o.seconds > 0))
    return absl::InvalidArgumentError("bench: runs, warm-up and seconds are not negative");
  BP_ASSIGN_OR_RETURN(const ProgramFile file, ReadModule(o.program));
  BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(file));
  BP_ASSIGN_OR_RETURN(const std::vector<host::ArrayShape> shapes, ParameterShapes(*file.module));
  BP_ASSIGN_OR_RETURN(const std::vector<host::HostArray> inputs,
                      MakeInputs(shapes, o.inputs, static_cast<uint64_t>(o.seed)));
  std::vector<Times> all;
  for (const std::string& which : o.plugins) {
    BP_ASSIGN_OR_RETURN(Times times, Measure(o, which, program, inputs, terminal));
    all.push_back(std::move(times));
  }
  if (terminal.json()) {
    host::Json list = host::Json::MakeArray();
    for (const Times& t : all) {
      list.Push(host::Json::MakeObject()
                    .Set("plugin", t.plugin)
                    .Set("compile_seconds", t.compile)
                    .Set("runs", t.runs.size())
                    .Set("min_seconds", t.runs[0])
                    .Set("median_seconds", t.At(0.5))
                    .Set("p90_seconds", t.At(0.9))
                    .Set("max_seconds", t.runs.back()));
    }
    terminal.PrintJson(host::Json::MakeObject().Set("program", file.module->name()).Set("plugins", std::move(list)));
    return absl::OkStatus();
  }
  auto bold = [&](absl::string_view t) { return terminal.ApplyStyle(Style::kBold, t); };
  std::vector<std::vector<std::string>> rows = {{bold("plugin"), bold("compile"), bold("runs"), bold("min"),
                                                 bold("median"), bold("p90"), bold("max"), bold("to first")}};
  for (const Times& t : all) {
    rows.push_back({t.plugin, Duration(t.compile), absl::StrCat(t.runs.size()), Duration(t.runs[0]),
                    Duration(t.At(0.5)), Duration(t.At(0.9)), Duration(t.runs.back()),
                    absl::StrFormat("%.2fx", t.At(0.5) / all[0].At(0.5))});
  }
  terminal.Print(FormatTable(rows, {1, 2, 3, 4, 5, 6, 7}));
  return absl::OkStatus();
}

}  // namespace

Command BenchCommand() {
  auto o = std::make_shared<BenchOptions>();
  Command command{"bench", "measures a program on one or more plugins"};
  command.options.push_back(
      {"program", &o->program, "the program, in any form ('-': standard input)", "PROGRAM", true, {}, true});
  command.options.push_back({"plugins", &o->plugins, "the plugins", "PLUGIN", true, {}, true});
  command.options.push_back(
      {"--input,-i", &o->inputs, "an input; see `backplane run --help`", "SPEC", false, {}, true});
  command.options.push_back(AtLeast(0, {"--seed", &o->seed, "of random inputs", "N"}));
  command.options.push_back(
      AtLeast(1, {"--runs", &o->runs, "how many runs to time; else as many as fit the seconds, 3 at least", "N"}));
  command.options.push_back(Bounded(0, 1e6, {"--seconds", &o->seconds, "how long to time", "SECONDS"}));
  command.options.push_back(AtLeast(0, {"--warmup", &o->warmup, "warm-up runs that are not timed", "N"}));
  o->plugin.AddTo(&command);
  command.details = "A run lasts from the call to the last result being there; inputs lie on the device before.";
  command.state = o;
  command.run = [o](Terminal& terminal, int*) { return Bench(*o, terminal); };
  return command;
}

}  // namespace backplane::cli
