#include "sdk/engine/jit/jit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "core/types/status_macros.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/target_machine.h"
#include "sdk/codegen/vector_math.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine::jit {
namespace {

// Raise it when generated code changes in a way that a stored object must not survive.
constexpr int kCodegenRevision = 8;

using Clock = std::chrono::steady_clock;

double MillisSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Machines for Host() that no thread uses. A new one takes as long as a tenth of a small kernel, because the tables of
// its legal operations are computed.
class IdleMachines {
 public:
  static IdleMachines& Get() {
    static IdleMachines& machines = *new IdleMachines();
    return machines;
  }

  absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> Take() {
    {
      MutexLock lock(mutex_);
      if (!machines_.empty()) {
        std::unique_ptr<llvm::TargetMachine> machine = std::move(machines_.back());
        machines_.pop_back();
        return machine;
      }
    }
    return backplane::codegen::MakeTargetMachine(Host().target);
  }

  void Return(std::unique_ptr<llvm::TargetMachine> machine) {
    constexpr size_t kMostIdle = 2;  // each has 0.2 MB
    MutexLock lock(mutex_);
    if (machines_.size() < kMostIdle) machines_.push_back(std::move(machine));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> machines_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<ObjectCode> CompileOne(int index, ModuleEmitter emit, const HostInfo& host,
                                      const CompileOptions& options) {
  const backplane::codegen::IrTarget& target = host.target;
  const bool shared = &host == &Host();
  ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine,
                   shared ? IdleMachines::Get().Take() : backplane::codegen::MakeTargetMachine(target));
  ObjectCode result;
  auto start = Clock::now();
  llvm::LLVMContext context;
  llvm::Module module(absl::StrCat("backplane.", index), context);
  backplane::codegen::SetModuleTarget(module, target, *machine);
  RETURN_IF_ERROR(emit(index, module));
  result.emit_ms = MillisSince(start);

  if (options.verify) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    if (llvm::verifyModule(module, &stream)) {
      return absl::InternalError(absl::StrCat("jit: invalid IR: ", stream.str()));
    }
  }
  start = Clock::now();
  backplane::codegen::PromoteLocals(module);
  backplane::codegen::EliminateCommonSubexpressions(module, *machine);
  result.optimize_ms = MillisSince(start);
  if (options.ir_dump != nullptr) {
    llvm::raw_string_ostream stream(*options.ir_dump);
    module.print(stream, nullptr);
  }
  if (options.asm_dump != nullptr) {
    // A second run of the code generator: the module holds the same functions after the first one.
    ASSIGN_OR_RETURN(std::string text, backplane::codegen::GenerateCode(module, *machine, target,
                                                                        backplane::codegen::CodeKind::kAssembly));
    options.asm_dump->append(text);
  }
  start = Clock::now();
  ASSIGN_OR_RETURN(result.bytes,
                   backplane::codegen::GenerateCode(module, *machine, target, backplane::codegen::CodeKind::kObject));
  result.codegen_ms = MillisSince(start);
  if (shared) IdleMachines::Get().Return(std::move(machine));  // after an error it is not used again
  return result;
}

}  // namespace

absl::StatusOr<std::vector<ObjectCode>> CompileModules(int num_modules, ModuleEmitter emit, ThreadPool* pool,
                                                       const CompileOptions& options) {
  RegisterHost();
  const HostInfo& host = options.host != nullptr ? *options.host : Host();
  std::vector<ObjectCode> objects(std::max(num_modules, 0));
  Mutex mutex;
  absl::Status first_error;
  int first_error_index = num_modules;
  std::atomic<bool> failed{false};
  auto compile = [&](int64_t index, int) {
    if (failed.load(std::memory_order_relaxed)) return;
    absl::StatusOr<ObjectCode> object = CompileOne(static_cast<int>(index), emit, host, options);
    if (object.ok()) {
      objects[index] = *std::move(object);
      return;
    }
    MutexLock lock(mutex);
    failed.store(true, std::memory_order_relaxed);
    if (index < first_error_index) {
      first_error = object.status();
      first_error_index = static_cast<int>(index);
    }
  };
  const bool serial = pool == nullptr || options.ir_dump != nullptr || options.asm_dump != nullptr;
  if (serial) {
    for (int i = 0; i < num_modules; ++i) compile(i, 0);
  } else {
    pool->ParallelFor(num_modules, compile);
  }
  if (!first_error.ok()) return first_error;
  return objects;
}

