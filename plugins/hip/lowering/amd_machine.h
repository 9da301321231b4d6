// The sizes that decide how many waves run at once on AMD GPUs. Sources: the register file sizes and allocation
// granules of LLVM's "User Guide for AMDGPU Backend" and the makers' instruction set manuals.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_AMD_MACHINE_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_AMD_MACHINE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::hip {

struct AmdMachine {
  const char* name;
  bool generic;            // whether the code is for all machines of a family
  int wave_size;           // the size of waves for which kernels are compiled
  int max_vgprs;           // of a thread, with AGPRs if both share a file
  int simd_vgprs;          // in a SIMD's register file, for one lane of a wave
  int vgpr_granule;        // the multiple in which registers are given to a wave
  int max_waves;           // of a SIMD
  int group_simds;         // that share the waves of a block: those of a compute unit, or of a workgroup processor
  int group_shared_bytes;  // the shared memory of those SIMDs
};

absl::Span<const AmdMachine> AmdMachines();
// Returns null if there is no machine of that name.
const AmdMachine* FindAmdMachine(absl::string_view name);

// Returns how many waves of a SIMD run at once if all of them run blocks of this kernel; 0 if a block cannot run.
// `vgprs` includes AGPRs as the code object's description does: the sum if both share a file, the maximum if they do
// not.
int ComputeOccupancy(const AmdMachine& machine, int threads, int vgprs, int shared_bytes);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_AMD_MACHINE_H_
