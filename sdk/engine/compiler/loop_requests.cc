#include "sdk/engine/compiler/loop_requests.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "sdk/engine/thunks/control_thunk.h"

namespace backplane::engine {
namespace {

using compiler::BufferAssignment;
using compiler::kNoSlot;
using compiler::ScheduledStep;
using compiler::Slot;
using compiler::SlotId;
using compiler::StepSequence;

constexpr int kMaxLoopKernels = 64;         // of a loop with all loops inside: code is not shared with other loops
constexpr int64_t kMaxInstructions = 1500;  // of all kernels
constexpr double kMaxMicroseconds = 1;      // of a kernel, on average
constexpr double kStepMicroseconds = 0.002;
constexpr int64_t kMaxCopy = 4096;         // bytes
constexpr int64_t kMaxLocal = 512;         // bytes of an array that is a local variable
constexpr int64_t kMaxLocals = 16 * 1024;  // of all of them

class LoopPlanner {
 public:
  LoopPlanner(const BufferAssignment& assignment, KernelFinder find) : assignment_(assignment), find_(find) {}

  std::optional<PlannedLoop> Plan(const ScheduledStep& loop) {
    if (!AddStep(loop, &planned_.request.loop) || planned_.kernels == 0) return std::nullopt;
    planned_.estimated_us = EstimateMicroseconds(loop);
    if (microseconds_ > kMaxMicroseconds * planned_.kernels) return std::nullopt;
    ChooseLocals(*loop.instruction);
    for (size_t k = 0; k < slots_.size(); ++k) {
      if (planned_.request.arrays[k].HasMemory()) planned_.slots.push_back(slots_[k]);
    }
    return std::move(planned_);
  }

 private:
  // Each returns false if the loop cannot be one function.
  bool AddSequence(const StepSequence& sequence, std::vector<codegen::LoopStep>* to) {
    return std::all_of(sequence.begin(), sequence.end(),
                       [&](const ScheduledStep& step) { return AddStep(step, &to->emplace_back()); });
  }

  bool AddStep(const ScheduledStep& step, codegen::LoopStep* to) {
    switch (step.kind) {
      case ScheduledStep::Kind::kWork:
        return AddKernel(*step.instruction, to);
      case ScheduledStep::Kind::kCopy:
        to->kind = codegen::LoopStep::Kind::kCopy;
        to->arrays = {GetArray(step.copy.from), GetArray(step.copy.to)};
        to->bytes = step.copy.bytes;
        MarkWritten(to->arrays[1]);
        return step.copy.bytes <= kMaxCopy;
      case ScheduledStep::Kind::kWhile:
        to->kind = codegen::LoopStep::Kind::kLoop;
        to->trip_count = step.trip_count;
        to->sequences.resize(2);
        if (!step.trip_count) {
          to->selector = GetArray(step.selector);
          if (!AddSequence(step.sequences[0], &to->sequences[0])) return false;
        }
        return AddSequence(step.sequences[1], &to->sequences[1]);
      case ScheduledStep::Kind::kConditional:
        to->kind = codegen::LoopStep::Kind::kBranch;
        to->selector = GetArray(step.selector);
        to->selects_by_predicate = step.instruction->operand(0)->shape().element_type() == PrimitiveType::kPred;
        for (const StepSequence& branch : step.sequences) {
          if (!AddSequence(branch, &to->sequences.emplace_back())) return false;
        }
        return true;
    }
    return false;
  }

  bool AddKernel(const Instruction& fusion, codegen::LoopStep* to) {
    const std::optional<PlannedKernel> kernel = find_(fusion);
    if (!kernel) return false;
    for (const codegen::KernelPhase& phase : kernel->plan->phases) {
      if (phase.work_items >= 2 * phase.min_items_per_chunk) return false;
      microseconds_ += phase.estimated_us;
    }
    instructions_ += fusion.called(0)->instruction_count();
    if (++planned_.kernels > kMaxLoopKernels || instructions_ > kMaxInstructions) return false;
    to->kind = codegen::LoopStep::Kind::kKernel;
    to->fusion = kernel->fusion;
    for (const Instruction* operand : fusion.operands()) {
      to->arrays.push_back(GetArray(assignment_.slot(operand)));
      SetType(to->arrays.back(), operand->shape());
    }
    const std::vector<SlotId>& results = assignment_.instruction_slots.at(&fusion);
    for (size_t k = 0; k < results.size(); ++k) {
      to->arrays.push_back(GetArray(results[k]));
      const Shape& s = fusion.shape();
      SetType(to->arrays.back(), s.IsTuple() ? s.tuple_shapes(static_cast<int64_t>(k)) : s);
      MarkWritten(to->arrays.back());
    }
    return true;
  }

