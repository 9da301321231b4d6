// Programs in files, in any form: StableHLO text or portable bytecode, HLO text, HLO proto.
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
  std::unique_ptr<Module> module;  // null when our importer cannot read it; then `unread` says why
  absl::Status unread;
};

// `path` "-" is standard input. The form is told from the content.
absl::StatusOr<ProgramFile> ReadProgram(const std::string& path);
// The same, and an error when the importer cannot read it.
absl::StatusOr<ProgramFile> ReadModule(const std::string& path);

// As a plugin takes it: StableHLO as it is, HLO text as a proto.
absl::StatusOr<host::Program> ForPlugin(const ProgramFile& file);
// A module we made, as portable StableHLO where it can be written so, else as an HLO proto.
absl::StatusOr<host::Program> ForPlugin(const Module& module);

// A plugin's optimized program as HLO text where it can be read, else its bytes as they are.
std::string OptimizedText(const host::Program& program);

// The entry's parameters, one array each; an error for tuples and tokens, which hosts cannot hand over.
absl::StatusOr<std::vector<host::ArrayShape>> ParameterShapes(const Module& module);
// The number of arrays of its result.
size_t NumResults(const Module& module);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_PROGRAM_H_
