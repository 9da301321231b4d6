// Programs loaded on the devices of a client, and their launches.
//
// A launch waits for its arguments, then a thread of the workers starts the program's kernels on a stream of its own
// and waits for their end. What a launch needs from the host (arguments in host memory, instructions that the host
// evaluates, decisions of loops and branches) that thread does.
#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/executable.h"
#include "sdk/backend/collectives/join_launch.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/launch_outputs.h"
#include "sdk/backend/operation_trace.h"

namespace backplane::hip {
namespace {

// What a program keeps on one device as long as it is loaded: its kernels and constants.
class Residence {
 public:
  static absl::StatusOr<std::unique_ptr<Residence>> Make(Runtime& runtime, int32_t device,
                                                         const HipExecutable& executable) {
    auto made = std::make_unique<Residence>();
    Devices& devices = *runtime.devices;
    const GpuProgram& program = executable.program();
    ASSIGN_OR_RETURN(made->kernels_,
                     LoadedKernels::Load(devices.api(), device, program.image().bytes, program.kernels()));
    const int32_t memory = runtime.memories->topology().devices[static_cast<size_t>(device)].memories.front();
    for (const Instruction* c : program.assignment().constants) {
      const Literal& literal = c->literal();
      const size_t bytes = static_cast<size_t>(literal.byte_size());
      ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, runtime.memories->Allocate(memory, bytes));
      if (bytes > 0) RETURN_IF_ERROR(devices.CopyIn(device, literal.bytes(), storage->data(), bytes));
      made->addresses_.push_back(storage->data());
      made->constants_.push_back(std::move(storage));
    }
    return made;
  }

  const LoadedKernels& kernels() const { return *kernels_; }
  absl::Span<void* const> constants() const { return addresses_; }

 private:
  std::unique_ptr<LoadedKernels> kernels_;
  std::vector<std::shared_ptr<Storage>> constants_;
  std::vector<void*> addresses_;
};

// The residences of a loaded program, made at the first launch on each device. Thread-safe.
class Residences {
 public:
  absl::StatusOr<const Residence*> Find(Runtime& runtime, int32_t device, const HipExecutable& executable) {
    MutexLock lock(mu_);
    if (by_device_.size() <= static_cast<size_t>(device)) by_device_.resize(static_cast<size_t>(device) + 1);
    std::unique_ptr<Residence>& found = by_device_[static_cast<size_t>(device)];
    if (found == nullptr) {
      ASSIGN_OR_RETURN(found, Residence::Make(runtime, device, executable));
    }
    return found.get();
  }

 private:
  Mutex mu_;
  std::vector<std::unique_ptr<Residence>> by_device_ ABSL_GUARDED_BY(mu_);
};

// One launch on one device. It is destroyed before its events are set.
struct Launch {
  std::shared_ptr<const HipExecutable> executable;
  std::shared_ptr<Residences> residences;
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<LaunchMember> member;
  ExecuteRequest request;
  std::vector<DeviceArray> outputs;
  Promise done;
  std::atomic<bool> taken{false};  // set by the thread that runs it or gives it up

