#include "sdk/engine/thunks/control_thunk.h"

#include <algorithm>
#include <cstring>

#include "sdk/engine/thunks/bound_sequence.h"

namespace backplane::engine {
namespace {

constexpr int64_t kParallelCopyBytes = 1 << 20;
}  // namespace

int64_t SequenceWorkspace(const ThunkSequence& sequence, int num_threads) {
  int64_t most = 0;
  for (const auto& t : sequence) most = std::max(most, t->workspace_bytes(num_threads));
  return most;
}

double SequenceMicroseconds(const ThunkSequence& sequence) {
  double us = 0;
  for (const auto& t : sequence) us += t->estimated_us();
  return us;
}

bool SequenceMayBlock(const ThunkSequence& sequence) {
  return std::any_of(sequence.begin(), sequence.end(), [](const auto& t) { return t->may_block(); });
}

bool SequenceMayUsePool(const ThunkSequence& sequence) {
  return std::any_of(sequence.begin(), sequence.end(), [](const auto& t) { return t->may_use_pool(); });
}

bool CopyThunk::may_use_pool() const { return copy_.bytes >= kParallelCopyBytes; }

absl::Status CopyThunk::Run(const RunState& state) const {
  const char* from = static_cast<const char*>(state.slots[copy_.from]);
  char* to = static_cast<char*>(state.slots[copy_.to]);
  if (copy_.bytes < kParallelCopyBytes || state.pool == nullptr) {
    std::memcpy(to, from, static_cast<size_t>(copy_.bytes));
    return absl::OkStatus();
  }
  state.pool->ParallelRange(copy_.bytes, kParallelCopyBytes / 4, [&](int64_t begin, int64_t end, int) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
  return absl::OkStatus();
}

void CopyThunk::Bind(const RunState& state, BoundSequence* bound) const {
  if (copy_.bytes >= kParallelCopyBytes) return bound->AddThunk(this);
  void* const buffers[] = {state.slots[copy_.from], state.slots[copy_.to]};
  // The usual sizes of loop counters and flags.
  BoundFn fn = [](void* const* b, int64_t, int64_t bytes, void*) {
    std::memcpy(b[1], b[0], static_cast<size_t>(bytes));
  };
  if (copy_.bytes == 4) fn = [](void* const* b, int64_t, int64_t, void*) { std::memcpy(b[1], b[0], 4); };
  if (copy_.bytes == 1) fn = [](void* const* b, int64_t, int64_t, void*) { std::memcpy(b[1], b[0], 1); };
  bound->AddCall(fn, buffers, copy_.bytes, nullptr);
}

void Thunk::Bind(const RunState&, BoundSequence* bound) const { bound->AddThunk(this); }

WhileThunk::WhileThunk(ThunkSequence condition, ThunkSequence body, SlotId predicate, std::optional<int64_t> trip_count)
    : condition_(std::move(condition)), body_(std::move(body)), predicate_(predicate), trip_count_(trip_count) {
  may_block_ = SequenceMayBlock(condition_) || SequenceMayBlock(body_);
}

absl::Status WhileThunk::Run(const RunState& state) const {
  BoundSequence loop(state);
  Bind(state, &loop);
  return loop.Run();
}

void WhileThunk::Bind(const RunState& state, BoundSequence* bound) const {
  BoundSequence condition(state);
  if (!trip_count_) condition.Bind(condition_);
  bound->AddLoop(std::move(condition), BoundSequence(body_, state), trip_count_ ? nullptr : state.slots[predicate_],
                 trip_count_);
}

int64_t WhileThunk::workspace_bytes(int num_threads) const {
  return std::max(SequenceWorkspace(condition_, num_threads), SequenceWorkspace(body_, num_threads));
}

double WhileThunk::estimated_us() const {
  if (trip_count_) return static_cast<double>(*trip_count_) * SequenceMicroseconds(body_);
  return kExpectedIterations * (SequenceMicroseconds(condition_) + SequenceMicroseconds(body_));
}

bool WhileThunk::may_use_pool() const { return SequenceMayUsePool(condition_) || SequenceMayUsePool(body_); }

ConditionalThunk::ConditionalThunk(std::vector<ThunkSequence> branches, SlotId selector, bool selector_is_pred)
    : branches_(std::move(branches)), selector_(selector), selector_is_pred_(selector_is_pred) {
  for (const ThunkSequence& b : branches_) may_block_ |= SequenceMayBlock(b);
}

absl::Status ConditionalThunk::Run(const RunState& state) const {
  return RunSequence(branches_[SelectBranch(state.slots[selector_], selector_is_pred_, branches_.size())], state);
}

void ConditionalThunk::Bind(const RunState& state, BoundSequence* bound) const {
  std::vector<BoundSequence> branches;
  branches.reserve(branches_.size());
  for (const ThunkSequence& b : branches_) branches.emplace_back(b, state);
  bound->AddBranch(std::move(branches), state.slots[selector_], selector_is_pred_);
}

int64_t ConditionalThunk::workspace_bytes(int num_threads) const {
  int64_t most = 0;
  for (const ThunkSequence& b : branches_) most = std::max(most, SequenceWorkspace(b, num_threads));
  return most;
}

double ConditionalThunk::estimated_us() const {
  double most = 0;
  for (const ThunkSequence& b : branches_) most = std::max(most, SequenceMicroseconds(b));
  return most;
}

bool ConditionalThunk::may_use_pool() const {
  return std::any_of(branches_.begin(), branches_.end(), SequenceMayUsePool);
}

}  // namespace backplane::engine
