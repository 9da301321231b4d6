// The steps of a program: kernels, copies, loops and branches that the host decides, and instructions that the host
// evaluates.
#ifndef BACKPLANE_PLUGINS_HIP_PROGRAM_STEP_H_
#define BACKPLANE_PLUGINS_HIP_PROGRAM_STEP_H_

#include <memory>
#include <optional>
#include <vector>

#include "core/eval/instruction_evaluator.h"
#include "plugins/hip/program/queue.h"
#include "sdk/compiler/buffer_assignment.h"

namespace backplane::hip {

using compiler::SlotId;
class Exchange;

// How many kernels and copies a step or program starts, at most kManyStarts; nullopt if the host takes part in it,
// because it evaluates an instruction or reads a value that decides what runs next.
using StartCount = std::optional<int64_t>;
inline constexpr int64_t kManyStarts = int64_t{1} << 40;

// One run of a program on one device.
struct RunState {
  Queue* queue = nullptr;
  void* const* slots = nullptr;  // addresses on the device; null: an array without elements, or a token
  const EvaluatorHooks* hooks = nullptr;
  Exchange* exchange = nullptr;  // null: the program runs on one device
  void* scratch = nullptr;       // for the steps of one instruction; what it contains does not outlive them
};

// Immutable; several runs may use one at a time.
class Step {
 public:
  virtual ~Step() = default;
  virtual absl::Status Run(const RunState& state) const = 0;
  virtual StartCount CountStarts() const = 0;
};
using Steps = std::vector<std::unique_ptr<Step>>;

absl::Status RunSteps(const Steps& steps, const RunState& state);
StartCount CountStarts(const Steps& steps);

class KernelStep : public Step {
 public:
  // `takes_scratch`: the kernel takes the scratch memory after its arrays.
  KernelStep(int kernel, uint32_t blocks, uint32_t threads, std::vector<SlotId> slots, bool takes_scratch,
             std::vector<int64_t> numbers)
      : kernel_(kernel),
        blocks_(blocks),
        threads_(threads),
        slots_(std::move(slots)),
        takes_scratch_(takes_scratch),
        numbers_(std::move(numbers)) {}
  absl::Status Run(const RunState& state) const override;
  StartCount CountStarts() const override { return 1; }

 private:
  const int kernel_;
  const uint32_t blocks_, threads_;
  const std::vector<SlotId> slots_;
  const bool takes_scratch_;
  const std::vector<int64_t> numbers_;
};

class CopyStep : public Step {
 public:
  explicit CopyStep(const compiler::SlotCopy& copy) : copy_(copy) {}
  absl::Status Run(const RunState& state) const override;
  StartCount CountStarts() const override { return 1; }

 private:
  const compiler::SlotCopy copy_;
};

// The host reads the predicate after each run of the condition, unless the trip count is known.
class WhileStep : public Step {
 public:
  WhileStep(Steps condition, Steps body, SlotId predicate, std::optional<int64_t> trip_count)
      : condition_(std::move(condition)), body_(std::move(body)), predicate_(predicate), trip_count_(trip_count) {}
  absl::Status Run(const RunState& state) const override;
  StartCount CountStarts() const override;

 private:
  const Steps condition_, body_;
  const SlotId predicate_;
  const std::optional<int64_t> trip_count_;
};

class ConditionalStep : public Step {
 public:
  // With `by_predicate` the selector is a pred, which selects the first branch if it is true; otherwise the selector is
  // an s32 index.
  ConditionalStep(std::vector<Steps> branches, SlotId selector, bool by_predicate)
      : branches_(std::move(branches)), selector_(selector), by_predicate_(by_predicate) {}
  absl::Status Run(const RunState& state) const override;
  StartCount CountStarts() const override { return std::nullopt; }

 private:
  const std::vector<Steps> branches_;
  const SlotId selector_;
  const bool by_predicate_;
};

// Copies the operands to the host, evaluates the instruction there, and copies the results back. The memory on the
// device is in the layouts of the instruction's shapes; a custom call may ask for others than row-major ones.
class HostStep : public Step {
 public:
  // `operands` has the slots of the leaves of each operand, `results` those of the result.
  HostStep(const Instruction& instruction, std::vector<std::vector<SlotId>> operands, std::vector<SlotId> results);
  absl::Status Run(const RunState& state) const override;
  StartCount CountStarts() const override { return std::nullopt; }

 private:
  absl::StatusOr<Literal> Read(const Shape& shape, const std::vector<SlotId>& slots, size_t* at,
                               const RunState& state) const;
  absl::Status Write(const Literal& value, const Shape& shape, const std::vector<SlotId>& slots, size_t* at,
                     const RunState& state) const;

  const Instruction& instruction_;
  const InstructionEvaluator evaluator_;
  const std::vector<std::vector<SlotId>> operands_;
  const std::vector<SlotId> results_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_PROGRAM_STEP_H_
