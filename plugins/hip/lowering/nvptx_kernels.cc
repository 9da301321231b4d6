#include "plugins/hip/lowering/nvptx_kernels.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/ReplaceConstant.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/nvptx_groups.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

// The control operand of shfl.sync (PTX ISA, "shfl.sync"): no segments, and the last lane that may be read.
constexpr uint32_t kLastLane = 31, kAllLanes = ~0u;
constexpr int kMaxDeclaredShared = 49152;
constexpr char kDynamicShared[] = "dynamic_shared";
// The text has such a line for each kernel that needs it, because PTX has no directive for the shared memory that a
// launch must ask for.
constexpr char kDynamicSharedLine[] = "// dynamic shared memory of ";

// Calls mma.sync (PTX ISA, "matrix fragments for mma"), whose fragments are those of gpu_ir.h. It is inline assembly,
// because LLVM 19 lacks the larger shapes of f64. `sums` and the result are a vector; `left` and `right` are words.
llvm::Value* CallMma(llvm::IRBuilder<>& b, llvm::StringRef shape_and_types, llvm::ArrayRef<llvm::Value*> left,
                     llvm::ArrayRef<llvm::Value*> right, llvm::Value* sums) {
  const auto* vector = llvm::cast<llvm::FixedVectorType>(sums->getType());
  const unsigned count = vector->getNumElements();
  auto constraint = [](const llvm::Type* type) { return type->isFloatTy() ? "f" : type->isDoubleTy() ? "d" : "r"; };
  std::string code = ("mma.sync.aligned." + shape_and_types).str(), constraints;
  unsigned next = 0;
  auto list = [&](size_t size) {
    code += " {";
    for (size_t i = 0; i < size; ++i) code += (i > 0 ? ", $" : "$") + std::to_string(next++);
    code += "}";
  };
  llvm::SmallVector<llvm::Type*, 10> results(count, vector->getElementType()), parameters;
  llvm::SmallVector<llvm::Value*, 10> arguments;
  auto add = [&](llvm::Value* value, const std::string& where) {
    parameters.push_back(value->getType());
    arguments.push_back(value);
    constraints += "," + where;
  };
  for (unsigned i = 0; i < count; ++i)
    constraints += (i > 0 ? ",=" : "=") + std::string(constraint(vector->getElementType()));
  for (llvm::Value* word : left) add(word, constraint(word->getType()));
  for (llvm::Value* word : right) add(word, constraint(word->getType()));
  for (unsigned i = 0; i < count; ++i) add(b.CreateExtractElement(sums, i), std::to_string(i));
  list(count), code += ",", list(left.size()), code += ",", list(right.size()), code += ",";
  next = 0;
  list(count), code += ";";
  auto* type = llvm::FunctionType::get(llvm::StructType::get(b.getContext(), results), parameters, false);
  llvm::CallInst* call =
      b.CreateCall(llvm::InlineAsm::get(type, code, constraints, /*hasSideEffects=*/false), arguments);
  call->setConvergent();
  call->setDoesNotAccessMemory();
  llvm::Value* result = llvm::PoisonValue::get(sums->getType());
  for (unsigned i = 0; i < count; ++i) result = b.CreateInsertElement(result, b.CreateExtractValue(call, i), i);
  return result;
}

