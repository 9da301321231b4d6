// A subcommand of `backplane`: its options as data, and what it does. One file a subcommand; commands.cc lists them.
//
// From the data come the parser (command_line.cc, over CLI11), the help and the shell completions.
#ifndef BACKPLANE_SDK_CLI_COMMAND_H_
#define BACKPLANE_SDK_CLI_COMMAND_H_

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "sdk/cli/supervise.h"
#include "sdk/cli/terminal.h"

namespace backplane::cli {

// What the program returns.
enum ExitCode {
  kOk = 0,
  kNo = 1,           // the answer is no: results differ, the plugin cannot be used
  kUsage = 2,        // the command line makes no sense
  kBadInput = 3,     // a file or program that is missing or wrong
  kPluginFailed = 4  // the plugin refused, lacks something, failed or crashed
};

// Where the value of an option goes; a bool is a flag without a value, a vector takes the option many times.
using Target = std::variant<bool*, std::string*, int64_t*, double*, std::vector<std::string>*>;

struct Option {
  std::string name;  // "--plugin,-p", or "program" for an argument by position
  Target target;
  std::string help;   // one line
  std::string value;  // what to call the value in the help: "PATH"
  bool required = false;
  std::vector<std::string> choices;  // if given, the only values
  bool file = false;                 // completed as a file name
  // Of a number: what it may be.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();

  bool by_position() const { return name[0] != '-'; }
};

// `option`, a number, with its bounds.
Option Bounded(double least, double most, Option option);
inline Option AtLeast(double least, Option option) {
  return Bounded(least, std::numeric_limits<double>::infinity(), std::move(option));
}

struct Command {
  std::string name;
  std::string summary;  // one line
  std::string details;  // below the options in the help: examples, meaning of exit codes
  std::vector<Option> options;
  // Ends with OK (exit code kOk), with `*exit_code` set, or with an error, which is printed.
  std::function<absl::Status(Terminal& terminal, int* exit_code)> run;
  std::shared_ptr<void> state;  // keeps what the targets point to
  bool hidden = false;
  // Set where plugins are opened (PluginOptions::AddTo does): `run` is called in a child process (supervise.h). Belongs
  // to `state`.
  const PluginLimits* limits = nullptr;
};

// One function for each subcommand, in its file.
Command BenchCommand();
Command CompileCommand();
Command ConformCommand();
Command ConvertCommand();
Command DiffCommand();
Command FuzzCommand();
Command InspectCommand();
Command NewPluginCommand();
Command OptCommand();
Command PluginsCommand();
Command ReplayCommand();
Command RunCommand();
Command TpuReportCommand();
Command TraceCommand();

// All of them, in the order of the help.
std::vector<Command> AllCommands();

// Parses the command line, runs the subcommand, prints its error. Returns the exit code.
int RunCommandLine(std::vector<Command> commands, int argc, char** argv);

// A completion script for "bash", "zsh" or "fish".
absl::Status PrintCompletion(const std::vector<Command>& commands, const std::string& shell, Terminal& terminal);

// Manual pages of all commands that are not hidden, as files of `folder`.
absl::Status WriteManual(const std::vector<Command>& commands, absl::string_view summary, absl::string_view footer,
                         const std::string& folder);

// The exit code of an error.
int ExitCodeOf(const absl::Status& status);
// An error of the command line, with the exit code kUsage.
absl::Status UsageError(absl::string_view message);
// Marks an error as the plugin's, so that its exit code is kPluginFailed whatever its code.
absl::Status FromPlugin(absl::Status status);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_COMMAND_H_
