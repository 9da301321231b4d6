// backplane conform: runs the conformance kit, which is in conformance/ and is also the program `conform`.
#include "absl/strings/str_split.h"
#include "conformance/kit/judge.h"
#include "sdk/cli/command.h"

namespace backplane::cli {

Command ConformCommand() {
  auto o = std::make_shared<conformance::Options>();
  Command command{"conform", "tests whether a plugin conforms to the PJRT C API and to the definitions of operations"};
  command.options.push_back({"plugin", &o->plugin, "the plugin: path, manifest or name", "PLUGIN", false, {}, true});
  for (const conformance::OptionLine& line : conformance::MakeOptionLines(o.get())) {
    Option option{line.names, line.target, line.help, line.value};
    option.file = line.file;
    if (option.name == "--color") option.choices = {"auto", "always", "never"};
    command.options.push_back(std::move(option));
  }
  command.details = std::string(conformance::kExitStatusHelp) +
                    "\nThe checks run in child processes, so the plugin can crash, hang and exit as it likes.\n"
                    "  backplane conform ./my_plugin.so --level jax-min\n"
                    "  backplane conform cpu --profile cpu --json now.json --html now.html --baseline before.json";
  command.state = o;
  command.run = [o](Terminal& terminal, int* exit_code) {
    // `backplane --json conform ...` writes the report to standard output, like --json elsewhere.
    if (terminal.json() && o->json.empty()) o->json = "-";
    if (o->color == "auto" && terminal.color()) o->color = "always";
    *exit_code = conformance::Judge(*o, "backplane: conform");
    return absl::OkStatus();
  };
  return command;
}

}  // namespace backplane::cli
