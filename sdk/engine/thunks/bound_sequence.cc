#include "sdk/engine/thunks/bound_sequence.h"

#include <algorithm>
#include <utility>

#include "sdk/backend/faults.h"

namespace backplane::engine {

size_t SelectBranch(const void* selector, bool is_pred, size_t branches) {
  if (is_pred) return *static_cast<const uint8_t*>(selector) != 0 ? 0 : 1;
  const int32_t index = *static_cast<const int32_t*>(selector);
  return index < 0 || static_cast<size_t>(index) >= branches ? branches - 1 : static_cast<size_t>(index);
}

struct BoundSequence::Loop {
  BoundSequence condition, body;
  const uint8_t* predicate;
  std::optional<int64_t> trip_count;
  absl::Status Run() const;
};

struct BoundSequence::Branch {
  std::vector<BoundSequence> branches;
  const void* selector;
  bool selector_is_pred;
};

BoundSequence::BoundSequence(const RunState& state) : state_(state) {}
BoundSequence::BoundSequence(const ThunkSequence& sequence, const RunState& state) : state_(state) { Bind(sequence); }
BoundSequence::BoundSequence(BoundSequence&&) noexcept = default;
BoundSequence::~BoundSequence() = default;

void BoundSequence::Bind(const ThunkSequence& sequence) {
  steps_.reserve(steps_.size() + sequence.size());
  for (const auto& thunk : sequence) thunk->Bind(state_, this);
}

void BoundSequence::AddCall(BoundFn fn, absl::Span<void* const> buffers, int64_t work_items, void* scratch) {
  constexpr size_t kBlock = 256;
  if (used_ + buffers.size() > size_) {
    size_ = std::max(kBlock, buffers.size());
    used_ = 0;
    addresses_.push_back(std::make_unique<void*[]>(size_));
  }
  void** to = addresses_.back().get() + used_;
  std::copy(buffers.begin(), buffers.end(), to);
  used_ += buffers.size();
  steps_.push_back({fn, to, work_items, scratch, nullptr, nullptr, nullptr});
}

void BoundSequence::AddThunk(const Thunk* thunk) {
  steps_.push_back({nullptr, nullptr, 0, nullptr, thunk, nullptr, nullptr});
}

void BoundSequence::AddLoop(BoundSequence condition, BoundSequence body, const void* predicate,
                            std::optional<int64_t> trip_count) {
  loops_.push_back(std::make_unique<const Loop>(
      Loop{std::move(condition), std::move(body), static_cast<const uint8_t*>(predicate), trip_count}));
  steps_.push_back({nullptr, nullptr, 0, nullptr, nullptr, loops_.back().get(), nullptr});
}

void BoundSequence::AddBranch(std::vector<BoundSequence> branches, const void* selector, bool selector_is_pred) {
  branches_.push_back(std::make_unique<const Branch>(Branch{std::move(branches), selector, selector_is_pred}));
  steps_.push_back({nullptr, nullptr, 0, nullptr, nullptr, nullptr, branches_.back().get()});
}

absl::Status BoundSequence::Run() const {
  if (absl::Status s = Fault(FaultSite::kKernel); !s.ok()) return s;
  for (const Step& step : steps_) {
    if (step.fn != nullptr) {
      step.fn(step.buffers, 0, step.work_items, step.scratch);
    } else if (absl::Status s = RunOther(step); !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

absl::Status BoundSequence::RunOther(const Step& step) const {
  if (step.loop != nullptr) return step.loop->Run();
  if (step.branch == nullptr) return step.thunk->Run(state_);
  const Branch& b = *step.branch;
  return b.branches[SelectBranch(b.selector, b.selector_is_pred, b.branches.size())].Run();
}

absl::Status BoundSequence::Loop::Run() const {
  if (trip_count) {
    for (int64_t t = 0; t < *trip_count; ++t) {
      if (absl::Status s = body.Run(); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  while (true) {
    if (absl::Status s = condition.Run(); !s.ok()) return s;
    if (*predicate == 0) return absl::OkStatus();
    if (absl::Status s = body.Run(); !s.ok()) return s;
  }
}

}  // namespace backplane::engine
