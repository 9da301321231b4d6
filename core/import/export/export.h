// A module written as a StableHLO program, for hosts and tools that read StableHLO.
//
// What becomes of things: the entry is @main, other called computations are private functions; computations of
// reductions, loops and branches become regions; tuples are taken apart wherever StableHLO has several results and kept
// as tuple types only at the entry's parameters, inside its results and at custom calls. A one-element tuple as the
// entry's result stays a tuple, any other tuple becomes several results. Asynchronous pairs are exported as the
// operation they start; copies vanish; fusions are calls; a bitcast is the transposes and the reshape it stands for.
// erf, cosh and top-k travel as the composites hosts use (chlo.erf ...) with a decomposition beside them.
// Kept: locations from metadata, shardings and frontend attributes (mhlo.sharding, mhlo.frontend_attributes), aliases
// of whole parameters with whole results, donations, memory kinds and layouts of the entry's parameters and results,
// replica and partition counts. Not kept, since they change no value: backend configs of anything but custom calls,
// scheduling hints, control predecessors, aliases of parts of parameters, and dead instructions without effect.
//
// Errors: Unimplemented "stablehlo export: <instruction>: ..." where StableHLO, or the version asked for, has no form.
// Thread-safe for modules that nobody changes.
#ifndef BACKPLANE_CORE_IMPORT_EXPORT_EXPORT_H_
#define BACKPLANE_CORE_IMPORT_EXPORT_EXPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ir/module.h"

namespace backplane {

struct StablehloTextOptions {
  bool locations = false;  // loc("name"("file":line:0)) behind every operation that has metadata
  bool pretty = true;      // StableHLO's short forms where there is one; false: MLIR's generic form throughout
};
absl::StatusOr<std::string> ExportStablehloText(const Module& module, const StablehloTextOptions& options = {});

// A VHLO version. Patch numbers only appear in the artifact's name.
struct StablehloVersion {
  int major = 1, minor = 20, patch = 0;
  bool operator==(const StablehloVersion&) const = default;
};
absl::StatusOr<StablehloVersion> ParseStablehloVersion(absl::string_view text);  // "1.9.0"

// Portable bytecode of the target version, 0.9.0 up to the newest that is read. Ragged dots and scans, which text has as
// operations of CHLO, are composites there too, or for versions that have none what they come to in StableHLO.
absl::StatusOr<std::string> ExportPortableArtifact(const Module& module, const StablehloVersion& target = {});

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_EXPORT_EXPORT_H_