int SuggestModuleCount(int num_kernels, int num_threads) {
  constexpr int kKernelsWorthAModule = 4;
  return std::clamp(num_kernels / kKernelsWorthAModule, num_kernels > 0 ? 1 : 0, std::max(1, num_threads));
}

std::string ComputeHostFingerprint() {
  const backplane::codegen::IrTarget& target = Host().target;
  return absl::StrCat("llvm", LLVM_VERSION_STRING, ";r", kCodegenRevision, ";", target.triple, ";", target.cpu, ";",
                      target.features);
}

absl::StatusOr<const CodeLibrary*> CompileExactMath() {
  // Kept for ever: linked code of any client may call it. An error is not kept; the next caller tries again.
  static Mutex mutex;
  static const CodeLibrary* library = nullptr;
  MutexLock lock(mutex);
  if (library != nullptr) return library;
  auto emit = [](int, llvm::Module& module) -> absl::Status {
    backplane::codegen::EmitExactMath(module, Host().target);
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const std::vector<ObjectCode> objects, CompileModules(1, emit, nullptr));
  ASSIGN_OR_RETURN(std::unique_ptr<CodeLibrary> linked, CodeLibrary::Link(objects));
  library = linked.release();
  return library;
}

absl::Status WarmUp() {
  // A loop with a vector body, a branch, a call and constants: touches the parts of LLVM that every kernel needs.
  auto emit = [](int, llvm::Module& module) -> absl::Status {
    llvm::LLVMContext& context = module.getContext();
    llvm::IRBuilder<> b(context);
    auto* vector = llvm::FixedVectorType::get(b.getFloatTy(), 2 * Host().target.F32Lanes());
    auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()}, false);
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "backplane_warm_up", module);
    backplane::codegen::SetKernelAttributes(*function, Host().target);
    auto* entry = llvm::BasicBlock::Create(context, "entry", function);
    auto* loop = llvm::BasicBlock::Create(context, "loop", function);
    auto* exit = llvm::BasicBlock::Create(context, "exit", function);
    b.SetInsertPoint(entry);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
    i->addIncoming(b.getInt64(0), entry);
    llvm::Value* source = b.CreateGEP(b.getFloatTy(), function->getArg(0), i);
    llvm::Value* x = b.CreateAlignedLoad(vector, source, llvm::Align(4));
    llvm::Value* half = llvm::ConstantFP::get(vector, 0.5);
    x = b.CreateFAdd(b.CreateFMul(x, x), half);
    x = b.CreateSelect(b.CreateFCmpOGT(x, half), x, half);
    x = b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    b.CreateAlignedStore(x, b.CreateGEP(b.getFloatTy(), function->getArg(1), i), llvm::Align(4));
    llvm::Value* next = b.CreateAdd(i, b.getInt64(vector->getNumElements()));
    i->addIncoming(next, loop);
    b.CreateCondBr(b.CreateICmpULT(next, function->getArg(2)), loop, exit);
    b.SetInsertPoint(exit);
    b.CreateRetVoid();
    return absl::OkStatus();
  };
  absl::StatusOr<std::vector<ObjectCode>> objects = CompileModules(1, emit, nullptr);
  if (!objects.ok()) return objects.status();
  absl::StatusOr<std::unique_ptr<CodeLibrary>> library = CodeLibrary::Link(*objects);
  if (!library.ok()) return library.status();
  return (*library)->Lookup("backplane_warm_up").status();
}

}  // namespace backplane::engine::jit
