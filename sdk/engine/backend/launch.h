// One run of a program on one device: from the host's request to the events that it waits for.
//
// A backend on the engine derives a class: it allocates the outputs, hands them to Start, and implements Run, which is
// called once the arguments are ready. Short programs run in the thread that calls Start, others on a thread of the
// runtime. A program that communicates with other devices never blocks its caller. One that calls the host does so only
// where that is asked for.
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
  // `executable` owns `program`. A program that communicates joins its launch here, so that the other devices hear of
  // it whatever happens later; `time_limit`: how long the devices wait for one another. `budget`, which may be null:
  // what the program's temporary memory counts against.
  ProgramLaunch(ExecuteRequest request, std::shared_ptr<const Executable> executable, const Program& program,
                std::chrono::milliseconds time_limit, std::shared_ptr<MemoryBudget> budget = nullptr);
  virtual ~ProgramLaunch() = default;
  ProgramLaunch(const ProgramLaunch&) = delete;
  ProgramLaunch& operator=(const ProgramLaunch&) = delete;

  // Gives the outputs their events and runs `launch`: now, or when its arguments are ready. The caller need not keep
  // `launch`. `more_microseconds`: roughly the time that Run takes beside the program. `effects_first`: a program with
  // side effects on the host, such as callbacks, runs in this call where its arguments are ready, so that the effects
  // have happened when Start returns; an error of the program is the result's `failure` then. An error of Start means
  // that nothing was run.
  static absl::StatusOr<ExecuteResult> Start(std::shared_ptr<ProgramLaunch> launch, std::vector<DeviceArray> outputs,
                                             double more_microseconds, bool effects_first = false);

 protected:
  // Does everything between ready arguments and ready outputs. Called once, in any thread.
  virtual absl::Status Run() = 0;
  // Runs the program on the addresses of its arguments and outputs.
  absl::Status RunProgram(absl::Span<void* const> arguments, absl::Span<void* const> outputs) const;

  const ExecuteRequest& request() const { return request_; }
  const Program& program() const { return program_; }
  Runtime& runtime() const { return runtime_; }

 private:
  absl::Status RunOnce();
  // Runs the program on this thread and sets its events, unless it has been run or cancelled.
  void RunAndFinish();
  void Finish(absl::Status status);
  // Hands RunAndFinish to a thread of the runtime. An error means that there is no thread and `launch` never runs.
  static absl::Status Dispatch(const std::shared_ptr<ProgramLaunch>& launch);

  ExecuteRequest request_;
  const std::shared_ptr<const Executable> executable_;
  const Program& program_;
  Runtime& runtime_;
  const std::shared_ptr<MemoryBudget> budget_;
  const MemoryBudget::Expected expected_;  // the temporary memory, until the run has ended
  std::unique_ptr<LaunchMember> member_;   // where the program has collectives
  std::vector<DeviceArray> results_;       // their storage outlives the run even if the caller drops it
  std::atomic<bool> claimed_{false};       // a thread runs the program, or it has been cancelled
  Promise done_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_LAUNCH_H_
