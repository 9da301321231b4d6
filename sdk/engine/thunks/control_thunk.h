// Thunks for copies, loops and branches.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_CONTROL_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_CONTROL_THUNK_H_

#include <optional>

#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

constexpr double kExpectedIterations = 64;  // of a loop of unknown trip count

class CopyThunk : public Thunk {
 public:
  explicit CopyThunk(SlotCopy copy) : copy_(copy) {}
  absl::Status Run(const RunState& state) const override;
  void Bind(const RunState& state, BoundSequence* bound) const override;
  double estimated_us() const override { return 0.02 + static_cast<double>(copy_.bytes) * 5e-5; }
  bool may_use_pool() const override;

 private:
  SlotCopy copy_;
};

// The thunks of the condition write one pred to `predicate`. If `trip_count` is known, the body runs that many times
// and the condition is not run.
class WhileThunk : public Thunk {
 public:
  WhileThunk(ThunkSequence condition, ThunkSequence body, SlotId predicate, std::optional<int64_t> trip_count);
  absl::Status Run(const RunState& state) const override;
  void Bind(const RunState& state, BoundSequence* bound) const override;
  int64_t workspace_bytes(int num_threads) const override;
  double estimated_us() const override;
  bool may_block() const override { return may_block_; }
  bool may_use_pool() const override;

 private:
  ThunkSequence condition_, body_;
  SlotId predicate_;
  std::optional<int64_t> trip_count_;
  bool may_block_ = false;
};

class ConditionalThunk : public Thunk {
 public:
  // `selector` is the slot of a pred (true selects branch 0) or of an s32, for which an index out of range selects the
  // last branch.
  ConditionalThunk(std::vector<ThunkSequence> branches, SlotId selector, bool selector_is_pred);
  absl::Status Run(const RunState& state) const override;
  void Bind(const RunState& state, BoundSequence* bound) const override;
  int64_t workspace_bytes(int num_threads) const override;
  double estimated_us() const override;
  bool may_block() const override { return may_block_; }
  bool may_use_pool() const override;

 private:
  std::vector<ThunkSequence> branches_;
  SlotId selector_;
  bool selector_is_pred_, may_block_ = false;
};

int64_t SequenceWorkspace(const ThunkSequence& sequence, int num_threads);
double SequenceMicroseconds(const ThunkSequence& sequence);
bool SequenceMayBlock(const ThunkSequence& sequence);
bool SequenceMayUsePool(const ThunkSequence& sequence);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_CONTROL_THUNK_H_
