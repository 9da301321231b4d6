// backplane: the command.
#include "absl/strings/string_view.h"
#include "sdk/cli/command.h"
#include "sdk/host/probe_report.h"

int main(int argc, char** argv) {
  // The child that asks a plugin is this program itself (sdk/host/probe.h).
  if (argc > 1 && absl::string_view(argv[1]) == "--probe-child") return backplane::host::ProbeMain(argc - 1, argv + 1);
  return backplane::cli::RunCommandLine(backplane::cli::AllCommands(), argc, argv);
}
