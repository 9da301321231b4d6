// Writes the op tree of a StableHLO program as a portable artifact: MLIR bytecode of VHLO operations of one version.
//
// Each operation is written in the form that it has in that version (core/import/stablehlo/op_table.h). Returns
// Unimplemented, with the operation and the version, for an operation that the version does not have, and for Shardy
// attributes, which HLO modules hold as text.
#ifndef BACKPLANE_CORE_IMPORT_EXPORT_BYTECODE_WRITER_H_
#define BACKPLANE_CORE_IMPORT_EXPORT_BYTECODE_WRITER_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/import/export/export.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

absl::StatusOr<std::string> WritePortableArtifact(const SourceModule& module, const StablehloVersion& target);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_EXPORT_BYTECODE_WRITER_H_
