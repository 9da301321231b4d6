#include "plugins/hip/program/program_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "plugins/hip/compiler/kernel_emitter.h"
#include "sdk/compiler/dot_strides.h"

namespace backplane::hip {
namespace {

// Equal keys mean equal code, whatever the names are.
std::string KeyOf(const Instruction& instruction) {
  Module module("key");
  if (instruction.Is(Opcode::kFusion) && !compiler::AsDotCall(instruction)) {
    module.set_entry(module.CloneComputation(instruction.called(0)));
    return module.Fingerprint();
  }
  Computation* c = module.AddComputation("key");
  std::vector<Instruction*> operands;
  for (const Instruction* o : instruction.operands()) {
    InstructionSpec spec;
    spec.opcode = Opcode::kParameter;
    spec.shape = o->shape();
    spec.attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(operands.size()));
    operands.push_back(c->Add(std::move(spec)));
  }
  Instruction* copy = c->AddClone(&instruction, instruction.shape(), operands);
  if (instruction.Is(Opcode::kFusion)) copy->set_called(0, module.CloneComputation(instruction.called(0)));
  c->set_root(copy);
  module.set_entry(c);
  return absl::StrCat("contraction ", module.Fingerprint());
}

}  // namespace

bool IsKernelInstruction(const Instruction& i) {
  return i.Is(Opcode::kFusion) || i.Is(Opcode::kDot) || i.Is(Opcode::kConvolution) || i.Is(Opcode::kScatter);
}

absl::StatusOr<int> ProgramKernels::Find(const Instruction& instruction) {
  if (const auto known = by_instruction_.find(&instruction); known != by_instruction_.end()) return known->second;
  absl::StatusOr<int> found = [&]() -> absl::StatusOr<int> {
    const bool is_body = instruction.Is(Opcode::kFusion) && !FindDot(instruction);
    std::string key = KeyOf(instruction);
    if (const auto at = by_key_.find(key); at != by_key_.end()) return at->second;
    ASSIGN_OR_RETURN(KernelPlan plan,
                     is_body ? PlanFusion(*instruction.called(0)) : PlanOperation(instruction, target_));
    const int number = static_cast<int>(kernels_.size());
    // Named by content: a stored program finds its kernels again, in whatever order it asks for them.
    kernels_.push_back({std::move(plan), &instruction, absl::StrCat("k_", absl::Hex(Fnv1a64(key), absl::kZeroPad16))});
    by_key_[std::move(key)] = number;
    return number;
  }();
  by_instruction_.emplace(&instruction, found);
  return found;
}

bool ProgramKernels::MayWorkInPlace(const Instruction& instruction, int64_t operand, int64_t output) {
  if (instruction.Is(Opcode::kScatter)) {
    const auto count =
        std::count(instruction.operands().begin(), instruction.operands().end(), instruction.operand(operand));
    return operand == output && count == 1 && Find(instruction).ok();
  }
  if (!instruction.Is(Opcode::kFusion) || compiler::AsDotCall(instruction)) return false;
  const Computation& body = *instruction.called(0);
  const Instruction* parameter = body.parameter(operand);
  const Shape& result = ResultsOf(body)[static_cast<size_t>(output)].shape;
  if (result.byte_size() != parameter->shape().byte_size() ||
      result.element_type() != parameter->shape().element_type())
    return false;
  const absl::StatusOr<int> kernel = Find(instruction);
  if (!kernel.ok()) return false;
  const KernelPlan& plan = kernels_[static_cast<size_t>(*kernel)].plan;
  if (plan.kind == KernelPlan::Kind::kUpdate) return plan.updated_operands[0] == operand;
  return plan.kind == KernelPlan::Kind::kElements && ReadsOnlyOwnElement(body, parameter);
}

absl::StatusOr<Image> ProgramKernels::Compile() const {
  llvm::LLVMContext context;
  llvm::Module module("program", context);
  RETURN_IF_ERROR(PrepareModule(module, target_));
  codegen::ElementEmitter elements(&module, &target_.ir);
  for (const Kernel& k : kernels_) RETURN_IF_ERROR(EmitKernel(elements, *k.instruction, k.plan, k.name));
  return Lower(module, target_);
}

}  // namespace backplane::hip
