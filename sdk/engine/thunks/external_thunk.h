// Thunks for custom calls, for instructions that the evaluator runs, and for device numbers.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_EXTERNAL_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_EXTERNAL_THUNK_H_

#include <optional>

#include "core/analysis/aliased_leaves.h"
#include "core/eval/evaluator.h"
#include "sdk/backend/custom_call.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

// Calls a custom call site. Operands and results are given as leaves: a tuple contributes all its leaves. Tokens have
// no slot.
class CustomCallThunk : public Thunk {
 public:
  struct Leaf {
    SlotId slot = kNoSlot;
    PrimitiveType type = PrimitiveType::kToken;
    std::vector<int64_t> dims;
  };
  // `estimated_us` is set for a call that only computes: it waits for nothing.
  CustomCallThunk(std::string name, std::unique_ptr<CustomCallSite> site, std::optional<double> estimated_us,
                  std::vector<Leaf> operands, std::vector<Leaf> results, std::vector<AliasedLeaf> shared)
      : name_(std::move(name)),
        site_(std::move(site)),
        estimated_us_(estimated_us),
        operands_(std::move(operands)),
        results_(std::move(results)),
        shared_(std::move(shared)) {}
  absl::Status Run(const RunState& state) const override;
  double estimated_us() const override { return estimated_us_.value_or(100); }
  bool may_block() const override { return !estimated_us_.has_value(); }
  bool may_use_pool() const override { return false; }

 private:
  std::string name_;
  std::unique_ptr<CustomCallSite> site_;
  std::optional<double> estimated_us_;
  std::vector<Leaf> operands_, results_;
  std::vector<AliasedLeaf> shared_;
};

// Runs one instruction with the evaluator. The compile log contains a line for each.
class EvaluatorThunk : public Thunk {
 public:
  // `operand_slots` has one list of leaf slots per operand; `result_slots` is that of the result.
  EvaluatorThunk(const Instruction* instruction, std::vector<std::vector<SlotId>> operand_slots,
                 std::vector<SlotId> result_slots)
      : instruction_(instruction), operand_slots_(std::move(operand_slots)), result_slots_(std::move(result_slots)) {}
  absl::Status Run(const RunState& state) const override;
  double estimated_us() const override { return 100; }
  bool may_use_pool() const override { return false; }

 private:
  const Instruction* instruction_;
  std::vector<std::vector<SlotId>> operand_slots_;
  std::vector<SlotId> result_slots_;
};

// Writes the replica or partition id of this device, as u32.
class DeviceNumberThunk : public Thunk {
 public:
  DeviceNumberThunk(bool partition, SlotId out) : partition_(partition), out_(out) {}
  absl::Status Run(const RunState& state) const override;

 private:
  bool partition_;
  SlotId out_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_EXTERNAL_THUNK_H_
