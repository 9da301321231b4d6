// Compiles LLVM IR to function pointers: emits modules, compiles them on several threads, links the objects, looks up
// symbols.
//
// The settings were chosen by measurement. The only IR pass merges common subexpressions. Code generation runs at level
// 2 without the passes that HostInfo disables. Each thread compiles one module with many kernels, because the fixed
// cost of a module is about half that of a kernel. The emitter must therefore write efficient IR itself.
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

// Compiles and links one small kernel, so that the first real compilation does not pay for the initialization of LLVM.
// Meant for a start-up thread; may be called more than once.
absl::Status WarmUp();

// Machine code of one module: a relocatable ELF object, position independent, ready to be written to disk. Valid only
// on a host whose ComputeHostFingerprint() is the same.
struct ObjectCode {
  std::string bytes;
  double emit_ms = 0;  // milliseconds spent by the emitter
  double optimize_ms = 0;
  double codegen_ms = 0;
};

// Identifies the cpu, its features, the version of LLVM and the revision of this library's code generation. Use it as a
// cache key.
std::string ComputeHostFingerprint();

struct CompileOptions {
  const HostInfo* host = nullptr;   // nullptr: Host()
  bool verify = false;              // run LLVM's IR verifier first; tests and debug builds set it
  std::string* ir_dump = nullptr;   // receives the IR after passes, all modules one after another; compiles serially
  std::string* asm_dump = nullptr;  // receives the assembly
};

// Fills a new module. Its triple and data layout are set, and it has an LLVMContext of its own. `index` is the number
// of the module, 0 to num_modules - 1. Called on any thread, on several at the same time.
using ModuleEmitter = absl::FunctionRef<absl::Status(int index, llvm::Module& module)>;

// Emits and compiles `num_modules` modules in parallel on the pool (nullptr: on this thread). Returns the first error.
// Symbol names are shared by all modules that will be linked together: an external function must be defined once.
absl::StatusOr<std::vector<ObjectCode>> CompileModules(int num_modules, ModuleEmitter emit, ThreadPool* pool,
                                                       const CompileOptions& options = {});

// Returns the number of modules into which `num_kernels` kernels should be divided: one per thread, but at least about
// four kernels per module.
int SuggestModuleCount(int num_kernels, int num_threads);

// Linked code. Function pointers live as long as this object.
class CodeLibrary {
 public:
  using Symbols = std::vector<std::pair<std::string, const void*>>;

  virtual ~CodeLibrary() = default;

  // Links objects, whose symbols are visible to one another. Undefined symbols are searched in `externals`, then among
  // the memory functions of DefaultSymbols(), then in CompileExactMath(). A symbol that is not found is an Internal
  // error with its name. `program` is a name for profilers (tool_support.h).
  static absl::StatusOr<std::unique_ptr<CodeLibrary>> Link(absl::Span<const ObjectCode> objects,
                                                           const Symbols& externals = {},
                                                           absl::string_view program = "backplane");

  virtual absl::StatusOr<void*> Lookup(absl::string_view name) const = 0;

  template <typename Fn>
  absl::StatusOr<Fn> LookupFunction(absl::string_view name) const {
    absl::StatusOr<void*> address = Lookup(name);
    if (!address.ok()) return address.status();
    return reinterpret_cast<Fn>(*address);
  }

  // Returns the bytes of machine code and constants in memory, as allocated by the linker.
  virtual int64_t code_bytes() const = 0;
};

// Returns the functions that generated code calls for huge angles and for remainders of huge quotients (EmitExactMath
// in sdk/codegen/vector_math.h). The first caller in the process compiles them, and they are never freed.
// CodeLibrary::Link uses them if one of these symbols is undefined.
absl::StatusOr<const CodeLibrary*> CompileExactMath();

// Returns memcpy and similar functions, calls of which LLVM inserts into generated code.
const CodeLibrary::Symbols& DefaultSymbols();

}  // namespace backplane::engine::jit

#endif  // BACKPLANE_SDK_ENGINE_JIT_JIT_H_