  bool Take() { return !taken.exchange(true); }
  absl::Status Run();
  absl::Status RunOnDevice();
  // The array in memory of the device: itself, or a copy of the same size in `staged`.
  absl::StatusOr<void*> AddressOnDevice(const DeviceArray& array, bool copy_in,
                                        std::vector<std::shared_ptr<Storage>>* staged);
};

absl::StatusOr<void*> Launch::AddressOnDevice(const DeviceArray& array, bool copy_in,
                                              std::vector<std::shared_ptr<Storage>>* staged) {
  if (!array.shape.IsArray()) return nullptr;
  if (array.storage == nullptr) return absl::InternalError(absl::StrCat(array.shape.ToString(), ": no memory"));
  MemorySpaces& memories = *runtime->memories;
  if (!memories.IsHost(array.memory)) return array.storage->data();
  const int32_t memory = memories.topology().devices[static_cast<size_t>(request.device)].memories.front();
  ASSIGN_OR_RETURN(std::shared_ptr<Storage> copy, memories.Allocate(memory, array.storage->size()));
  if (copy_in && copy->size() > 0)
    RETURN_IF_ERROR(runtime->devices->CopyIn(request.device, array.storage->data(), copy->data(), copy->size()));
  staged->push_back(std::move(copy));
  return staged->back()->data();
}

absl::Status Launch::RunOnDevice() {
  const GpuProgram& program = executable->program();
  Devices& devices = *runtime->devices;
  const int32_t device = request.device;
  std::vector<std::shared_ptr<Storage>> staged;
  std::vector<void*> arguments, results;
  for (const DeviceArray& a : request.arguments) {
    ASSIGN_OR_RETURN(void* address, AddressOnDevice(a, true, &staged));
    arguments.push_back(address);
  }
  for (const DeviceArray& a : outputs) {
    ASSIGN_OR_RETURN(void* address, AddressOnDevice(a, false, &staged));
    results.push_back(address);
  }
  // An argument that the program overwrites though the caller keeps it: the program works on a copy, which becomes the
  // output.
  std::vector<std::pair<void*, size_t>> kept;  // argument, output
  for (size_t k = 0; k < outputs.size(); ++k) {
    const int32_t alias = executable->signature().outputs[k].alias;
    if (alias < 0 || arguments[static_cast<size_t>(alias)] == results[k]) continue;
    kept.push_back({arguments[static_cast<size_t>(alias)], k});
    arguments[static_cast<size_t>(alias)] = results[k];
  }
  RETURN_IF_ERROR(Fault(FaultSite::kTemporary));
  const int32_t memory = runtime->memories->topology().devices[static_cast<size_t>(device)].memories.front();
  std::shared_ptr<Storage> temporary;
  if (const int64_t bytes = program.assignment().temporary_bytes; bytes > 0) {
    ASSIGN_OR_RETURN(temporary,
                     runtime->memories->Allocate(memory, static_cast<size_t>(bytes + compiler::kTailPadding)));
  }
  ASSIGN_OR_RETURN(const Residence* residence, residences->Find(*runtime, device, *executable));
  EvaluatorHooks hooks;
  hooks.replica_id = request.replica;
  hooks.partition_id = request.partition;
  hooks.custom_call = [&](const Instruction& call, absl::Span<const Literal* const> operands) {
    return executable->custom_calls().Run(call, operands, request.context.get(), request.run_id, device);
  };
  hooks.collective = [&](const Instruction& op, absl::Span<const Literal* const> operands) {
    return executable->collectives().Run(op, operands, *member);
  };
  hooks.transfer = [&](const Instruction& op, absl::Span<const Literal* const> operands) {
    return executable->collectives().RunHostTransfer(op, operands, request.context.get());
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<StreamQueue> queue, devices.OpenQueue(device));
  queue->set_kernels(&residence->kernels());
  for (const auto& [from, k] : kept) {
    const size_t bytes = static_cast<size_t>(outputs[k].shape.byte_size());
    if (bytes > 0) RETURN_IF_ERROR(queue->CopyWithin(from, results[k], bytes));
  }
  absl::Status status = program.Run(*queue, arguments, results, residence->constants(),
                                    temporary == nullptr ? nullptr : temporary->data(), hooks);
  const absl::Status ended = queue->Synchronize();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(ended);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const DeviceArray& a = outputs[k];
    if (!a.shape.IsArray() || !runtime->memories->IsHost(a.memory) || a.storage->size() == 0) continue;
    RETURN_IF_ERROR(queue->CopyOut(results[k], a.storage->data(), a.storage->size()));
  }
  return absl::OkStatus();
}

