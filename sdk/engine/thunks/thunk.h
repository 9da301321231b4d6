// A step of a compiled program. Thunks run one after another on one thread; one may use the whole thread pool.
//
// Addresses are resolved once per execution into RunState::slots; a thunk holds slot numbers. Run may be called from
// many executions at once: a thunk has no state that changes, but for custom-call sites, which allow that.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_THUNK_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
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

// What an execution brings along for steps that reach outside the program.
struct ExecutionContext {
  std::shared_ptr<const ExecuteContext> user;  // may be null
  int64_t run_id = 0;
  int32_t device = 0, replica = 0, partition = 0;
  std::vector<int32_t> device_assignment;
  LaunchMember* member = nullptr;  // this device's side of the launch; null where the program talks to no other device
  MemoryBudget* budget = nullptr;  // that temporary memory counts against; null: none
};

struct RunState {
  void* const* slots = nullptr;    // address of each slot of the assignment
  std::byte* workspace = nullptr;  // Program::workspace_bytes, 64-byte aligned; for the step that runs
  ThreadPool* pool = nullptr;
  const ExecutionContext* context = nullptr;
};

// A step bound to the addresses of one execution: what a loop calls in each iteration.
struct BoundCall {
  void (*fn)(void* const* buffers, int64_t begin, int64_t end, void* scratch) = nullptr;
  std::vector<void*> buffers;
  int64_t work_items = 0;
  void* scratch = nullptr;
};

class Thunk {
 public:
  virtual ~Thunk() = default;
  virtual absl::Status Run(const RunState& state) const = 0;
  // Appends calls that do what Run does, when they run on one thread and cannot fail; else returns false and appends
  // nothing. The calls are good for as long as `state` is.
  virtual bool Bind(const RunState& state, std::vector<BoundCall>* calls) const { return false; }
  // Bytes of workspace that Run needs with so many threads.
  virtual int64_t workspace_bytes(int num_threads) const { return 0; }
  // Rough time on one thread: small programs run in the caller's thread.
  virtual double estimated_us() const { return 1; }
  virtual bool may_block() const { return false; }  // custom calls and collectives
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
