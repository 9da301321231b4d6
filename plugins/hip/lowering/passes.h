// Runs LLVM's passes over IR, with the analyses that they need. Each module that is lowered has a runner of its own.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_PASSES_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_PASSES_H_

#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace backplane::hip {

class PassRunner {
 public:
  // The machine must outlive the runner.
  explicit PassRunner(llvm::TargetMachine& machine);

  // Inlines the functions that are marked for it into their callers, and removes them.
  void InlineMarked(llvm::Module& module);
  // Runs the passes that pay before a GPU's code generator. The generator itself combines memory accesses to vectors.
  void OptimizeForGpu(llvm::Module& module);
  // Runs the passes that pay before coroutines are split, for values in registers and small frames.
  void OptimizeForSplit(llvm::Module& module);
  // Replaces coroutines by functions that start and resume them.
  void SplitCoroutines(llvm::Module& module);
  // Runs the passes that pay before the code generator of a processor. Loops over threads become vectors.
  void OptimizeForHost(llvm::Module& module);

 private:
  void Run(llvm::ModulePassManager& passes, llvm::Module& module);

  llvm::PassBuilder builder_;
  llvm::LoopAnalysisManager loops_;
  llvm::FunctionAnalysisManager functions_;
  llvm::CGSCCAnalysisManager graph_;
  llvm::ModuleAnalysisManager modules_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_PASSES_H_
