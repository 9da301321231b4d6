// A thunk is one step of a compiled program. The thunks of a program run one after another on one thread; each may use
// the whole thread pool.
//
// Addresses are resolved once per execution into RunState::slots; a thunk holds slot numbers. Many executions may call
// Run at once, because a thunk has no mutable state, except custom-call sites, which allow concurrent calls.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_THUNK_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/subnormals.h"
#include "core/ir/module.h"
#include "sdk/backend/backend.h"
#include "sdk/compiler/buffer_assignment.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane {
class LaunchMember;  // sdk/backend/collectives/rendezvous.h
}

namespace backplane::engine {

using compiler::BufferAssignment;
using compiler::kNoSlot;
using compiler::Slot;
using compiler::SlotCopy;
using compiler::SlotId;

class MemoryBudget;  // sdk/engine/runtime/memory_budget.h

// The data of an execution for steps that interact with the host or with other devices.
struct ExecutionContext {
  std::shared_ptr<const ExecuteContext> user;  // may be null
  int64_t run_id = 0;
  int32_t device = 0, replica = 0, partition = 0;
  std::vector<int32_t> device_assignment;
  // By the number of a packable weight of the program: its packed form, or null. May be shorter.
  absl::Span<const std::shared_ptr<const std::byte>> packed_weights;
  LaunchMember* member = nullptr;             // this device in its launch; null if the program does not communicate
  MemoryBudget* budget = nullptr;             // charged for temporary memory; null: no limit
  Subnormals subnormals = Subnormals::kKeep;  // the mode of all threads that run the program's kernels
};

struct RunState {
  void* const* slots = nullptr;    // address of each slot of the assignment
  std::byte* workspace = nullptr;  // of SequenceWorkspace bytes, 64-byte aligned; used by one step at a time
  ThreadPool* pool = nullptr;
  const ExecutionContext* context = nullptr;
  // A step that calls the host and may wait for it sets this count of the program to 0 first. May be null.
  std::atomic<int>* runs_without_host_calls = nullptr;
};

class BoundSequence;  // sdk/engine/thunks/bound_sequence.h

class Thunk {
 public:
  virtual ~Thunk() = default;
  virtual absl::Status Run(const RunState& state) const = 0;
  // Appends steps to `bound` that do the same as Run, for a loop. By default one that calls Run.
  virtual void Bind(const RunState& state, BoundSequence* bound) const;
  // Returns the bytes of workspace that Run needs with this number of threads.
  virtual int64_t workspace_bytes(int num_threads) const { return 0; }
  // Estimates the time on one thread. Short programs run in the thread of the caller.
  virtual double estimated_us() const { return 1; }
  virtual bool may_block() const { return false; }  // custom calls and collectives
  // Whether it is worth waking the pool before Run. Work that takes a few microseconds is not split.
  virtual bool may_use_pool() const { return estimated_us() >= 2.5; }
};

using ThunkSequence = std::vector<std::unique_ptr<Thunk>>;

inline absl::Status RunSequence(const ThunkSequence& sequence, const RunState& state) {
  for (const auto& thunk : sequence) {
    if (absl::Status s = thunk->Run(state); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_THUNK_H_
