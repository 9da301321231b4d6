#include "plugins/hip/lowering/kernels.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "llvm/IR/InstIterator.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

std::string Print(const llvm::Type& type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return text;
}

bool IsKernel(const llvm::Function& function) { return function.hasFnAttribute(kKernelAttribute); }

absl::Status MakeKernelError(llvm::StringRef subject, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("lowering: ", subject.str(), ": ", what));
}

absl::StatusOr<int> ThreadsOf(const llvm::Function& kernel, const GpuTarget& target) {
  const std::string text = kernel.getFnAttribute(kKernelAttribute).getValueAsString().str();
  int threads = 0;
  if (!absl::SimpleAtoi(text, &threads) || threads < 1) {
    return MakeKernelError(kernel.getName(), absl::StrCat("attribute \"", kKernelAttribute, "\" is \"", text,
                                                          "\", not a positive number of threads"));
  }
  if (threads > target.max_block_threads) {
    return absl::ResourceExhaustedError(absl::StrCat("lowering: ", kernel.getName().str(), ": ", threads,
                                                     " threads; blocks of ", target.name, " have at most ",
                                                     target.max_block_threads));
  }
  return threads;
}

// Whether the name is an identifier of PTX, which permits the fewest characters.
bool IsKernelName(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; });
}

absl::Status CheckKernel(const llvm::Function& kernel, const GpuTarget& target) {
  if (!IsKernelName(absl::string_view(kernel.getName().data(), kernel.getName().size()))) {
    return MakeKernelError(kernel.getName(), "a kernel's name has letters, digits, _ and $ alone");
  }
  if (kernel.isDeclaration()) return MakeKernelError(kernel.getName(), "a kernel without a body");
  if (!kernel.hasExternalLinkage()) return MakeKernelError(kernel.getName(), "a kernel without external linkage");
  if (!kernel.getReturnType()->isVoidTy()) {
    return MakeKernelError(kernel.getName(),
                           absl::StrCat("a kernel returns void, not ", Print(*kernel.getReturnType())));
  }
  for (const llvm::Argument& argument : kernel.args()) {
    const llvm::Type* type = argument.getType();
    const bool pointer = type->isPointerTy() && type->getPointerAddressSpace() == kGlobalAddressSpace;
    const bool integer =
        type->isIntegerTy(8) || type->isIntegerTy(16) || type->isIntegerTy(32) || type->isIntegerTy(64);
    if (!pointer && !integer) {
      return MakeKernelError(kernel.getName(),
                             absl::StrCat("parameter ", argument.getArgNo(), " is ", Print(*type),
                                          "; a kernel takes pointers to global memory (ptr addrspace(",
                                          kGlobalAddressSpace, ")) and integers of 8 to 64 bits"));
    }
  }
  return ThreadsOf(kernel, target).status();
}

// Returns the type of a gpu.* function; null if there is none of this name.
llvm::FunctionType* GpuFunctionType(llvm::LLVMContext& context, llvm::StringRef name) {
  llvm::Type* number = llvm::Type::getInt32Ty(context);
  if (name == kThread || name == kBlock || name == kBlocks) return llvm::FunctionType::get(number, false);
  if (name == kBarrier) return llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
  if (name == kShuffleXor || name == kShuffleIndex) return llvm::FunctionType::get(number, {number, number}, false);
  llvm::Type* nothing = llvm::Type::getVoidTy(context);
  llvm::Type *shared = llvm::PointerType::get(context, kSharedAddressSpace),
             *global = llvm::PointerType::get(context, kGlobalAddressSpace);
  if (name == kCopyAsync) return llvm::FunctionType::get(nothing, {shared, global, number}, false);
  if (name == kCopyCommit) return llvm::FunctionType::get(nothing, false);
  if (name == kCopyWait) return llvm::FunctionType::get(nothing, {number}, false);
  if (name == kLoadTransposed) return llvm::FunctionType::get(llvm::FixedVectorType::get(number, 4), {shared}, false);
  if (name == kGroupPublish) return llvm::FunctionType::get(nothing, false);
  if (const std::optional<GroupProduct> product = ParseGroupProduct(name)) {
    llvm::Type* element = product->type == "s8" ? number : llvm::Type::getFloatTy(context);
    llvm::Type* sums = llvm::FixedVectorType::get(element, product->columns / 2);
    if (name.starts_with(kGroupWait)) return llvm::FunctionType::get(sums, {sums, number}, false);
    return llvm::FunctionType::get(sums, {shared, shared, number, sums}, false);
  }
  if (!IsMultiply(name)) return nullptr;
  llvm::Type* word = name == kMultiplyF64 ? llvm::Type::getDoubleTy(context) : number;
  llvm::Type* sum = name == kMultiplyF64 ? word : name == kMultiplyS8 ? number : llvm::Type::getFloatTy(context);
  auto vector = [](llvm::Type* element, unsigned count) { return llvm::FixedVectorType::get(element, count); };
  return llvm::FunctionType::get(vector(sum, 4), {vector(word, 4), vector(word, 2), vector(sum, 4)}, false);
}

