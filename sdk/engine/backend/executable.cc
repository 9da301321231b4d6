#include "sdk/engine/backend/executable.h"

#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"

namespace backplane::engine {
namespace {

// A program shorter than this runs in the caller's thread: handing it to another costs as much.
constexpr double kInlineMicroseconds = 60;
// Up to here it still does, with the others woken: what the caller could do meanwhile is worth less than the way there.
constexpr double kStayMicroseconds = 150;

Shape Leaf(const Shape& s) {
  Shape leaf = s;
  if (leaf.IsArray() && !leaf.has_layout()) leaf.set_row_major();
  return leaf;
}

// What one run keeps alive until it has finished.
struct Launch {
  ExecuteRequest request;
  std::shared_ptr<const EngineExecutable> executable;
  Runtime* runtime = nullptr;
  std::unique_ptr<LaunchMember> member;  // where the program has collectives
  std::vector<void*> arguments, outputs;
  struct Preserve {
    const void* from;
    void* to;
    size_t bytes;
  };
  std::vector<Preserve> preserve;  // arguments whose memory the program overwrites though the caller keeps them
  std::vector<DeviceArray> results;
  Event done = Event::Create();
};

absl::Status RunProgram(const Launch& launch) {
  for (const DeviceArray& a : launch.request.arguments) {
    if (absl::Status s = a.ready.status(); !s.ok()) return s;
  }
  for (const Launch::Preserve& p : launch.preserve) std::memcpy(p.to, p.from, p.bytes);
  ExecutionContext context;
  context.user = launch.request.context;
  context.run_id = launch.request.run_id;
  context.device = launch.request.device;
  context.replica = launch.request.replica;
  context.partition = launch.request.partition;
  context.device_assignment.assign(launch.request.device_assignment.begin(), launch.request.device_assignment.end());
  context.member = launch.member.get();
  const Program& program = launch.executable->program();
  if (program.estimated_us() < kInlineMicroseconds) {
    return program.Run(launch.arguments, launch.outputs, &launch.runtime->pool, &launch.runtime->memory, context);
  }
  ThreadPool::ActiveScope awake(&launch.runtime->pool);
  return program.Run(launch.arguments, launch.outputs, &launch.runtime->pool, &launch.runtime->memory, context);
}

void Finish(Launch& launch) {
  absl::Status s = RunProgram(launch);
  if (launch.member != nullptr) launch.member->End(s);
  // Arguments go first: whoever waits for the results may count on donated and borrowed memory being released.
  launch.request.arguments.clear();
  launch.request.context.reset();
  Event done = launch.done;
  launch.results.clear();
  done.Set(std::move(s));
}

class EngineLoadedExecutable : public LoadedExecutable {
 public:
  EngineLoadedExecutable(EngineClient* client, std::shared_ptr<const EngineExecutable> executable)
      : client_(client), executable_(std::move(executable)) {}

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) override {
    const Program& program = executable_->program();
    const BufferAssignment& assignment = program.assignment();
    const absl::Span<const OutputInfo> outputs = executable_->outputs();
    auto launch = std::make_shared<Launch>();
    launch->runtime = &Runtime::Get();
    launch->executable = executable_;
    if (program.meets_others()) {
      const CompileOptions& options = executable_->options();
      LaunchOptions together{options.num_replicas, options.num_partitions, client_->collective_time_limit(), {}};
      together.devices.assign(request.device_assignment.begin(), request.device_assignment.end());
      launch->member = std::make_unique<LaunchMember>(launch->runtime->launches.Join(request.run_id, together),
                                                      request.replica, request.partition);
    }
    bool ready = true;
    launch->arguments.reserve(request.arguments.size());
    for (const DeviceArray& a : request.arguments) {
      launch->arguments.push_back(a.storage ? a.storage->data() : nullptr);
      ready = ready && a.ready.IsReady();
    }
    const bool inline_run = ready && !program.may_block() && program.estimated_us() < kStayMicroseconds;
    if (inline_run) launch->done = Event();
    ExecuteResult result;
    result.outputs.reserve(outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) {
      DeviceArray out;
      out.shape = outputs[k].shape;
      out.memory = client_->topology().devices[static_cast<size_t>(request.device)].memories[0];
      out.ready = launch->done;
      const int32_t alias = assignment.output_alias[k];
      const size_t bytes = out.shape.IsArray() ? static_cast<size_t>(out.shape.byte_size()) : 0;
      if (alias >= 0 && request.donated[static_cast<size_t>(alias)]) {
        out.storage = request.arguments[static_cast<size_t>(alias)].storage;
      } else {
        ASSIGN_OR_RETURN(out.storage, client_->Allocate(out.memory, bytes));
        if (alias >= 0) {
          // The caller keeps the argument: the program works on a copy, which becomes the output.
          launch->preserve.push_back({launch->arguments[static_cast<size_t>(alias)], out.storage->data(), bytes});
          launch->arguments[static_cast<size_t>(alias)] = out.storage->data();
        }
      }
      launch->outputs.push_back(out.storage->data());
      result.outputs.push_back(std::move(out));
    }
    launch->request = std::move(request);
    if (inline_run) {
      absl::Status s = RunProgram(*launch);
      if (!s.ok()) {
        const Event failed = Event::Ready(std::move(s));
        for (DeviceArray& out : result.outputs) out.ready = failed;
        result.done = failed;
      }
      return result;
    }
    result.done = launch->done;
    launch->results = result.outputs;  // their storage must outlive the run even if the caller drops it
    if (ready) {
      launch->runtime->pool.WakeUp();
      launch->runtime->Schedule([launch] { Finish(*launch); });
      return result;
    }
    std::vector<Event> events;
    for (const DeviceArray& a : launch->request.arguments) events.push_back(a.ready);
    Event::All(events).OnReady(
        [launch](const absl::Status&) { launch->runtime->Schedule([launch] { Finish(*launch); }); });
    return result;
  }