absl::Status Launch::Run() {
  OperationTrace& trace = OperationTrace::Get();
  const bool traced = trace.Active();
  const int64_t start = traced ? OperationTrace::NowNs() : 0;
  absl::Status status = RunOnDevice();
  if (traced)
    trace.Record(request.device, true, executable->name(), executable->name(), start, OperationTrace::NowNs());
  return status;
}

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
    absl::Status made = Fault(FaultSite::kLaunch);
    if (made.ok()) made = MakeOutputs(request, *launch);
    if (!made.ok()) {
      launch->member->End(made);
      return made;
    }
    ExecuteResult result;
    launch->done = Promise("execute");
    result.done = launch->done.event();
    result.outputs = launch->outputs;
    for (DeviceArray& output : result.outputs) output.ready = result.done;
    absl::InlinedVector<Event, 8> inputs;
    for (const DeviceArray& argument : request.arguments) {
      if (!argument.ready.IsReady() || !argument.ready.status().ok()) inputs.push_back(argument.ready);
    }
    launch->request = std::move(request);
    Event::All(inputs).OnReady(
        [launch = std::move(launch)](const absl::Status& status) mutable { Start(std::move(launch), status); });
    return result;
  }

  void Abandon(int64_t run_id, const absl::Status& why) override { runtime_->launches.Abandon(run_id, why); }

 private:
  // Once the arguments are ready, or cannot be.
  static void Start(std::shared_ptr<Launch> launch, const absl::Status& arguments) {
    if (!arguments.ok()) {
      launch->Take();
      return End(std::move(launch), arguments);
    }
    const absl::Status scheduled = CatchExceptions([&] {
      const int64_t run_id = launch->request.run_id, members = launch->member->launch().process_count();
      launch->runtime->workers.ScheduleMember(run_id, members, [launch]() mutable {
        if (!launch->Take()) return;
        absl::Status end = CatchExceptions([&] { return launch->Run(); });
        End(std::move(launch), std::move(end));
      });
    });
    if (!scheduled.ok() && launch->Take()) End(std::move(launch), scheduled);
  }

  // Releases everything that the launch holds before any event is set. A thread may keep the empty object for a while.
  static void End(std::shared_ptr<Launch> launch, absl::Status status) {
    launch->member->End(status);
    const Promise done = std::move(launch->done);
    const std::shared_ptr<Runtime> runtime = std::move(launch->runtime);
    launch->member.reset();
    launch->residences.reset();
    launch->executable.reset();
    launch->request = {};
    launch->outputs.clear();
    launch.reset();
    done.Set(std::move(status));
  }

  absl::Status MakeOutputs(const ExecuteRequest& request, Launch& launch) const {
    const ExecutableSignature& signature = executable_->signature();
    const std::vector<int32_t>& memories = output_memories_[static_cast<size_t>(request.device)];
    for (size_t i = 0; i < signature.outputs.size(); ++i) {
      DeviceArray output{signature.outputs[i].shape, memories[i], nullptr, Event()};
      if (const DeviceArray* argument = FindReusedArgument(request, signature.outputs[i], output.memory)) {
        output.storage = argument->storage;
      } else {
        ASSIGN_OR_RETURN(output.storage, runtime_->memories->Allocate(output.memory, StorageBytes(output.shape)));
      }
      launch.outputs.push_back(std::move(output));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const HipExecutable> executable_;
  const std::vector<std::vector<int32_t>> output_memories_;  // by device and output
  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<Residences> residences_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadOnGpu(std::shared_ptr<Runtime> runtime,
                                                            std::shared_ptr<const Executable> executable) {
  // Every executable of this plugin is made by this plugin: the shim hands back what Compile or Deserialize returned.
  return std::make_unique<HipLoaded>(std::move(runtime),
                                     std::static_pointer_cast<const HipExecutable>(std::move(executable)));
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> HipClient::Load(std::shared_ptr<const Executable> executable,
                                                                  const LoadOptions&) {
  return LoadOnGpu(runtime_, std::move(executable));
}

absl::Status HipClient::ClearMemoryStats(int32_t device) {
  memories().ClearStats(device);
  return absl::OkStatus();
}

}  // namespace backplane::hip
