#include "conformance/kit/device_image.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace backplane::conformance {
namespace {

int64_t Product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<int64_t>());
}

// The index and dims of one element after a tile was applied.
void CutIntoTiles(const Dims& tile, Dims* index, Dims* dims) {
  if (tile.size() > dims->size()) {
    index->insert(index->begin(), tile.size() - dims->size(), 0);
    dims->insert(dims->begin(), tile.size() - dims->size(), 1);
  }
  const size_t first = dims->size() - tile.size();
  for (size_t i = 0; i < tile.size(); ++i) {
    index->push_back((*index)[first + i] % tile[i]);
    (*index)[first + i] /= tile[i];
    (*dims)[first + i] = ((*dims)[first + i] + tile[i] - 1) / tile[i];
  }
  dims->insert(dims->end(), tile.begin(), tile.end());
}

// Calls `visit` with each index, the last dim varying fastest.
template <typename Visit>
void ForEachIndex(const Dims& dims, const Visit& visit) {
  const int64_t count = Product(dims);
  Dims index(dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    visit(index);
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) index[d] = 0;
  }
}

}  // namespace

std::string DeviceImage::Bytes(const void* data, int64_t element_bytes) const {
  std::string image(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < offsets.size(); ++i) {
    std::memcpy(image.data() + offsets[i], static_cast<const char*>(data) + static_cast<int64_t>(i) * element_bytes,
                static_cast<size_t>(element_bytes));
  }
  return image;
}

int64_t DeviceImage::GetBegin(size_t begin, size_t end) const {
  return *std::min_element(offsets.begin() + static_cast<ptrdiff_t>(begin),
                           offsets.begin() + static_cast<ptrdiff_t>(end));
}

int64_t DeviceImage::GetEnd(size_t begin, size_t end, int64_t element_bytes) const {
  return element_bytes + *std::max_element(offsets.begin() + static_cast<ptrdiff_t>(begin),
                                           offsets.begin() + static_cast<ptrdiff_t>(end));
}

DeviceImage MakeTiledImage(const Dims& dims, absl::Span<const int64_t> minor_to_major, const std::vector<Dims>& tiles,
                           int64_t element_bytes) {
  DeviceImage image;
  Dims order(minor_to_major.rbegin(), minor_to_major.rend()), physical;
  for (int64_t d : order) physical.push_back(dims[static_cast<size_t>(d)]);
  Dims zero(order.size(), 0), tiled = physical;
  for (const Dims& tile : tiles) CutIntoTiles(tile, &zero, &tiled);
  image.bytes = Product(tiled) * element_bytes;
  ForEachIndex(dims, [&](const Dims& logical) {
    Dims index, shape = physical;
    for (int64_t d : order) index.push_back(logical[static_cast<size_t>(d)]);
    for (const Dims& tile : tiles) CutIntoTiles(tile, &index, &shape);
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
    image.offsets.push_back(at * element_bytes);
  });
  return image;
}

DeviceImage ReadDeviceImage(Kit& k, PJRT_Buffer* buffer) {
  const Dims dims = GetDims(k, buffer);
  const auto element = static_cast<int64_t>(host::HostBytesPerElement(GetType(k, buffer)));
  Dims order(dims.size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (!k.Has(&PJRT_Api::PJRT_Buffer_GetMemoryLayout)) return MakeTiledImage(dims, order, {}, element);
  KIT_ARGS(k, a, PJRT_Buffer_GetMemoryLayout);
  a.buffer = buffer;
  const Err error = KIT_TRY(k, PJRT_Buffer_GetMemoryLayout, a);
  if (error.code == PJRT_Error_Code_UNIMPLEMENTED) return MakeTiledImage(dims, order, {}, element);
  k.Require(error.ok(), "PJRT_Buffer_GetMemoryLayout: ", FormatError(error));
  if (a.layout.type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    k.Require(a.layout.strides.num_byte_strides == dims.size(), "an array of ", dims.size(), " dims has ",
              a.layout.strides.num_byte_strides, " strides");
    DeviceImage image;
    ForEachIndex(dims, [&](const Dims& index) {
      int64_t at = 0;
      for (size_t d = 0; d < dims.size(); ++d) at += index[d] * a.layout.strides.byte_strides[d];
      image.offsets.push_back(at);
      image.bytes = std::max(image.bytes, at + element);
    });
    return image;
  }
  const PJRT_Buffer_MemoryLayout_Tiled& t = a.layout.tiled;
  const absl::Span<const int64_t> stated(t.minor_to_major, t.minor_to_major_size);
  k.Require(std::is_permutation(stated.begin(), stated.end(), order.begin(), order.end()), "an array of ", dims.size(),
            " dims has a layout of ", t.minor_to_major_size, " dims that is no permutation of them");
  std::vector<Dims> tiles;
  for (size_t i = 0, at = 0; i < t.num_tiles; at += t.tile_dim_sizes[i++]) {
    tiles.emplace_back(t.tile_dims + at, t.tile_dims + at + t.tile_dim_sizes[i]);
    for (int64_t d : tiles.back()) {
      if (d <= 0) k.Unsupported("a tile with a dim of ", d, ", which the kit does not know");
    }
  }
  return MakeTiledImage(dims, stated, tiles, element);
}

}  // namespace backplane::conformance
