// Reads StableHLO portable artifacts: MLIR bytecode of the VHLO dialect, with the Shardy ops JAX leaves in it, of every
// version from 0.9.0 on whose ops, types and attributes are known. No MLIR is involved.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_READER_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_READER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/import/stablehlo/bytecode_container.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

// The newest VHLO version whose ops are all known, as a plugin advertises it, and the oldest readable one.
inline constexpr int kNewestVhlo[3] = {1, 20, 0};
inline constexpr int kOldestVhlo[3] = {0, 9, 0};

// Reads a whole artifact. The module points into `bytes`, which must outlive it. Any input is safe: what is wrong is an
// InvalidArgument that names producer, op, attribute and byte offset; an op the reader does not know is Unimplemented.
absl::StatusOr<std::unique_ptr<SourceModule>> ReadPortableArtifact(absl::string_view bytes);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_READER_H_
