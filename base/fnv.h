// The 64-bit FNV-1a hash: stable across processes and versions, so it may be stored. Not cryptographic.
#ifndef BACKPLANE_BASE_FNV_H_
#define BACKPLANE_BASE_FNV_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace backplane {

// Hashes `bytes`. To hash several pieces as one, pass the hash of the previous pieces as `seed`.
inline uint64_t Fnv1a64(absl::string_view bytes, uint64_t seed = 0xcbf29ce484222325u) {
  for (char c : bytes) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return seed;
}

}  // namespace backplane

#endif  // BACKPLANE_BASE_FNV_H_
