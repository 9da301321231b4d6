// How a host has an array in its memory when it hands it over: PJRT takes byte strides, as numpy has them of a
// transposed or a sliced array. And what it does besides with an argument.
#ifndef BACKPLANE_SDK_CLI_FUZZ_HOST_ORDER_H_
#define BACKPLANE_SDK_CLI_FUZZ_HOST_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace backplane::cli::fuzz {

struct HostOrder {
  std::vector<int64_t> minor_to_major;  // empty: dense, the last dimension fastest
  int64_t gap = 0;                      // elements left out behind each element and behind each run of a dimension
  // The array goes to the device in such tiles first, comes back, and must be what it was; empty: it does not.
  std::vector<int64_t> tile;
  bool kept = false;  // stays the host's though the program may take its memory (non-donatable)
};

struct StridedMemory {
  std::vector<std::byte> bytes;  // what lies in the gaps is not zero
  std::vector<int64_t> byte_strides;
};

// Dense elements with the last dimension fastest that lie in the order `from`, read by who takes them to lie in the
// order `to`: what comes out where two sides do not agree on a layout.
std::vector<std::byte> ReadInOrder(absl::Span<const std::byte> dense, absl::Span<const int64_t> dims, int64_t width,
                                   const std::vector<int64_t>& from, const std::vector<int64_t>& to);

// `dense` holds the elements of `width` bytes with the last dimension fastest; `order` names each dimension once.
StridedMemory LayOut(absl::Span<const std::byte> dense, absl::Span<const int64_t> dims, int64_t width,
                     const HostOrder& order);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_HOST_ORDER_H_
