// One launch of a program on one device.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_LAUNCH_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_LAUNCH_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "plugins/hip/backend/residence.h"
#include "sdk/backend/collectives/rendezvous.h"

namespace backplane::hip {

// Used by one thread at a time. It is emptied before its events are set.
struct Launch {
  // The order of the members matters if a launch is destroyed without End: memory is released first, then the runtime,
  // and the promise is broken last.
  Promise done;  // for launches on a thread of the workers
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<Residences> residences;
  std::shared_ptr<const HipExecutable> executable;
  std::unique_ptr<LaunchMember> member;
  ExecuteRequest request;
  std::vector<DeviceArray> outputs;

  // For launches on a thread of the workers.
  RunningLaunches::Token running;
  std::atomic<bool> taken{false};  // set by the thread that runs it or gives it up
  bool Take() { return !taken.exchange(true); }

  // Whether the compute stream can run the program without the host: no instruction, branch or array needs the host.
  bool IsForDevice() const;
  // Makes what Enqueue needs. An error means that nothing has been started.
  absl::Status Prepare();
  // Allocates what RunWithHost needs. It is called in the host's call that executes the program, because a launch that
  // waits for memory while it runs may wait for launches that wait for it.
  absl::Status PrepareForHost();
  // Enqueues the kernels and copies of the program.
  absl::Status Enqueue(hipStream_t stream);
  // Runs the program on a stream of its own, with the help of this thread, and waits for its end.
  absl::Status RunWithHost();
  // Ends the launch's part in the rendezvous of the devices, and drops everything that it holds.
  void End(const absl::Status& status);

 private:
  // Returns the address of the array in memory of the device: its own, or that of a copy of the same size in `staged_`.
  absl::StatusOr<void*> AddressOnDevice(const DeviceArray& array, bool copy_in);
  absl::Status FindAddresses();
  // Starts the program on the queue, and what the queue holds back.
  absl::Status Start(Queue& queue, const EvaluatorHooks& hooks, Exchange* exchange);
  // Returns a reference that holds the memory which other devices may read while the program runs.
  std::shared_ptr<const void> HoldMemory() const;
  absl::Status RunOnOwnStream();

  const Residence* residence_ = nullptr;
  std::shared_ptr<Storage> temporary_;
  std::vector<std::shared_ptr<Storage>> staged_;
  std::vector<void*> arguments_, results_;
  GraphUses graphs_;
  // Outputs that an argument becomes though the caller keeps the argument: address and bytes.
  std::vector<std::pair<void*, size_t>> kept_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_LAUNCH_H_
