// Runs LLVM's linker within the process.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_LINKER_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_LINKER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::hip {

// Links one ELF object to a shared library (ET_DYN). Returns an Internal error with the linker's message if it fails,
// or if a symbol stays undefined. Creates no file and installs no signal handler. Thread-safe: one link runs at a time.
absl::StatusOr<std::string> LinkShared(absl::string_view object);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_LINKER_H_
