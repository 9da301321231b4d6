#include "sdk/compiler/schedule.h"

#include <algorithm>
#include <utility>

#include "core/analysis/trip_count.h"
#include "core/passes/calls.h"
#include "core/types/status_macros.h"

namespace backplane::compiler {
namespace {

// Instructions whose slots are those of their operands, or which have none.
bool OwnsNoSlot(const Instruction& i) {
  return i.info().Has(kNoOp) || i.info().Has(kForwardsOperand) || i.Is(Opcode::kBitcast) || i.Is(Opcode::kReshape) ||
         i.Is(Opcode::kAfterAll);
}

class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(const BufferAssignment& assignment) : assignment_(assignment) {}

  StepSequence Build(const Computation& computation) {
    StepSequence steps;
    AddComputation(computation, steps);
    return steps;
  }

 private:
  void AddComputation(const Computation& computation, StepSequence& steps) {
    for (const auto& i : computation.instructions()) AddInstruction(*i, steps);
    const auto copies = assignment_.end_copies.find(&computation);
    if (copies != assignment_.end_copies.end()) AddCopies(copies->second, nullptr, steps);
  }

  void AddInstruction(const Instruction& i, StepSequence& steps) {
    if (OwnsNoSlot(i)) return;
    if (IsMarkedNotInlineable(i)) {
      calls_.push_back(&i);
      AddComputation(*i.called(0), steps);
      calls_.pop_back();
      return;
    }
    ScheduledStep step;
    step.instruction = &i;
    step.calls = calls_;
    if (i.Is(Opcode::kWhile)) {
      const auto copies = assignment_.loop_entry_copies.find(&i);
      if (copies != assignment_.loop_entry_copies.end()) AddCopies(copies->second, &i, steps);
      step.kind = ScheduledStep::Kind::kWhile;
      step.selector = assignment_.slot(i.called(0)->root());
      step.trip_count = ComputeTripCount(i);
    } else if (i.Is(Opcode::kConditional)) {
      step.kind = ScheduledStep::Kind::kConditional;
      step.selector = assignment_.slot(i.operand(0));
    }
    if (step.kind != ScheduledStep::Kind::kWork) {
      // The calls around a loop or branch order it as a whole, and not the steps within it.
      std::vector<const Instruction*> outside;
      outside.swap(calls_);
      for (const Computation* c : i.called()) step.sequences.push_back(Build(*c));
      calls_.swap(outside);
    }
    steps.push_back(std::move(step));
  }

  void AddCopies(const std::vector<SlotCopy>& copies, const Instruction* of, StepSequence& steps) {
    for (const SlotCopy& copy : copies) {
      if (copy.bytes == 0) continue;
      ScheduledStep step;
      step.kind = ScheduledStep::Kind::kCopy;
      step.instruction = of;
      step.copy = copy;
      step.calls = calls_;
      steps.push_back(std::move(step));
    }
  }

