// Reads StableHLO portable artifacts: MLIR bytecode of the VHLO dialect and the Shardy ops that JAX leaves in it. Reads
// every version from 0.9.0 on whose ops, types and attributes are known. Does not use MLIR.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_READER_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_READER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/import/stablehlo/bytecode_container.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

// The newest VHLO version whose ops are all known. The oldest version that can be read is 0.9.0.
inline constexpr int kNewestVhlo[3] = {1, 20, 0};

// Reads an artifact. The module refers to `bytes`, which must outlive it. Any input is safe. Returns InvalidArgument
// with producer, op, attribute and byte offset, or Unimplemented for an op that is unknown.
absl::StatusOr<std::unique_ptr<SourceModule>> ReadPortableArtifact(absl::string_view bytes);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_READER_H_
