// backplane inspect: what a plugin is, or what a program is.
#include "sdk/cli/inspect.h"

#include <sys/stat.h>

#include "absl/strings/match.h"

namespace backplane::cli {
namespace {

// A name, a library or a manifest is a plugin; any other file, and standard input, is a program.
bool IsPlugin(const std::string& what) {
  if (absl::EndsWith(what, ".so") || absl::EndsWith(what, ".json")) return true;
  struct stat info;
  return what != "-" && stat(what.c_str(), &info) != 0 && !absl::StrContains(what, '/') &&
         !absl::StrContains(what, '.');
}

}  // namespace

Command InspectCommand() {
  auto options = std::make_shared<InspectOptions>();
  Command command{"inspect", "tells what a plugin or a program is"};
  command.options.push_back({"what", &options->what,
                             "a plugin (path, manifest or name), or the file of a program ('-': standard input)",
                             "PLUGIN|PROGRAM", true});
  command.options.push_back({"--symbols", &options->symbols, "of a plugin: list all exported symbols"});
  command.options.push_back({"--no-client", &options->no_client, "of a plugin: do not create a client"});
  command.options.push_back({"--text", &options->text, "of a program: print it as HLO text"});
  command.options.push_back(
      {"--graph", &options->graph, "of a program: write its graph as SVG", "FILE", false, {}, true});
  options->plugin.AddTo(&command, false);
  command.details =
      "Of a plugin: API version, functions it lacks, extensions, attributes, devices, the libraries it needs, what it "
      "exports.\n"
      "All of that is asked in a child process; a plugin that crashes or hangs is reported, with exit code 1.\n"
      "Of a program: its form, signature, sizes, the operations in it and their cost.";
  command.state = options;
  command.run = [options](Terminal& terminal, int* exit_code) {
    return IsPlugin(options->what) ? InspectPlugin(*options, terminal, exit_code) : InspectProgram(*options, terminal);
  };
  return command;
}

}  // namespace backplane::cli
