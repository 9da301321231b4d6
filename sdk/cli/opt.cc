// backplane opt: passes on a program, before and after.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/passes/passes.h"
#include "core/text/hlo_printer.h"
#include "sdk/cli/command.h"
#include "sdk/cli/program.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

template <typename P>
std::unique_ptr<Pass> Make() {
  return std::make_unique<P>();
}

// Every pass by its name.
std::vector<std::unique_ptr<Pass>> AllPasses() {
  std::vector<std::unique_ptr<Pass>> passes;
  for (auto make : {&Make<InlineCalls>, &Make<UnshareComputations>, &Make<SimplifyTuples>, &Make<SimplifyControlFlow>,
                    &Make<RemoveDeadCode>, &Make<EliminateCommonSubexpressions>, &Make<ExpandOperations>,
                    &Make<ExpandAsync>, &Make<SimplifyCollectives>, &Make<ExpandScans>, &Make<ExpandDots>,
                    &Make<ResolveDynamicSizes>, &Make<SimplifyAlgebra>, &Make<FoldConstants>}) {
    passes.push_back(make());
  }
  return passes;
}

struct OptOptions {
  std::string program, passes = "common";
  bool before = false, each = false, list = false;
};

struct Step {
  std::string pass;
  bool changed = false;
  int64_t instructions = 0;
  std::string text;
};

int64_t Count(const Module& module) {
  int64_t count = 0;
  for (const auto& computation : module.computations()) count += computation->instruction_count();
  return count;
}

absl::StatusOr<Step> RunStep(Pass& pass, Module* module, bool text) {
  BP_ASSIGN_OR_RETURN(const bool changed, RunPass(pass, module, /*verify=*/true));
  return Step{std::string(pass.name()), changed, Count(*module), text ? PrintModule(*module) : ""};
}

absl::StatusOr<std::vector<Step>> RunPasses(const OptOptions& o, Module* module) {
  std::vector<Step> steps;
  std::vector<std::unique_ptr<Pass>> known = AllPasses();
  for (absl::string_view name : absl::StrSplit(o.passes, ',', absl::SkipWhitespace())) {
    if (name == "common") {
      std::unique_ptr<PassPipeline> pipeline = CommonPipeline();
      pipeline->set_verify(true);
      BP_ASSIGN_OR_RETURN(Step step, RunStep(*pipeline, module, o.each));
      step.pass = "common";
      steps.push_back(std::move(step));
      continue;
    }
    Pass* found = nullptr;
    std::vector<std::string> names = {"common"};
    for (const auto& pass : known) {
      names.emplace_back(pass->name());
      if (pass->name() == name) found = pass.get();
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("opt: no pass '", name, "'; there are ", absl::StrJoin(names, ", ")));
    }
    BP_ASSIGN_OR_RETURN(Step step, RunStep(*found, module, o.each));
    steps.push_back(std::move(step));
  }
  return steps;
}

absl::Status Opt(const OptOptions& o, Terminal& terminal) {
  if (o.list) {
    host::Json list = host::Json::MakeArray();
    list.Push("common");
    for (const auto& pass : AllPasses()) list.Push(pass->name());
    if (terminal.json())
      return terminal.PrintJson(host::Json::MakeObject().Set("passes", std::move(list))), absl::OkStatus();
    for (const host::Json& name : *list.array()) terminal.Print(absl::StrCat(*name.string(), "\n"));
    return absl::OkStatus();
  }
  if (o.program.empty()) return UsageError("opt: no program given");
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
                           .Set("instructions", step.instructions);
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
  // HLO text takes comments: what is printed can be read again when only the last module is.
  auto title = [&](absl::string_view text) {
    terminal.Print(absl::StrCat(terminal.Styled(Style::kNote, absl::StrCat("// ", text)), "\n"));
  };
  if (o.before) {
    title(absl::StrCat("before: ", count, " instructions"));
    terminal.Print(absl::StrCat(before, "\n"));
  }
  for (const Step& step : steps) {
    title(absl::StrCat(step.pass, ": ", step.changed ? "changed it" : "changed nothing", ", ", step.instructions,
                       " instructions"));
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
  command.options.push_back(
      {"--passes,-p", &o->passes, "names, separated by commas; 'common' is the pipeline all plugins share", "LIST"});
  command.options.push_back({"--before,-b", &o->before, "print the program before as well"});
  command.options.push_back({"--each,-e", &o->each, "print the program after each pass that changed it"});
  command.options.push_back({"--list,-l", &o->list, "list the passes"});
  command.details =
      "The module is verified after each pass.\n  backplane opt model.mlir --passes inline-calls,fold-constants --each";
  command.state = o;
  command.run = [o](Terminal& terminal, int*) { return Opt(*o, terminal); };
  return command;
}

}  // namespace backplane::cli