// Whether the intrinsic is an elementary function. Code generators of GPUs have none for these, or an inexact one, and
// NVIDIA's ends the process.
bool IsElementaryFunction(llvm::Intrinsic::ID id) {
  switch (id) {
    case llvm::Intrinsic::sin:
    case llvm::Intrinsic::cos:
    case llvm::Intrinsic::tan:
    case llvm::Intrinsic::asin:
    case llvm::Intrinsic::acos:
    case llvm::Intrinsic::atan:
    case llvm::Intrinsic::sinh:
    case llvm::Intrinsic::cosh:
    case llvm::Intrinsic::tanh:
    case llvm::Intrinsic::exp:
    case llvm::Intrinsic::exp2:
    case llvm::Intrinsic::exp10:
    case llvm::Intrinsic::log:
    case llvm::Intrinsic::log2:
    case llvm::Intrinsic::log10:
    case llvm::Intrinsic::pow:
    case llvm::Intrinsic::powi:
      return true;
    default:
      return false;
  }
}

bool NeedsMultiply(llvm::StringRef name) {
  return IsMultiply(name) || name == kCopyAsync || name == kCopyCommit || name == kCopyWait || name == kLoadTransposed;
}

absl::Status CheckDeclaration(const llvm::Function& function, const GpuTarget& target) {
  if (IsElementaryFunction(function.getIntrinsicID())) {
    return MakeKernelError(function.getName(), "not an instruction of all targets; sdk/codegen/vector_math.h emits it");
  }
  if (function.isIntrinsic()) return absl::OkStatus();
  const llvm::FunctionType* type = GpuFunctionType(function.getContext(), function.getName());
  if (type == nullptr) {
    return MakeKernelError(function.getName(),
                           "a function without a body; a kernel can call gpu.thread, gpu.block, gpu.blocks, "
                           "gpu.barrier, gpu.shuffle.xor, gpu.shuffle.index, gpu.multiply, gpu.copy, gpu.load and "
                           "gpu.group");
  }
  const bool is_of_group = function.getName() == kGroupPublish || ParseGroupProduct(function.getName());
  if ((NeedsMultiply(function.getName()) && !target.multiplies_matrices) ||
      (is_of_group && !target.multiplies_in_groups)) {
    return MakeKernelError(function.getName(), absl::StrCat(target.name, " has no such function"));
  }
  if (type != function.getFunctionType()) {
    return MakeKernelError(function.getName(), absl::StrCat("declared as ", Print(*function.getFunctionType()),
                                                            ", but it is ", Print(*type)));
  }
  for (const llvm::Use& use : function.uses()) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(use.getUser());
    if (call == nullptr || !call->isCallee(&use))
      return MakeKernelError(function.getName(), "used other than by a call");
  }
  return absl::OkStatus();
}

