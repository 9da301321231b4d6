// LLVM's passes over IR, with the analyses that they ask for. One for each module that is lowered.
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

  // Functions that are marked for inlining, into their callers; they are removed.
  void InlineMarked(llvm::Module& module);
  // What pays before a GPU's code generator. Vectors of memory accesses are made by the generator itself.
  void OptimizeForGpu(llvm::Module& module);
  // What pays before coroutines are split: values in registers, small frames.
  void OptimizeForSplit(llvm::Module& module);
  // Replaces coroutines by functions that start and resume them.
  void SplitCoroutines(llvm::Module& module);
  // What pays before the code generator of a processor: loops over threads become vectors.
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
