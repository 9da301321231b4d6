// A program as a picture: SVG, without any other tool.
#ifndef BACKPLANE_SDK_CLI_GRAPH_H_
#define BACKPLANE_SDK_CLI_GRAPH_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/ir/module.h"

namespace backplane::cli {

// Every computation as a graph of its own, the entry first, values flowing down; hovering shows an instruction's whole
// line. INVALID_ARGUMENT for more than `max_instructions` in all: nobody could read it.
absl::StatusOr<std::string> GraphSvg(const Module& module, int64_t max_instructions = 5000);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_GRAPH_H_
