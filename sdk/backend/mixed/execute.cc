// Runs a program: converts arguments to values, runs the interpreter in a task, and writes the results to the outputs.
#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/collectives/join_launch.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/launch_outputs.h"
#include "sdk/backend/mixed/executable.h"
#include "sdk/backend/operation_trace.h"

namespace backplane::mixed {
namespace {

// Allocates the memory of the device on which a program runs.
class DevicePlacement : public Placement {
 public:
  DevicePlacement(MemorySpaces& memories, int32_t device)
      : Placement(device, memories.device_memory()), memories_(memories) {}
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(size_t bytes) override {
    return memories_.Allocate(memories_.topology().devices[static_cast<size_t>(device())].memories.front(), bytes);
  }

 private:
  MemorySpaces& memories_;
};

// Uses the argument in place if memory and layout permit it, otherwise copies it.
absl::StatusOr<Value> ToValue(const MemorySpaces& memories, const DeviceArray& array) {
  if (!array.shape.IsToken() && array.storage == nullptr)
    return absl::InternalError(absl::StrCat("argument ", array.shape.ToString(), ": no memory"));
  if (array.shape.IsArray() && !memories.IsHost(array.memory) && array.shape.IsRowMajor()) {
    return Value::OfStorage(array.shape, array.storage);
  }
  ASSIGN_OR_RETURN(Literal literal, memories.Read(array));
  return Value::OfLiteral(std::move(literal));
}

// Packs leaves into the tuples of the parameter's shape.
absl::StatusOr<Value> PackArgument(const MemorySpaces& memories, const Shape& shape,
                                   const std::vector<DeviceArray>& arguments, size_t* at) {
  if (!shape.IsTuple()) return ToValue(memories, arguments[(*at)++]);
  std::vector<Value> elements;
  for (int64_t i = 0; i < shape.tuple_size(); ++i) {
    ASSIGN_OR_RETURN(Value element, PackArgument(memories, shape.tuple_shapes(i), arguments, at));
    elements.push_back(std::move(element));
  }
  return Value::Tuple(std::move(elements));
}

void Flatten(Value value, std::vector<Value>* out) {
  if (!value.is_tuple()) return out->push_back(std::move(value));
  for (Value& element : value.elements()) Flatten(std::move(element), out);
}

// One launch on one device. It is destroyed before its events are set.
struct Work {
  std::shared_ptr<const MixedExecutable> executable;
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<LaunchMember> member;
  ExecuteRequest request;
  std::vector<DeviceArray> outputs;
  std::vector<bool> reuses;  // by output: whether it uses the memory of an argument
  Promise done;
  std::atomic<bool> taken{false};  // set by the thread that runs it or gives it up