llvm::Value* LowerMultiply(llvm::IRBuilder<>& b, const llvm::CallInst& call, const GpuTarget& target) {
  const llvm::StringRef name = call.getCalledFunction()->getName();
  auto words = [&](unsigned operand, unsigned count) {
    llvm::SmallVector<llvm::Value*, 4> all;
    for (unsigned i = 0; i < count; ++i) all.push_back(b.CreateExtractElement(call.getArgOperand(operand), i));
    return all;
  };
  const llvm::SmallVector<llvm::Value*, 4> left = words(0, 4), right = words(1, 2);
  llvm::Value* sums = call.getArgOperand(2);
  if (name == kMultiplyF16) return CallMma(b, "m16n8k16.row.col.f32.f16.f16.f32", left, right, sums);
  if (name == kMultiplyBf16) return CallMma(b, "m16n8k16.row.col.f32.bf16.bf16.f32", left, right, sums);
  if (name == kMultiplyTf32) return CallMma(b, "m16n8k8.row.col.f32.tf32.tf32.f32", left, right, sums);
  if (name == kMultiplyS8) return CallMma(b, "m16n8k32.row.col.s32.s8.s8.s32", left, right, sums);
  if (target.name == "sm_90" || target.name == "sm_90a")
    return CallMma(b, "m16n8k8.row.col.f64.f64.f64.f64", left, right, sums);
  llvm::Value* halves[2];  // the upper and the lower 8 rows
  for (unsigned half = 0; half < 2; ++half) {
    const int first = static_cast<int>(2 * half);
    llvm::Value* part = b.CreateShuffleVector(sums, {first, first + 1});
    for (unsigned w = 0; w < 2; ++w)
      part = CallMma(b, "m8n8k4.row.col.f64.f64.f64.f64", left[2 * w + half], right[w], part);
    halves[half] = part;
  }
  return b.CreateShuffleVector(halves[0], halves[1], {0, 1, 2, 3});
}

llvm::Value* LowerCopyOrLoad(llvm::IRBuilder<>& b, const llvm::CallInst& call) {
  const llvm::StringRef name = call.getCalledFunction()->getName();
  if (name == kCopyCommit) {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {});
    return nullptr;
  }
  llvm::Value* first = call.getArgOperand(0);
  if (name == kCopyWait) {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {first});
    return nullptr;
  }
  if (name == kLoadTransposed) {
    llvm::CallInst* matrices =
        b.CreateIntrinsic(llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16, {first->getType()}, {first});
    matrices->setConvergent();
    llvm::Value* result = llvm::PoisonValue::get(call.getType());
    for (unsigned i = 0; i < 4; ++i) result = b.CreateInsertElement(result, b.CreateExtractValue(matrices, i), i);
    return result;
  }
  llvm::Value *from = call.getArgOperand(1), *bytes = call.getArgOperand(2);
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(bytes);
  if (constant != nullptr && constant->equalsInt(16)) {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16, {}, {first, from});
  } else {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s, {}, {first, from, bytes});
  }
  return nullptr;
}

llvm::Value* LowerNvptxCall(llvm::IRBuilder<>& b, const llvm::CallInst& call, int threads, const GpuTarget& target) {
  const llvm::StringRef name = call.getCalledFunction()->getName();
  if (IsMultiply(name)) return LowerMultiply(b, call, target);
  if (name.starts_with("gpu.copy.") || name == kLoadTransposed) return LowerCopyOrLoad(b, call);
  if (name.starts_with("gpu.group.")) return LowerGroupCall(b, call);
  auto read = [&](llvm::Intrinsic::ID id) { return b.CreateIntrinsic(id, {}, {}); };
  if (name == kThread) {
    llvm::CallInst* id = read(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
    id->setMetadata(llvm::LLVMContext::MD_range,
                    llvm::MDBuilder(b.getContext())
                        .createRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<uint64_t>(threads))));
    return id;
  }
  if (name == kBlock) return read(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  if (name == kBlocks) return read(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  if (name == kBarrier) {
    read(llvm::Intrinsic::nvvm_barrier0);
    return nullptr;
  }
  const llvm::Intrinsic::ID shuffle =
      name == kShuffleXor ? llvm::Intrinsic::nvvm_shfl_sync_bfly_i32 : llvm::Intrinsic::nvvm_shfl_sync_idx_i32;
  return b.CreateIntrinsic(
      shuffle, {}, {b.getInt32(kAllLanes), call.getArgOperand(0), call.getArgOperand(1), b.getInt32(kLastLane)});
}

void AnnotateKernel(llvm::Module& module, const Kernel& kernel) {
  llvm::LLVMContext& context = module.getContext();
  auto annotate = [&](const char* what, int value) {
    llvm::Type* number = llvm::Type::getInt32Ty(context);
    module.getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(
            context, {llvm::ValueAsMetadata::get(kernel.function), llvm::MDString::get(context, what),
                      llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(number, static_cast<uint64_t>(value)))}));
  };
  annotate("kernel", 1);
  annotate("maxntidx", kernel.threads);
}

