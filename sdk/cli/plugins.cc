// backplane plugins: lists the known plugins.
#include "absl/strings/str_cat.h"
#include "sdk/cli/command.h"
#include "sdk/cli/session.h"

namespace backplane::cli {

Command PluginsCommand() {
  auto options = std::make_shared<PluginOptions>();
  Command command{"plugins", "lists the known plugins without opening them"};
  command.options.push_back(
      {"--python", &options->python, "also search this Python environment for plugins", "PREFIX"});
  command.state = options;
  command.run = [options](Terminal& terminal, int* exit_code) {
    const host::Discovery found = host::Discover(options->discovery());
    if (terminal.json()) {
      host::Json list = host::Json::MakeArray(), problems = host::Json::MakeArray();
      for (const host::FoundPlugin& p : found.plugins) {
        list.Push(host::Json::MakeObject()
                      .Set("name", p.name)
                      .Set("library", p.library)
                      .Set("source", p.source)
                      .Set("origin", p.origin));
      }
      for (const absl::Status& problem : found.problems) problems.Push(absl::string_view(problem.message()));
      terminal.PrintJson(host::Json::MakeObject().Set("plugins", std::move(list)).Set("problems", std::move(problems)));
      return absl::OkStatus();
    }
    std::vector<std::vector<std::string>> rows;
    for (const host::FoundPlugin& p : found.plugins) rows.push_back({p.name, p.source, p.library});
    terminal.Print(FormatTable(rows));
    if (rows.empty()) terminal.Note("no plugin found; the end of `backplane --help` says where they are searched for");
    for (const absl::Status& problem : found.problems) terminal.Error(absl::string_view(problem.message()));
    return absl::OkStatus();
  };
  return command;
}

}  // namespace backplane::cli
