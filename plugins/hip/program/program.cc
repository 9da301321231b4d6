#include "plugins/hip/program/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/program/program_kernels.h"
#include "sdk/compiler/schedule.h"
#include "sdk/compiler/step_factory.h"

namespace backplane::hip {
namespace {

using compiler::Slot;

bool Communicates(Opcode op) {
  switch (op) {
    case Opcode::kAllGather:
    case Opcode::kAllReduce:
    case Opcode::kAllToAll:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kCollectivePermute:
    case Opcode::kRaggedAllToAll:
    case Opcode::kReduceScatter:
    case Opcode::kSend:
    case Opcode::kRecv:
    case Opcode::kSendDone:
    case Opcode::kRecvDone:
      return true;
    default:
      return false;
  }
}

// Where the memory of collectives begins, behind that of so many bytes of arrays.
int64_t ScratchOffset(int64_t array_bytes) { return (array_bytes + compiler::kTailPadding + 255) / 256 * 256; }

// Whether the instruction is a collective that CollectiveStep may run.
bool IsCollective(Opcode op) {
  switch (op) {
    case Opcode::kAllGather:
    case Opcode::kAllReduce:
    case Opcode::kAllToAll:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kCollectivePermute:
    case Opcode::kReduceScatter:
      return true;
    default:
      return false;
  }
}

class GpuStepFactory : public compiler::StepFactory<std::unique_ptr<Step>> {
 public:
  // `log`, `refusals`: may be null; the latter receives the instructions of the host, and why it has them.
  GpuStepFactory(const compiler::BufferAssignment& assignment, ProgramKernels& kernels, std::vector<std::string>* log,
                 Refusals* refusals)
      : assignment_(assignment), kernels_(kernels), log_(log), refusals_(refusals) {}