// If the shared memory of a kernel is too large to be declared, the launch asks for it. It is then one array without
// size for all kernels, in which the variables have the positions that DescribeKernels has computed.
void UseDynamicShared(llvm::Module& module, const Kernel& kernel) {
  if (kernel.shared_bytes <= kMaxDeclaredShared) return;
  llvm::IRBuilder<> b(module.getContext());
  llvm::GlobalVariable* all = module.getGlobalVariable(kDynamicShared);
  if (all == nullptr) {
    all = new llvm::GlobalVariable(module, llvm::ArrayType::get(b.getInt8Ty(), 0), /*isConstant=*/false,
                                   llvm::GlobalValue::ExternalLinkage, nullptr, kDynamicShared, nullptr,
                                   llvm::GlobalValue::NotThreadLocal, kSharedAddressSpace);
    all->setAlignment(llvm::Align(16));
  }
  for (const llvm::GlobalVariable* variable : kernel.shared)
    all->setAlignment(std::max(all->getAlign().valueOrOne(), llvm::Align(ComputeSharedAlignment(*variable))));
  llvm::SmallVector<llvm::Constant*, 4> variables(kernel.shared.begin(), kernel.shared.end());
  llvm::convertUsersOfConstantsToInstructions(variables);
  uint64_t end = 0;
  for (llvm::GlobalVariable* variable : kernel.shared) {
    end = llvm::alignTo(end, ComputeSharedAlignment(*variable));
    llvm::Constant* place =
        llvm::ConstantExpr::getGetElementPtr(b.getInt8Ty(), all, b.getInt32(static_cast<uint32_t>(end)));
    variable->replaceUsesWithIf(place, [&](const llvm::Use& use) {
      const auto* user = llvm::dyn_cast<llvm::Instruction>(use.getUser());
      return user != nullptr && user->getFunction() == kernel.function;
    });
    end += module.getDataLayout().getTypeAllocSize(variable->getValueType());
  }
  for (llvm::GlobalVariable* variable : kernel.shared) {
    if (variable->use_empty()) variable->eraseFromParent();
  }
}

// LLVM 19 has no instruction for fences and ordered accesses of NVPTX and ends the process where it meets one; atomic
// updates it compiles as relaxed. So orders become memory barriers before and after relaxed accesses.
class MemoryOrders {
 public:
  explicit MemoryOrders(llvm::Function& function) : function_(function), b_(function.getContext()) {}

