// From LLVM IR to function pointers: emit modules, compile them on several threads, link the objects, look up symbols.
//
// The recipe was measured: common subexpressions are the only IR pass, code generation runs at level 2 without the
// passes that HostInfo names, and each compile thread gets one module (never one for each kernel: a module costs as
// much as half a kernel). The emitter therefore writes good IR itself.
//
// Callers that only compile and run need no LLVM header; code that emits IR includes "sdk/codegen/llvm_includes.h".
// Everything here is thread-safe unless said otherwise.
#ifndef BACKPLANE_SDK_ENGINE_JIT_JIT_H_
#define BACKPLANE_SDK_ENGINE_JIT_JIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sdk/engine/jit/host.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace backplane::engine {
class ThreadPool;
}

namespace backplane::engine::jit {

// Compiles and links one small kernel and ExactMath, so that the first real compilation is not milliseconds slower.
// Meant for a start-up thread; harmless to call more than once.
absl::Status WarmUp();

// Machine code of one module: a relocatable ELF object, position independent, ready to be written to disk. Valid only
// on a host whose HostFingerprint() is the same.
struct ObjectCode {
  std::string bytes;
  double emit_ms = 0;  // time of the emitter
  double optimize_ms = 0;
  double codegen_ms = 0;
};

// Identifies cpu, features, LLVM version and this library's own code generation revision; a cache key.
std::string HostFingerprint();

struct CompileOptions {
  const HostInfo* host = nullptr;   // nullptr: Host()
  bool verify = false;              // run LLVM's IR verifier first; tests and debug builds set it
  std::string* ir_dump = nullptr;   // receives the IR after passes, all modules one after another; compiles serially
  std::string* asm_dump = nullptr;  // receives the assembly
};

// Fills a fresh module: triple and data layout are set, the context is the module's own and used by no other thread.
// `index` is the number of the module, 0 to num_modules - 1. Runs on any thread, several at the same time.
using ModuleEmitter = absl::FunctionRef<absl::Status(int index, llvm::Module& module)>;

// Emits and compiles `num_modules` modules in parallel on the pool (nullptr: on this thread). Returns the first error.
// Symbol names are shared by all modules that will be linked together: an external function must be defined once.
absl::StatusOr<std::vector<ObjectCode>> CompileModules(int num_modules, ModuleEmitter emit, ThreadPool* pool,
                                                       const CompileOptions& options = {});

// Number of modules to cut `num_kernels` kernels into: one for each thread, but no module below about four kernels.
int SuggestedModuleCount(int num_kernels, int num_threads);

// Linked code. Function pointers live as long as this object.
class CodeLibrary {
 public:
  using Symbols = std::vector<std::pair<std::string, const void*>>;

  virtual ~CodeLibrary() = default;

  // Links objects, all visible to one another. Undefined symbols are looked for in `externals`, then among the memory
  // functions listed by DefaultSymbols(), then in ExactMath(); anything else is an Internal error that names the
  // symbol.
  static absl::StatusOr<std::unique_ptr<CodeLibrary>> Link(absl::Span<const ObjectCode> objects,
                                                           const Symbols& externals = {});

  virtual absl::StatusOr<void*> Lookup(absl::string_view name) const = 0;

  template <typename Fn>
  absl::StatusOr<Fn> LookupFunction(absl::string_view name) const {
    absl::StatusOr<void*> address = Lookup(name);
    if (!address.ok()) return address.status();
    return reinterpret_cast<Fn>(*address);
  }

  // Bytes of machine code and constants in memory, as allocated by the linker.
  virtual int64_t code_bytes() const = 0;
};

// What generated code for this machine calls for huge angles and remainders of huge quotients
// (sdk/codegen/vector_math.h, EmitExactMath), compiled by the first caller in the process and kept. CodeLibrary::Link
// asks for it when a symbol of it is undefined.
absl::StatusOr<const CodeLibrary*> ExactMath();

// memcpy and its like: what generated code may call without saying so.
const CodeLibrary::Symbols& DefaultSymbols();

}  // namespace backplane::engine::jit

#endif  // BACKPLANE_SDK_ENGINE_JIT_JIT_H_
