#include "plugins/hip/lowering/lowering.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "plugins/hip/lowering/amd_kernels.h"
#include "plugins/hip/lowering/host/host_kernels.h"
#include "plugins/hip/lowering/kernels.h"
#include "plugins/hip/lowering/linker.h"
#include "plugins/hip/lowering/nvptx_floats.h"
#include "plugins/hip/lowering/nvptx_kernels.h"
#include "plugins/hip/lowering/passes.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/target_machine.h"

namespace backplane::hip {
namespace {

void RegisterGenerators() {
  static const bool registered = [] {
    LLVMInitializeX86TargetInfo(), LLVMInitializeX86Target(), LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter(), LLVMInitializeX86AsmParser();
    LLVMInitializeAMDGPUTargetInfo(), LLVMInitializeAMDGPUTarget(), LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter(), LLVMInitializeAMDGPUAsmParser();
    LLVMInitializeNVPTXTargetInfo(), LLVMInitializeNVPTXTarget(), LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  static_cast<void>(registered);
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeMachine(const GpuTarget& target) {
  RegisterGenerators();
  return codegen::MakeTargetMachine(target.ir);
}

// Makes IR for the code generator from checked IR.
absl::StatusOr<std::vector<Kernel>> LowerIr(llvm::Module& module, const GpuTarget& target,
                                            llvm::TargetMachine& machine) {
  RETURN_IF_ERROR(CheckModule(module, target));
  PassRunner passes(machine);
  passes.InlineMarked(module);
  ASSIGN_OR_RETURN(std::vector<Kernel> kernels, DescribeKernels(module, target));
  switch (target.kind) {
    case ImageKind::kAmdCodeObject:
      RETURN_IF_ERROR(LowerAmdKernels(module, kernels, target));
      passes.OptimizeForGpu(module);
      break;
    case ImageKind::kPtx:
      LowerNvptxKernels(module, kernels, target);
      passes.OptimizeForGpu(module);
      KeepSignsOfNans(module);
      DivideUnalignedLoads(module);
      break;
    case ImageKind::kHost:
      RETURN_IF_ERROR(LowerHostKernels(module, kernels, target, passes));
      break;
  }
  return kernels;
}

}  // namespace

absl::Status PrepareModule(llvm::Module& module, const GpuTarget& target) {
  ASSIGN_OR_RETURN(const std::unique_ptr<llvm::TargetMachine> machine, MakeMachine(target));
  codegen::SetModuleTarget(module, target.ir, *machine);
  return absl::OkStatus();
}

absl::StatusOr<Image> Lower(llvm::Module& module, const GpuTarget& target) {
  ASSIGN_OR_RETURN(const std::unique_ptr<llvm::TargetMachine> machine, MakeMachine(target));
  Image image;
  std::vector<std::string> names;
  for (const llvm::Function& function : module) {
    if (function.hasExternalLinkage() && !function.isDeclaration()) names.push_back(function.getName().str());
  }
  ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, LowerIr(module, target, *machine));
  for (size_t i = 0; i < kernels.size(); ++i) {
    KernelResources resources;
    resources.name = names[i];
    resources.threads = kernels[i].threads;
    resources.shared_bytes = kernels[i].shared_bytes;
    image.kernels.push_back(std::move(resources));
  }
  const bool is_ptx = target.kind == ImageKind::kPtx;
  ASSIGN_OR_RETURN(image.bytes,
                   codegen::GenerateCode(module, *machine, target.ir,
                                         is_ptx ? codegen::CodeKind::kAssembly : codegen::CodeKind::kObject));
  if (is_ptx) {
    image.bytes.insert(0, PrintDynamicSharedLines(kernels, names));
    return image;
  }
  ASSIGN_OR_RETURN(image.bytes, LinkShared(image.bytes));
  if (target.kind == ImageKind::kAmdCodeObject) {
    ASSIGN_OR_RETURN(image.kernels, ReadAmdResources(image.bytes, names, target));
  }
  return image;
}

absl::StatusOr<std::vector<KernelResources>> ReadResources(const std::string& image,
                                                           const std::vector<std::string>& names,
                                                           const GpuTarget& target) {
  if (target.kind == ImageKind::kAmdCodeObject && !names.empty()) return ReadAmdResources(image, names, target);
  std::vector<KernelResources> resources(names.size());
  for (size_t i = 0; i < names.size(); ++i) resources[i].name = names[i];
  return resources;
}

absl::StatusOr<std::string> LowerToText(llvm::Module& module, const GpuTarget& target, CodeForm form) {
  ASSIGN_OR_RETURN(const std::unique_ptr<llvm::TargetMachine> machine, MakeMachine(target));
  machine->Options.MCOptions.AsmVerbose = true;
  RETURN_IF_ERROR(LowerIr(module, target, *machine).status());
  if (form == CodeForm::kIr) {
    std::string text;
    llvm::raw_string_ostream out(text);
    module.print(out, nullptr);
    return text;
  }
  return codegen::GenerateCode(module, *machine, target.ir, codegen::CodeKind::kAssembly);
}

}  // namespace backplane::hip
