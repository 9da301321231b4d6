// The schedule of a program: which instructions do work, in which order, on which buffers, and what control flow runs.
//
// A schedule knows nothing of how a target does the work. A target turns it into steps of its own with a StepFactory
// (step_factory.h), one instruction after another, or asks FindDependencies which steps may run at the same time.
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
    kCopy,         // `copy`, a part of `instruction`, a loop; or of the end of its computation, where that is null
    kWhile,        // runs sequences[0], the condition, which writes `selector`, and sequences[1], the body
    kConditional,  // runs one of `sequences`, which `selector` names
  };
  Kind kind = Kind::kWork;
  const Instruction* instruction = nullptr;
  SlotCopy copy;
  // The calls that the step stands in, the outermost first: their control predecessors are the step's, too.
  std::vector<const Instruction*> calls;
  std::vector<StepSequence> sequences;
  // A loop's predicate. A branch's predicate, where the first sequence is that of true, or an s32 index, where an index
  // out of range names the last sequence.
  SlotId selector = kNoSlot;
  std::optional<int64_t> trip_count;  // of a loop, where it is known: the condition need not run then
};

struct Schedule {
  BufferAssignment assignment;
  StepSequence entry;
};

// Assigns buffers and orders the steps of a module that has been through all passes. The module must outlive the
// schedule and not change. Each computation has one caller (UnshareComputations). `in_place` is asked during the call.
absl::StatusOr<Schedule> BuildSchedule(const Module& module, const InPlaceOracle& in_place);

// Calls `visit` for each instruction of a kWork step, those of bodies and branches included, in order.
void ForEachWork(const StepSequence& sequence, const std::function<void(const Instruction&)>& visit);

// For each step of `sequence`: the earlier steps of it that must have ended before it begins, in ascending order. Steps
// that are ordered through others between them are left out. A step waits for one that writes what it reads or writes,
// and for one that reads what it writes, temporary memory that both use at different times included; a step with an
// effect outside of the program waits for all such steps before it; and control predecessors count. Takes time in
// proportion to the square of the number of steps.
std::vector<std::vector<int32_t>> FindDependencies(const StepSequence& sequence, const BufferAssignment& assignment);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_SCHEDULE_H_
