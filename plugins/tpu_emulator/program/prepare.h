// Prepares a program for the machine: fuses it into kernels, assigns layouts, applies the machine's rounding, and
// estimates its time.
//
// The result has two forms of the program. `kernels` is what the machine runs: fusions, a tiled layout and a memory
// space for each value, and copies between different layouts. It is shown to users (as_text). `executable` computes the
// same values without fusions and layouts. Its rounding is explicit, as converts, so any backend that implements the
// operations by their definitions computes what the machine computes. Contractions are the exception: their rounding is
// that of the matrix unit (plugins/tpu_emulator/array).
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PREPARE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PREPARE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/module.h"
#include "plugins/tpu_emulator/machine/machine.h"
#include "plugins/tpu_emulator/program/memory_plan.h"
#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

// Where narrow floats (bf16, f16, ...) are rounded: once per fusion, as on a TPU, or after every operation, as the
// operations are defined. TILEDTPU_ROUND=fusion|op.
enum class Round : uint8_t { kFusion, kOp };

// How f64 is computed: as IEEE double precision, or as pairs of f32, as on a TPU (f64_pairs.h).
// TILEDTPU_F64=ieee|pairs.
enum class F64 : uint8_t { kIeee, kPairs };

struct PrepareOptions {
  Round round = Round::kFusion;
  F64 f64 = F64::kIeee;
  // Devices along each axis of the torus; collectives over whole axes use their links. Empty: not known, one axis.
  std::vector<int64_t> torus;
  // If not null, receives the schedule, including its refusal, of a program that does not fit.
  Schedule* rejected_schedule = nullptr;
};

struct PreparedProgram {
  std::unique_ptr<Module> kernels;
  std::unique_ptr<Module> executable;
  Schedule schedule;
  MemoryPlan plan;
};

// `module` is the program of one device, after partitioning and the common passes. ModuleConfig's parameter_layouts and
// result_layout hold a layout for every array. Both results keep the module's aliases, donors and memory kinds;
// `executable` has no layouts. A program with dynamic sizes is not fused; it is timed for its largest sizes, and
// its f64 is IEEE. Notes in the schedule say so.
//
// Returns ResourceExhausted, in the words of the machine's compiler, if the program does not fit HBM or a kernel does
// not fit VMEM.
absl::StatusOr<PreparedProgram> PrepareProgram(std::unique_ptr<Module> module, const Machine& machine,
                                               const PrepareOptions& options = {});

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PREPARE_H_
