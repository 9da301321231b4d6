// The schedule of a program: the instructions that do work, their order, their buffers, and the computations that
// control flow executes.
//
// A schedule is independent of the target. A target converts it to steps of its own, one instruction after another,
// with a StepFactory (step_factory.h). FindDependencies tells which steps may run at the same time.
//
// Instructions that only name values (tuples, bitcasts, reshapes and the like) have no step: buffer assignment has
// given them slots that other instructions write. The body of a call that stays a call (core/passes/calls.h) is
// scheduled where the call stands.
#ifndef BACKPLANE_SDK_COMPILER_SCHEDULE_H_
#define BACKPLANE_SDK_COMPILER_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/module.h"
#include "sdk/compiler/buffer_assignment.h"

namespace backplane::compiler {

struct ScheduledStep;
// In the order of execution.
using StepSequence = std::vector<ScheduledStep>;

struct ScheduledStep {
  enum class Kind : uint8_t {
    kWork,         // the target runs `instruction`
    kCopy,         // runs `copy`, which belongs to the loop `instruction` or, if null, to the end of the computation
    kWhile,        // runs sequences[0], the condition, which writes `selector`, and sequences[1], the body
    kConditional,  // runs one of `sequences`, which `selector` names
  };
  Kind kind = Kind::kWork;
  const Instruction* instruction = nullptr;
  SlotCopy copy;
  // The calls that contain the step, outermost first. Their control predecessors apply to the step as well.
  std::vector<const Instruction*> calls;
  std::vector<StepSequence> sequences;
  // The slot of the predicate of a loop or of the selector of a conditional. The latter is a pred, for which
  // sequences[0] is the true branch, or an s32 index, for which an index out of range selects the last sequence.
  SlotId selector = kNoSlot;
  std::optional<int64_t> trip_count;  // of a loop, if known; the condition need not run then
};

struct Schedule {
  BufferAssignment assignment;
  StepSequence entry;
};

// Assigns buffers and orders the steps of a module that has been through all passes. The module must outlive the
// schedule and not change. Each computation must have one caller (UnshareComputations). `in_place` is called only
// during this call.
absl::StatusOr<Schedule> BuildSchedule(const Module& module, const InPlaceOracle& in_place);

// Calls `visit` for the instruction of each kWork step in order, including those in bodies and branches.
void ForEachWork(const StepSequence& sequence, const std::function<void(const Instruction&)>& visit);

// Returns, for each step of `sequence`, the earlier steps of the sequence that must have ended before it starts, in
// ascending order. Omits dependencies that follow from others. A step depends on an earlier step that writes memory
// which it reads or writes, or that reads memory which it writes; this includes temporary memory that both use at
// different times. A step with an effect outside of the program depends on all earlier steps with such an effect. A
// step also depends on its control predecessors. Takes time quadratic in the number of steps.
std::vector<std::vector<int32_t>> FindDependencies(const StepSequence& sequence, const BufferAssignment& assignment);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_SCHEDULE_H_
