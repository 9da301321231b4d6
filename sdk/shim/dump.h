// Writes programs to files if the host requests it with the compile options xla_dump_to, xla_dump_hlo_as_text and
// xla_dump_hlo_as_proto. The files have the names that XLA uses.
#ifndef BACKPLANE_SDK_SHIM_DUMP_H_
#define BACKPLANE_SDK_SHIM_DUMP_H_

#include "absl/status/status.h"
#include "sdk/backend/backend.h"

namespace backplane::shim {

// Writes FOLDER/module_NNNN.NAME.PLATFORM_after_optimizations.txt (HLO text, unless only the proto is requested) and
// .hlo.pb (a serialized HloProto). Creates the folder if necessary. NNNN counts the dumps of the process. Does nothing
// without xla_dump_to. An error names the file that could not be written. Thread-safe.
absl::Status DumpProgram(const Executable& executable, const CompileOptions& options, absl::string_view platform);

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_DUMP_H_
