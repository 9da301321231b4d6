// The two parts of `backplane inspect`.
#ifndef BACKPLANE_SDK_CLI_INSPECT_H_
#define BACKPLANE_SDK_CLI_INSPECT_H_

#include <string>

#include "sdk/cli/session.h"

namespace backplane::cli {

struct InspectOptions {
  PluginOptions plugin;
  std::string what;
  bool symbols = false;    // plugins: print all exported symbols
  bool no_client = false;  // plugins: do not create a client
  bool text = false;       // programs: print the HLO text
  std::string graph;       // programs: the file for the graph
};

absl::Status InspectPlugin(const InspectOptions& options, Terminal& terminal, int* exit_code);
absl::Status InspectProgram(const InspectOptions& options, Terminal& terminal);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_INSPECT_H_
