#include "plugins/hip/compiler/pipeline.h"

#include <algorithm>

#include "core/passes/passes.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/dot_epilogue.h"
#include "plugins/hip/compiler/expand_random_bits.h"
#include "plugins/hip/compiler/fuse_attention.h"
#include "plugins/hip/compiler/fusion_policy.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "plugins/hip/compiler/legalize_ffts.h"
#include "plugins/hip/compiler/legalize_sorts.h"
#include "plugins/hip/compiler/prepare_convolutions.h"
#include "plugins/hip/compiler/split_contractions.h"
#include "plugins/hip/compiler/split_linear_algebra.h"
#include "plugins/hip/compiler/split_reductions.h"
#include "plugins/hip/compiler/split_scans.h"
#include "sdk/codegen/body/can_evaluate.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/compiler/expand_small_dots.h"
#include "sdk/compiler/legalize.h"
#include "sdk/compiler/outline_scalar_control.h"
#include "sdk/compiler/pipeline.h"

namespace backplane::hip {
namespace {

// Types that the product kernels read, sum and write. Others become one of them.
bool IsContractionType(PrimitiveType type) {
  return IsArrayType(type) && !IsSubByte(type) && !codegen::IsSmallFloat(type);
}

// A matrix times a vector reads each element once, which a reduction does as fast as the memory permits. A kernel for
// products would compute tiles of which one row or column is used.
bool IsFasterAsReduction(const compiler::ExpandSmallDots::Sizes& s) { return std::min(s.m, s.n) == 1 && s.k >= 64; }

}  // namespace

absl::Status RunGpuPipeline(Module* module, const CompileOptions& options, NamedValues* cost,
                            std::vector<std::string>* log, const GpuTarget& gpu) {
  RETURN_IF_ERROR(compiler::PartitionForDevices(module, options, log));
  compiler::TargetFacts target;
  target.can_call = [](const Computation& c) { return codegen::CanCall(c).ok(); };
  target.has_kernel_for = [](const Computation& c) { return PlanFusion(c).ok(); };
  RETURN_IF_ERROR(compiler::SimplifyForTarget(module, target, log));
  *cost = compiler::ComputeCostAnalysis(*module);
  if (compiler::IsFullyInterpreted(*module)) return absl::OkStatus();
  PassPipeline p("gpu");
  compiler::ContractionRules contractions;
  contractions.supports_type = IsContractionType;
  p.Add<compiler::LegalizeLayouts>();
  p.Add<compiler::LegalizeTypes>();
  p.Add<LegalizeSorts>();
  p.Add<ExpandRandomBits>();
  p.Add<LegalizeFfts>();
  p.Add<SplitLinearAlgebra>();
  p.Add<SplitScans>();
  p.Add<SimplifyTuples>();
  p.Add<FuseAttention>(gpu);
  p.Add<PrepareConvolutions>();
  p.Add<compiler::ExpandSmallDots>(nullptr, IsFasterAsReduction);
  p.Add<compiler::LegalizeContractions>(std::move(contractions));
  p.Add<SplitContractions>();
  p.Add<SimplifyAlgebra>(false);
  p.Add<EliminateCommonSubexpressions>();
  p.Add<RemoveDeadCode>();
  p.Add<SplitReductions>();
  p.Add<UnshareComputations>();
  p.Add<compiler::OutlineScalarControl>([](const Instruction& i) { return codegen::CanEvaluate(i).ok(); });
  p.Add<FuseForGpu>();
  p.Add<FuseDotEpilogues>();
  p.Add<RemoveDeadCode>();
  RETURN_IF_ERROR(p.Run(module).status());
  compiler::LogPasses(p, log);
  return absl::OkStatus();
}

}  // namespace backplane::hip
