// The positions of array elements in the bytes of a buffer, according to its layout. Raw copies and transfers use these
// bytes.
#ifndef BACKPLANE_CONFORMANCE_KIT_DEVICE_IMAGE_H_
#define BACKPLANE_CONFORMANCE_KIT_DEVICE_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "conformance/kit/steps.h"

namespace backplane::conformance {

struct DeviceImage {
  std::vector<int64_t> offsets;  // byte offset of each element in row-major order
  int64_t bytes = 0;             // total, including padding

  // Returns the bytes of a buffer with these elements; padding is zero. `data` is dense and row-major.
  std::string Bytes(const void* data, int64_t element_bytes) const;
  // Returns the range of bytes from the first to the last of elements [begin, end); it may include other elements.
  int64_t GetBegin(size_t begin, size_t end) const;
  int64_t GetEnd(size_t begin, size_t end, int64_t element_bytes) const;
};

// Applies a permutation of the dims, then the tiles in order: each splits the last dims that it names into tiles,
// padded to full size, and puts the dims of a tile behind the counts of tiles. A tile with more dims than there are
// sees leading ones.
DeviceImage MakeTiledImage(const Dims& dims, absl::Span<const int64_t> minor_to_major, const std::vector<Dims>& tiles,
                           int64_t element_bytes);
// Returns the same from the plugin's own report (PJRT_Buffer_GetMemoryLayout), or dense and row-major if it has none.
DeviceImage ReadDeviceImage(Kit& k, PJRT_Buffer* buffer);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_DEVICE_IMAGE_H_
