// backplane inspect: describes a plugin or a program.
#include "sdk/cli/inspect.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "absl/strings/match.h"

namespace backplane::cli {
namespace {

// Whether the argument is a plugin: a name, a library (by its name or its first bytes) or a manifest. Other files, and
// standard input, are programs.
bool IsPlugin(const std::string& what) {
  if (absl::EndsWith(what, ".so") || absl::EndsWith(what, ".json")) return true;
  struct stat info;
  if (stat(what.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    char magic[4] = {};
    std::ifstream(what, std::ios::binary).read(magic, sizeof(magic));
    return std::memcmp(magic,
                       "\x7f"
                       "ELF",
                       sizeof(magic)) == 0;
  }
  return what != "-" && stat(what.c_str(), &info) != 0 && !absl::StrContains(what, '/') &&
         !absl::StrContains(what, '.');
}

}  // namespace

Command InspectCommand() {
  auto options = std::make_shared<InspectOptions>();
  Command command{"inspect", "describes a plugin or a program"};
  command.options.push_back({"what", &options->what,
                             "a plugin (path, manifest or name), or the file of a program ('-': standard input)",
                             "PLUGIN|PROGRAM", true});
  command.options.push_back({"--symbols", &options->symbols, "plugins: list all exported symbols"});
  command.options.push_back({"--no-client", &options->no_client, "plugins: do not create a client"});
  command.options.push_back({"--text", &options->text, "programs: print the HLO text"});
  command.options.push_back({"--graph", &options->graph, "programs: write the graph as SVG", "FILE", false, {}, true});
  options->plugin.AddTo(&command, false);
  command.details =
      "Of a plugin: API version, functions it lacks, extensions, attributes, devices, the libraries it needs, what it "
      "exports.\n"
      "All of that is asked in a child process; a plugin that crashes or hangs is reported, with exit code 1.\n"
      "Of a program: its form, signature, sizes, the operations in it and their cost.";
  command.state = options;
  command.run = [options](Terminal& terminal, int* exit_code) {
    if (IsPlugin(options->what)) {
      // A file whose name does not show that it is a library.
      struct stat info;
      const bool bare = !absl::StrContains(options->what, '/') && !absl::EndsWith(options->what, ".so") &&
                        !absl::EndsWith(options->what, ".json");
      if (bare && stat(options->what.c_str(), &info) == 0) options->what.insert(0, "./");
      return InspectPlugin(*options, terminal, exit_code);
    }
    return InspectProgram(*options, terminal);
  };
  return command;
}

}  // namespace backplane::cli
