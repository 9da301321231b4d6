#include "plugins/hip/lowering/nvptx_kernels.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

// The control operand of shfl.sync (PTX ISA, "shfl.sync"): no segments, and the last lane that may be read.
constexpr uint32_t kLastLane = 31, kAllLanes = ~0u;

// mma.sync (PTX ISA, "matrix fragments for mma"), whose fragments are those of gpu_ir.h. As assembly, because LLVM 19
// lacks the larger shapes of f64. `sums` and the result are a vector; `left` and `right` are words.
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
  if (target.name == "sm_90") return CallMma(b, "m16n8k8.row.col.f64.f64.f64.f64", left, right, sums);
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

llvm::Value* LowerNvptxCall(llvm::IRBuilder<>& b, const llvm::CallInst& call, int threads, const GpuTarget& target) {
  const llvm::StringRef name = call.getCalledFunction()->getName();
  if (IsMultiply(name)) return LowerMultiply(b, call, target);
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

void LowerNvptxKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target) {
  llvm::IRBuilder<> b(module.getContext());
  for (const Kernel& kernel : kernels) {
    codegen::SetKernelAttributes(*kernel.function, target.ir);
    AnnotateKernel(module, kernel);
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

}  // namespace backplane::hip
