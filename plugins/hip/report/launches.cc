#include "plugins/hip/report/launches.h"

#include <algorithm>
#include <utility>

#include "core/types/status_macros.h"
#include "sdk/compiler/dot_strides.h"

namespace backplane::hip {
namespace {

// Returns how many bytes of an operand the kernel of a fusion reads.
int64_t CountBytesRead(const Instruction& parameter) {
  const int64_t all = parameter.shape().byte_size();
  int64_t taken = 0;
  for (const Instruction* user : parameter.users()) {
    const bool takes_part = user->Is(Opcode::kSlice) || user->Is(Opcode::kDynamicSlice) || user->Is(Opcode::kGather);
    if (!takes_part || user->operand(0) != &parameter) return all;
    taken += user->shape().byte_size();
  }
  return std::min(all, taken);
}

int64_t CountBytes(const Shape& shape) {
  int64_t bytes = 0;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
    if (leaf.IsArray()) bytes += leaf.byte_size();
  });
  return bytes;
}

// Returns the updates of a dynamic-update-slice or a scatter.
int64_t CountBytesOfUpdates(const Instruction& i) {
  if (i.Is(Opcode::kDynamicUpdateSlice)) return i.operand(1)->shape().byte_size();
  int64_t bytes = 0;
  const int64_t arrays = (i.operand_count() - 1) / 2;  // the arrays, one array of indices, the updates
  for (int64_t k = arrays + 1; k < i.operand_count(); ++k) bytes += i.operand(k)->shape().byte_size();
  return bytes;
}

void AddArithmetic(const Instruction& i, ProgramLaunch* launch) {
  if (i.Is(Opcode::kFusion)) {
    for (const auto& inner : i.called(0)->instructions()) AddArithmetic(*inner, launch);
    return;
  }
  if (i.info().Has(OpTrait::kNoOp)) return;
  Instruction::ContextStorage storage;
  const Cost cost = EstimateCost(i.Context(storage), i.shape());
  launch->flops += cost.flops;
  launch->transcendentals += cost.transcendentals;
  if (cost.flops > 0 && i.shape().IsArray() && i.shape().element_type() == PrimitiveType::kF64)
    launch->type = PrimitiveType::kF64;
}

void AddBytesOfFusion(const Instruction& fusion, const KernelPlan& plan, ProgramLaunch* launch) {
  const Computation& body = *fusion.called(0);
  const bool updates = plan.Is<UpdatePlan>();
  int64_t updated_bytes = 0;
  if (updates) {
    for (const KernelResult& result : ListKernelResults(body)) {
      if (result.instruction->Is(Opcode::kDynamicUpdateSlice))
        updated_bytes += CountBytesOfUpdates(*result.instruction);
    }
  }
  for (int64_t k = 0; k < fusion.operand_count(); ++k) {
    const bool updated = std::count(plan.updated_operands.begin(), plan.updated_operands.end(), k) > 0;
    if (!updated) launch->read_bytes += CountBytesRead(*body.parameter(k));
  }
  launch->written_bytes = updates ? updated_bytes : CountBytes(fusion.shape());
}

class LaunchFinder {
 public:
  LaunchFinder(const compiler::BufferAssignment& assignment, ProgramKernels& kernels, const Refusals& refusals)
      : assignment_(assignment), kernels_(kernels), refusals_(refusals) {}

  void Visit(const compiler::StepSequence& sequence, double executions, bool known) {
    for (const compiler::ScheduledStep& step : sequence) {
      using Kind = compiler::ScheduledStep::Kind;
      switch (step.kind) {
        case Kind::kWork:
          AddWork(*step.instruction, executions, known);
          break;
        case Kind::kCopy:
          AddCopy(step.instruction, step.copy.bytes, executions, known);
          break;
        case Kind::kWhile: {
          const int64_t trips = step.trip_count.value_or(1);
          const bool all_known = known && step.trip_count.has_value();
          if (!step.trip_count) Visit(step.sequences[0], executions, all_known);
          Visit(step.sequences[1], executions * static_cast<double>(trips), all_known);
          break;
        }
        case Kind::kConditional:
          for (const compiler::StepSequence& branch : step.sequences) Visit(branch, executions, known);
          break;
      }
    }
  }

