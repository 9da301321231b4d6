#include "sdk/backend/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace backplane {
namespace {

struct Dim {
  int64_t size, src, dst;  // elements, bytes, bytes
};
using Dims = absl::InlinedVector<Dim, 6>;

template <size_t kWidth>
struct Element {
  unsigned char bytes[kWidth];
};

template <typename T>
void CopyLine(int64_t n, const char* src, int64_t src_stride, char* dst, int64_t dst_stride) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * dst_stride, src + i * src_stride, sizeof(T));
}

// Copies a plane whose fastest dimension differs between source and destination, in blocks that fit into the cache.
template <typename T>
void CopyPlane(const Dim& outer, const Dim& inner, const char* src, char* dst) {
  constexpr int64_t kBlock = 32;
  for (int64_t o = 0; o < outer.size; o += kBlock) {
    const int64_t o_end = std::min(outer.size, o + kBlock);
    for (int64_t i = 0; i < inner.size; i += kBlock) {
      const int64_t count = std::min(inner.size - i, kBlock);
      for (int64_t k = o; k < o_end; ++k) {
        CopyLine<T>(count, src + k * outer.src + i * inner.src, inner.src, dst + k * outer.dst + i * inner.dst,
                    inner.dst);
      }
    }
  }
}

// Calls fn(src, dst) for every index of `dims`.
template <typename Fn>
void ForEach(absl::Span<const Dim> dims, const char* src, char* dst, Fn&& fn) {
  if (dims.empty()) return fn(src, dst);
  absl::InlinedVector<int64_t, 6> index(dims.size(), 0);
  while (true) {
    fn(src, dst);
    int64_t d = static_cast<int64_t>(dims.size()) - 1;
    for (; d >= 0; --d) {
      src += dims[d].src;
      dst += dims[d].dst;
      if (++index[d] < dims[d].size) break;
      src -= dims[d].src * dims[d].size;
      dst -= dims[d].dst * dims[d].size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

template <typename T>
void CopyElements(Dims dims, const char* src, char* dst) {
  // `dims` is sorted by decreasing destination stride, so the last one is the fastest of the destination. If another
  // one is the fastest of the source, these two form the plane.
  Dim inner = dims.back();
  dims.pop_back();
  size_t fastest = dims.size();
  int64_t best = std::abs(inner.src);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].src != 0 && std::abs(dims[d].src) < best) best = std::abs(dims[d].src), fastest = d;
  }
  if (fastest == dims.size()) {
    ForEach(dims, src, dst, [&](const char* s, char* d) { CopyLine<T>(inner.size, s, inner.src, d, inner.dst); });
    return;
  }
  Dim outer = dims[fastest];
  dims.erase(dims.begin() + fastest);
  ForEach(dims, src, dst, [&](const char* s, char* d) { CopyPlane<T>(outer, inner, s, d); });
}

}  // namespace

void StridedCopy(absl::Span<const int64_t> dims, size_t width, const void* src, absl::Span<const int64_t> src_strides,
                 void* dst, absl::Span<const int64_t> dst_strides) {
  Dims order;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return;
    if (dims[d] != 1) order.push_back({dims[d], src_strides[d], dst_strides[d]});
  }
  const char* from = static_cast<const char*>(src);
  char* to = static_cast<char*>(dst);
  std::stable_sort(order.begin(), order.end(),
                   [](const Dim& a, const Dim& b) { return std::abs(a.dst) > std::abs(b.dst); });
  // Merges adjacent dimensions that are contiguous on both sides.
  Dims merged;
  for (const Dim& d : order) {
    if (!merged.empty() && merged.back().src == d.src * d.size && merged.back().dst == d.dst * d.size) {
      merged.back() = {merged.back().size * d.size, d.src, d.dst};
    } else {
      merged.push_back(d);
    }
  }
  if (merged.empty()) return (void)std::memcpy(to, from, width);
  const Dim& last = merged.back();
  if (last.src == static_cast<int64_t>(width) && last.dst == static_cast<int64_t>(width)) {
    const size_t bytes = static_cast<size_t>(last.size) * width;
    ForEach(absl::MakeConstSpan(merged).first(merged.size() - 1), from, to,
            [&](const char* s, char* d) { std::memcpy(d, s, bytes); });
    return;
  }
  switch (width) {
    case 1:
      return CopyElements<Element<1>>(std::move(merged), from, to);
    case 2:
      return CopyElements<Element<2>>(std::move(merged), from, to);
    case 4:
      return CopyElements<Element<4>>(std::move(merged), from, to);
    case 8:
      return CopyElements<Element<8>>(std::move(merged), from, to);
    case 16:
      return CopyElements<Element<16>>(std::move(merged), from, to);
    default:
      ForEach(merged, from, to, [&](const char* s, char* d) { std::memcpy(d, s, width); });
  }
}

absl::StatusOr<DimVector> DenseByteStrides(const Shape& shape) {
  if (!shape.IsArray()) {
    return absl::InvalidArgumentError(absl::StrCat("strides: expected an array, found ", shape.ToString()));
  }
  const int64_t rank = shape.rank();
  DimVector strides(rank, 0);
  int64_t stride = ByteWidth(shape.element_type());
  if (!shape.has_layout()) {
    for (int64_t d = rank - 1; d >= 0; --d) strides[d] = stride, stride *= std::max<int64_t>(shape.dimensions(d), 1);
    return strides;
  }
  const Layout& layout = shape.layout();
  if (!layout.tiles.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("strides: a tiled layout has none: ", shape.ToString(/*with_layout=*/true)));
  }
  if (static_cast<int64_t>(layout.minor_to_major.size()) != rank) {
    return absl::InvalidArgumentError(absl::StrCat("strides: layout ", layout.ToString(), " does not fit rank ", rank));
  }
  for (int64_t d : layout.minor_to_major) {
    if (d < 0 || d >= rank || strides[d] != 0) {
      return absl::InvalidArgumentError(absl::StrCat("strides: layout ", layout.ToString(), " is no permutation"));
    }
    strides[d] = stride;
    stride *= std::max<int64_t>(shape.dimensions(d), 1);
  }
  return strides;
}

bool IsDenseRowMajor(absl::Span<const int64_t> dims, size_t width, absl::Span<const int64_t> byte_strides) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return true;
  int64_t expected = static_cast<int64_t>(width);
  for (int64_t d = static_cast<int64_t>(dims.size()) - 1; d >= 0; --d) {
    if (dims[d] != 1 && byte_strides[d] != expected) return false;
    expected *= dims[d];
  }
  return true;
}

}  // namespace backplane
