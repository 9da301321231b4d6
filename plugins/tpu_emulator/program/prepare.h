// A program made ready for the machine: cut into kernels, laid out in its memory, rounded as it rounds, timed.
//
// Two forms of the program come out. `kernels` is what the machine runs: fusions, each value with the tiled layout it
// has and the memory it lies in, copies where two kernels want different layouts. It is for people: as_text shows it.
// `executable` computes the same values without fusions and layouts: rounding is explicit, as converts, so that any
// backend that runs it by the definitions of its operations gives what the machine gives (contractions excepted: their
// own rounding is the matrix unit's, plugins/tpu_emulator/array).
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

// Where narrow floats (bf16, f16, ...) are rounded: once for each fusion, as TPUs do, or after every operation, as the
// operations' definitions say. TILEDTPU_ROUND=fusion|op.
enum class Round : uint8_t { kFusion, kOp };

// How f64 is computed: as IEEE double precision, or in pairs of f32 as TPUs do (f64_pairs.h has the rule).
// TILEDTPU_F64=ieee|pairs.
enum class F64 : uint8_t { kIeee, kPairs };

struct PrepareOptions {
  Round round = Round::kFusion;
  F64 f64 = F64::kIeee;
  // Devices along each axis of the torus; collectives over whole axes use their links. Empty: not known, one axis.
  std::vector<int64_t> torus;
  // Where given: takes the schedule, with its refusal, of a program that is refused because it does not fit.
  Schedule* refused = nullptr;
};

struct PreparedProgram {
  std::unique_ptr<Module> kernels;
  std::unique_ptr<Module> executable;
  Schedule schedule;
  MemoryPlan plan;
};

// `module` as each device runs it, after partitioning and the common passes; ModuleConfig's parameter_layouts and
// result_layout hold a layout for every array. Both results keep its aliases, donors and memory kinds; `executable` has
// no layouts. A program with dynamic sizes is neither cut nor timed, and its f64 is
// IEEE (the schedule's notes say so).
//
// ResourceExhausted, in the words of the machine's compiler: it does not fit HBM, or a kernel does not fit VMEM.
absl::StatusOr<PreparedProgram> PrepareProgram(std::unique_ptr<Module> module, const Machine& machine,
                                               const PrepareOptions& options = {});

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PREPARE_H_
