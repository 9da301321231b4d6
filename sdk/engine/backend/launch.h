// One run of a program on one device: from the host's request to the events that it waits for.
//
// A backend on the engine derives its own: it makes the outputs, hands them to Start, and says in Run what is done once
// the arguments are there. Short programs run in the thread that calls Start, others on a thread of the runtime; a
// program that talks to other devices never blocks its caller, one that talks to the host only where that is asked for.
#ifndef BACKPLANE_SDK_ENGINE_BACKEND_LAUNCH_H_
#define BACKPLANE_SDK_ENGINE_BACKEND_LAUNCH_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/backend/backend.h"
#include "sdk/engine/backend/client.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::engine {

class ProgramLaunch {
 public:
  // `executable` owns `program`. A program that meets other devices joins them here, so that they find it whatever
  // happens to it later; `time_limit`: how long they wait for one another.
  // `budget`, which may be null: what the program's temporary memory counts against.
  ProgramLaunch(ExecuteRequest request, std::shared_ptr<const Executable> executable, const Program& program,
                std::chrono::milliseconds time_limit, std::shared_ptr<MemoryBudget> budget = nullptr);
  virtual ~ProgramLaunch() = default;
  ProgramLaunch(const ProgramLaunch&) = delete;
  ProgramLaunch& operator=(const ProgramLaunch&) = delete;

  // Gives the outputs their events and sees to it that `launch` runs: now, or when its arguments are ready. After that
  // `launch` may be let go. `more_microseconds`: what Run does beside the program, roughly. `effects_first`: a program
  // with side effects on the host, such as callbacks, runs here where its arguments are ready, so that they have
  // happened when Start returns; what stops it is the result's `failure` then. An error of Start: nothing was run.
  static absl::StatusOr<ExecuteResult> Start(std::shared_ptr<ProgramLaunch> launch, std::vector<DeviceArray> outputs,
                                             double more_microseconds, bool effects_first = false);

 protected:
  // Everything between ready arguments and ready outputs; in any thread, once.
  virtual absl::Status Run() = 0;
  // The program itself, on addresses of the leaves of its arguments and results.
  absl::Status RunProgram(absl::Span<void* const> arguments, absl::Span<void* const> outputs) const;

  const ExecuteRequest& request() const { return request_; }
  const Program& program() const { return program_; }
  Runtime& runtime() const { return runtime_; }

 private:
  absl::Status RunOnce();
  // Runs the program on this thread and tells the host, unless it has been run or given up.
  void RunAndFinish();
  void Finish(absl::Status status);
  // Hands RunAndFinish to a thread of the runtime. An error: there is none, and `launch` never runs.
  static absl::Status Dispatch(const std::shared_ptr<ProgramLaunch>& launch);

  ExecuteRequest request_;
  const std::shared_ptr<const Executable> executable_;
  const Program& program_;
  Runtime& runtime_;
  const std::shared_ptr<MemoryBudget> budget_;
  const MemoryBudget::Expected expected_;  // the temporary memory, until the run has ended
  std::unique_ptr<LaunchMember> member_;  // where the program has collectives
  std::vector<DeviceArray> results_;      // their storage outlives the run even if the caller drops it
  std::atomic<bool> taken_{false};        // somebody runs the program or has given it up
  Promise done_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_LAUNCH_H_
