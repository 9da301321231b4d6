#include "plugins/hip/lowering/passes.h"

#include <utility>

#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Coroutines/CoroCleanup.h"
#include "llvm/Transforms/Coroutines/CoroEarly.h"
#include "llvm/Transforms/Coroutines/CoroSplit.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/IPO/ModuleInliner.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/DCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/InferAddressSpaces.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Vectorize/LoopVectorize.h"
#include "llvm/Transforms/Vectorize/SLPVectorizer.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

llvm::FunctionPassManager Simplification() {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  return passes;
}

void AddLoopPasses(llvm::FunctionPassManager& passes) {
  llvm::LoopPassManager rotate;
  rotate.addPass(llvm::LoopRotatePass());
  rotate.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(rotate), /*UseMemorySSA=*/true));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::IndVarSimplifyPass()));
}

bool CallsDefinedFunctions(const llvm::Module& module) {
  for (const llvm::Function& function : module) {
    if (!function.isDeclaration() && function.hasLocalLinkage()) return true;
  }
  return false;
}

}  // namespace

PassRunner::PassRunner(llvm::TargetMachine& machine) : builder_(&machine) {
  builder_.registerModuleAnalyses(modules_);
  builder_.registerCGSCCAnalyses(graph_);
  builder_.registerFunctionAnalyses(functions_);
  builder_.registerLoopAnalyses(loops_);
  builder_.crossRegisterProxies(loops_, functions_, graph_, modules_);
}

void PassRunner::Run(llvm::ModulePassManager& passes, llvm::Module& module) {
  passes.run(module, modules_);
  // The analyses are dropped, because the module is changed between runs without passes.
  modules_.clear(), graph_.clear(), functions_.clear(), loops_.clear();
}

void PassRunner::InlineMarked(llvm::Module& module) {
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass(/*InsertLifetime=*/false));
  Run(passes, module);
}

void PassRunner::OptimizeForGpu(llvm::Module& module) {
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(Simplification()));
  if (CallsDefinedFunctions(module)) {
    passes.addPass(llvm::ModuleInlinerPass());
    passes.addPass(llvm::GlobalDCEPass());
  }
  llvm::FunctionPassManager function;
  function.addPass(llvm::InferAddressSpacesPass());
  AddLoopPasses(function);
  function.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(/*OptLevel=*/2).setRuntime(false)));
  // Unrolled loops leave constant indices into private arrays.
  function.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  function.addPass(llvm::InstCombinePass());
  function.addPass(llvm::GVNPass());
  function.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  function.addPass(llvm::InstCombinePass());
  function.addPass(llvm::SimplifyCFGPass());
  function.addPass(llvm::DCEPass());
  function.addPass(llvm::InferAlignmentPass());  // loads of vectors are emitted with the alignment of an element
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(function)));
  Run(passes, module);
}

void PassRunner::OptimizeForSplit(llvm::Module& module) {
  llvm::ModulePassManager passes;
  passes.addPass(llvm::CoroEarlyPass());
  llvm::FunctionPassManager function = Simplification();
  AddLoopPasses(function);
  function.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(/*OptLevel=*/2).setRuntime(false)));
  function.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  function.addPass(llvm::InstCombinePass());
  function.addPass(llvm::GVNPass());
  function.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(function)));
  Run(passes, module);
}

void PassRunner::SplitCoroutines(llvm::Module& module) {
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToPostOrderCGSCCPassAdaptor(llvm::CoroSplitPass(/*OptimizeFrame=*/true)));
  passes.addPass(llvm::CoroCleanupPass());
  Run(passes, module);
}

void PassRunner::OptimizeForHost(llvm::Module& module) {
  llvm::ModulePassManager passes;
  llvm::FunctionPassManager function = Simplification();
  AddLoopPasses(function);
  function.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(/*OptLevel=*/2).setPartial(false).setRuntime(false)));
  function.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  function.addPass(llvm::GVNPass());
  function.addPass(llvm::InstCombinePass());
  function.addPass(llvm::LoopVectorizePass());
  function.addPass(llvm::SLPVectorizerPass());
  function.addPass(llvm::InstCombinePass());
  function.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  function.addPass(llvm::EarlyCSEPass());
  function.addPass(llvm::SimplifyCFGPass());
  function.addPass(llvm::DCEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(function)));
  passes.addPass(llvm::GlobalDCEPass());
  Run(passes, module);
}

}  // namespace backplane::hip
