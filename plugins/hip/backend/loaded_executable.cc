// Programs loaded on the devices of a client.
//
// A launch that needs nothing of the host is enqueued on the compute stream by the thread that executes it, behind the
// signals of its arguments, and its outputs have signals in turn. Other launches wait for their arguments on the host;
// then a thread of the workers starts the program's kernels on a stream of their own and does what only the host can:
// evaluate instructions, decide loops and branches, copy arrays from and to memory of the host.
#include <memory>
#include <utility>
#include <vector>

#include "core/types/status_macros.h"
#include "plugins/hip/backend/executable.h"
#include "plugins/hip/backend/launch.h"
#include "sdk/backend/collectives/join_launch.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/launch_outputs.h"

namespace backplane::hip {
namespace {

class HipLoaded : public LoadedExecutable {
 public:
  HipLoaded(std::shared_ptr<Runtime> runtime, std::shared_ptr<const HipExecutable> executable)
      : executable_(std::move(executable)),
        output_memories_(ChooseOutputMemories(runtime->memories->topology(), executable_->signature())),
        runtime_(std::move(runtime)),
        residences_(std::make_shared<Residences>()) {}

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) override {
    auto launch = std::make_shared<Launch>();
    launch->executable = executable_;
    launch->residences = residences_;
    launch->runtime = runtime_;
    launch->member = JoinLaunch(runtime_->launches, request, executable_->signature(), runtime_->collective_time_limit);
    launch->request = std::move(request);
    absl::Status made = Fault(FaultSite::kLaunch);
    if (made.ok()) made = CatchExceptions([&] { return MakeOutputs(*launch); });
    const bool for_device = made.ok() && launch->IsForDevice();
    if (made.ok()) made = CatchExceptions([&] { return for_device ? launch->Prepare() : launch->PrepareForHost(); });
    if (!made.ok()) {
      launch->End(made);
      return made;
    }
    ExecuteResult result;
    result.outputs = launch->outputs;
    result.done = for_device ? Enqueue(std::move(launch)) : RunOnWorker(std::move(launch));
    for (DeviceArray& output : result.outputs) output.ready = result.done;
    return result;
  }

  // Loads the program on devices before its first launch, if products are compared there: the first launch is not
  // slowed and does not disturb the comparison. If that fails, the first launch does it again.
  void LoadOnDevices(absl::Span<const int32_t> devices) {
    if (!runtime_->products.has_libraries() || executable_->program().library_products().empty()) return;
    for (const int32_t device : devices)
      (void)CatchExceptions([&] { return residences_->Find(*runtime_, device, *executable_).status(); });
  }

  void Abandon(int64_t run_id, const absl::Status& why) override { runtime_->launches.Abandon(run_id, why); }

 private:
  Event Enqueue(std::shared_ptr<Launch> launch) {
    StreamWork work;
    work.what = "execute";
    work.program = executable_->name();
    work.inputs = TakeInputs(*launch);
    const int32_t device = launch->request.device;
    work.start = [launch](hipStream_t stream) { return launch->Enqueue(stream); };
    work.ended = [launch](const absl::Status& status) { launch->End(status); };
    launch.reset();
    return runtime_->devices->compute(device).Submit(std::move(work));
  }

  // The events for which the launch waits. The launch must not hold them while it waits: nobody would learn that one
  // was dropped.
  static absl::InlinedVector<Event, 4> TakeInputs(Launch& launch) {
    absl::InlinedVector<Event, 4> inputs;
    for (DeviceArray& argument : launch.request.arguments) {
      Event ready = std::exchange(argument.ready, Event());
      if (!ready.IsReady() || !ready.status().ok()) inputs.push_back(std::move(ready));
    }
    return inputs;
  }

  static Event RunOnWorker(std::shared_ptr<Launch> launch) {
    launch->done = Promise("execute");
    const Event done = launch->done.event();
    Event::All(TakeInputs(*launch)).OnReady([launch = std::move(launch)](const absl::Status& status) mutable {
      Start(std::move(launch), status);
    });
    return done;
  }

  // Called once the arguments are ready or have failed.
  static void Start(std::shared_ptr<Launch> launch, const absl::Status& arguments) {
    if (!arguments.ok()) {
      launch->Take();
      return End(std::move(launch), arguments);
    }
    const absl::Status scheduled = CatchExceptions([&] {
      launch->running = RunningLaunches::Token(launch->runtime->devices->launches(launch->request.device));
      const int64_t run_id = launch->request.run_id, members = launch->member->launch().process_count();
      launch->runtime->workers.ScheduleMember(run_id, members, [launch]() mutable {
        if (!launch->Take()) return;
        absl::Status end = CatchExceptions([&] { return launch->RunWithHost(); });
        End(std::move(launch), std::move(end));
      });
    });
    if (!scheduled.ok() && launch->Take()) End(std::move(launch), scheduled);
  }

  // Releases everything that the launch holds before any event is set. A thread may keep the empty object for a while.
  static void End(std::shared_ptr<Launch> launch, absl::Status status) {
    // The token ends last, when the launches that the event starts have been counted.
    const RunningLaunches::Token running = std::move(launch->running);
    const Promise done = std::move(launch->done);
    const std::shared_ptr<Runtime> runtime = launch->runtime;
    launch->End(status);
    launch.reset();
    done.Set(std::move(status));
  }

  absl::Status MakeOutputs(Launch& launch) const {
    const ExecuteRequest& request = launch.request;
    const ExecutableSignature& signature = executable_->signature();
    const std::vector<int32_t>& memories = output_memories_[static_cast<size_t>(request.device)];
    for (size_t i = 0; i < signature.outputs.size(); ++i) {
      DeviceArray output{signature.outputs[i].shape, memories[i], nullptr, Event()};
      if (const DeviceArray* argument = FindReusedArgument(request, signature.outputs[i], output.memory)) {
        output.storage = argument->storage;
      } else {
        ASSIGN_OR_RETURN(output.storage, Allocate(output));
      }
      launch.outputs.push_back(std::move(output));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<Storage>> Allocate(const DeviceArray& output) const {
    const size_t bytes = StorageBytes(output.shape);
    if (!runtime_->memories->IsHost(output.memory)) return runtime_->memories->Allocate(output.memory, bytes);
    return runtime_->devices->pinned().Allocate(bytes);
  }

  const std::shared_ptr<const HipExecutable> executable_;
  const std::vector<std::vector<int32_t>> output_memories_;  // by device and output
  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<Residences> residences_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadOnGpu(std::shared_ptr<Runtime> runtime,
                                                            std::shared_ptr<const Executable> executable,
                                                            absl::Span<const int32_t> devices) {
  // Every executable of this plugin is made by this plugin: the shim hands back what Compile or Deserialize returned.
  auto loaded = std::make_unique<HipLoaded>(std::move(runtime),
                                            std::static_pointer_cast<const HipExecutable>(std::move(executable)));
  loaded->LoadOnDevices(devices);
  return loaded;
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> HipClient::Load(std::shared_ptr<const Executable> executable,
                                                                  const LoadOptions& options) {
  return LoadOnGpu(runtime_, std::move(executable), options.device_assignment);
}

}  // namespace backplane::hip
