// A StableHLO op tree (core/import/stablehlo/source.h) turned into an HLO module, through the builder alone.
//
// What becomes of things: functions and regions are computations; several results are one tuple and its elements; a
// value that a while, if or case region takes from outside becomes one more operand of that region, constants are made
// again inside; donation, memory kinds and layouts of the entry's arguments go to the module's config; locations become
// metadata. Shardy meshes, shardings and manual computations are kept as text in frontend attributes and have no effect
// on one partition.
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
