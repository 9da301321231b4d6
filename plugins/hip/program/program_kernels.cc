#include "plugins/hip/program/program_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "plugins/hip/compiler/kernel_emitter.h"
#include "plugins/hip/compiler/scan_kernel.h"
#include "sdk/compiler/attention.h"
#include "sdk/compiler/dot_strides.h"

namespace backplane::hip {
namespace {

// Makes a key. Kernels with equal keys have equal code, whatever their names are.
std::string MakeKey(const Instruction& instruction) {
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

// Returns the operand whose memory the result may use if no other operand uses it; -1 if there is none.
int64_t FindInPlaceOperand(const Instruction& i, int64_t output) {
  switch (i.opcode()) {
    case Opcode::kScatter:
    case Opcode::kSort:
    case Opcode::kReduceWindow:  // a scan
    case Opcode::kCholesky:
      return output;
    case Opcode::kTriangularSolve:
      return 1;
    default:
      return -1;
  }
}

Instruction* AddParameter(Computation* c, const Shape& shape, int64_t number) {
  InstructionSpec spec;
  spec.opcode = Opcode::kParameter;
  spec.shape = shape;
  spec.attrs.Set(AttrId::kParameterNumber, number);
  return c->Add(std::move(spec));
}

Instruction* AddOperation(Computation* c, Opcode op, const Shape& shape, std::vector<Instruction*> operands) {
  InstructionSpec spec;
  spec.opcode = op;
  spec.shape = shape;
  spec.operands = std::move(operands);
  return c->Add(std::move(spec));
}

}  // namespace

bool IsKernelInstruction(const Instruction& i) {
  switch (i.opcode()) {
    case Opcode::kFusion:
    case Opcode::kDot:
    case Opcode::kConvolution:
    case Opcode::kScatter:
    case Opcode::kSort:
    case Opcode::kTopK:
    case Opcode::kSelectAndScatter:
    case Opcode::kFft:
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
      return true;
    default:
      return FindScan(i).has_value();
  }
}

bool NeedsNoStep(const Instruction& i) {
  if (i.HasSideEffect()) return false;
  bool none = true;
  ForEachLeaf(i.shape(), [&](const Shape& s, const std::vector<int64_t>&) {
    none = none && s.IsArray() && s.num_elements() == 0;
  });
  return none;
}

absl::StatusOr<int> ProgramKernels::Find(const Instruction& instruction) {
  if (const auto known = by_instruction_.find(&instruction); known != by_instruction_.end()) return known->second;
  absl::StatusOr<int> found = [&]() -> absl::StatusOr<int> {
    const bool is_body =
        instruction.Is(Opcode::kFusion) && !FindDot(instruction) && !compiler::AsAttention(instruction);
    std::string key = MakeKey(instruction);
    if (const auto at = by_key_.find(key); at != by_key_.end()) return at->second;
    ASSIGN_OR_RETURN(KernelPlan plan,
                     is_body ? PlanFusion(*instruction.called(0)) : PlanOperation(instruction, target_));
    const int number = static_cast<int>(kernels_.size());
    // The name comes from the content, so that a stored program finds its kernels again in any order.
    const std::string name = absl::StrCat("k_", absl::Hex(Fnv1a64(key), absl::kZeroPad16));
    kernels_.push_back({plan, &instruction, name});
    for (const uint32_t blocks : plan.further) {
      plan.blocks = blocks;
      ++plan.kernel;
      kernels_.push_back({plan, &instruction, absl::StrCat(name, "_", plan.kernel)});
    }
    by_key_[std::move(key)] = number;
    return number;
  }();
  by_instruction_.emplace(&instruction, found);
  return found;
}

absl::StatusOr<int> ProgramKernels::FindCombiner(const Computation& reducer, PrimitiveType type, int64_t members,
                                                 int64_t elements) {
  const Instruction* root = reducer.root();
  const bool is_single = reducer.parameters().size() == 2 && root->info().Has(kCommutative) &&
                         root->operand(0)->Is(Opcode::kParameter) && root->operand(1)->Is(Opcode::kParameter) &&
                         root->operand(0) != root->operand(1);
  if (!is_single) return absl::UnimplementedError("its reducer is no single operation");
  const bool narrow = type == PrimitiveType::kF16 || type == PrimitiveType::kBF16;
  const bool has_kernel =
      narrow || type == PrimitiveType::kF32 || type == PrimitiveType::kF64 || (IsIntegral(type) && !IsSubByte(type));
  if (!has_kernel) return absl::UnimplementedError(absl::StrCat("no kernel combines ", Name(type)));
  const bool widens = narrow && (root->Is(Opcode::kAdd) || root->Is(Opcode::kMultiply));
  const Shape shape(type, {elements}), wide(widens ? PrimitiveType::kF32 : type, {elements});

  auto module = std::make_unique<Module>("combiner");
  Computation* body = module->AddComputation("combine");
  body->set_is_fusion(true);
  Computation* entry = module->AddComputation("main");
  std::vector<Instruction*> arrays;
  Instruction* result = nullptr;
  for (int64_t m = 0; m < members; ++m) {
    arrays.push_back(AddParameter(entry, shape, m));
    Instruction* value = AddParameter(body, shape, m);
    if (widens) value = AddOperation(body, Opcode::kConvert, wide, {value});
    result = result == nullptr ? value : AddOperation(body, root->opcode(), wide, {result, value});
  }
  if (widens || members == 1) result = AddOperation(body, Opcode::kConvert, shape, {result});
  body->set_root(result);
  InstructionSpec spec;
  spec.opcode = Opcode::kFusion;
  spec.shape = shape;
  spec.operands = arrays;
  spec.called = {body};
  spec.attrs.SetEnum(AttrId::kFusionKind, FusionKind::kLoop);
  Instruction* fusion = entry->Add(std::move(spec));
  entry->set_root(fusion);
  module->set_entry(entry);
  combiners_.push_back(std::move(module));  // Compile needs it
  return Find(*fusion);
}

bool ProgramKernels::MayWorkInPlace(const Instruction& instruction, int64_t operand, int64_t output) {
  if (FindInPlaceOperand(instruction, output) == operand) {
    const auto count =
        std::count(instruction.operands().begin(), instruction.operands().end(), instruction.operand(operand));
    return count == 1 && Find(instruction).ok();
  }
  if (!instruction.Is(Opcode::kFusion) || compiler::AsDotCall(instruction)) return false;
  const Computation& body = *instruction.called(0);
  const Instruction* parameter = body.parameter(operand);
  const Shape result = ListKernelResults(body)[static_cast<size_t>(output)].shape;
  if (result.byte_size() != parameter->shape().byte_size() ||
      result.element_type() != parameter->shape().element_type())
    return false;
  const absl::StatusOr<int> kernel = Find(instruction);
  if (!kernel.ok()) return false;
  const KernelPlan& plan = kernels_[static_cast<size_t>(*kernel)].plan;
  if (plan.Is<UpdatePlan>()) return plan.updated_operands[0] == operand;
  return plan.Is<ElementsPlan>() && ReadsOnlyOwnElement(body, parameter);
}

absl::StatusOr<Image> ProgramKernels::Compile() const {
  llvm::LLVMContext context;
  llvm::Module module("program", context);
  RETURN_IF_ERROR(PrepareModule(module, target_));
  codegen::ElementEmitter elements(&module, &target_.ir);
  for (const Kernel& k : kernels_) RETURN_IF_ERROR(EmitKernel(elements, *k.instruction, k.plan, k.name));
  return Lower(module, target_);
}

absl::StatusOr<std::string> ProgramKernels::CompileToText(CodeForm form) const {
  llvm::LLVMContext context;
  llvm::Module module("program", context);
  RETURN_IF_ERROR(PrepareModule(module, target_));
  codegen::ElementEmitter elements(&module, &target_.ir);
  for (const Kernel& k : kernels_) RETURN_IF_ERROR(EmitKernel(elements, *k.instruction, k.plan, k.name));
  return LowerToText(module, target_, form);
}

}  // namespace backplane::hip