  const BufferAssignment& assignment_;
  std::vector<const Instruction*> calls_;  // those around the computation that is being added
};

// What a step uses, its bodies and branches included.
struct StepUses {
  std::vector<SlotId> reads, writes;
  bool has_effect = false;
};

void AddSlots(const std::vector<SlotId>& slots, std::vector<SlotId>* to) {
  for (SlotId s : slots) {
    if (s != kNoSlot) to->push_back(s);
  }
}

void CollectUses(const ScheduledStep& step, const BufferAssignment& assignment, StepUses* uses) {
  if (step.kind == ScheduledStep::Kind::kCopy) {
    uses->reads.push_back(step.copy.from);
    uses->writes.push_back(step.copy.to);
    return;
  }
  uses->has_effect |= step.kind == ScheduledStep::Kind::kWork && step.instruction->HasSideEffect();
  for (const Instruction* operand : step.instruction->operands())
    AddSlots(assignment.instruction_slots.at(operand), &uses->reads);
  AddSlots(assignment.instruction_slots.at(step.instruction), &uses->writes);
  if (step.selector != kNoSlot) uses->reads.push_back(step.selector);
  for (const StepSequence& sequence : step.sequences) {
    for (const ScheduledStep& inner : sequence) CollectUses(inner, assignment, uses);
  }
}

void SortUnique(std::vector<SlotId>* slots) {
  std::sort(slots->begin(), slots->end());
  slots->erase(std::unique(slots->begin(), slots->end()), slots->end());
}

// Whether two slots share memory; those of different arguments and outputs never do. Code may touch some bytes past
// the end of an array: of temporary memory those count, too.
bool Overlap(const Slot& a, const Slot& b) {
  if (a.kind != b.kind) return false;
  if (a.kind != Slot::Kind::kTemporary) return a.index == b.index;
  return a.offset < b.offset + b.bytes + kTailPadding && b.offset < a.offset + a.bytes + kTailPadding;
}

bool AnyOverlap(const std::vector<SlotId>& a, const std::vector<SlotId>& b, const BufferAssignment& assignment) {
  return std::any_of(a.begin(), a.end(), [&](SlotId x) {
    return std::any_of(b.begin(), b.end(), [&](SlotId y) {
      return x == y || Overlap(assignment.slots[static_cast<size_t>(x)], assignment.slots[static_cast<size_t>(y)]);
    });
  });
}

// The instruction of a step and the calls around it: control edges of each of them order the step.
std::vector<const Instruction*> InstructionAndCalls(const ScheduledStep& step) {
  std::vector<const Instruction*> all = step.calls;
  if (step.instruction != nullptr) all.push_back(step.instruction);
  return all;
}

bool IsControlPredecessor(const ScheduledStep& earlier, const ScheduledStep& later) {
  const std::vector<const Instruction*> before = InstructionAndCalls(earlier);
  for (const Instruction* i : InstructionAndCalls(later)) {
    for (const Instruction* predecessor : i->control_predecessors()) {
      if (std::find(before.begin(), before.end(), predecessor) != before.end()) return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<Schedule> BuildSchedule(const Module& module, const InPlaceOracle& in_place) {
  Schedule schedule;
  ASSIGN_OR_RETURN(schedule.assignment, AssignBuffers(module, in_place));
  schedule.entry = ScheduleBuilder(schedule.assignment).Build(*module.entry());
  return schedule;
}

void ForEachWork(const StepSequence& sequence, const std::function<void(const Instruction&)>& visit) {
  for (const ScheduledStep& step : sequence) {
    if (step.kind == ScheduledStep::Kind::kWork) visit(*step.instruction);
    for (const StepSequence& inner : step.sequences) ForEachWork(inner, visit);
  }
}

std::vector<std::vector<int32_t>> FindDependencies(const StepSequence& sequence, const BufferAssignment& assignment) {
  const size_t count = sequence.size();
  std::vector<StepUses> uses(count);
  for (size_t k = 0; k < count; ++k) {
    CollectUses(sequence[k], assignment, &uses[k]);
    SortUnique(&uses[k].reads);
    SortUnique(&uses[k].writes);
  }
  std::vector<std::vector<int32_t>> dependencies(count);
  std::vector<std::vector<bool>> after(count);  // by step: the steps that it comes after, also through others
  for (size_t k = 0; k < count; ++k) {
    after[k].assign(k, false);
    for (size_t earlier = k; earlier-- > 0;) {
      if (after[k][earlier]) continue;
      const bool depends = AnyOverlap(uses[k].reads, uses[earlier].writes, assignment) ||
                           AnyOverlap(uses[k].writes, uses[earlier].writes, assignment) ||
                           AnyOverlap(uses[k].writes, uses[earlier].reads, assignment) ||
                           (uses[k].has_effect && uses[earlier].has_effect) ||
                           IsControlPredecessor(sequence[earlier], sequence[k]);
      if (!depends) continue;
      dependencies[k].push_back(static_cast<int32_t>(earlier));
      after[k][earlier] = true;
      for (size_t e = 0; e < earlier; ++e) after[k][e] = after[k][e] || after[earlier][e];
    }
    std::reverse(dependencies[k].begin(), dependencies[k].end());
  }
  return dependencies;
}

}  // namespace backplane::compiler
