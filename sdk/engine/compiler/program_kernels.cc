#include "sdk/engine/compiler/program_kernels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/compiler/attention.h"
#include "sdk/compiler/dot_strides.h"
#include "sdk/engine/compiler/compile_kernels.h"
#include "sdk/engine/compiler/library_thunks.h"
#include "sdk/engine/compiler/loop_requests.h"

namespace backplane::engine {

bool IsKernelFusion(const Instruction& instruction) {
  return instruction.Is(Opcode::kFusion) && !compiler::AsDotCall(instruction) && !compiler::AsAttention(instruction);
}

const ProgramKernels::Body& ProgramKernels::GetBody(const Instruction& fusion) {
  const Body*& body = body_of_fusion_[&fusion];
  if (body != nullptr) return *body;
  std::string key = codegen::KernelKey(*fusion.called(0));
  std::unique_ptr<const Body>& known = bodies_[key];
  if (known == nullptr) known.reset(new Body{std::move(key), codegen::PlanKernel(*fusion.called(0), "")});
  body = known.get();
  return *body;
}

bool ProgramKernels::MayWorkInPlace(const Instruction& instruction, int64_t operand, int64_t output) {
  if (!IsKernelFusion(instruction)) return false;
  const absl::StatusOr<codegen::KernelPlan>& plan = GetBody(instruction).plan;
  return plan.ok() && std::any_of(plan->in_place.begin(), plan->in_place.end(), [&](const codegen::InPlacePair& p) {
           return p.input == operand && p.output == output;
         });
}

std::vector<codegen::InPlacePair> ProgramKernels::FindShared(const Instruction& fusion, const codegen::KernelPlan& plan,
                                                             const compiler::BufferAssignment& assignment) {
  const std::vector<compiler::SlotId>& outputs = assignment.instruction_slots.at(&fusion);
  std::vector<codegen::InPlacePair> shared;
  for (const codegen::InPlacePair& p : plan.in_place) {
    if (assignment.slot(fusion.operand(p.input)) == outputs[static_cast<size_t>(p.output)]) shared.push_back(p);
  }
  return shared;
}

void ProgramKernels::PlanFusion(const Instruction& fusion, const compiler::BufferAssignment& assignment,
                                std::vector<std::string>* log) {
  const Body& body = GetBody(fusion);
  if (!body.plan.ok()) {
    refusals_[&fusion] = std::string(body.plan.status().message());
    return;
  }
  const std::vector<codegen::InPlacePair> shared = FindShared(fusion, *body.plan, assignment);
  const std::string key = codegen::KernelKey(body.key, shared);
  auto [at, fresh] = kernel_of_key_.try_emplace(key, kernels_.size());
  if (fresh) {
    const std::string symbol = absl::StrCat("k", kernels_.size());
    absl::StatusOr<codegen::KernelPlan> plan = body.plan;
    if (!shared.empty()) plan = codegen::ShareMemory(*body.plan, shared, symbol);
    if (!plan.ok()) {
      kernel_of_key_.erase(key);
      refusals_[&fusion] = std::string(plan.status().message());
      return;
    }
    plan->SetSymbol(symbol);
    if (log != nullptr) log->push_back(absl::StrCat(fusion.name(), ": kernel ", symbol, ": ", plan->note));
    requests_.push_back({std::move(plan->fusion), symbol});
    plan->in_place.clear();  // has been used
    kernels_.push_back({*std::move(plan), {}});
  }
  kernel_of_fusion_[&fusion] = at->second;
}

void ProgramKernels::Plan(const compiler::Schedule& schedule, std::vector<std::string>* log) {
  compiler::ForEachWork(schedule.entry, [&](const Instruction& i) {
    if (NeedsComparator(i)) comparators_.try_emplace(&i, absl::StrCat("c", comparators_.size()));
    if (IsKernelFusion(i)) PlanFusion(i, schedule.assignment, log);
  });
  PlanLoops(schedule.entry, schedule.assignment, log);
}

void ProgramKernels::PlanLoops(const compiler::StepSequence& sequence, const compiler::BufferAssignment& assignment,
                               std::vector<std::string>* log) {
  for (const compiler::ScheduledStep& step : sequence) {
    if (step.kind == compiler::ScheduledStep::Kind::kWork) {
      const auto at = kernel_of_fusion_.find(step.instruction);
      if (at != kernel_of_fusion_.end()) kernels_[at->second].is_compiled = true;
    }
    if (step.kind == compiler::ScheduledStep::Kind::kWhile) {
      auto find = [&](const Instruction& i) -> std::optional<PlannedKernel> {
        const auto at = kernel_of_fusion_.find(&i);
        if (at == kernel_of_fusion_.end()) return std::nullopt;
        return PlannedKernel{&kernels_[at->second].plan, requests_[at->second].fusion};
      };
      if (std::optional<PlannedLoop> planned = PlanLoop(step, assignment, find)) {
        LoopKernel& loop = loops_[step.instruction];
        loop.symbol = absl::StrCat("l", loop_requests_.size());
        loop.scratch_bytes = codegen::ScratchBytes(planned->request.loop);
        loop.estimated_us = planned->estimated_us;
        loop.slots = std::move(planned->slots);
        planned->request.symbol = loop.symbol;
        if (log != nullptr) {
          log->push_back(absl::StrCat(step.instruction->name(), ": one function ", loop.symbol, " of ",
                                      planned->kernels, " kernels, ", planned->locals, " local arrays"));
        }
        loop_requests_.push_back(std::move(planned->request));
        continue;
      }
    }
    for (const compiler::StepSequence& inner : step.sequences) PlanLoops(inner, assignment, log);
  }
}

absl::Status ProgramKernels::Compile(absl::string_view program, const std::vector<jit::ObjectCode>* objects,
                                     ThreadPool* pool, int num_threads) {
  if (kernels_.empty() && comparators_.empty()) return absl::OkStatus();
  if (objects != nullptr) {
    objects_ = *objects;
  } else {
    CodeRequests requests;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (kernels_[k].is_compiled) requests.kernels.push_back(std::move(requests_[k]));
    }
    requests.loops = std::move(loop_requests_);
    for (const auto& [sort, symbol] : comparators_) requests.comparators.push_back({sort->called(0), symbol});
    std::sort(requests.comparators.begin(), requests.comparators.end(),
              [](const codegen::ScalarRequest& a, const codegen::ScalarRequest& b) { return a.symbol < b.symbol; });
    ASSIGN_OR_RETURN(objects_, CompileKernels(requests, pool, num_threads));
  }
  ASSIGN_OR_RETURN(library_, jit::CodeLibrary::Link(objects_, {}, program));
  for (auto& [instruction, loop] : loops_) {
    ASSIGN_OR_RETURN(loop.function, library_->LookupFunction<codegen::KernelFn>(loop.symbol));
  }
  for (Kernel& kernel : kernels_) {
    if (!kernel.is_compiled) continue;
    for (const codegen::KernelPhase& phase : kernel.plan.phases) {
      ASSIGN_OR_RETURN(codegen::KernelFn function, library_->LookupFunction<codegen::KernelFn>(phase.symbol));
      kernel.functions.push_back(function);
    }
  }
  return absl::OkStatus();
}

const ProgramKernels::Kernel* ProgramKernels::Find(const Instruction& fusion) const {
  const auto at = kernel_of_fusion_.find(&fusion);
  return at == kernel_of_fusion_.end() ? nullptr : &kernels_[at->second];
}

std::string ProgramKernels::refusal(const Instruction& fusion) const {
  const auto at = refusals_.find(&fusion);
  return at == refusals_.end() ? "" : at->second;
}

const ProgramKernels::LoopKernel* ProgramKernels::FindLoop(const Instruction& loop) const {
  const auto at = loops_.find(&loop);
  return at == loops_.end() ? nullptr : &at->second;
}

absl::StatusOr<codegen::ComparatorFn> ProgramKernels::FindComparator(const Instruction& sort) const {
  const auto at = comparators_.find(&sort);
  if (at == comparators_.end()) return static_cast<codegen::ComparatorFn>(nullptr);
  return library_->LookupFunction<codegen::ComparatorFn>(at->second);
}

}  // namespace backplane::engine