absl::Status CheckVariable(const llvm::GlobalVariable& variable) {
  if (!variable.hasLocalLinkage()) {
    return MakeKernelError(variable.getName(), "a variable of a module of kernels is internal or private");
  }
  if (variable.getAddressSpace() != kSharedAddressSpace) {
    if (!variable.isConstant())
      return MakeKernelError(variable.getName(), "a global variable is constant, or in shared memory");
    return absl::OkStatus();
  }
  if (variable.hasInitializer() && !llvm::isa<llvm::UndefValue>(variable.getInitializer())) {
    return MakeKernelError(variable.getName(), "shared memory has no initial value: use undef or poison");
  }
  return absl::OkStatus();
}

// Finds the functions whose instructions use `value`, directly or in constant expressions.
void CollectUsers(const llvm::Value& value, absl::flat_hash_set<llvm::Function*>& users) {
  for (const llvm::User* user : value.users()) {
    if (const auto* instruction = llvm::dyn_cast<llvm::Instruction>(user)) {
      users.insert(const_cast<llvm::Function*>(instruction->getFunction()));
    } else {
      CollectUsers(*user, users);
    }
  }
}

// Marks the functions that use `value`, and those that call them.
void MarkInlined(const llvm::Value& value, absl::flat_hash_set<llvm::Function*>& marked) {
  absl::flat_hash_set<llvm::Function*> users;
  CollectUsers(value, users);
  for (llvm::Function* function : users) {
    if (IsKernel(*function) || !marked.insert(function).second) continue;
    function->removeFnAttr(llvm::Attribute::NoInline);
    function->removeFnAttr(llvm::Attribute::OptimizeNone);
    function->addFnAttr(llvm::Attribute::AlwaysInline);
    MarkInlined(*function, marked);
  }
}

bool CallsItself(const llvm::Function& function, const llvm::Function& origin,
                 absl::flat_hash_set<const llvm::Function*>& seen) {
  for (const llvm::Instruction& i : llvm::instructions(function)) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    const llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
    if (callee == &origin) return true;
    if (callee != nullptr && !callee->isDeclaration() && seen.insert(callee).second &&
        CallsItself(*callee, origin, seen)) {
      return true;
    }
  }
  return false;
}

}  // namespace

uint64_t ComputeSharedAlignment(const llvm::GlobalVariable& variable) {
  return variable.getAlign().value_or(variable.getParent()->getDataLayout().getPreferredAlign(&variable)).value();
}

bool IsMultiply(llvm::StringRef name) {
  return name == kMultiplyF16 || name == kMultiplyBf16 || name == kMultiplyTf32 || name == kMultiplyS8 ||
         name == kMultiplyF64;
}

std::optional<GroupProduct> ParseGroupProduct(llvm::StringRef name) {
  if (!name.consume_front(kGroupMultiply) && !name.consume_front(kGroupWait)) return std::nullopt;
  GroupProduct product;
  llvm::StringRef columns;
  std::tie(product.type, columns) = name.split('.');
  const bool is_type =
      product.type == "f16" || product.type == "bf16" || product.type == "tf32" || product.type == "s8";
  if (!is_type || (columns != "64" && columns != "128" && columns != "256")) return std::nullopt;
  columns.getAsInteger(10, product.columns);
  return product;
}

const llvm::Function* FindCalledGpuFunction(const llvm::Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  const auto* callee = call == nullptr ? nullptr : llvm::dyn_cast<llvm::Function>(call->getCalledOperand());
  return callee != nullptr && callee->getName().starts_with("gpu.") ? callee : nullptr;
}

