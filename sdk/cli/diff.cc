// backplane diff: runs one program on several plugins and compares the results.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/arrays.h"
#include "sdk/cli/bisect.h"
#include "sdk/cli/command.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/program.h"
#include "sdk/cli/ulp.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

struct DiffOptions {
  PluginOptions plugin;
  std::string program;
  std::vector<std::string> plugins, inputs;
  int64_t seed = 0;
  Tolerance tolerance;
  bool bisect = false;
};

struct DiffRow {
  std::string plugin;
  size_t result;
  std::string shape;
  Difference difference;
};

host::Json CulpritJson(const std::string& plugin, const absl::StatusOr<Culprit>& culprit) {
  host::Json json = host::Json::MakeObject().Set("plugin", plugin);
  if (!culprit.ok()) return json.Set("error", absl::string_view(culprit.status().message()));
  json.Set("compared", culprit->compared);
  if (culprit->instruction.empty()) return json.Set("instruction", host::Json());
  json.Set("instruction", culprit->instruction)
      .Set("source", culprit->source)
      .Set("difference", ToJson(culprit->difference));
  if (culprit->alone_status.ok())
    return json.Set("alone_differs", culprit->alone_differs).Set("alone", ToJson(culprit->alone));
  return json.Set("alone_error", absl::string_view(culprit->alone_status.message()));
}

void PrintCulprit(const std::string& plugin, const absl::StatusOr<Culprit>& culprit, Terminal& terminal) {
  if (!culprit.ok()) {
    terminal.Print(absl::StrCat(plugin, ": bisect failed: ", absl::string_view(culprit.status().message()), "\n"));
    return;
  }
  if (culprit->instruction.empty()) {
    terminal.Print(absl::StrCat(plugin, ": all ", culprit->compared,
                                " instructions agree if they are results themselves: the difference ",
                                "comes from how they are compiled together\n"));
    return;
  }
  terminal.Print(absl::StrCat(plugin, ": first differs at instruction ", culprit->compared, ":\n  ",
                              terminal.ApplyStyle(Style::kBold, culprit->instruction), "\n"));
  if (!culprit->source.empty()) terminal.Print(absl::StrCat("  from ", culprit->source, "\n"));
  terminal.Print(absl::StrCat("  ", culprit->difference.differing, " of ", culprit->difference.count,
                              " elements, by up to ", FormatDistance(culprit->difference.max_ulp), " ulp\n"));
  if (!culprit->alone_status.ok()) {
    terminal.Print(absl::StrCat("  alone: not tried: ", absl::string_view(culprit->alone_status.message()), "\n"));
  } else if (culprit->alone_differs) {
    terminal.Print(absl::StrCat("  alone, with the same operands: also differs, by up to ",
                                FormatDistance(culprit->alone.max_ulp), " ulp: element ", culprit->alone.worst, " is ",
                                culprit->alone.worst_a, " and ", culprit->alone.worst_b, "\n"));
  } else {
    terminal.Print(
        "  alone, with the same operands: agrees; the difference comes from what it is compiled together with\n");
  }
}

