#include "sdk/codegen/target_machine.h"

#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::codegen {
namespace {

constexpr char kLocalsInRegisters[] = "backplane-locals-in-registers";

// Passes by LLVM's names for them. LLVM builds the pipeline into whatever pass manager it is given, so one that does
// not take a pass leaves it out, in this pipeline and no other.
class ChosenPasses : public llvm::legacy::PassManagerBase {
 public:
  ChosenPasses(llvm::legacy::PassManager& passes, const CodegenPasses& chosen) : passes_(passes) {
    if (!chosen.loop_strength_reduction) left_out_.insert(left_out_.end(), {"canon-freeze", "loop-reduce"});
    if (!chosen.prepare) left_out_.push_back("codegenprepare");
    if (!chosen.schedule_before_allocation) left_out_.push_back("machine-scheduler");
    if (!chosen.schedule_after_allocation) left_out_.insert(left_out_.end(), {"post-RA-sched", "postmisched"});
  }

  void add(llvm::Pass* pass) override {
    const llvm::PassInfo* info = llvm::PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
    if (info != nullptr) {
      for (llvm::StringRef name : left_out_) {
        if (info->getPassArgument() != name) continue;
        delete pass;
        return;
      }
    }
    passes_.add(pass);
  }

 private:
  llvm::legacy::PassManager& passes_;
  absl::InlinedVector<llvm::StringRef, 6> left_out_;
};

class ErrorCollector : public llvm::DiagnosticHandler {
 public:
  explicit ErrorCollector(std::string* errors) : errors_(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error || !errors_->empty()) return true;
    llvm::raw_string_ostream stream(*errors_);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    return true;
  }

 private:
  std::string* errors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const IrTarget& target) {
  std::string error;
  const llvm::Target* generator = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (generator == nullptr)
    return absl::InternalError(absl::StrCat("codegen: no code generator for ", target.triple, ": ", error));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(
      generator->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                     llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (machine == nullptr)
    return absl::InternalError(absl::StrCat("codegen: cannot make a target machine for ", target.triple));
  return machine;
}

void SetModuleTarget(llvm::Module& module, const IrTarget& target, const llvm::TargetMachine& machine) {
  module.setTargetTriple(target.triple);
  module.setDataLayout(machine.createDataLayout());
}

void RequestLocalsInRegisters(llvm::Function& function) { function.addFnAttr(kLocalsInRegisters); }

void PromoteLocals(llvm::Module& module) {
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  analyses.registerPass([] { return llvm::AssumptionAnalysis(); });
  analyses.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([] { return llvm::TargetLibraryAnalysis(); });
  analyses.registerPass([] { return llvm::TargetIRAnalysis(); });
  llvm::SROAPass pass(llvm::SROAOptions::PreserveCFG);
  for (llvm::Function& function : module) {
    if (!function.hasFnAttribute(kLocalsInRegisters)) continue;
    // Unrolled code consists of many short blocks, and code generation looks at one block at a time.
    for (llvm::BasicBlock& block : llvm::make_early_inc_range(function)) llvm::MergeBlockIntoPredecessor(&block);
    pass.run(function, analyses);
  }
}

void EliminateCommonSubexpressions(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  analyses.registerPass([] { return llvm::AssumptionAnalysis(); });
  analyses.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([] { return llvm::TargetLibraryAnalysis(); });
  analyses.registerPass([&] { return machine.getTargetIRAnalysis(); });
  llvm::EarlyCSEPass pass(/*UseMemorySSA=*/false);
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) pass.run(function, analyses);
  }
}

absl::StatusOr<std::string> GenerateCode(llvm::Module& module, llvm::TargetMachine& machine, const IrTarget& target,
                                         CodeKind kind) {
  llvm::SmallVector<char, 0> code;
  llvm::raw_svector_ostream stream(code);
  llvm::legacy::PassManager passes;
  ChosenPasses chosen(passes, target.passes);
  const auto file = kind == CodeKind::kObject ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addPassesToEmitFile(chosen, stream, nullptr, file)) {
    return absl::InternalError(absl::StrCat("codegen: ", target.triple, " cannot emit ",
                                            kind == CodeKind::kObject ? "an object" : "assembly"));
  }
  // What a generator cannot do it reports to the context, whose own handler would end the process.
  std::string errors;
  llvm::LLVMContext& context = module.getContext();
  std::unique_ptr<llvm::DiagnosticHandler> before = context.getDiagnosticHandler();
  context.setDiagnosticHandler(std::make_unique<ErrorCollector>(&errors));
  passes.run(module);
  context.setDiagnosticHandler(std::move(before));
  if (!errors.empty()) return absl::InternalError(absl::StrCat("codegen: ", target.cpu, ": ", errors));
  return std::string(code.begin(), code.end());
}

}  // namespace backplane::codegen
