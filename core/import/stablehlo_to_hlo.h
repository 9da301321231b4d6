// Converts a StableHLO op tree (core/import/stablehlo/source.h) to an HLO module. It creates all instructions with the
// builder.
//
// Functions and regions become computations. Several results become one tuple and its elements. A value from outside
// that a region of a while, if or case uses becomes an additional operand of that region; constants are created again
// inside. Donation, memory kinds and layouts of the entry's arguments become entries of the module's config. Locations
// become metadata. Shardy meshes, shardings and manual computations become custom calls for the partitioner
// (to_hlo/shardy.cc); on one partition they are dropped.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_TO_HLO_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_TO_HLO_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/import/stablehlo/source.h"
#include "core/ir/module.h"

namespace backplane {

// Converts a program. Error messages begin with the op, its location and, for bytecode, the version: "stablehlo.rng at
// f.py:3 (jit(f)/rng): ...".
absl::StatusOr<std::unique_ptr<Module>> ConvertToHlo(const stablehlo::SourceModule& source);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_TO_HLO_H_
