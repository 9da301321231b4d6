// A sequence of thunks with the addresses of one run, for loops: what a thunk would look up in each iteration is looked
// up once, including the loops and branches inside the loop.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_BOUND_SEQUENCE_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_BOUND_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

// A function of a step of a loop. `begin` is 0, `end` the number of its work items.
using BoundFn = void (*)(void* const* buffers, int64_t begin, int64_t end, void* scratch);

// Valid as long as the RunState and the thunks. Run may be called repeatedly, but by one thread at a time.
class BoundSequence {
 public:
  explicit BoundSequence(const RunState& state);
  BoundSequence(const ThunkSequence& sequence, const RunState& state);
  BoundSequence(BoundSequence&&) noexcept;
  ~BoundSequence();

  absl::Status Run() const;

  // Append steps.
  void Bind(const ThunkSequence& sequence);
  // A call that cannot fail. The addresses are copied.
  void AddCall(BoundFn fn, absl::Span<void* const> buffers, int64_t work_items, void* scratch);
  // A thunk that runs as it is.
  void AddThunk(const Thunk* thunk);
  // A loop. `condition` writes a pred to `predicate`. If `trip_count` is known, the condition is not run.
  void AddLoop(BoundSequence condition, BoundSequence body, const void* predicate, std::optional<int64_t> trip_count);
  // A branch (see ConditionalThunk).
  void AddBranch(std::vector<BoundSequence> branches, const void* selector, bool selector_is_pred);

 private:
  struct Loop;
  struct Branch;
  struct Step {
    BoundFn fn;  // null: one of the others
    void* const* buffers;
    int64_t work_items;
    void* scratch;
    const Thunk* thunk;
    const Loop* loop;
    const Branch* branch;
  };
  absl::Status RunOther(const Step& step) const;

  const RunState& state_;
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<void*[]>> addresses_;  // of the calls, in blocks
  size_t used_ = 0, size_ = 0;                       // of the last block
  std::vector<std::unique_ptr<const Loop>> loops_;
  std::vector<std::unique_ptr<const Branch>> branches_;
};

// The number of the branch that a pred (true selects branch 0) or an s32 selects. An index out of range selects the
// last branch.
size_t SelectBranch(const void* selector, bool is_pred, size_t branches);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_BOUND_SEQUENCE_H_
