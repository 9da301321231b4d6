// Counter-based random bits: Threefry-2x32 (20 rounds) and Philox-4x32 (10 rounds), Salmon et al., SC 2011. Pure
// functions: equal counters and keys give equal bits.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_COUNTER_RANDOM_H_
#define BACKPLANE_CORE_OPS_FAMILIES_COUNTER_RANDOM_H_

#include <array>
#include <cstdint>

namespace backplane {

std::array<uint32_t, 2> ThreeFry2x32(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key);
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_COUNTER_RANDOM_H_