absl::Status Diff(const DiffOptions& o, Terminal& terminal, int* exit_code) {
  if (o.plugins.size() < 2) return MakeUsageError("diff: expected at least two plugins");
  BP_ASSIGN_OR_RETURN(const ProgramFile file, ReadModule(o.program));
  BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(file));
  BP_ASSIGN_OR_RETURN(const std::vector<host::ArrayShape> shapes, ParameterShapes(*file.module));
  BP_ASSIGN_OR_RETURN(const std::vector<host::HostArray> inputs,
                      MakeInputs(shapes, o.inputs, static_cast<uint64_t>(o.seed)));
  std::vector<Session> sessions;
  std::vector<std::vector<host::HostArray>> results;
  for (const std::string& which : o.plugins) {
    terminal.ShowProgress("diff", sessions.size(), o.plugins.size());
    BP_ASSIGN_OR_RETURN(Session session, OpenSession(which, o.plugin));
    sessions.push_back(std::move(session));
    BP_ASSIGN_OR_RETURN(std::vector<host::HostArray> arrays, CompileAndRun(sessions.back(), program, inputs));
    results.push_back(std::move(arrays));
  }
  terminal.ShowProgress("diff", o.plugins.size(), o.plugins.size());

  std::vector<DiffRow> rows;
  host::Json culprits = host::Json::MakeArray();
  bool agree = true;
  std::vector<std::pair<std::string, absl::StatusOr<Culprit>>> found;
  for (size_t p = 1; p < sessions.size(); ++p) {
    if (results[p].size() != results[0].size()) {
      return absl::InternalError(absl::StrCat(o.plugins[p], ": ", results[p].size(), " results, ", o.plugins[0],
                                              " gives ", results[0].size()));
    }
    bool same = true;
    for (size_t r = 0; r < results[0].size(); ++r) {
      BP_ASSIGN_OR_RETURN(const Difference difference, Compare(results[0][r], results[p][r], o.tolerance));
      same = same && difference.agrees();
      rows.push_back(
          {sessions[p].found.name, r, host::FormatShape(results[0][r].type, results[0][r].dims), difference});
    }
    agree = agree && same;
    if (!same && o.bisect) {
      found.emplace_back(sessions[p].found.name,
                         FindFirstDifference(*file.module, sessions[0], sessions[p], inputs, o.tolerance, terminal));
    }
  }
  if (!agree) *exit_code = kNo;

  if (terminal.json()) {
    host::Json list = host::Json::MakeArray();
    for (const DiffRow& row : rows) {
      list.Push(host::Json::MakeObject()
                    .Set("plugin", row.plugin)
                    .Set("result", row.result)
                    .Set("shape", row.shape)
                    .Set("agrees", row.difference.agrees())
                    .Set("difference", ToJson(row.difference)));
    }
    for (const auto& [plugin, culprit] : found) culprits.Push(CulpritJson(plugin, culprit));
    terminal.PrintJson(host::Json::MakeObject()
                           .Set("reference", sessions[0].found.name)
                           .Set("agree", agree)
                           .Set("results", std::move(list))
                           .Set("first_differences", std::move(culprits)));
    return absl::OkStatus();
  }
  auto bold = [&](absl::string_view t) { return terminal.ApplyStyle(Style::kBold, t); };
  std::vector<std::vector<std::string>> table = {{bold("plugin"), bold("result"), bold("shape"), bold("differing"),
                                                  bold("max ulp"), bold("max abs"), bold("worst element")}};
  for (const DiffRow& row : rows) {
    const Difference& d = row.difference;
    table.push_back(
        {row.plugin, absl::StrCat(row.result), row.shape,
         terminal.ApplyStyle(d.agrees() ? Style::kGood : Style::kBad, absl::StrCat(d.differing, "/", d.count)),
         FormatDistance(d.max_ulp), absl::StrFormat("%.3g", d.max_absolute),
         d.worst < 0 ? "" : absl::StrCat("[", d.worst, "] ", d.worst_a, " and ", d.worst_b)});
  }
  terminal.Print(FormatTable(table, {1}));
  terminal.Print(
      absl::StrCat(agree ? terminal.ApplyStyle(Style::kGood, "agree") : terminal.ApplyStyle(Style::kBad, "differ"),
                   " (", sessions[0].found.name, " is what the others are compared with)\n"));
  for (const auto& [plugin, culprit] : found) PrintCulprit(plugin, culprit, terminal);
  return absl::OkStatus();
}

}  // namespace

Command DiffCommand() {
  auto o = std::make_shared<DiffOptions>();
  Command command{"diff", "runs a program on several plugins and compares the results"};
  command.options.push_back(
      {"program", &o->program, "the program, in any form ('-': standard input)", "PROGRAM", true, {}, true});
  command.options.push_back({"plugins",
                             &o->plugins,
                             "two or more plugins; the others are compared with the first",
                             "PLUGIN",
                             true,
                             {},
                             true});
  command.options.push_back(
      {"--input,-i", &o->inputs, "an input; see `backplane run --help`", "SPEC", false, {}, true});
  command.options.push_back(AtLeast(0, {"--seed", &o->seed, "of random inputs", "N"}));
  command.options.push_back(AtLeast(
      0, {"--ulp", &o->tolerance.ulp, "largest distance of elements that agree, in steps of the element type", "N"}));
  command.options.push_back(
      AtLeast(0, {"--abs", &o->tolerance.absolute, "distance within which elements agree as well", "X"}));
  command.options.push_back({"--bisect,-b", &o->bisect, "find the first instruction that differs"});
  o->plugin.AddTo(&command);
  command.details = "Exit code 1 when any result differs.\n  backplane diff model.mlir reference cpu --ulp 4 --bisect";
  command.state = o;
  command.run = [o](Terminal& terminal, int* exit_code) { return Diff(*o, terminal, exit_code); };
  return command;
}

}  // namespace backplane::cli