  bool Take() { return !taken.exchange(true); }
  absl::Status Run();
  absl::StatusOr<std::vector<Value>> Evaluate(Placement& placement);
  absl::Status WriteOutputs(std::vector<Value>& leaves, Placement& placement);
};

absl::StatusOr<std::vector<Value>> Work::Evaluate(Placement& placement) {
  const Module& module = *executable->optimized_module();
  std::vector<Value> arguments;
  size_t at = 0;
  for (const Instruction* p : module.entry()->parameters()) {
    ASSIGN_OR_RETURN(Value argument, PackArgument(*runtime->memories, p->shape(), request.arguments, &at));
    arguments.push_back(std::move(argument));
  }
  EvaluatorHooks hooks;
  hooks.replica_id = request.replica;
  hooks.partition_id = request.partition;
  hooks.custom_call = [&](const Instruction& call, absl::Span<const Literal* const> operands) {
    return executable->custom_calls().Run(call, operands, request.context.get(), request.run_id, request.device);
  };
  hooks.collective = [&](const Instruction& op, absl::Span<const Literal* const> operands) {
    return executable->collectives().Run(op, operands, *member);
  };
  hooks.transfer = [&](const Instruction& op, absl::Span<const Literal* const> operands) {
    return executable->collectives().RunHostTransfer(op, operands, request.context.get());
  };
  Destinations destinations;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Instruction* writer = executable->writer_of_output()[i];
    const bool in_device_memory = placement.on_host() || !runtime->memories->IsHost(outputs[i].memory);
    if (writer != nullptr && !reuses[i] && in_device_memory) destinations[writer] = outputs[i].storage;
  }
  ASSIGN_OR_RETURN(Value result,
                   RunProgram(executable->program(), std::move(arguments), destinations, hooks, placement));
  std::vector<Value> leaves;
  Flatten(std::move(result), &leaves);
  return leaves;
}

absl::Status Work::WriteOutputs(std::vector<Value>& leaves, Placement& placement) {
  if (leaves.size() != outputs.size()) {
    return absl::InternalError(
        absl::StrCat(executable->name(), ": ", leaves.size(), " results, expected ", outputs.size()));
  }
  if (std::find(reuses.begin(), reuses.end(), true) != reuses.end()) {
    // A result may still be an argument that is read in place. Another result must not overwrite it.
    for (size_t i = 0; i < leaves.size(); ++i) {
      const bool written = leaves[i].storage() != nullptr && leaves[i].storage() == outputs[i].storage;
      if (leaves[i].shape().IsArray() && !written) RETURN_IF_ERROR(leaves[i].Detach(placement));
    }
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    Value& leaf = leaves[i];
    const DeviceArray& output = outputs[i];
    if (!output.shape.IsArray() || (leaf.storage() != nullptr && leaf.storage() == output.storage)) continue;
    if (leaf.storage() != nullptr && !placement.on_host() && !runtime->memories->IsHost(output.memory) &&
        output.shape.IsRowMajor()) {
      const size_t bytes = static_cast<size_t>(output.shape.byte_size());
      if (bytes == 0) continue;
      RETURN_IF_ERROR(
          placement.memory()->CopyWithin(placement.device(), leaf.storage()->data(), output.storage->data(), bytes));
      continue;
    }
    ASSIGN_OR_RETURN(Literal value, leaf.OnHost(placement));
    RETURN_IF_ERROR(runtime->memories->Write(value, output));
  }
  return absl::OkStatus();
}

absl::Status Work::Run() {
  DevicePlacement placement(*runtime->memories, request.device);
  OperationTrace& trace = OperationTrace::Get();
  const bool traced = trace.Active();
  const int64_t start = traced ? OperationTrace::NowNs() : 0;
  absl::StatusOr<std::vector<Value>> leaves = Evaluate(placement);
  if (traced) {
    trace.Record(request.device, true, executable->name(), executable->name(), start, OperationTrace::NowNs());
  }
  member->End(leaves.status());
  RETURN_IF_ERROR(leaves.status());
  return WriteOutputs(*leaves, placement);
}

class MixedLoaded : public LoadedExecutable {
 public:
  MixedLoaded(std::shared_ptr<const MixedExecutable> executable, std::shared_ptr<Runtime> runtime)
      : executable_(std::move(executable)),
        output_memories_(ChooseOutputMemories(runtime->memories->topology(), executable_->signature())),
        nodes_(DescribeLaunch(runtime->group, *executable_)),
        runtime_(std::move(runtime)) {}

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) override {
    const ExecutableSignature& signature = executable_->signature();
    if (static_cast<int64_t>(request.device_assignment.size()) != signature.device_count()) {
      return absl::InternalError(
          absl::StrCat(executable_->name(), ": device assignment of ", request.device_assignment.size()));
    }
    auto work = std::make_shared<Work>();
    work->executable = executable_;
    work->runtime = runtime_;
    work->member = JoinLaunch(runtime_->launches, request, signature, runtime_->collective_time_limit, &nodes_);
    absl::Status made = MakeOutputs(request, *work);
    if (!made.ok()) {
      work->member->End(made);
      return made;
    }
    ExecuteResult result;
    work->done = Promise("execute");
    result.done = work->done.event();
    result.outputs = work->outputs;
    for (DeviceArray& output : result.outputs) output.ready = result.done;
    absl::InlinedVector<Event, 8> inputs;
    for (const DeviceArray& argument : request.arguments) {
      if (!argument.ready.IsReady() || !argument.ready.status().ok()) inputs.push_back(argument.ready);
    }
    work->request = std::move(request);
    Event::All(inputs).OnReady([work = std::move(work), runtime = runtime_](const absl::Status& status) mutable {
      std::shared_ptr<Work> own = std::move(work);
      if (!status.ok()) {
        own->Take();
        return End(std::move(own), status);
      }
      const absl::Status scheduled = CatchExceptions([&] {
        const int64_t run_id = own->request.run_id, members = own->member->launch().local_process_count();
        runtime->workers.ScheduleMember(run_id, members, [own]() mutable {
          if (!own->Take()) return;
          absl::Status end = CatchExceptions([&] { return own->Run(); });
          End(std::move(own), std::move(end));
        });
      });
      if (!scheduled.ok() && own->Take()) End(std::move(own), scheduled);
    });
    return result;
  }

  void Abandon(int64_t run_id, const absl::Status& why) override { runtime_->launches.Abandon(run_id, why); }

 private:
  // Releases everything that the work holds before any event is set. The thread may keep the empty object for a while.
  static void End(std::shared_ptr<Work> work, absl::Status status) {
    work->member->End(status);
    const Promise done = std::move(work->done);
    const std::shared_ptr<Runtime> runtime = std::move(work->runtime);
    work->member.reset();
    work->executable.reset();
    work->request = {};
    work->outputs.clear();
    work.reset();
    done.Set(std::move(status));
  }

  absl::Status MakeOutputs(const ExecuteRequest& request, Work& work) const {
    const ExecutableSignature& signature = executable_->signature();
    const std::vector<int32_t>& memories = output_memories_[static_cast<size_t>(request.device)];
    for (size_t i = 0; i < signature.outputs.size(); ++i) {
      DeviceArray output;
      output.shape = signature.outputs[i].shape;
      output.memory = memories[i];
      const DeviceArray* argument = FindReusedArgument(request, signature.outputs[i], output.memory);
      const bool reuses = argument != nullptr;
      if (reuses) {
        output.storage = argument->storage;
      } else {
        ASSIGN_OR_RETURN(output.storage, runtime_->memories->Allocate(output.memory, StorageBytes(output.shape)));
      }
      work.reuses.push_back(reuses);
      work.outputs.push_back(std::move(output));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const MixedExecutable> executable_;
  const std::vector<std::vector<int32_t>> output_memories_;  // by device and output
  const NodeLaunch nodes_;
  const std::shared_ptr<Runtime> runtime_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadMixed(std::shared_ptr<const Executable> executable,
                                                            std::shared_ptr<Runtime> runtime) {
  auto ours = std::static_pointer_cast<const MixedExecutable>(executable);
  return std::make_unique<MixedLoaded>(std::move(ours), std::move(runtime));
}

}  // namespace backplane::mixed
