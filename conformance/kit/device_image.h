// Where the elements of an array lie in a buffer's own bytes, as its layout says: what raw copies and transfers deal
// in.
#ifndef BACKPLANE_CONFORMANCE_KIT_DEVICE_IMAGE_H_
#define BACKPLANE_CONFORMANCE_KIT_DEVICE_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "conformance/kit/steps.h"

namespace backplane::conformance {

struct DeviceImage {
  std::vector<int64_t> offsets;  // in bytes, of each element in row-major order
  int64_t bytes = 0;             // of the whole, padding included

  // The buffer's bytes for an array of these elements; what no element has is zero. `data` is dense and row-major.
  std::string Bytes(const void* data, int64_t element_bytes) const;
  // The bytes from the first to the last of elements [begin, end): they may have others between them.
  int64_t First(size_t begin, size_t end) const;
  int64_t Past(size_t begin, size_t end, int64_t element_bytes) const;
};

// A permutation of the dims, then tiles one after the other: each cuts the last dims that it names into whole tiles,
// which pads them, and puts the dims of a tile behind the counts of tiles. A tile of more dims than there are sees ones
// before.
DeviceImage TiledImage(const Dims& dims, absl::Span<const int64_t> minor_to_major, const std::vector<Dims>& tiles,
                       int64_t element_bytes);
// The same by the buffer's own words (PJRT_Buffer_GetMemoryLayout); dense and row-major where a plugin has none.
DeviceImage ImageOf(Kit& k, PJRT_Buffer* buffer);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_DEVICE_IMAGE_H_
