// A StableHLO op tree (core/import/stablehlo/source.h) turned into an HLO module, through the builder alone.
//
// Functions and regions become computations. Several results become one tuple and its elements. A value that a while,
// if or case region uses from outside becomes one more operand of that region; constants are created again inside.
// Donation, memory kinds and layouts of the entry's arguments become entries of the module's config, locations become
// metadata. Shardy meshes, shardings and manual computations become custom calls for the partitioner
// (to_hlo/shardy.cc); on one partition they are dropped.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_TO_HLO_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_TO_HLO_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/import/stablehlo/source.h"
#include "core/ir/module.h"

namespace backplane {

// Errors name op, location and, for bytecode, the version: "stablehlo.rng at f.py:3 (jit(f)/rng): ...".
absl::StatusOr<std::unique_ptr<Module>> ConvertToHlo(const stablehlo::SourceModule& source);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_TO_HLO_H_