  std::vector<ProgramLaunch> Take() && { return std::move(launches_); }

 private:
  void AddCopy(const Instruction* instruction, int64_t bytes, double executions, bool known) {
    ProgramLaunch launch;
    launch.kind = ProgramLaunch::Kind::kCopy;
    launch.instruction = instruction;
    launch.executions = executions;
    launch.executions_known = known;
    launch.read_bytes = launch.written_bytes = bytes;
    launches_.push_back(std::move(launch));
  }

  void AddWork(const Instruction& i, double executions, bool known) {
    if (NeedsNoStep(i)) return;
    ProgramLaunch launch;
    launch.instruction = &i;
    launch.executions = executions;
    launch.executions_known = known;
    AddArithmetic(i, &launch);
    const auto refusal = refusals_.find(&i);
    if (refusal != refusals_.end() || !IsKernelInstruction(i)) {
      launch.kind = refusal != refusals_.end() ? ProgramLaunch::Kind::kHost : ProgramLaunch::Kind::kCollective;
      if (refusal != refusals_.end()) launch.note = refusal->second;
      for (const Instruction* o : i.operands()) launch.read_bytes += CountBytes(o->shape());
      launch.written_bytes = CountBytes(i.shape());
      launches_.push_back(std::move(launch));
      return;
    }
    AddKernels(i, *kernels_.Find(i), std::move(launch));
  }

  void AddKernels(const Instruction& i, int number, ProgramLaunch launch) {
    const KernelPlan& plan = kernels_.kernels()[static_cast<size_t>(number)].plan;
    if (const MatrixStep* matrix = plan.matrix()) launch.type = matrix->operand;
    for (size_t k = 0; k < plan.updated_operands.size(); ++k) {
      const Instruction* operand = i.operand(plan.updated_operands[k]);
      if (assignment_.slot(operand) != assignment_.slot(&i, static_cast<int64_t>(k)))
        AddCopy(&i, operand->shape().byte_size(), launch.executions, launch.executions_known);
    }
    if (i.Is(Opcode::kFusion) && !compiler::AsDotCall(i)) {
      AddBytesOfFusion(i, plan, &launch);
    } else if (i.Is(Opcode::kScatter)) {
      // Indices and updates are read; each element that an update meets is read and written.
      const int64_t updates = CountBytesOfUpdates(i), arrays = (i.operand_count() - 1) / 2;
      launch.read_bytes = i.operand(arrays)->shape().byte_size() + 2 * updates;
      launch.written_bytes = updates;
    } else {
      for (const Instruction* o : i.operands()) launch.read_bytes += CountBytes(o->shape());
      launch.written_bytes = CountBytes(i.shape());
    }
    launch.kernel = number;
    if (plan.launches.empty()) {
      launches_.push_back(std::move(launch));
      return;
    }
    // Consecutive launches that start the same kernel on the same arrays are one entry. The arithmetic counts with the
    // first.
    const double executions = launch.executions;
    const KernelPlan::Launch* last = nullptr;
    for (const KernelPlan::Launch& l : plan.launches) {
      if (last != nullptr && last->kernel == l.kernel && last->on_results == l.on_results) {
        launches_.back().executions += executions;
      } else {
        launches_.push_back(launch);
        launches_.back().kernel = number + l.kernel;
        if (l.on_results) launches_.back().read_bytes = launch.written_bytes;
        launch.flops = launch.transcendentals = 0;
      }
      last = &l;
    }
  }

  const compiler::BufferAssignment& assignment_;
  ProgramKernels& kernels_;
  const Refusals& refusals_;
  std::vector<ProgramLaunch> launches_;
};

}  // namespace

absl::StatusOr<std::vector<ProgramLaunch>> FindLaunches(const Module& module, ProgramKernels& kernels) {
  Refusals refusals;
  ASSIGN_OR_RETURN(const compiler::Schedule schedule, FindKernels(module, kernels, &refusals));
  LaunchFinder finder(schedule.assignment, kernels, refusals);
  finder.Visit(schedule.entry, 1, true);
  return std::move(finder).Take();
}

}  // namespace backplane::hip
