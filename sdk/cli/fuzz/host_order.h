// How a host has an array in its memory when it hands it over: PJRT takes byte strides, as numpy has them of a
// transposed or a sliced array.
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
};

struct StridedMemory {
  std::vector<std::byte> bytes;  // what lies in the gaps is not zero
  std::vector<int64_t> byte_strides;
};

// `dense` holds the elements of `width` bytes with the last dimension fastest; `order` names each dimension once.
StridedMemory LayOut(absl::Span<const std::byte> dense, absl::Span<const int64_t> dims, int64_t width,
                     const HostOrder& order);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_HOST_ORDER_H_
