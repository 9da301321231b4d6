// Programs of the queue backend. The mixed backend compiles them. Here a program runs as a command of a chip's queue,
// after the signals of its arguments and with a signal of its own.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "samples/queue_backend/client.h"
#include "sdk/backend/collectives/join_launch.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/launch_outputs.h"
#include "sdk/backend/mixed/executable.h"

namespace queue_backend {

using backplane::ExecuteRequest;
using backplane::ExecuteResult;
using backplane::Instruction;
using backplane::Literal;
using backplane::Shape;
using backplane::mixed::MixedExecutable;
using backplane::mixed::Value;

namespace {

// The memory of a chip as seen by a program that runs on it.
class OwnMemory : public backplane::mixed::Placement {
 public:
  explicit OwnMemory(int32_t device) : Placement(device, nullptr) {}
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(size_t) override {
    return absl::InternalError("nothing is allocated on the chip");
  }
};

// The state of one execution.
struct Run {
  std::shared_ptr<const MixedExecutable> executable;
  std::shared_ptr<backplane::LaunchMember> member;
  ExecuteRequest request;
  std::vector<DeviceArray> outputs;
  bool reuses_arguments = false;
};

absl::StatusOr<Value> ReadArgument(const backplane::MemorySpaces& memories, const Shape& shape, const Run& run,
                                   size_t* at) {
  if (shape.IsTuple()) {
    std::vector<Value> elements;
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      ASSIGN_OR_RETURN(Value element, ReadArgument(memories, shape.tuple_shapes(i), run, at));
      elements.push_back(std::move(element));
    }
    return Value::Tuple(std::move(elements));
  }
  ASSIGN_OR_RETURN(Literal literal, memories.Read(OnChip(run.request.arguments[(*at)++])));
  return Value::OfLiteral(std::move(literal));
}

void Flatten(Value value, std::vector<Value>* out) {
  if (!value.is_tuple()) return out->push_back(std::move(value));
  for (Value& element : value.elements()) Flatten(std::move(element), out);
}

// Runs on the chip.
absl::Status Compute(QueueClient& client, Run& run) {
  chip::Thread& thread = client.chip(run.request.device).programs.thread();
  const MixedExecutable& executable = *run.executable;
  // A program that waits for the host or for other chips releases the queue, because they may need it meanwhile.
  if (run.member->launch().process_count() > 1) thread.ReleaseQueue();
  backplane::EvaluatorHooks hooks;
  hooks.replica_id = run.request.replica;
  hooks.partition_id = run.request.partition;
  hooks.custom_call = [&](const Instruction& call, absl::Span<const Literal* const> operands) {
    thread.ReleaseQueue();
    return executable.custom_calls().Run(call, operands, run.request.context.get(), run.request.run_id,
                                         run.request.device);
  };
  hooks.collective = [&](const Instruction& op, absl::Span<const Literal* const> operands) {
    return executable.collectives().Run(op, operands, *run.member);
  };
  hooks.transfer = [&](const Instruction& op, absl::Span<const Literal* const> operands) {
    thread.ReleaseQueue();
    return executable.collectives().RunHostTransfer(op, operands, run.request.context.get());
  };
  std::vector<Value> arguments;
  size_t at = 0;
  for (const Instruction* p : executable.optimized_module()->entry()->parameters()) {
    ASSIGN_OR_RETURN(Value argument, ReadArgument(*client.runtime().memories, p->shape(), run, &at));
    arguments.push_back(std::move(argument));
  }
  OwnMemory placement(run.request.device);
  ASSIGN_OR_RETURN(Value result, RunProgram(executable.program(), std::move(arguments), {}, hooks, placement));
  std::vector<Value> leaves;
  Flatten(std::move(result), &leaves);
  // A result may be an argument that is used in place, and another result may be about to overwrite it.
  for (Value& leaf : leaves) {
    if (run.reuses_arguments && leaf.shape().IsArray()) RETURN_IF_ERROR(leaf.Detach(placement));
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!run.outputs[i].shape.IsArray()) continue;
    ASSIGN_OR_RETURN(Literal value, leaves[i].OnHost(placement));
    RETURN_IF_ERROR(client.runtime().memories->Write(value, OnChip(run.outputs[i])));
  }
  return absl::OkStatus();
}

class QueueLoaded : public backplane::LoadedExecutable {
 public:
  QueueLoaded(QueueClient* client, std::shared_ptr<const MixedExecutable> executable)
      : client_(client), executable_(std::move(executable)) {}

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) override {
    auto run = std::make_shared<Run>();
    run->executable = executable_;
    RETURN_IF_ERROR(MakeOutputs(request, *run));
    backplane::mixed::Runtime& runtime = client_->runtime();
    run->member = JoinLaunch(runtime.launches, request, executable_->signature(), runtime.collective_time_limit);
    Work work{"execute", executable_->name(), {}, {}, {}, {}, {}};
    for (const DeviceArray& argument : request.arguments) {
      work.inputs.push_back(argument.ready);
      if (argument.storage != nullptr) work.holds.push_back(argument.storage);
    }
    for (const DeviceArray& output : run->outputs) work.holds.push_back(output.storage);
    ExecuteResult result;
    result.outputs = run->outputs;
    const int32_t device = request.device;
    run->request = std::move(request);
    work.on_device = [client = client_, run = std::move(run)] {
      absl::Status status = backplane::CatchExceptions([&] { return Compute(*client, *run); });
      run->member->End(status);
      return status;
    };
    result.done = client_->Submit(client_->chip(device).programs, std::move(work));
    for (DeviceArray& output : result.outputs) output.ready = result.done;
    return result;
  }

  void Abandon(int64_t run_id, const absl::Status& why) override { client_->runtime().launches.Abandon(run_id, why); }

 private:
  absl::Status MakeOutputs(const ExecuteRequest& request, Run& run) const {
    for (const backplane::OutputInfo& info : executable_->signature().outputs) {
      const int32_t memory = 2 * request.device + (info.memory_kind == "pinned_host" ? 1 : 0);
      DeviceArray output{info.shape, memory, nullptr, Event()};
      if (const DeviceArray* argument = FindReusedArgument(request, info, memory)) {
        output.storage = argument->storage;
        run.reuses_arguments = true;
      } else {
        ASSIGN_OR_RETURN(output.storage, client_->Allocate(memory, backplane::StorageBytes(info.shape)));
      }
      run.outputs.push_back(std::move(output));
    }
    return absl::OkStatus();
  }

  QueueClient* const client_;  // outlives the programs loaded on it
  const std::shared_ptr<const MixedExecutable> executable_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<backplane::LoadedExecutable>> LoadOnQueue(
    QueueClient* client, std::shared_ptr<const backplane::Executable> executable) {
  return std::make_unique<QueueLoaded>(client, std::static_pointer_cast<const MixedExecutable>(std::move(executable)));
}

}  // namespace queue_backend
