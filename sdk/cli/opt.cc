// backplane opt: runs passes on a program and shows it before and after.

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/passes/registry/registry.h"
#include "core/text/hlo_printer.h"
#include "sdk/cli/command.h"
#include "sdk/cli/program.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

struct OptOptions {
  std::string program, passes = "common";
  std::string disabled;
  bool before = false, each = false, list = false, time = false;
};

struct Step {
  std::string pass;
  bool changed = false, disabled = false;
  int64_t instructions = 0;
  double milliseconds = 0;
  std::string text;
};

int64_t Count(const Module& module) {
  int64_t count = 0;
  for (const auto& computation : module.computations()) count += computation->instruction_count();
  return count;
}

// Returns the passes for the names. A pipeline becomes its passes, repeated until nothing changes.
absl::StatusOr<std::vector<Step>> RunPasses(const OptOptions& o, Module* module) {
  PassDebugging debugging = PassDebugging::OfProcess();
  for (absl::string_view name : absl::StrSplit(o.disabled, ',', absl::SkipWhitespace())) {
    const absl::StatusOr<std::unique_ptr<Pass>> pass = MakePass(name);
    if (!pass.ok()) return host::AddContext(pass.status(), "opt");
    debugging.disabled.emplace_back(name);
  }
  std::vector<Step> steps;
  auto run = [&](Pass& pass) -> absl::StatusOr<bool> {
    const auto start = std::chrono::steady_clock::now();
    BP_ASSIGN_OR_RETURN(const bool disabled, debugging.IsDisabled(pass));
    BP_ASSIGN_OR_RETURN(const bool changed, RunPass(pass, module, /*verify=*/true, debugging));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    steps.push_back({std::string(pass.name()), changed, disabled, Count(*module), took.count(),
                     o.each && changed ? PrintModule(*module) : ""});
    return changed;
  };
  for (absl::string_view name : absl::StrSplit(o.passes, ',', absl::SkipWhitespace())) {
    absl::StatusOr<std::unique_ptr<Pass>> pass = MakePass(name);
    if (!pass.ok()) return host::AddContext(pass.status(), "opt");
    if (!(*pass)->IsPipeline()) {
      BP_RETURN_IF_ERROR(run(**pass).status());
      continue;
    }
    const PassPipeline& pipeline = static_cast<const PassPipeline&>(**pass);
    bool changed = true;
    for (int round = 0; changed && round < pipeline.max_rounds(); ++round) {
      changed = false;
      for (const auto& member : pipeline.passes()) {
        BP_ASSIGN_OR_RETURN(const bool now, run(*member));
        changed |= now;
      }
    }
  }
  return steps;
}

absl::Status Opt(const OptOptions& o, Terminal& terminal) {
  if (o.list) {
    host::Json list = host::Json::MakeArray();
    for (const RegisteredPass& pass : ListPasses()) {
      host::Json one = host::Json::MakeObject().Set("name", pass.name).Set("summary", pass.summary);
      if (!pass.runs.empty()) {
        host::Json runs = host::Json::MakeArray();
        for (const std::string& name : pass.runs) runs.Push(name);
        one.Set("runs", std::move(runs));
      }
      list.Push(std::move(one.Set("required", pass.required)));
      if (terminal.json()) continue;
      terminal.Print(absl::StrFormat("%-33s%s\n", pass.name, pass.summary));
      if (!pass.runs.empty()) terminal.Print(absl::StrFormat("%33s%s\n", "", absl::StrJoin(pass.runs, ", ")));
    }
    if (terminal.json()) terminal.PrintJson(host::Json::MakeObject().Set("passes", std::move(list)));
    return absl::OkStatus();
  }
  if (o.program.empty()) return MakeUsageError("opt: no program given");
  BP_ASSIGN_OR_RETURN(const ProgramFile file, ReadModule(o.program));
  const std::string before = PrintModule(*file.module);
  const int64_t count = Count(*file.module);
  BP_ASSIGN_OR_RETURN(const std::vector<Step> steps, RunPasses(o, file.module.get()));
  const std::string after = PrintModule(*file.module);
  if (terminal.json()) {
    host::Json list = host::Json::MakeArray();
    for (const Step& step : steps) {
      host::Json one = host::Json::MakeObject()
                           .Set("pass", step.pass)
                           .Set("changed", step.changed)
                           .Set("disabled", step.disabled)
                           .Set("instructions", step.instructions)
                           .Set("milliseconds", step.milliseconds);
      if (o.each) one.Set("text", step.text);
      list.Push(std::move(one));
    }
    terminal.PrintJson(host::Json::MakeObject()
                           .Set("instructions_before", count)
                           .Set("steps", std::move(list))
                           .Set("before", before)
                           .Set("after", after));
    return absl::OkStatus();
  }
  // HLO text has comments, so output that contains one module can be read again.
  auto title = [&](absl::string_view text) {
    terminal.Print(absl::StrCat(terminal.ApplyStyle(Style::kNote, absl::StrCat("// ", text)), "\n"));
  };
  if (o.before) {
    title(absl::StrCat("before: ", count, " instructions"));
    terminal.Print(absl::StrCat(before, "\n"));
  }
  for (const Step& step : steps) {
    title(absl::StrCat(step.pass, ": ",
                       step.disabled  ? "left out"
                       : step.changed ? "changed it"
                                      : "changed nothing",
                       ", ", step.instructions, " instructions",
                       o.time ? absl::StrFormat(", %.2f ms", step.milliseconds) : ""));
    if (o.each && step.changed) terminal.Print(absl::StrCat(step.text, "\n"));
  }
  if (!o.each) terminal.Print(after);
  return absl::OkStatus();
}

}  // namespace

Command OptCommand() {
  auto o = std::make_shared<OptOptions>();
  Command command{"opt", "runs passes on a program and prints it as HLO text"};
  command.options.push_back(
      {"program", &o->program, "the program, in any form ('-': standard input)", "PROGRAM", false, {}, true});
  command.options.push_back({"--passes,-p", &o->passes, "names of passes and pipelines, separated by commas", "LIST"});
  command.options.push_back({"--before,-b", &o->before, "also print the program before"});
  command.options.push_back({"--each,-e", &o->each, "print the program after each pass that changes it"});
  command.options.push_back(
      {"--disable,-d", &o->disabled, "passes to omit from pipelines, separated by commas", "LIST"});
  command.options.push_back({"--time,-t", &o->time, "print how long each pass took"});
  command.options.push_back({"--list,-l", &o->list, "list the passes"});
  command.details =
      "The module is verified after each pass. BACKPLANE_DUMP_PASSES=DIR writes it before and after each pass that "
      "changes\n"
      "it, here and in a plugin of this project.\n  backplane opt model.mlir --passes inline-calls,fold-constants "
      "--each";
  command.state = o;
  command.run = [o](Terminal& terminal, int*) { return Opt(*o, terminal); };
  return command;
}

}  // namespace backplane::cli
