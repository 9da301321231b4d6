#include "plugins/hip/backend/launch.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/exchange.h"
#include "plugins/hip/backend/graph_queue.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/operation_trace.h"

namespace backplane::hip {
namespace {

// A program that starts more is enqueued by a thread of the workers, on a stream of its own, because enqueuing it would
// keep the thread that executes it for too long.
constexpr int64_t kMaxStarts = 4096;

}  // namespace

bool Launch::IsForDevice() const {
  const StartCount starts = executable->program().starts();
  if (!starts.has_value() || *starts > kMaxStarts) return false;
  const auto is_on_host = [&](const DeviceArray& array) {
    return array.shape.IsArray() && runtime->memories->IsHost(array.memory);
  };
  return std::none_of(request.arguments.begin(), request.arguments.end(), is_on_host) &&
         std::none_of(outputs.begin(), outputs.end(), is_on_host);
}

absl::StatusOr<void*> Launch::AddressOnDevice(const DeviceArray& array, bool copy_in) {
  if (!array.shape.IsArray()) return nullptr;
  if (array.storage == nullptr) return absl::InternalError(absl::StrCat(array.shape.ToString(), ": no memory"));
  MemorySpaces& memories = *runtime->memories;
  if (!memories.IsHost(array.memory)) return array.storage->data();
  const int32_t memory = memories.topology().devices[static_cast<size_t>(request.device)].memories.front();
  ASSIGN_OR_RETURN(std::shared_ptr<Storage> copy, memories.Allocate(memory, array.storage->size()));
  if (copy_in && copy->size() > 0)
    RETURN_IF_ERROR(runtime->devices->CopyIn(request.device, array.storage->data(), copy->data(), copy->size()));
  staged_.push_back(std::move(copy));
  return staged_.back()->data();
}

absl::Status Launch::FindAddresses() {
  for (const DeviceArray& a : request.arguments) {
    ASSIGN_OR_RETURN(void* address, AddressOnDevice(a, true));
    arguments_.push_back(address);
  }
  for (const DeviceArray& a : outputs) {
    ASSIGN_OR_RETURN(void* address, AddressOnDevice(a, false));
    results_.push_back(address);
  }
  // An argument that the program overwrites though the caller keeps it: the program works on a copy, which becomes the
  // output.
  for (size_t k = 0; k < outputs.size(); ++k) {
    const int32_t alias = executable->signature().outputs[k].alias;
    if (alias < 0 || arguments_[static_cast<size_t>(alias)] == results_[k]) continue;
    kept_.push_back({arguments_[static_cast<size_t>(alias)], k});
    arguments_[static_cast<size_t>(alias)] = results_[k];
  }
  return absl::OkStatus();
}

absl::Status Launch::Start(Queue& queue, const EvaluatorHooks& hooks, Exchange* exchange) {
  for (const auto& [from, k] : kept_) {
    const size_t bytes = static_cast<size_t>(outputs[k].shape.byte_size());
    if (bytes > 0) RETURN_IF_ERROR(queue.CopyWithin(from, results_[k], bytes));
  }
  RETURN_IF_ERROR(executable->program().Run(queue, arguments_, results_, residence_->constants(),
                                            temporary_ == nullptr ? nullptr : temporary_->data(), hooks, exchange));
  return queue.Flush();
}

std::shared_ptr<const void> Launch::HoldMemory() const {
  auto all = std::make_shared<std::vector<std::shared_ptr<Storage>>>(staged_);
  for (const DeviceArray& array : request.arguments) all->push_back(array.storage);
  for (const DeviceArray& array : outputs) all->push_back(array.storage);
  all->push_back(temporary_);
  return all;
}

absl::Status Launch::Prepare() {
  RETURN_IF_ERROR(Fault(FaultSite::kTemporary));
  if (const int64_t bytes = executable->program().temporary_bytes(); bytes > 0) {
    ASSIGN_OR_RETURN(temporary_, runtime->devices->TakeScratch(request.device, static_cast<size_t>(bytes)));
  }
  ASSIGN_OR_RETURN(residence_, residences->Find(*runtime, request.device, *executable));
  return absl::OkStatus();
}

absl::Status Launch::PrepareForHost() {
  RETURN_IF_ERROR(Fault(FaultSite::kTemporary));
  const int64_t bytes = executable->program().temporary_bytes();
  if (bytes == 0) return absl::OkStatus();
  const int32_t memory = runtime->memories->topology().devices[static_cast<size_t>(request.device)].memories.front();
  ASSIGN_OR_RETURN(temporary_, runtime->memories->Allocate(memory, static_cast<size_t>(bytes)));
  return absl::OkStatus();
}

absl::Status Launch::Enqueue(hipStream_t stream) {
  RETURN_IF_ERROR(FindAddresses());
  StreamQueue queue(runtime->devices->api(), request.device, stream);
  queue.set_kernels(&residence_->kernels());
  if (residence_->graphs() == nullptr) return Start(queue, {}, nullptr);
  GraphQueue held(queue, *residence_->graphs(), &graphs_);
  return Start(held, {}, nullptr);
}

absl::Status Launch::RunOnOwnStream() {
  Devices& devices = *runtime->devices;
  const int32_t device = request.device;
  RETURN_IF_ERROR(FindAddresses());
  ASSIGN_OR_RETURN(residence_, residences->Find(*runtime, device, *executable));
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
  queue->set_kernels(&residence_->kernels());
  std::optional<GraphQueue> held;
  if (residence_->graphs() != nullptr) held.emplace(*queue, *residence_->graphs(), &graphs_);
  Queue& starts = held.has_value() ? static_cast<Queue&>(*held) : *queue;
  // Destroyed before the queue: it holds what the others lend until the stream has been waited for.
  DeviceExchange exchange({devices, device, queue->stream(), starts, *member, HoldMemory(), runtime->collectives.get(),
                           [this](absl::Span<const std::string> notes) { executable->AddToLog(notes); }});
  // An exception must not drop the exchange before the stream has been waited for.
  const absl::Status status = CatchExceptions([&] { return Start(starts, hooks, &exchange); });
  const absl::Status by_library = exchange.AwaitLibrary(runtime->collective_time_limit);
  const absl::Status ended = queue->Synchronize();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(ended);
  RETURN_IF_ERROR(by_library);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const DeviceArray& a = outputs[k];
    if (!a.shape.IsArray() || !runtime->memories->IsHost(a.memory) || a.storage->size() == 0) continue;
    RETURN_IF_ERROR(queue->CopyOut(results_[k], a.storage->data(), a.storage->size()));
  }
  return absl::OkStatus();
}

absl::Status Launch::RunWithHost() {
  OperationTrace& trace = OperationTrace::Get();
  const bool traced = trace.Active();
  const int64_t start = traced ? OperationTrace::NowNs() : 0;
  const RunningLaunches::OnThisThread here(*runtime->devices->launches(request.device));
  absl::Status status = RunOnOwnStream();
  if (traced)
    trace.Record(request.device, true, executable->name(), executable->name(), start, OperationTrace::NowNs());
  return status;
}

void Launch::End(const absl::Status& status) {
  member->End(status);
  member.reset();
  graphs_.clear();
  temporary_.reset();
  staged_.clear();
  residences.reset();
  executable.reset();
  request = {};
  outputs.clear();
  runtime.reset();
}

}  // namespace backplane::hip
