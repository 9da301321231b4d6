// Makes generated code known to tools outside of the process that reads or runs it. Nothing is done unless an
// environment variable asks for it:
//
//   BACKPLANE_PERF_MAP=1  the functions are appended to /tmp/perf-PID.map, which `perf report` reads: their addresses,
//                         sizes, and names such as jit_step.k3. Functions that are freed stay in the file.
//   BACKPLANE_GDB=1       the objects are registered by GDB's JIT interface, so that GDB and LLDB name the functions of
//                         generated code in backtraces. The plugin must not be stripped.
//
// The numbers of functions, such as k3, are those in the compile log.
#ifndef BACKPLANE_SDK_ENGINE_JIT_TOOL_SUPPORT_H_
#define BACKPLANE_SDK_ENGINE_JIT_TOOL_SUPPORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"

namespace backplane::engine::jit {

// Adds the plugins that the environment asks for. `program` is the prefix of the functions' names. Called before the
// layer links anything.
void AddToolPlugins(absl::string_view program, llvm::orc::ObjectLinkingLayer& layer);

// Returns the path of the file that `perf` reads for this process.
std::string PerfMapPath();

}  // namespace backplane::engine::jit

#endif  // BACKPLANE_SDK_ENGINE_JIT_TOOL_SUPPORT_H_