  bool communicates() const { return communicates_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  absl::Status AddWork(const Instruction& i, Steps* steps) override {
    communicates_ |= Communicates(i.opcode());
    if (NeedsNoStep(i)) return absl::OkStatus();
    std::string refusal = "no kernel";
    if (IsKernelInstruction(i)) {
      const absl::StatusOr<int> number = kernels_.Find(i);
      if (number.ok()) {
        AddKernel(i, *number, steps);
        return absl::OkStatus();
      }
      refusal = std::string(number.status().message());
    } else if (IsCollective(i.opcode())) {
      const absl::Status added = AddCollective(i, steps);
      if (!absl::IsUnimplemented(added)) return added;
      refusal = std::string(added.message());
    }
    if (refusals_ != nullptr) refusals_->emplace(&i, refusal);
    if (log_ != nullptr)
      log_->push_back(absl::StrCat("on the host: ", OpName(i.opcode()), " ", i.shape().ToString(), ": ", refusal));
    std::vector<std::vector<SlotId>> operands;
    for (const Instruction* o : i.operands()) operands.push_back(assignment_.instruction_slots.at(o));
    steps->push_back(std::make_unique<HostStep>(i, std::move(operands), assignment_.instruction_slots.at(&i)));
    return absl::OkStatus();
  }

  std::unique_ptr<Step> MakeCopy(const compiler::SlotCopy& copy) override { return std::make_unique<CopyStep>(copy); }
  std::unique_ptr<Step> MakeWhile(const compiler::ScheduledStep& step, Steps condition, Steps body) override {
    return std::make_unique<WhileStep>(std::move(condition), std::move(body), step.selector, step.trip_count);
  }
  std::unique_ptr<Step> MakeConditional(const compiler::ScheduledStep& step, std::vector<Steps> branches) override {
    const bool by_predicate = step.instruction->operand(0)->shape().element_type() == PrimitiveType::kPred;
    return std::make_unique<ConditionalStep>(std::move(branches), step.selector, by_predicate);
  }

 private:
  void AddKernel(const Instruction& i, int number, Steps* steps) {
    const ProgramKernels::Kernel& kernel = kernels_.kernels()[static_cast<size_t>(number)];
    for (size_t k = 0; k < kernel.plan.updated_operands.size(); ++k) {
      const Instruction* operand = i.operand(kernel.plan.updated_operands[k]);
      const compiler::SlotCopy copy{assignment_.slot(operand), assignment_.slot(&i, static_cast<int64_t>(k)),
                                    operand->shape().byte_size()};
      if (copy.from != copy.to) steps->push_back(std::make_unique<CopyStep>(copy));
    }
    std::vector<SlotId> slots;
    for (const Instruction* o : i.operands()) slots.push_back(assignment_.slot(o));
    const std::vector<SlotId>& results = assignment_.instruction_slots.at(&i);
    slots.insert(slots.end(), results.begin(), results.end());
    const std::vector<KernelPlan::Launch> once(1);
    for (const KernelPlan::Launch& launch : kernel.plan.launches.empty() ? once : kernel.plan.launches) {
      const KernelPlan& plan = kernels_.kernels()[static_cast<size_t>(number + launch.kernel)].plan;
      std::vector<SlotId> arrays = slots;
      if (launch.on_results) std::copy(results.begin(), results.end(), arrays.begin());
      steps->push_back(std::make_unique<KernelStep>(number + launch.kernel, plan.blocks, plan.threads,
                                                    std::move(arrays), plan.scratch_bytes > 0, launch.numbers));
    }
    scratch_bytes_ = std::max(scratch_bytes_, kernel.plan.scratch_bytes);
    if (log_ != nullptr) log_->push_back(absl::StrCat(i.name(), ": kernel ", kernel.name, ": ", kernel.plan.note));
  }

  absl::Status AddCollective(const Instruction& i, Steps* steps) {
    std::vector<SlotId> operands;
    for (const Instruction* o : i.operands()) {
      for (const SlotId s : assignment_.instruction_slots.at(o)) operands.push_back(s);
    }
    const ModuleConfig& config = i.parent()->parent()->config();
    ASSIGN_OR_RETURN(
        std::unique_ptr<CollectiveStep> step,
        CollectiveStep::Make(
            i, config.num_replicas, config.num_partitions, std::move(operands), assignment_.instruction_slots.at(&i),
            [this](const Computation& reducer, PrimitiveType type, int64_t members,
                   int64_t elements) -> absl::StatusOr<CollectiveStep::Combiner> {
              ASSIGN_OR_RETURN(const int number, kernels_.FindCombiner(reducer, type, members, elements));
              const KernelPlan& plan = kernels_.kernels()[static_cast<size_t>(number)].plan;
              return CollectiveStep::Combiner{number, plan.blocks, plan.threads};
            }));
    scratch_bytes_ = std::max(scratch_bytes_, step->scratch_bytes());
    steps->push_back(std::move(step));
    if (log_ != nullptr) log_->push_back(absl::StrCat(i.name(), ": copies between devices"));
    return absl::OkStatus();
  }

  const compiler::BufferAssignment& assignment_;
  ProgramKernels& kernels_;
  std::vector<std::string>* const log_;
  Refusals* const refusals_;
  bool communicates_ = false;
  int64_t scratch_bytes_ = 0;
};

absl::StatusOr<compiler::Schedule> ScheduleFor(const Module& module, ProgramKernels& kernels) {
  return compiler::BuildSchedule(module, [&](const Instruction* i, int64_t operand, int64_t output) {
    return kernels.MayWorkInPlace(*i, operand, output);
  });
}

}  // namespace

absl::StatusOr<compiler::Schedule> FindKernels(const Module& module, ProgramKernels& kernels, Refusals* refusals) {
  ASSIGN_OR_RETURN(compiler::Schedule schedule, ScheduleFor(module, kernels));
  GpuStepFactory factory(schedule.assignment, kernels, nullptr, refusals);
  RETURN_IF_ERROR(compiler::MakeSteps<std::unique_ptr<Step>>(schedule.entry, factory).status());
  return schedule;
}

absl::StatusOr<std::unique_ptr<GpuProgram>> GpuProgram::Build(std::unique_ptr<Module> module, const GpuTarget& target,
                                                              const Image* image, std::vector<std::string>* log) {
  std::unique_ptr<GpuProgram> program(new GpuProgram);
  program->module_ = std::move(module);
  ProgramKernels kernels(target);
  ASSIGN_OR_RETURN(compiler::Schedule schedule, ScheduleFor(*program->module_, kernels));
  GpuStepFactory factory(schedule.assignment, kernels, log, nullptr);
  ASSIGN_OR_RETURN(program->steps_, compiler::MakeSteps<std::unique_ptr<Step>>(schedule.entry, factory));
  program->starts_ = CountStarts(program->steps_);
  program->assignment_ = std::move(schedule.assignment);
  program->communicates_ = factory.communicates();
  program->scratch_bytes_ = factory.scratch_bytes();
  for (const ProgramKernels::Kernel& k : kernels.kernels()) program->kernels_.push_back(k.name);
  program->library_products_ = FindLibraryProducts(kernels.kernels());
  if (image != nullptr) {
    if (image->bytes.empty() != program->kernels_.empty())
      return absl::InvalidArgumentError("stored executable: its kernels are not those of its program");
    program->image_ = *image;
  } else if (!program->kernels_.empty()) {
    ASSIGN_OR_RETURN(program->image_, kernels.Compile());
  }
  return program;
}

int64_t GpuProgram::temporary_bytes() const {
  const int64_t arrays = assignment_.temporary_bytes;
  return scratch_bytes_ + (arrays > 0 || scratch_bytes_ > 0 ? ScratchOffset(arrays) : 0);
}

absl::Status GpuProgram::Run(Queue& queue, absl::Span<void* const> arguments, absl::Span<void* const> outputs,
                             absl::Span<void* const> constants, void* temporary, const EvaluatorHooks& hooks,
                             Exchange* exchange) const {
  absl::InlinedVector<void*, 64> slots;
  slots.reserve(assignment_.slots.size());
  for (const Slot& s : assignment_.slots) {
    switch (s.kind) {
      case Slot::Kind::kArgument:
        slots.push_back(arguments[static_cast<size_t>(s.index)]);
        break;
      case Slot::Kind::kOutput:
        slots.push_back(outputs[static_cast<size_t>(s.index)]);
        break;
      case Slot::Kind::kConstant:
        slots.push_back(constants[static_cast<size_t>(s.index)]);
        break;
      case Slot::Kind::kTemporary:
        slots.push_back(static_cast<std::byte*>(temporary) + s.offset);
        break;
    }
  }
  void* const scratch =
      scratch_bytes_ == 0 ? nullptr : static_cast<std::byte*>(temporary) + ScratchOffset(assignment_.temporary_bytes);
  return RunSteps(steps_, {&queue, slots.data(), &hooks, exchange, scratch});
}

}  // namespace backplane::hip
