// Programs as files, where the host asks for them: the compile options xla_dump_to, xla_dump_hlo_as_text and
// xla_dump_hlo_as_proto, by the names that XLA gives the files.
#ifndef BACKPLANE_SDK_SHIM_DUMP_H_
#define BACKPLANE_SDK_SHIM_DUMP_H_

#include "absl/status/status.h"
#include "sdk/backend/backend.h"

namespace backplane::shim {

// Writes FOLDER/module_NNNN.NAME.PLATFORM_after_optimizations.txt (HLO text, unless only the proto is asked for) and
// .hlo.pb (a serialized HloProto), and makes the folder where there is none. NNNN counts the dumps of the process.
// Nothing happens without xla_dump_to. An error names the file that could not be written. Thread-safe.
absl::Status DumpProgram(const Executable& executable, const CompileOptions& options, absl::string_view platform);

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_DUMP_H_
