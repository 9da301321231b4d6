#include "plugins/tpu_emulator/program/prepare.h"

#include <utility>

#include "core/passes/passes.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/program/build_schedule.h"
#include "plugins/tpu_emulator/program/f64_pairs.h"
#include "plugins/tpu_emulator/program/fuse_into_kernels.h"
#include "plugins/tpu_emulator/program/inline_fusions.h"
#include "plugins/tpu_emulator/program/layouts.h"
#include "plugins/tpu_emulator/program/rounding.h"
#include "plugins/tpu_emulator/program/swap_products.h"

namespace backplane::tpu {
namespace {

void DropLayouts(Module* module) {
  module->config().parameter_layouts.clear();
  module->config().result_layout = Shape();
}

}  // namespace

absl::StatusOr<PreparedProgram> PrepareProgram(std::unique_ptr<Module> module, const Machine& machine,
                                               const PrepareOptions& options) {
  const TileShape tile{machine.tile_rows, machine.tile_lanes};
  PreparedProgram out;
  const bool dynamic = HasDynamicSizes(*module);
  out.kernels = module->Clone();
  Module* kernels = out.kernels.get();
  if (dynamic) {
    out.executable = std::move(module);
    for (Instruction* p : kernels->entry()->parameters()) {
      p->mutable_shape() = kernels->config().parameter_layouts[static_cast<size_t>(p->parameter_number())];
    }
  } else {
    RETURN_IF_ERROR(RunPass(UnshareComputations(), kernels).status());
    RETURN_IF_ERROR(RunPass(SwapTransposedProducts(), kernels).status());
    const bool widen = options.round == Round::kFusion;
    RETURN_IF_ERROR(RunPass(FuseIntoKernels(widen), kernels).status());
    bool rounded = false;
    if (widen) {
      ASSIGN_OR_RETURN(rounded, RunPass(RoundOncePerFusion(), kernels));
    }
    if (rounded) {
      out.executable = kernels->Clone();
      RETURN_IF_ERROR(InlineFusions(out.executable.get()).status());
    } else {
      out.executable = std::move(module);  // every operation rounds its result already
    }
    if (options.f64 == F64::kPairs) RETURN_IF_ERROR(RunPass(ComputeF64InPairs(), out.executable.get()).status());
    RETURN_IF_ERROR(AssignLayouts(kernels, tile));
  }
  DropLayouts(out.executable.get());

  ASSIGN_OR_RETURN(TimedProgram timed, BuildSchedule(kernels, machine, options.torus));
  out.schedule = std::move(timed.schedule);
  out.plan = std::move(timed.plan);
  if (dynamic) {
    out.schedule.notes.emplace_back(
        "The program has dynamic sizes: it is not fused into kernels, and its time is that of its operations one after "
        "another, at their largest sizes.");
    if (options.f64 == F64::kPairs) {
      out.schedule.notes.emplace_back("f64 is IEEE double precision in this program: it has dynamic sizes.");
    }
  }
  if (!timed.refused.ok()) {
    if (options.rejected_schedule != nullptr) *options.rejected_schedule = std::move(out.schedule);
    return timed.refused;
  }
  return out;
}

}  // namespace backplane::tpu