absl::Status CheckModule(llvm::Module& module, const GpuTarget& target) {
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(module, &stream))
    return MakeKernelError(module.getName(), absl::StrCat("no valid IR: ", broken));
  if (module.getTargetTriple() != target.ir.triple) {
    return MakeKernelError(module.getName(),
                           absl::StrCat("the module's triple is \"", module.getTargetTriple(), "\", that of ",
                                        target.name, " is \"", target.ir.triple, "\""));
  }
  bool found = false;
  for (llvm::Function& function : module) {
    if (IsKernel(function)) {
      found = true;
      RETURN_IF_ERROR(CheckKernel(function, target));
      for (const llvm::User* user : function.users()) {
        if (llvm::isa<llvm::CallBase>(user)) return MakeKernelError(function.getName(), "a kernel is called");
      }
    } else if (function.isDeclaration()) {
      RETURN_IF_ERROR(CheckDeclaration(function, target));
    } else if (!function.hasLocalLinkage()) {
      return MakeKernelError(function.getName(), absl::StrCat("neither internal nor a kernel (attribute \"",
                                                              kKernelAttribute, "\" with the number of threads)"));
    }
  }
  if (!found) {
    return MakeKernelError(module.getName(),
                           absl::StrCat("no kernel: no function has the attribute \"", kKernelAttribute, "\""));
  }
  absl::flat_hash_set<llvm::Function*> marked;
  for (const llvm::GlobalVariable& variable : module.globals()) {
    RETURN_IF_ERROR(CheckVariable(variable));
    if (variable.getAddressSpace() == kSharedAddressSpace) MarkInlined(variable, marked);
  }
  for (const llvm::Function& function : module) {
    if (function.isDeclaration() && !function.isIntrinsic()) MarkInlined(function, marked);
  }
  for (const llvm::Function& function : module) {
    if (!marked.contains(&function)) continue;
    absl::flat_hash_set<const llvm::Function*> seen;
    if (CallsItself(function, function, seen)) {
      return MakeKernelError(function.getName(), "a function that uses threads or shared memory calls itself");
    }
    if (function.hasAddressTaken()) {
      return MakeKernelError(function.getName(), "a function that uses threads or shared memory has its address taken");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Kernel>> DescribeKernels(llvm::Module& module, const GpuTarget& target) {
  std::vector<Kernel> kernels;
  for (llvm::Function& function : module) {
    if (!IsKernel(function)) continue;
    Kernel kernel;
    kernel.function = &function;
    bool has_large_group = false;
    ASSIGN_OR_RETURN(kernel.threads, ThreadsOf(function, target));
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
      const llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
      if (callee == nullptr || GpuFunctionType(module.getContext(), callee->getName()) == nullptr) continue;
      kernel.calls.push_back(call);
      const llvm::StringRef name = callee->getName();
      kernel.has_barrier |= name == kBarrier;
      kernel.has_shuffle |= name == kShuffleXor || name == kShuffleIndex;
      kernel.has_group |= IsMultiply(name) || name == kLoadTransposed;
      has_large_group |= ParseGroupProduct(name).has_value();
      kernel.reads_block |= name == kBlock;
      kernel.reads_blocks |= name == kBlocks;
    }
    if ((kernel.has_shuffle || kernel.has_group) && kernel.threads % 32 != 0) {
      return MakeKernelError(function.getName(), absl::StrCat("shuffles in a block of ", kernel.threads,
                                                              " threads, which is no multiple of 32"));
    }
    if (has_large_group && kernel.threads % 128 != 0) {
      return MakeKernelError(function.getName(), absl::StrCat("gpu.group in a block of ", kernel.threads,
                                                              " threads, which is no multiple of 128"));
    }
    kernels.push_back(std::move(kernel));
  }
  for (llvm::GlobalVariable& variable : module.globals()) {
    if (variable.getAddressSpace() != kSharedAddressSpace) continue;
    absl::flat_hash_set<llvm::Function*> users;
    CollectUsers(variable, users);
    const llvm::DataLayout& layout = module.getDataLayout();
    const uint64_t bytes = layout.getTypeAllocSize(variable.getValueType());
    const uint64_t alignment = ComputeSharedAlignment(variable);
    for (Kernel& kernel : kernels) {
      if (!users.contains(kernel.function)) continue;
      kernel.shared.push_back(&variable);
      const uint64_t end = llvm::alignTo(static_cast<uint64_t>(kernel.shared_bytes), alignment) + bytes;
      if (end > static_cast<uint64_t>(target.shared_bytes)) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "lowering: ", kernel.function->getName().str(), ": variable ", variable.getName().str(), " ends at ", end,
            " bytes of shared memory; a block of ", target.name, " has ", target.shared_bytes));
      }
      kernel.shared_bytes = static_cast<int>(end);
    }
  }
  return kernels;
}

}  // namespace backplane::hip