 private:
  EngineClient* client_;
  std::shared_ptr<const EngineExecutable> executable_;
};

}  // namespace

EngineExecutable::EngineExecutable(std::unique_ptr<Program> program, CompileOptions options, NamedValues cost,
                                   std::string fingerprint, std::vector<std::string> log)
    : program_(std::move(program)),
      options_(std::move(options)),
      cost_(std::move(cost)),
      fingerprint_(std::move(fingerprint)),
      log_(std::move(log)) {
  const Module& module = program_->module();
  const ModuleConfig& config = module.config();
  for (const Instruction* p : module.entry()->parameters()) {
    ForEachLeaf(p->shape(), [&](const Shape& s, const std::vector<int64_t>&) {
      ParameterInfo info;
      info.shape = Leaf(s);
      const size_t n = parameters_.size();
      if (n < config.parameter_memory_kinds.size() && !config.parameter_memory_kinds[n].empty())
        info.memory_kind = config.parameter_memory_kinds[n];
      parameters_.push_back(std::move(info));
    });
  }
  for (int32_t alias : program_->assignment().output_alias) {
    if (alias >= 0) parameters_[static_cast<size_t>(alias)].donated = true;
  }
  for (const BufferDonor& d : config.buffer_donors) {
    if (d.parameter >= 0 && static_cast<size_t>(d.parameter) < parameters_.size())
      parameters_[static_cast<size_t>(d.parameter)].donated = true;
  }
  for (const InputOutputAlias& a : config.input_output_aliases) {
    if (a.parameter >= 0 && static_cast<size_t>(a.parameter) < parameters_.size())
      parameters_[static_cast<size_t>(a.parameter)].donated = true;
  }
  ForEachLeaf(module.entry()->root()->shape(), [&](const Shape& s, const std::vector<int64_t>&) {
    OutputInfo info;
    info.shape = Leaf(s);
    const size_t n = outputs_.size();
    if (n < config.result_memory_kinds.size() && !config.result_memory_kinds[n].empty())
      info.memory_kind = config.result_memory_kinds[n];
    outputs_.push_back(std::move(info));
  });
}

CompiledMemoryStats EngineExecutable::memory_stats() const {
  CompiledMemoryStats m;
  m.generated_code = program_->code_bytes();
  for (const ParameterInfo& p : parameters_) m.argument += p.shape.IsArray() ? p.shape.byte_size() : 0;
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const int64_t bytes = outputs_[k].shape.IsArray() ? outputs_[k].shape.byte_size() : 0;
    m.output += bytes;
    if (program_->assignment().output_alias[k] >= 0) m.alias += bytes;
  }
  m.temp = program_->temporary_bytes();
  m.total = m.argument + m.output - m.alias + m.temp + m.generated_code;
  m.peak = m.argument + m.output - m.alias + m.temp;
  return m;
}

std::string EngineExecutable::compile_log() const { return absl::StrCat(absl::StrJoin(log_, "\n"), "\n"); }

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadEngineExecutable(EngineClient* client,
                                                                       std::shared_ptr<const Executable> executable) {
  // Every executable of this plugin is made by this plugin: the shim hands back what Compile or Deserialize returned.
  return std::make_unique<EngineLoadedExecutable>(
      client, std::static_pointer_cast<const EngineExecutable>(std::move(executable)));
}

}  // namespace backplane::engine
