#include "plugins/hip/lowering/amd_machine.h"

#include <algorithm>

namespace backplane::hip {
namespace {

// SGPRs never limit the number of waves here: since gfx9 at most 102 are used, and every wave has that many.
constexpr AmdMachine kMachines[] = {
    // name, generic, wave, max VGPRs, VGPRs of a SIMD, granule, max waves, SIMDs of a group, shared bytes
    {"gfx906", false, 64, 256, 256, 4, 10, 4, 65536},
    {"gfx908", false, 64, 256, 256, 4, 10, 4, 65536},
    {"gfx90a", false, 64, 512, 512, 8, 8, 4, 65536},
    {"gfx942", false, 64, 512, 512, 8, 8, 4, 65536},
    {"gfx1030", false, 32, 256, 1024, 16, 16, 4, 131072},
    {"gfx1100", false, 32, 256, 1536, 24, 16, 4, 131072},
    {"gfx1101", false, 32, 256, 1536, 24, 16, 4, 131072},
    {"gfx1102", false, 32, 256, 1024, 16, 16, 4, 131072},
    {"gfx1103", false, 32, 256, 1024, 16, 16, 4, 131072},
    {"gfx1200", false, 32, 256, 1536, 24, 16, 4, 131072},
    {"gfx1201", false, 32, 256, 1536, 24, 16, 4, 131072},
    // Generic targets have the smallest numbers of their families.
    {"gfx9-generic", true, 64, 256, 256, 4, 10, 4, 65536},
    {"gfx10-3-generic", true, 32, 256, 1024, 16, 16, 4, 131072},
    {"gfx11-generic", true, 32, 256, 1024, 16, 16, 4, 131072},
    {"gfx12-generic", true, 32, 256, 1536, 24, 16, 4, 131072},
};

int RoundUp(int n, int granule) { return (n + granule - 1) / granule * granule; }

}  // namespace

absl::Span<const AmdMachine> AmdMachines() { return kMachines; }

const AmdMachine* FindAmdMachine(absl::string_view name) {
  for (const AmdMachine& machine : kMachines) {
    if (name == machine.name) return &machine;
  }
  return nullptr;
}

int ComputeOccupancy(const AmdMachine& machine, int threads, int vgprs, int shared_bytes) {
  const int registers = RoundUp(std::max(vgprs, 1), machine.vgpr_granule);
  const int by_registers = std::min(machine.max_waves, machine.simd_vgprs / registers);

  // A block is resident as a whole, so the waves of all SIMDs of a group are a multiple of the waves of a block.
  const int block_waves = (threads + machine.wave_size - 1) / machine.wave_size;
  int blocks = by_registers * machine.group_simds / block_waves;
  if (shared_bytes > 0) blocks = std::min(blocks, machine.group_shared_bytes / RoundUp(shared_bytes, 512));
  const int waves = blocks * block_waves;
  return std::min(by_registers, (waves + machine.group_simds - 1) / machine.group_simds);
}

}  // namespace backplane::hip
