// A subcommand of `backplane`: its options as data, and its function. Each subcommand is in one file; commands.cc lists
// them.
//
// The parser (command_line.cc, with CLI11), the help and the shell completions are generated from the data.
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

// The exit codes of the program.
enum ExitCode {
  kOk = 0,
  kNo = 1,           // a negative result: results differ, the plugin cannot be used
  kUsage = 2,        // a wrong command line
  kBadInput = 3,     // a file or program is missing or wrong
  kPluginFailed = 4  // the plugin refused, lacks something, failed or crashed
};

// The variable for the value of an option. A bool is a flag without a value; a vector is an option that may be
// repeated.
using Target = std::variant<bool*, std::string*, int64_t*, double*, std::vector<std::string>*>;

struct Option {
  std::string name;  // "--plugin,-p", or "program" for a positional argument
  Target target;
  std::string help;   // one line
  std::string value;  // the name of the value in the help: "PATH"
  bool required = false;
  std::vector<std::string> choices;  // if given, the only permitted values
  bool file = false;                 // completed as a file name
  // The bounds of a number.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();

  bool by_position() const { return name[0] != '-'; }
};

// Returns `option`, a number, with bounds.
Option Bounded(double least, double most, Option option);
inline Option AtLeast(double least, Option option) {
  return Bounded(least, std::numeric_limits<double>::infinity(), std::move(option));
}

struct Command {
  std::string name;
  std::string summary;  // one line
  std::string details;  // printed after the options in the help: examples, meaning of exit codes
  std::vector<Option> options;
  // Returns OK (exit code kOk), sets `*exit_code`, or returns an error, which is printed.
  std::function<absl::Status(Terminal& terminal, int* exit_code)> run;
  std::shared_ptr<void> state;  // owns the variables of the options
  bool hidden = false;
  // Set if the command opens plugins (PluginOptions::AddTo sets it): `run` is then called in a child process
  // (supervise.h). Part of `state`.
  const PluginLimits* limits = nullptr;
};

// One function for each subcommand, in its file.
Command BenchCommand();
Command CompileCommand();
Command ConformCommand();
Command ConvertCommand();
Command DiffCommand();
Command FuzzCommand();
Command GpuReportCommand();
Command InspectCommand();
Command NewPluginCommand();
Command OptCommand();
Command PluginsCommand();
Command ReplayCommand();
Command RunCommand();
Command TpuReportCommand();
Command TraceCommand();

// Returns all of them, in the order of the help.
std::vector<Command> AllCommands();

// Parses the command line, runs the subcommand, and prints its error. Returns the exit code.
int RunCommandLine(std::vector<Command> commands, int argc, char** argv);

// Returns a completion script for "bash", "zsh" or "fish".
absl::Status PrintCompletion(const std::vector<Command>& commands, const std::string& shell, Terminal& terminal);

// Writes manual pages of all commands that are not hidden to `folder`.
absl::Status WriteManual(const std::vector<Command>& commands, absl::string_view summary, absl::string_view footer,
                         const std::string& folder);

// Returns the exit code for an error.
int ToExitCode(const absl::Status& status);
// Returns an error of the command line, with the exit code kUsage.
absl::Status MakeUsageError(absl::string_view message);
// Marks an error as the plugin's, so that its exit code is kPluginFailed.
absl::Status FromPlugin(absl::Status status);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_COMMAND_H_
