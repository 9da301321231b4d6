// Running a program: values in, the evaluator on a thread of its own, values out.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/types/status_macros.h"
#include "plugins/reference/executable.h"
#include "sdk/backend/strided_copy.h"

namespace backplane::reference {
namespace {

bool IsRowMajor(const Shape& shape) { return !shape.has_layout() || shape.layout().IsRowMajor(); }

// Reads in place where the order allows it.
absl::StatusOr<Literal> ToLiteral(const DeviceArray& array) {
  if (array.shape.IsToken()) return Literal::Token();
  if (array.storage == nullptr)
    return absl::InternalError(absl::StrCat("argument ", array.shape.ToString(), ": no memory"));
  if (IsRowMajor(array.shape)) return Literal::Borrow(array.shape, array.storage->data());
  Literal out(array.shape);
  ASSIGN_OR_RETURN(DimVector from, DenseByteStrides(array.shape));
  ASSIGN_OR_RETURN(DimVector to, DenseByteStrides(out.shape()));
  StridedCopy(array.shape.dimensions(), static_cast<size_t>(ByteWidth(array.shape.element_type())),
              array.storage->data(), from, out.mutable_bytes(), to);
  return out;
}

absl::Status FromLiteral(const Literal& value, const DeviceArray& array) {
  if (!array.shape.IsArray() || array.shape.num_elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(DimVector from, DenseByteStrides(value.shape()));
  ASSIGN_OR_RETURN(DimVector to, DenseByteStrides(array.shape));
  StridedCopy(array.shape.dimensions(), static_cast<size_t>(ByteWidth(array.shape.element_type())), value.bytes(), from,
              array.storage->data(), to);
  return absl::OkStatus();
}

// Leaves packed as the parameter's shape wants them.
absl::StatusOr<Literal> PackArgument(const Shape& shape, const std::vector<DeviceArray>& arguments, size_t* at) {
  if (!shape.IsTuple()) return ToLiteral(arguments[(*at)++]);
  std::vector<Literal> elements;
  for (int64_t i = 0; i < shape.tuple_size(); ++i) {
    ASSIGN_OR_RETURN(Literal element, PackArgument(shape.tuple_shapes(i), arguments, at));
    elements.push_back(std::move(element));
  }
  return Literal::Tuple(std::move(elements));
}

void Flatten(Literal value, std::vector<Literal>* out) {
  if (!value.shape().IsTuple()) return out->push_back(std::move(value));
  for (Literal& element : value.mutable_elements()) Flatten(std::move(element), out);
}

// One launch on one device. Destroyed before its events are set.
struct Work {
  std::shared_ptr<const ReferenceExecutable> executable;
  std::unique_ptr<LaunchMember> member;
  ExecuteRequest request;
  std::vector<DeviceArray> outputs;
  bool reuses = false;  // an output lies in an argument's memory

  absl::Status Run();
};

absl::Status Work::Run() {
  const Module& module = executable->optimized_module();
  std::vector<Literal> arguments;
  size_t at = 0;
  for (const Instruction* p : module.entry()->parameters()) {
    ASSIGN_OR_RETURN(Literal argument, PackArgument(p->shape(), request.arguments, &at));
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
    return Collectives::RunHostTransfer(op, operands, request.context.get());
  };
  absl::StatusOr<Literal> result = Evaluate(module, arguments, hooks);
  member->End(result.status());
  RETURN_IF_ERROR(result.status());
  std::vector<Literal> leaves;
  Flatten(*std::move(result), &leaves);
  if (leaves.size() != outputs.size()) {
    return absl::InternalError(absl::StrCat(module.name(), ": ", leaves.size(), " results, expected ", outputs.size()));
  }
  if (reuses) {
    // A result may still be an argument read in place; it must not be overwritten by another result.
    for (Literal& leaf : leaves) {
      if (leaf.shape().IsArray()) leaf.mutable_bytes();
    }
  }
  for (size_t i = 0; i < leaves.size(); ++i) RETURN_IF_ERROR(FromLiteral(leaves[i], outputs[i]));
  return absl::OkStatus();
}

class ReferenceLoaded : public LoadedExecutable {
 public:
  ReferenceLoaded(std::shared_ptr<const ReferenceExecutable> executable, std::vector<std::vector<int32_t>> memories,
                  std::shared_ptr<Runtime> runtime)
      : executable_(std::move(executable)), memories_(std::move(memories)), runtime_(std::move(runtime)) {}

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) override {
    const CompileOptions& options = executable_->options();
    const bool whole = static_cast<int64_t>(request.device_assignment.size()) ==
                       int64_t{options.num_replicas} * options.num_partitions;
    if (!whole) {
      return absl::InternalError(
          absl::StrCat(executable_->name(), ": device assignment of ", request.device_assignment.size()));
    }
    auto work = std::make_shared<Work>();
    LaunchOptions launch{options.num_replicas, options.num_partitions, runtime_->collective_time_limit, {}};
    launch.devices.assign(request.device_assignment.begin(), request.device_assignment.end());
    work->member = std::make_unique<LaunchMember>(runtime_->launches.Join(request.run_id, launch), request.replica,
                                                  request.partition);
    absl::Status made = MakeOutputs(request, *work);
    if (!made.ok()) {
      work->member->End(made);
      return made;
    }
    work->executable = executable_;
    ExecuteResult result;
    result.done = Event::Create();
    result.outputs = work->outputs;
    for (DeviceArray& output : result.outputs) output.ready = result.done;
    absl::InlinedVector<Event, 8> inputs;
    for (const DeviceArray& argument : request.arguments) {
      if (!argument.ready.IsReady() || !argument.ready.status().ok()) inputs.push_back(argument.ready);
    }
    work->request = std::move(request);
    Event::All(inputs).OnReady(
        [work = std::move(work), runtime = runtime_, done = result.done](const absl::Status& status) mutable {
          if (!status.ok()) {
            work->member->End(status);
            work.reset();
            done.Set(status);
            return;
          }
          runtime->workers.Schedule([work = std::move(work), done]() mutable {
            absl::Status end = work->Run();
            work->member->End(end);
            work.reset();
            done.Set(std::move(end));
          });
        });
    return result;
  }

 private:
  absl::Status MakeOutputs(const ExecuteRequest& request, Work& work) const {
    absl::Span<const OutputInfo> infos = executable_->outputs();
    for (size_t i = 0; i < infos.size(); ++i) {
      DeviceArray output;
      output.shape = infos[i].shape;
      output.memory = memories_[request.device][i];
      const int64_t alias = executable_->alias_of_output()[i];
      if (alias >= 0 && request.donated[alias] && request.arguments[alias].shape.Identical(output.shape) &&
          request.arguments[alias].memory == output.memory) {
        output.storage = request.arguments[alias].storage;
        work.reuses = true;
      } else {
        const int64_t bytes = output.shape.IsArray() ? output.shape.byte_size() : 0;
        ASSIGN_OR_RETURN(output.storage, runtime_->Allocate(output.memory, static_cast<size_t>(bytes)));
      }
      work.outputs.push_back(std::move(output));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const ReferenceExecutable> executable_;
  const std::vector<std::vector<int32_t>> memories_;  // by device, output
  const std::shared_ptr<Runtime> runtime_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadReference(std::shared_ptr<const Executable> executable,
                                                                const Topology& topology,
                                                                std::shared_ptr<Runtime> runtime) {
  auto ours = std::static_pointer_cast<const ReferenceExecutable>(executable);
  std::vector<std::vector<int32_t>> memories;
  for (const DeviceInfo& device : topology.devices) {
    std::vector<int32_t> row;
    for (const OutputInfo& output : ours->outputs()) {
      int32_t chosen = device.memories.front();
      for (int32_t m : device.memories) {
        if (topology.memories[m].kind == output.memory_kind) chosen = m;
      }
      row.push_back(chosen);
    }
    memories.push_back(std::move(row));
  }
  return std::make_unique<ReferenceLoaded>(std::move(ours), std::move(memories), std::move(runtime));
}

}  // namespace backplane::reference
