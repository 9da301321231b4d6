#include "sdk/engine/compiler/program.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/operation_trace.h"
#include "sdk/compiler/schedule.h"
#include "sdk/engine/compiler/program_kernels.h"
#include "sdk/engine/compiler/thunk_factory.h"
#include "sdk/engine/runtime/memory_budget.h"
#include "sdk/engine/thunks/control_thunk.h"
#include "sdk/engine/thunks/guarded_thunk.h"

namespace backplane::engine {
namespace {

// The same as RunSequence, but that each thunk may be made to fail.
absl::Status RunWithFaults(const ThunkSequence& sequence, const RunState& state) {
  for (const auto& thunk : sequence) {
    RETURN_IF_ERROR(Fault(FaultSite::kKernel));
    RETURN_IF_ERROR(thunk->Run(state));
  }
  return absl::OkStatus();
}

}  // namespace

Program::~Program() = default;

// How long another process usually has the core, if this one has to wait for it.
constexpr double kLongestPauseMicroseconds = 5000;

void Program::AddRecentRun(double microseconds) const {
  const double recent = recent_us();
  const double at_most = microseconds > kLongestPauseMicroseconds ? microseconds : 2 * recent;
  recent_us_.store(std::clamp(microseconds, 0.75 * recent, std::max(at_most, recent)), std::memory_order_relaxed);
}

absl::Status Program::CopyConstants() {
  for (const Instruction* c : assignment_.constants) {
    const Literal& literal = c->literal();
    std::shared_ptr<std::byte> memory = AllocateConstant(static_cast<size_t>(literal.byte_size()));
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(c->name(), ": no memory for a constant of ", literal.byte_size(), " bytes"));
    }
    std::memcpy(memory.get(), literal.bytes(), static_cast<size_t>(literal.byte_size()));
    constant_bytes_ += literal.byte_size();
    constants_.push_back(std::move(memory));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Program>> Program::Build(std::unique_ptr<Module> module, const ProgramOptions& options,
                                                        std::vector<std::string>* log) {
  std::unique_ptr<Program> program(new Program);
  program->module_ = std::move(module);
  ProgramKernels kernels;
  ASSIGN_OR_RETURN(
      compiler::Schedule schedule,
      compiler::BuildSchedule(*program->module_, [&](const Instruction* i, int64_t operand, int64_t output) {
        return kernels.MayWorkInPlace(*i, operand, output);
      }));
  kernels.Plan(schedule, log);
  RETURN_IF_ERROR(kernels.Compile(program->module_->name(), options.objects, options.pool, options.num_threads));
  ThunkFactory factory(*program->module_, schedule.assignment, kernels, options, log);
  ASSIGN_OR_RETURN(program->thunks_,
                   compiler::MakeSteps<std::unique_ptr<Thunk>>(schedule.entry, factory, &program->thunk_names_));
  GuardWorkspaces(program->thunks_);
  program->assignment_ = std::move(schedule.assignment);
  RETURN_IF_ERROR(program->CopyConstants());
  program->constant_bytes_ += factory.packed_weight_bytes();
  program->traits_ = factory.traits();
  program->packable_weights_ = factory.TakePackableWeights();
  static std::atomic<uint64_t> programs{0};
  program->id_ = ++programs;
  program->objects_ = kernels.TakeObjects();
  program->library_ = kernels.TakeLibrary();
  program->workspace_bytes_ = SequenceWorkspace(program->thunks_, std::max(1, options.num_threads));
  program->estimated_us_ = SequenceMicroseconds(program->thunks_);
  program->may_block_ = SequenceMayBlock(program->thunks_);
  program->may_use_pool_ = SequenceMayUsePool(program->thunks_);
  return program;
}

absl::Status Program::Run(absl::Span<void* const> arguments, absl::Span<void* const> outputs, ThreadPool* pool,
                          MemoryPool* memory, const ExecutionContext& context) const {
  return RunThunks(arguments, outputs, pool, memory, context, nullptr);
}

absl::StatusOr<std::vector<Program::StepTime>> Program::Profile(absl::Span<void* const> arguments,
                                                                absl::Span<void* const> outputs, ThreadPool* pool,
                                                                MemoryPool* memory,
                                                                const ExecutionContext& context) const {
  std::vector<StepTime> times;
  RETURN_IF_ERROR(RunThunks(arguments, outputs, pool, memory, context, &times));
  return times;
}

// The program and each thunk of its entry as events of a host's profiler.
absl::Status Program::RunTraced(const RunState& state) const {
  OperationTrace& trace = OperationTrace::Get();
  const int32_t device = state.context->device;
  const int64_t begin = OperationTrace::NowNs();
  absl::Status status;
  int64_t now = begin;
  for (size_t k = 0; k < thunks_.size() && status.ok(); ++k) {
    const int64_t start = now;
    status = thunks_[k]->Run(state);
    now = OperationTrace::NowNs();
    trace.Record(device, false, thunk_names_[k], module_->name(), start, now);
  }
  trace.Record(device, true, module_->name(), module_->name(), begin, now);
  return status;
}

absl::Status Program::RunThunks(absl::Span<void* const> arguments, absl::Span<void* const> outputs, ThreadPool* pool,
                                MemoryPool* memory, const ExecutionContext& context,
                                std::vector<StepTime>* times) const {
  const int64_t bytes = temporary_bytes();
  auto give_back = [memory, budget = context.budget](std::byte* b) {
    if (budget != nullptr) {
      budget->Free(b, MemoryBudget::Use::kTemporary);
    } else {
      memory->Free(b);
    }
  };
  std::unique_ptr<std::byte, decltype(give_back)> owner(nullptr, give_back);
  if (bytes > 0) {
    RETURN_IF_ERROR(Fault(FaultSite::kTemporary));
    if (context.budget != nullptr) {
      ASSIGN_OR_RETURN(void* allowed, context.budget->Allocate(static_cast<size_t>(bytes),
                                                               absl::StrCat(module_->name(), ": temporary memory"),
                                                               MemoryBudget::Use::kTemporary));
      owner.reset(static_cast<std::byte*>(allowed));
    } else {
      owner.reset(static_cast<std::byte*>(memory->Allocate(static_cast<size_t>(bytes))));
    }
    if (owner == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(module_->name(), ": no room for ", bytes, " bytes of temporary memory"));
    }
  }
  std::byte* const block = owner.get();
  absl::InlinedVector<void*, 64> slots;
  slots.reserve(assignment_.slots.size());
  for (const Slot& s : assignment_.slots) {
    switch (s.kind) {
      case Slot::Kind::kArgument:
        slots.push_back(arguments[s.index]);
        break;
      case Slot::Kind::kOutput:
        slots.push_back(outputs[s.index]);
        break;
      case Slot::Kind::kConstant:
        slots.push_back(constants_[s.index].get());
        break;
      case Slot::Kind::kTemporary:
        slots.push_back(block + s.offset);
        break;
    }
  }
  const ScopedSubnormals mode(context.subnormals);
  RunState state;
  state.slots = slots.data();
  state.workspace = block + (assignment_.temporary_bytes + 63) / 64 * 64;
  state.pool = pool;
  state.context = &context;
  state.runs_without_host_calls = &runs_without_host_calls_;
  absl::Status status;
  if (times == nullptr && OperationTrace::Get().Active()) [[unlikely]] {
    status = RunTraced(state);
  } else if (times == nullptr) {
    status = faults::on.load(std::memory_order_relaxed) ? RunWithFaults(thunks_, state) : RunSequence(thunks_, state);
  } else {
    for (size_t k = 0; k < thunks_.size() && status.ok(); ++k) {
      const auto start = std::chrono::steady_clock::now();
      status = thunks_[k]->Run(state);
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      times->push_back({thunk_names_[k], took.count()});
    }
  }
  constexpr int kMostCountedRuns = 1 << 20;
  if (may_block_ && runs_without_host_calls() < kMostCountedRuns)
    runs_without_host_calls_.fetch_add(1, std::memory_order_relaxed);
  return status;
}

}  // namespace backplane::engine
