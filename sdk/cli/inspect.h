// The two halves of `backplane inspect`.
#ifndef BACKPLANE_SDK_CLI_INSPECT_H_
#define BACKPLANE_SDK_CLI_INSPECT_H_

#include <string>

#include "sdk/cli/session.h"

namespace backplane::cli {

struct InspectOptions {
  PluginOptions plugin;
  std::string what;
  bool symbols = false;    // of a plugin: all exported symbols
  bool no_client = false;  // of a plugin: do not create one
  bool text = false;       // of a program: its HLO text
  std::string graph;       // of a program: the file for its picture
};

absl::Status InspectPlugin(const InspectOptions& options, Terminal& terminal, int* exit_code);
absl::Status InspectProgram(const InspectOptions& options, Terminal& terminal);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_INSPECT_H_
