// Exports an HLO module as a StableHLO program, for hosts and tools that read StableHLO.
//
// The entry becomes @main, other called computations become private functions. Computations of reductions, loops and
// branches become regions. Tuples are flattened into several values; they remain tuple types only at the entry's
// parameters, inside its results and at custom calls. A one-element tuple as the entry's result stays a tuple, any
// other tuple becomes several results. An asynchronous pair is exported as the operation that it starts. Copies are
// dropped, fusions become calls, and a bitcast becomes transposes and a reshape. erf, cosh and top-k are exported as
// the composites that hosts use (chlo.erf ...), with a decomposition.
//
// The export includes locations from metadata, shardings and frontend attributes (mhlo.sharding,
// mhlo.frontend_attributes), aliases of complete parameters with complete results, donations, memory kinds and layouts
// of the entry's parameters and results, and the numbers of replicas and partitions. It drops what changes no value:
// backend configs of all instructions but custom calls, scheduling hints, control predecessors, aliases of tuple
// elements of parameters, and dead instructions without side effects.
//
// Returns Unimplemented "stablehlo export: <instruction>: ..." if StableHLO, or the requested version, cannot express
// an instruction. Thread-safe as long as no thread changes the module.
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

// Exports portable bytecode of the target version, from 0.9.0 to the newest version that can be read. Ragged dots and
// scans are CHLO operations in text and composites in bytecode; for versions without composites they are expanded to
// StableHLO.
absl::StatusOr<std::string> ExportPortableArtifact(const Module& module, const StablehloVersion& target = {});

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_EXPORT_EXPORT_H_
