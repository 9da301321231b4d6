#include "absl/strings/cord.h"
#include "sdk/cli/command.h"

namespace backplane::cli {
namespace {

constexpr char kPluginErrorUrl[] = "backplane.dev/plugin";
constexpr char kUsageErrorUrl[] = "backplane.dev/usage";

}  // namespace

absl::Status FromPlugin(absl::Status status) {
  if (!status.ok()) status.SetPayload(kPluginErrorUrl, absl::Cord());
  return status;
}

absl::Status MakeUsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsageErrorUrl, absl::Cord());
  return status;
}

Option Bounded(double least, double most, Option option) {
  option.least = least;
  option.most = most;
  return option;
}

int ToExitCode(const absl::Status& status) {
  if (status.ok()) return kOk;
  if (status.GetPayload(kPluginErrorUrl).has_value()) return kPluginFailed;
  if (status.GetPayload(kUsageErrorUrl).has_value()) return kUsage;
  return kBadInput;
}

// In the order of the help. To add a subcommand, write a file with its function and add a line to command.h and here.
std::vector<Command> AllCommands() {
  std::vector<Command> commands;
  commands.push_back(PluginsCommand());
  commands.push_back(InspectCommand());
  commands.push_back(RunCommand());
  commands.push_back(CompileCommand());
  commands.push_back(ConvertCommand());
  commands.push_back(OptCommand());
  commands.push_back(DiffCommand());
  commands.push_back(ReplayCommand());
  commands.push_back(TraceCommand());
  commands.push_back(TpuReportCommand());
  commands.push_back(GpuReportCommand());
  commands.push_back(BenchCommand());
  commands.push_back(FuzzCommand());
  commands.push_back(ConformCommand());
  commands.push_back(NewPluginCommand());
  return commands;
}

}  // namespace backplane::cli
