// SHA-256 (FIPS 180-4), by which blobs in a recorded session are identified.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_SHA256_H_
#define BACKPLANE_SDK_LAYERS_RECORD_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace backplane::record {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void Update(absl::Span<const std::byte> data);
  // Must be called once, at the end.
  Digest Finish();
  static Digest Of(absl::Span<const std::byte> data) {
    Sha256 sha;
    sha.Update(data);
    return sha.Finish();
  }

 private:
  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t pending_[64];
  size_t num_pending_ = 0;
  uint64_t total_ = 0;
};

// Returns 64 lower-case hexadecimal digits.
std::string FormatHex(const Digest& digest);

namespace internal {
// Both forms of the inner loop, for the test. The second needs the processor's SHA instructions.
void Sha256BlocksPortable(uint32_t state[8], const uint8_t* data, size_t blocks);
bool HaveShaInstructions();
void Sha256BlocksAccelerated(uint32_t state[8], const uint8_t* data, size_t blocks);
}  // namespace internal

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_SHA256_H_
