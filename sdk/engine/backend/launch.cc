#include "sdk/engine/backend/launch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"

namespace backplane::engine {
namespace {

// A program shorter than this runs in the caller's thread: handing it to another costs as much.
constexpr double kInlineMicroseconds = 60;
// Up to this time it still does, with the pool woken: what the caller could do meanwhile is worth less than the
// hand-over.
constexpr double kInlineWithPoolMicroseconds = 150;
// So does a program whose calls of the host are in branches that were not taken in this many runs before.
constexpr int kRunsWithoutHostCalls = 16;

// Whether the caller's thread may have to wait for the host or for other devices. The host's function that one device
// calls may wait for that of another one, whose program the caller has yet to dispatch.
bool ProbablyBlocks(const Program& program, bool has_one_device) {
  return program.may_block() && (program.traits().communicates || !has_one_device ||
                                 program.runs_without_host_calls() < kRunsWithoutHostCalls);
}

// The temporary memory that a launch holds at a time: devices that communicate hold theirs at the same time.
int64_t TemporaryBytesOfLaunch(const Program& program, const ExecutableSignature& signature) {
  const int64_t devices = program.traits().communicates ? std::max<int64_t>(signature.device_count(), 1) : 1;
  return std::min(program.temporary_bytes(), std::numeric_limits<int64_t>::max() / devices) * devices;
}

}  // namespace

ProgramLaunch::ProgramLaunch(ExecuteRequest request, std::shared_ptr<const Executable> executable,
                             const Program& program, std::chrono::milliseconds time_limit,
                             std::shared_ptr<MemoryBudget> budget, Subnormals subnormals, const NodeLaunch* nodes)
    : request_(std::move(request)),
      executable_(std::move(executable)),
      program_(program),
      runtime_(Runtime::Get()),
      budget_(std::move(budget)),
      subnormals_(subnormals),
      expected_(budget_, TemporaryBytesOfLaunch(program, executable_->signature())) {
  if (!program.traits().communicates) return;
  member_ = JoinLaunch(runtime_.launches, request_, executable_->signature(), time_limit, nodes);
}

absl::Status ProgramLaunch::RunProgram(absl::Span<void* const> arguments, absl::Span<void* const> outputs,
                                       absl::Span<const std::shared_ptr<const std::byte>> packed_weights) const {
  ExecutionContext context;
  context.user = request_.context;
  context.run_id = request_.run_id;
  context.device = request_.device;
  context.replica = request_.replica;
  context.partition = request_.partition;
  context.device_assignment.assign(request_.device_assignment.begin(), request_.device_assignment.end());
  context.packed_weights = packed_weights;
  context.member = member_.get();
  context.budget = budget_.get();
  context.subnormals = subnormals_;
  if (program_.time_depends_on_data()) return RunAndMeasure(arguments, outputs, context);
  if (!program_.may_use_pool() || program_.estimated_us() < kInlineMicroseconds)
    return program_.Run(arguments, outputs, &runtime_.pool, &runtime_.memory, context);
  ThreadPool::ActiveScope awake(&runtime_.pool);
  return program_.Run(arguments, outputs, &runtime_.pool, &runtime_.memory, context);
}

absl::Status ProgramLaunch::RunAndMeasure(absl::Span<void* const> arguments, absl::Span<void* const> outputs,
                                          const ExecutionContext& context) const {
  std::optional<ThreadPool::ActiveScope> awake;
  if (program_.may_use_pool() && program_.estimated_us() >= kInlineMicroseconds) awake.emplace(&runtime_.pool);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = program_.Run(arguments, outputs, &runtime_.pool, &runtime_.memory, context);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  program_.AddRecentRun(took.count());
  return status;
}

absl::Status ProgramLaunch::RunOnce() {
  for (const DeviceArray& a : request_.arguments) {
    if (absl::Status s = a.ready.status(); !s.ok()) return s;
  }
  return CatchExceptions([this] { return Run(); });
}

void ProgramLaunch::RunAndFinish() {
  if (!claimed_.exchange(true)) Finish(RunOnce());
}

void ProgramLaunch::Finish(absl::Status status) {
  if (member_ != nullptr) member_->End(status);
  // Arguments go first: whoever waits for the results may count on donated and borrowed memory being released.
  request_.arguments.clear();
  request_.context.reset();
  const Promise done = std::move(done_);
  results_.clear();
  done.Set(std::move(status));
}

absl::Status ProgramLaunch::EndUnstarted(absl::Status why) {
  if (member_ != nullptr)
    member_->End(absl::Status(why.code(), absl::StrCat(executable_->name(), ": ", why.message())));
  return why;
}

absl::Status ProgramLaunch::Dispatch(const std::shared_ptr<ProgramLaunch>& launch) {
  const Program& program = launch->program_;
  Runtime& runtime = launch->runtime_;
  const int64_t run_id = launch->request_.run_id;
  const int64_t members = launch->member_ == nullptr ? 1 : launch->member_->launch().local_process_count();
  const Workers::Kind kind = program.may_block() ? Workers::Kind::kHostCalls : Workers::Kind::kProgram;
  absl::Status s = CatchExceptions([&] {
    auto run = [launch] { launch->RunAndFinish(); };
    if (program.traits().communicates)
      runtime.ScheduleMember(run_id, members, std::move(run));
    else
      runtime.Schedule(std::move(run), kind);
  });
  return s.ok() || launch->claimed_.exchange(true) ? absl::OkStatus() : s;
}

absl::StatusOr<ExecuteResult> ProgramLaunch::Start(std::shared_ptr<ProgramLaunch> launch,
                                                   std::vector<DeviceArray> outputs, double more_microseconds,
                                                   bool has_one_device) {
  bool ready = true;
  for (const DeviceArray& a : launch->request_.arguments) ready = ready && a.ready.IsReady();
  ExecuteResult result;
  result.outputs = std::move(outputs);
  if (ready && has_one_device && launch->program_.traits().has_host_effects &&
      !launch->program_.traits().communicates) {
    result.failure = launch->RunOnce();
    return result;
  }
  const double expected_us =
      launch->program_.time_depends_on_data() ? launch->program_.recent_us() : launch->program_.estimated_us();
  if (ready && !ProbablyBlocks(launch->program_, has_one_device) &&
      expected_us + more_microseconds < kInlineWithPoolMicroseconds) {
    const absl::Status s = launch->RunOnce();
    result.done = s.ok() ? Event() : Event::Ready(s);
    for (DeviceArray& out : result.outputs) out.ready = result.done;
    return result;
  }
  launch->done_ = Promise("execute");
  result.done = launch->done_.event();
  for (DeviceArray& out : result.outputs) out.ready = result.done;
  launch->results_ = result.outputs;
  if (ready) {
    if (launch->program_.may_use_pool()) launch->runtime_.pool.WakeUp();
    if (absl::Status s = Dispatch(launch); !s.ok()) return launch->EndUnstarted(std::move(s));
    return result;
  }
  std::vector<Event> events;
  for (const DeviceArray& a : launch->request_.arguments) events.push_back(a.ready);
  Event::All(events).OnReady([launch](const absl::Status&) {
    if (absl::Status s = Dispatch(launch); !s.ok()) launch->Finish(std::move(s));
  });
  return result;
}

}  // namespace backplane::engine
