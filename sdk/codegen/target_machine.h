// From IR to code for an IrTarget: LLVM's machine, the data layout, the passes in between.
//
// Nothing here reads or sets an option of the process. The caller has registered the target with LLVM
// (InitializeNativeTarget, LLVMInitializeAMDGPUTarget, ...); this library links no code generator itself.
#ifndef BACKPLANE_SDK_CODEGEN_TARGET_MACHINE_H_
#define BACKPLANE_SDK_CODEGEN_TARGET_MACHINE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/codegen/ir_target.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace backplane::codegen {

// One machine serves one thread at a time.
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const IrTarget& target);

// Gives an empty module the target's triple and data layout.
void SetModuleTarget(llvm::Module& module, const IrTarget& target, const llvm::TargetMachine& machine);

// The one pass over IR that pays: values that the emitters made twice.
void EliminateCommonSubexpressions(llvm::Module& module, llvm::TargetMachine& machine);

enum class CodeKind {
  kObject,    // relocatable ELF; PTX has no objects
  kAssembly,  // text; PTX for NVPTX
};

// The code of a module, by target.passes. The module can be compiled again.
absl::StatusOr<std::string> GenerateCode(llvm::Module& module, llvm::TargetMachine& machine, const IrTarget& target,
                                         CodeKind kind);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_TARGET_MACHINE_H_
