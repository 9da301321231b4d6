// backplane: the command.
#include <fcntl.h>

#include "absl/strings/string_view.h"
#include "conformance/kit/judge.h"
#include "sdk/cli/command.h"
#include "sdk/host/probe_report.h"

int main(int argc, char** argv) {
  // If a standard file is closed, the next file that we open would get its number, and our output would be written to
  // it.
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDWR) != fd) return backplane::cli::kUsage;
  }
  // The child processes that query or test a plugin run this program (sdk/host/probe.h, conformance/kit/judge.h).
  if (argc > 1 && absl::string_view(argv[1]) == backplane::conformance::kChildFlag)
    return backplane::conformance::ChildMain({argv + 2, argv + argc});
  if (argc > 1 && absl::string_view(argv[1]) == "--probe-child") return backplane::host::ProbeMain(argc - 1, argv + 1);
  return backplane::cli::RunCommandLine(backplane::cli::AllCommands(), argc, argv);
}
