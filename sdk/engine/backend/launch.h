// Runs a program once on one device, from the host's request to the events for which the host waits.
//
// A backend derives a class, which allocates the outputs, passes them to Start, and implements Run. Run is called once
// the arguments are ready. Short programs run in the thread that calls Start, others on a thread of the runtime. A
// program that communicates with other devices never blocks its caller. One that calls the host blocks it only in
// a client of one device.
#ifndef BACKPLANE_SDK_ENGINE_BACKEND_LAUNCH_H_
#define BACKPLANE_SDK_ENGINE_BACKEND_LAUNCH_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/join_launch.h"
#include "sdk/engine/backend/client.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::engine {

class ProgramLaunch {
 public:
  // `executable` owns `program`. A program that communicates joins its launch here, so that the other devices learn of
  // it whatever fails later. `time_limit`: how long the devices wait for one another. `budget`, which may be null, is
  // charged for the temporary memory of the program. `subnormals`: how the program computes with subnormal numbers.
  // `nodes` is needed if the program runs in several processes.
  ProgramLaunch(ExecuteRequest request, std::shared_ptr<const Executable> executable, const Program& program,
                std::chrono::milliseconds time_limit, std::shared_ptr<MemoryBudget> budget = nullptr,
                Subnormals subnormals = Subnormals::kKeep, const NodeLaunch* nodes = nullptr);
  virtual ~ProgramLaunch() = default;
  ProgramLaunch(const ProgramLaunch&) = delete;
  ProgramLaunch& operator=(const ProgramLaunch&) = delete;

  // Sets the events of the outputs and runs `launch`, now or when its arguments are ready. The caller need not keep
  // `launch`. `more_microseconds` estimates the time that Run takes in addition to the program. In a client
  // of one device (`has_one_device`), a program that has side effects on the host, such as callbacks, and does not
  // communicate runs in this call if its arguments are ready. Its effects have then happened when Start returns, and an
  // error of the program is reported as the `failure` of the result. If Start itself returns an error, nothing was run.
  static absl::StatusOr<ExecuteResult> Start(std::shared_ptr<ProgramLaunch> launch, std::vector<DeviceArray> outputs,
                                             double more_microseconds, bool has_one_device = false);

  // Ends a launch that cannot be started, so that the other devices learn why. Returns `why`.
  absl::Status EndUnstarted(absl::Status why);

 protected:
  // Computes the outputs from ready arguments. Called at most once, on any thread.
  virtual absl::Status Run() = 0;
  // Runs the program on the addresses of its arguments and outputs.
  // `packed_weights`: see ExecutionContext.
  absl::Status RunProgram(absl::Span<void* const> arguments, absl::Span<void* const> outputs,
                          absl::Span<const std::shared_ptr<const std::byte>> packed_weights = {}) const;

  const ExecuteRequest& request() const { return request_; }
  const Program& program() const { return program_; }
  Runtime& runtime() const { return runtime_; }

 private:
  absl::Status RunOnce();
  // Runs the program and adds its time to those of its recent runs.
  absl::Status RunAndMeasure(absl::Span<void* const> arguments, absl::Span<void* const> outputs,
                             const ExecutionContext& context) const;
  // Runs the program on this thread and sets its events, unless it has been run or cancelled.
  void RunAndFinish();
  void Finish(absl::Status status);
  // Schedules RunAndFinish on a thread of the runtime. After an error no thread is available and `launch` never runs.
  static absl::Status Dispatch(const std::shared_ptr<ProgramLaunch>& launch);

  ExecuteRequest request_;
  const std::shared_ptr<const Executable> executable_;
  const Program& program_;
  Runtime& runtime_;
  const std::shared_ptr<MemoryBudget> budget_;
  const Subnormals subnormals_;
  const MemoryBudget::Expected expected_;  // the temporary memory, until the run has ended
  std::unique_ptr<LaunchMember> member_;   // null if the program does not communicate
  std::vector<DeviceArray> results_;       // their storage outlives the run even if the caller drops it
  std::atomic<bool> claimed_{false};       // a thread runs the program, or it has been cancelled
  Promise done_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_LAUNCH_H_