  void Run() {
    constexpr llvm::AtomicOrdering kRelaxed = llvm::AtomicOrdering::Monotonic;
    for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(function_))) {
      if (!i.isAtomic()) continue;
      if (auto* fence = llvm::dyn_cast<llvm::FenceInst>(&i)) {
        EmitBarrier(i, fence->getSyncScopeID());
        i.eraseFromParent();
      } else if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&i)) {
        SetOrder(i, load->getOrdering(), load->getSyncScopeID());
        if (load->getOrdering() != llvm::AtomicOrdering::Unordered) load->setOrdering(kRelaxed);
      } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
        SetOrder(i, store->getOrdering(), store->getSyncScopeID());
        if (store->getOrdering() != llvm::AtomicOrdering::Unordered) store->setOrdering(kRelaxed);
      } else if (auto* update = llvm::dyn_cast<llvm::AtomicRMWInst>(&i)) {
        SetOrder(i, update->getOrdering(), update->getSyncScopeID());
        update->setOrdering(kRelaxed);
      } else if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&i)) {
        SetOrder(i, exchange->getMergedOrdering(), exchange->getSyncScopeID());
        exchange->setSuccessOrdering(kRelaxed);
        exchange->setFailureOrdering(kRelaxed);
      }
    }
  }

 private:
  void SetOrder(llvm::Instruction& i, llvm::AtomicOrdering order, llvm::SyncScope::ID scope) {
    const bool is_total = order == llvm::AtomicOrdering::SequentiallyConsistent;
    if (is_total || llvm::isReleaseOrStronger(order)) EmitBarrier(i, scope);
    if (is_total || llvm::isAcquireOrStronger(order)) EmitBarrier(*i.getNextNode(), scope);
  }

  void EmitBarrier(llvm::Instruction& before, llvm::SyncScope::ID scope) {
    if (scope == llvm::SyncScope::SingleThread) return;
    llvm::LLVMContext& context = function_.getContext();
    llvm::Intrinsic::ID barrier = llvm::Intrinsic::nvvm_membar_sys;
    if (scope == context.getOrInsertSyncScopeID(kDeviceScope)) barrier = llvm::Intrinsic::nvvm_membar_gl;
    if (scope == context.getOrInsertSyncScopeID("workgroup")) barrier = llvm::Intrinsic::nvvm_membar_cta;
    b_.SetInsertPoint(&before);
    b_.CreateIntrinsic(barrier, {}, {});
  }

  llvm::Function& function_;
  llvm::IRBuilder<> b_;
};

}  // namespace

std::string PrintDynamicSharedLines(const std::vector<Kernel>& kernels, const std::vector<std::string>& names) {
  std::string lines;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].shared_bytes > kMaxDeclaredShared)
      absl::StrAppend(&lines, kDynamicSharedLine, names[i], ": ", kernels[i].shared_bytes, "\n");
  }
  return lines;
}

int ReadDynamicSharedBytes(const std::string& image, absl::string_view kernel) {
  // The lines are the first of the text.
  absl::string_view rest = image;
  while (absl::ConsumePrefix(&rest, kDynamicSharedLine)) {
    const absl::string_view line = rest.substr(0, rest.find('\n'));
    absl::string_view number = line;
    int bytes = 0;
    if (absl::ConsumePrefix(&number, kernel) && absl::ConsumePrefix(&number, ": ") && absl::SimpleAtoi(number, &bytes))
      return bytes;
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  return 0;
}

void LowerNvptxKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target) {
  llvm::IRBuilder<> b(module.getContext());
  for (const Kernel& kernel : kernels) {
    codegen::SetKernelAttributes(*kernel.function, target.ir);
    AnnotateKernel(module, kernel);
    UseDynamicShared(module, kernel);
    for (llvm::CallInst* call : kernel.calls) {
      b.SetInsertPoint(call);
      if (llvm::Value* value = LowerNvptxCall(b, *call, kernel.threads, target)) call->replaceAllUsesWith(value);
      call->eraseFromParent();
    }
  }
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    if (function.hasLocalLinkage()) codegen::SetFunctionAttributes(function, target.ir);
    MemoryOrders(function).Run();
  }
}

void DivideUnalignedLoads(llvm::Module& module) {
  std::vector<llvm::LoadInst*> loads;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
      if (load == nullptr || load->getAlign() >= llvm::Align(16)) continue;
      auto* type = llvm::dyn_cast<llvm::FixedVectorType>(load->getType());
      if (type != nullptr && type->getNumElements() == 16 && type->getElementType()->isIntegerTy(8))
        loads.push_back(load);
    }
  }
  for (llvm::LoadInst* load : loads) {
    llvm::IRBuilder<> b(load);
    llvm::LoadInst* words = b.CreateAlignedLoad(llvm::FixedVectorType::get(b.getInt32Ty(), 4),
                                                load->getPointerOperand(), load->getAlign(), load->isVolatile());
    load->replaceAllUsesWith(b.CreateBitCast(words, load->getType()));
    load->eraseFromParent();
  }
}

}  // namespace backplane::hip
