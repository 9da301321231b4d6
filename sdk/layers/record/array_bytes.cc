#include "sdk/layers/record/array_bytes.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"

namespace backplane::record {

namespace {

constexpr size_t kMostElements = 1024;

void CopyList(const int64_t* list, size_t count, std::vector<int64_t>& out) {
  const absl::Span<const int64_t> known = ListOfHost(list, count);
  out.assign(known.begin(), known.end());
}

}  // namespace

absl::Span<const int64_t> ListOfHost(const int64_t* list, size_t count) {
  return {list, list == nullptr || count > kMostElements ? 0 : count};
}

std::optional<host::BufferLayout> CopyLayout(const PJRT_Buffer_MemoryLayout* layout) {
  if (layout == nullptr) return std::nullopt;
  host::BufferLayout copy;
  copy.type = layout->type;
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    const auto& s = layout->strides;
    CopyList(s.byte_strides, s.num_byte_strides, copy.byte_strides);
    return copy;
  }
  const auto& t = layout->tiled;
  CopyList(t.minor_to_major, t.minor_to_major_size, copy.minor_to_major);
  if (t.tile_dims == nullptr || t.tile_dim_sizes == nullptr || t.num_tiles > kMostElements) return copy;
  const int64_t* dims = t.tile_dims;
  size_t count = 0;
  for (size_t i = 0; i < t.num_tiles; ++i) {
    if (t.tile_dim_sizes[i] > kMostElements || (count += t.tile_dim_sizes[i]) > kMostElements) return copy;
  }
  for (size_t i = 0; i < t.num_tiles; dims += t.tile_dim_sizes[i], ++i)
    copy.tiles.emplace_back(dims, dims + t.tile_dim_sizes[i]);
  return copy;
}

CLayout::CLayout(const std::optional<host::BufferLayout>& layout) : given_(layout.has_value()) {
  if (!given_) return;
  c_.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  c_.type = layout->type;
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    c_.strides.struct_size = PJRT_Buffer_MemoryLayout_Strides_STRUCT_SIZE;
    c_.strides.byte_strides = layout->byte_strides.data();
    c_.strides.num_byte_strides = layout->byte_strides.size();
    return;
  }
  for (const std::vector<int64_t>& tile : layout->tiles) {
    tile_dims_.insert(tile_dims_.end(), tile.begin(), tile.end());
    tile_dim_sizes_.push_back(tile.size());
  }
  c_.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  c_.tiled.minor_to_major = layout->minor_to_major.data();
  c_.tiled.minor_to_major_size = layout->minor_to_major.size();
  c_.tiled.tile_dims = tile_dims_.data();
  c_.tiled.tile_dim_sizes = tile_dim_sizes_.data();
  c_.tiled.num_tiles = tile_dim_sizes_.size();
}

absl::StatusOr<HostExtent> ComputeExtentOfStrides(PJRT_Buffer_Type type, absl::Span<const int64_t> dims,
                                                  absl::Span<const int64_t> byte_strides) {
  BP_ASSIGN_OR_RETURN(const size_t dense, host::HostByteSize(type, dims));
  if (byte_strides.size() != dims.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("array: ", byte_strides.size(), " strides for ", dims.size(), " dims"));
  }
  HostExtent extent;
  extent.byte_strides.assign(byte_strides.begin(), byte_strides.end());
  if (dense == 0) return extent;
  int64_t above = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t reach;
    int64_t& side = byte_strides[d] < 0 ? extent.below : above;
    if (__builtin_mul_overflow(dims[d] - 1, byte_strides[d], &reach) || reach == INT64_MIN ||
        __builtin_add_overflow(side, reach < 0 ? -reach : reach, &side)) {
      return absl::InvalidArgumentError("array: the strides reach farther than memory does");
    }
  }
  int64_t size;
  if (__builtin_add_overflow(extent.below, above, &size) ||
      __builtin_add_overflow(size, static_cast<int64_t>(host::HostBytesPerElement(type)), &size)) {
    return absl::InvalidArgumentError("array: the strides reach farther than memory does");
  }
  extent.size = static_cast<size_t>(size);
  return extent;
}

absl::StatusOr<HostExtent> ComputeExtent(PJRT_Buffer_Type type, absl::Span<const int64_t> dims,
                                         const host::BufferLayout* layout) {
  if (layout != nullptr && layout->type == PJRT_Buffer_MemoryLayout_Type_Strides)
    return ComputeExtentOfStrides(type, dims, layout->byte_strides);
  BP_ASSIGN_OR_RETURN(const size_t dense, host::HostByteSize(type, dims));
  if (layout != nullptr && !layout->tiles.empty())
    return absl::InvalidArgumentError("array: a tiled layout in host memory");
  std::vector<int64_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
  if (layout != nullptr) {
    order = layout->minor_to_major;
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size() || i < dims.size(); ++i) {
      if (sorted.size() != dims.size() || sorted[i] != static_cast<int64_t>(i))
        return absl::InvalidArgumentError("array: the order of the layout does not fit the dims");
    }
  }
  HostExtent extent;
  extent.byte_strides.resize(dims.size());
  int64_t stride = host::HostBytesPerElement(type);
  for (int64_t d : order) {
    extent.byte_strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(dims[static_cast<size_t>(d)], 1);  // no overflow: HostByteSize has checked the size
  }
  extent.size = dense;
  return extent;
}

void Scatter(absl::string_view dense, size_t element_size, absl::Span<const int64_t> dims, const HostExtent& extent,
             std::byte* memory) {
  std::vector<int64_t> at(dims.size(), 0);
  for (size_t from = 0; from + element_size <= dense.size(); from += element_size) {
    int64_t to = extent.below;
    for (size_t d = 0; d < dims.size(); ++d) to += at[d] * extent.byte_strides[d];
    std::memcpy(memory + to, dense.data() + from, element_size);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace backplane::record
