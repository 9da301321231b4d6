// Reads programs from files in any format: StableHLO text or portable bytecode, HLO text, HLO proto.
#ifndef BACKPLANE_SDK_CLI_PROGRAM_H_
#define BACKPLANE_SDK_CLI_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/module.h"
#include "sdk/host/async_transfer.h"
#include "sdk/host/executable.h"

namespace backplane::cli {

enum class Form { kStablehloText, kStablehloBytecode, kHloText, kHloProto };
const char* FormName(Form form);  // "stablehlo text"

struct ProgramFile {
  std::string path, bytes;
  Form form = Form::kStablehloText;
  std::unique_ptr<Module> module;  // null if our importer cannot read it; then `unread` has the reason
  absl::Status unread;
};

// `path` "-" is standard input. The format is detected from the content.
absl::StatusOr<ProgramFile> ReadProgram(const std::string& path);
// Reads a program as ReadProgram does, but returns an error if the importer cannot read it.
absl::StatusOr<ProgramFile> ReadModule(const std::string& path);

// Returns the program for a plugin: StableHLO unchanged, HLO text as a proto.
absl::StatusOr<host::Program> ForPlugin(const ProgramFile& file);
// Returns a module as portable StableHLO if possible, else as an HLO proto.
absl::StatusOr<host::Program> ForPlugin(const Module& module);

// Returns a plugin's optimized program as HLO text if it can be read, else the bytes unchanged.
std::string PrintOptimized(const host::Program& program);

// Returns the entry's parameters, one array each. Returns an error for tuples and tokens, which hosts cannot pass.
absl::StatusOr<std::vector<host::ArrayShape>> ParameterShapes(const Module& module);
// Returns the number of arrays in its result.
size_t NumResults(const Module& module);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_PROGRAM_H_