  double EstimateMicroseconds(const ScheduledStep& step) const {
    std::vector<double> sums;
    for (const StepSequence& sequence : step.sequences) {
      sums.push_back(0);
      for (const ScheduledStep& inner : sequence) sums.back() += EstimateMicroseconds(inner);
    }
    switch (step.kind) {
      case ScheduledStep::Kind::kWork: {
        double us = kStepMicroseconds;
        for (const codegen::KernelPhase& phase : find_(*step.instruction)->plan->phases) us += phase.estimated_us;
        return us;
      }
      case ScheduledStep::Kind::kCopy:
        return kStepMicroseconds;
      case ScheduledStep::Kind::kWhile:
        if (step.trip_count) return static_cast<double>(*step.trip_count) * sums[1];
        return kExpectedIterations * (sums[0] + sums[1]);
      case ScheduledStep::Kind::kConditional:
        return kStepMicroseconds + *std::max_element(sums.begin(), sums.end());
    }
    return 0;
  }

  int GetArray(SlotId slot) {
    const auto [at, fresh] = number_of_slot_.try_emplace(slot, static_cast<int>(slots_.size()));
    if (fresh) {
      slots_.push_back(slot);
      written_.push_back(false);
      planned_.request.arrays.push_back({.bytes = SlotAt(slot).bytes});
    }
    return at->second;
  }
  void SetType(int array, const Shape& shape) {
    PrimitiveType& type = planned_.request.arrays[static_cast<size_t>(array)].type;
    if (type == PrimitiveType::kInvalid) type = shape.element_type();
  }
  void MarkWritten(int array) { written_[static_cast<size_t>(array)] = true; }
  const Slot& SlotAt(SlotId slot) const { return assignment_.slots[static_cast<size_t>(slot)]; }

  // The state of the loop is all that its body shares with the rest of the program: what else it writes to temporary
  // memory ends with the iteration.
  void ChooseLocals(const Instruction& loop) {
    const std::vector<SlotId>& state = assignment_.instruction_slots.at(&loop);
    int64_t total = 0;
    for (size_t k = 0; k < slots_.size(); ++k) {
      codegen::LoopArray& array = planned_.request.arrays[k];
      const Slot& slot = SlotAt(slots_[k]);
      const bool is_state = std::find(state.begin(), state.end(), slots_[k]) != state.end();
      if (array.bytes > kMaxLocal || total + array.bytes > kMaxLocals || slot.kind == Slot::Kind::kConstant) continue;
      if (!is_state && slot.kind != Slot::Kind::kTemporary) continue;
      if (is_state && SharesMemory(slots_[k])) continue;
      array.is_local = true;
      array.enters = is_state;
      array.leaves = is_state && written_[k];
      total += array.bytes;
      ++planned_.locals;
    }
  }

  // Whether another array of the loop uses the same temporary memory at other times: which of them has it in the end
  // depends on the order in which they are written.
  bool SharesMemory(SlotId slot) const {
    const Slot& a = SlotAt(slot);
    if (a.kind != Slot::Kind::kTemporary) return false;
    return std::any_of(slots_.begin(), slots_.end(), [&](SlotId other) {
      const Slot& b = SlotAt(other);
      return other != slot && b.kind == a.kind && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
    });
  }

  const BufferAssignment& assignment_;
  const KernelFinder find_;
  PlannedLoop planned_;
  std::vector<SlotId> slots_;  // by number of the array
  std::vector<bool> written_;
  absl::flat_hash_map<SlotId, int> number_of_slot_;
  double microseconds_ = 0;
  int64_t instructions_ = 0;
};

}  // namespace

std::optional<PlannedLoop> PlanLoop(const ScheduledStep& loop, const BufferAssignment& assignment, KernelFinder find) {
  return LoopPlanner(assignment, find).Plan(loop);
}

}  // namespace backplane::engine
