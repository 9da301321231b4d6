#include "sdk/cli/fuzz/host_order.h"

#include <cstring>

namespace backplane::cli::fuzz {

StridedMemory WriteInOrder(absl::Span<const std::byte> dense, absl::Span<const int64_t> dims, int64_t width,
                           const HostOrder& order) {
  StridedMemory out;
  out.byte_strides.resize(dims.size());
  int64_t step = width * (1 + order.gap);
  for (const int64_t d : order.minor_to_major) {
    out.byte_strides[static_cast<size_t>(d)] = step;
    step = step * dims[static_cast<size_t>(d)] + order.gap * width;
  }
  out.bytes.assign(static_cast<size_t>(step), std::byte{0xa5});
  std::vector<int64_t> index(dims.size(), 0);
  for (size_t from = 0; from < dense.size(); from += static_cast<size_t>(width)) {
    int64_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d) at += index[d] * out.byte_strides[d];
    std::memcpy(out.bytes.data() + at, dense.data() + from, static_cast<size_t>(width));
    for (size_t d = dims.size(); d > 0; --d) {
      if (++index[d - 1] < dims[d - 1]) break;
      index[d - 1] = 0;
    }
  }
  return out;
}

std::vector<std::byte> ReadInOrder(absl::Span<const std::byte> dense, absl::Span<const int64_t> dims, int64_t width,
                                   const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  std::vector<std::byte> out(dense.begin(), dense.end());
  if (from == to) return out;
  const StridedMemory memory = WriteInOrder(dense, dims, width, {from, 0}),
                      read = WriteInOrder(dense, dims, width, {to, 0});
  std::vector<int64_t> index(dims.size(), 0);
  for (size_t i = 0; i < dense.size(); i += static_cast<size_t>(width)) {
    int64_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d) at += index[d] * read.byte_strides[d];
    std::memcpy(out.data() + i, memory.bytes.data() + at, static_cast<size_t>(width));
    for (size_t d = dims.size(); d > 0; --d) {
      if (++index[d - 1] < dims[d - 1]) break;
      index[d - 1] = 0;
    }
  }
  return out;
}

}  // namespace backplane::cli::fuzz
