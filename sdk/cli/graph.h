// Draws a program as SVG, without any other tool.
#ifndef BACKPLANE_SDK_CLI_GRAPH_H_
#define BACKPLANE_SDK_CLI_GRAPH_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/ir/module.h"

namespace backplane::cli {

// Draws each computation as a graph, the entry first, with values flowing down. The tooltip of a node is the whole line
// of the instruction. Returns INVALID_ARGUMENT for more than `max_instructions`, which would not be readable.
absl::StatusOr<std::string> DrawGraphAsSvg(const Module& module, int64_t max_instructions = 5000);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_GRAPH_H_
