#include "sdk/engine/thunks/control_thunk.h"

#include <algorithm>
#include <cstring>

#include "sdk/backend/faults.h"

namespace backplane::engine {
namespace {

constexpr int64_t kParallelCopyBytes = 1 << 20;
constexpr double kExpectedIterations = 64;  // of a loop of unknown trip count

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

bool CopyThunk::Bind(const RunState& state, std::vector<BoundCall>* calls) const {
  if (copy_.bytes >= kParallelCopyBytes) return false;
  BoundCall call;
  call.fn = [](void* const* buffers, int64_t, int64_t bytes, void*) {
    std::memcpy(buffers[1], buffers[0], static_cast<size_t>(bytes));
  };
  call.buffers = {state.slots[copy_.from], state.slots[copy_.to]};
  call.work_items = copy_.bytes;
  calls->push_back(std::move(call));
  return true;
}

WhileThunk::WhileThunk(ThunkSequence condition, ThunkSequence body, SlotId predicate, std::optional<int64_t> trip_count)
    : condition_(std::move(condition)), body_(std::move(body)), predicate_(predicate), trip_count_(trip_count) {
  may_block_ = SequenceMayBlock(condition_) || SequenceMayBlock(body_);
}

namespace {

// A sequence with addresses bound: what could not be bound stays a step.
class BoundSequence {
 public:
  BoundSequence(const ThunkSequence& sequence, const RunState& state) : state_(state) {
    std::vector<BoundCall> calls;
    for (const auto& thunk : sequence) {
      const size_t before = calls.size();
      if (!thunk->Bind(state, &calls))
        parts_.push_back({thunk.get(), 0, 0});
      else if (calls.size() > before) {
        if (!parts_.empty() && parts_.back().thunk == nullptr)
          parts_.back().end = calls.size();
        else
          parts_.push_back({nullptr, before, calls.size()});
      }
    }
    calls_ = std::move(calls);
  }

  absl::Status Run() const {
    if (absl::Status s = Fault(FaultSite::kKernel); !s.ok()) return s;
    for (const Part& p : parts_) {
      if (p.thunk != nullptr) {
        if (absl::Status s = p.thunk->Run(state_); !s.ok()) return s;
        continue;
      }
      for (size_t k = p.begin; k < p.end; ++k) {
        const BoundCall& c = calls_[k];
        c.fn(c.buffers.data(), 0, c.work_items, c.scratch);
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Part {
    const Thunk* thunk;
    size_t begin, end;
  };
  const RunState& state_;
  std::vector<BoundCall> calls_;
  std::vector<Part> parts_;
};

}  // namespace

absl::Status WhileThunk::Run(const RunState& state) const {
  const BoundSequence body(body_, state);
  if (trip_count_) {
    for (int64_t t = 0; t < *trip_count_; ++t) {
      if (absl::Status s = body.Run(); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  const uint8_t* predicate = static_cast<const uint8_t*>(state.slots[predicate_]);
  const BoundSequence condition(condition_, state);
  while (true) {
    if (absl::Status s = condition.Run(); !s.ok()) return s;
    if (*predicate == 0) return absl::OkStatus();
    if (absl::Status s = body.Run(); !s.ok()) return s;
  }
}

int64_t WhileThunk::workspace_bytes(int num_threads) const {
  return std::max(SequenceWorkspace(condition_, num_threads), SequenceWorkspace(body_, num_threads));
}

double WhileThunk::estimated_us() const {
  if (trip_count_) return static_cast<double>(*trip_count_) * SequenceMicroseconds(body_);
  return kExpectedIterations * (SequenceMicroseconds(condition_) + SequenceMicroseconds(body_));
}

ConditionalThunk::ConditionalThunk(std::vector<ThunkSequence> branches, SlotId selector, bool selector_is_pred)
    : branches_(std::move(branches)), selector_(selector), selector_is_pred_(selector_is_pred) {
  for (const ThunkSequence& b : branches_) may_block_ |= SequenceMayBlock(b);
}

absl::Status ConditionalThunk::Run(const RunState& state) const {
  size_t branch = 0;
  if (selector_is_pred_) {
    branch = *static_cast<const uint8_t*>(state.slots[selector_]) != 0 ? 0 : 1;
  } else {
    const int32_t index = *static_cast<const int32_t*>(state.slots[selector_]);
    branch =
        index < 0 || static_cast<size_t>(index) >= branches_.size() ? branches_.size() - 1 : static_cast<size_t>(index);
  }
  return RunSequence(branches_[branch], state);
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

}  // namespace backplane::engine
