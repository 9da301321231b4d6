// How the host passes an argument: its layout in the host's memory, which PJRT describes by byte strides (as numpy has
// them for transposed and sliced arrays), a copy in a tiled layout, and whether it may be donated.
#ifndef BACKPLANE_SDK_CLI_FUZZ_HOST_ORDER_H_
#define BACKPLANE_SDK_CLI_FUZZ_HOST_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace backplane::cli::fuzz {

struct HostOrder {
  std::vector<int64_t> minor_to_major;  // empty: dense, the last dimension fastest
  int64_t gap = 0;  // number of unused elements after each element and after each run of a dimension
  // The array is first copied to the device with these tiles and back, and must be unchanged. Empty: it is not.
  std::vector<int64_t> tile;
  bool kept = false;  // not donated although the program would consume it (non-donatable)
};

struct StridedMemory {
  std::vector<std::byte> bytes;  // gaps are filled with nonzero bytes
  std::vector<int64_t> byte_strides;
};

// Reads dense elements with the order of dimensions `from` as if they had the order `to`: the result if two sides
// disagree about a layout.
std::vector<std::byte> ReadInOrder(absl::Span<const std::byte> dense, absl::Span<const int64_t> dims, int64_t width,
                                   const std::vector<int64_t>& from, const std::vector<int64_t>& to);

// `dense` contains row-major elements of `width` bytes; `order` contains each dimension once.
StridedMemory WriteInOrder(absl::Span<const std::byte> dense, absl::Span<const int64_t> dims, int64_t width,
                           const HostOrder& order);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_HOST_ORDER_H_
