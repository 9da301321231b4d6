// What decides how many waves run at once on AMD GPUs. Sources: the register file sizes and allocation granules of
// LLVM's "User Guide for AMDGPU Backend" and the makers' instruction set manuals.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_AMD_MACHINE_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_AMD_MACHINE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::hip {

struct AmdMachine {
  const char* name;
  bool generic;            // code for all machines of a family
  int wave_size;           // that kernels are compiled for
  int max_vgprs;           // that a thread can have, with AGPRs where both share a file
  int simd_vgprs;          // of a SIMD's register file, for one lane of a wave
  int vgpr_granule;        // by which registers are given to a wave
  int max_waves;           // of a SIMD
  int group_simds;         // that the waves of a block are spread over: of a compute unit, or of a workgroup processor
  int group_shared_bytes;  // that those SIMDs share
};

absl::Span<const AmdMachine> AmdMachines();
// Null if there is none of that name.
const AmdMachine* FindAmdMachine(absl::string_view name);

// The number of waves of a SIMD that run at once when all of them run blocks of this kernel. 0: a block cannot run.
// `vgprs` includes AGPRs as the code object's description does: their sum in one file, the maximum in two.
int ComputeOccupancy(const AmdMachine& machine, int threads, int vgprs, int shared_bytes);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_AMD_MACHINE_H_
