// Compiles LLVM IR to code for an IrTarget: the TargetMachine, the data layout and the passes.
//
// These functions neither read nor set options of the process. The caller must have registered the target with LLVM
// (InitializeNativeTarget, LLVMInitializeAMDGPUTarget, ...), because this library links no code generator itself. Not
// thread-safe for one machine or one module; different ones may be used at once.
#ifndef BACKPLANE_SDK_CODEGEN_TARGET_MACHINE_H_
#define BACKPLANE_SDK_CODEGEN_TARGET_MACHINE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/codegen/ir_target.h"

namespace llvm {
class Function;
class Module;
class TargetMachine;
}  // namespace llvm

namespace backplane::codegen {

// Creates LLVM's machine for a target. Only one thread at a time may use it.
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const IrTarget& target);

// Gives an empty module the target's triple and data layout.
void SetModuleTarget(llvm::Module& module, const IrTarget& target, const llvm::TargetMachine& machine);

// Marks a function whose local variables PromoteLocals shall keep in registers.
void RequestLocalsInRegisters(llvm::Function& function);

// Replaces the local variables of marked functions by values where all their accesses are at known offsets. Call it
// before EliminateCommonSubexpressions.
void PromoteLocals(llvm::Module& module);

// Merges equal values. This is the only IR pass that saves more time than it takes in any function, because the
// emitters create some values twice.
void EliminateCommonSubexpressions(llvm::Module& module, llvm::TargetMachine& machine);

enum class CodeKind {
  kObject,    // relocatable ELF; PTX has no objects
  kAssembly,  // text; PTX for NVPTX
};

// Generates the code of a module with the passes that the target enables. The module can be compiled again.
absl::StatusOr<std::string> GenerateCode(llvm::Module& module, llvm::TargetMachine& machine, const IrTarget& target,
                                         CodeKind kind);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_TARGET_MACHINE_H_
