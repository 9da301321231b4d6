#include "sdk/shim/convert.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "sdk/shim/guard.h"

namespace backplane::shim {
namespace {

struct TypePair {
  PrimitiveType ours;
  PJRT_Buffer_Type theirs;
};
constexpr TypePair kTypes[] = {
    {PrimitiveType::kPred, PJRT_Buffer_Type_PRED},
    {PrimitiveType::kS1, PJRT_Buffer_Type_S1},
    {PrimitiveType::kS2, PJRT_Buffer_Type_S2},
    {PrimitiveType::kS4, PJRT_Buffer_Type_S4},
    {PrimitiveType::kS8, PJRT_Buffer_Type_S8},
    {PrimitiveType::kS16, PJRT_Buffer_Type_S16},
    {PrimitiveType::kS32, PJRT_Buffer_Type_S32},
    {PrimitiveType::kS64, PJRT_Buffer_Type_S64},
    {PrimitiveType::kU1, PJRT_Buffer_Type_U1},
    {PrimitiveType::kU2, PJRT_Buffer_Type_U2},
    {PrimitiveType::kU4, PJRT_Buffer_Type_U4},
    {PrimitiveType::kU8, PJRT_Buffer_Type_U8},
    {PrimitiveType::kU16, PJRT_Buffer_Type_U16},
    {PrimitiveType::kU32, PJRT_Buffer_Type_U32},
    {PrimitiveType::kU64, PJRT_Buffer_Type_U64},
    {PrimitiveType::kF16, PJRT_Buffer_Type_F16},
    {PrimitiveType::kF32, PJRT_Buffer_Type_F32},
    {PrimitiveType::kF64, PJRT_Buffer_Type_F64},
    {PrimitiveType::kBF16, PJRT_Buffer_Type_BF16},
    {PrimitiveType::kC64, PJRT_Buffer_Type_C64},
    {PrimitiveType::kC128, PJRT_Buffer_Type_C128},
    {PrimitiveType::kToken, PJRT_Buffer_Type_TOKEN},
    {PrimitiveType::kF8E5M2, PJRT_Buffer_Type_F8E5M2},
    {PrimitiveType::kF8E4M3FN, PJRT_Buffer_Type_F8E4M3FN},
    {PrimitiveType::kF8E4M3B11FNUZ, PJRT_Buffer_Type_F8E4M3B11FNUZ},
    {PrimitiveType::kF8E5M2FNUZ, PJRT_Buffer_Type_F8E5M2FNUZ},
    {PrimitiveType::kF8E4M3FNUZ, PJRT_Buffer_Type_F8E4M3FNUZ},
    {PrimitiveType::kF8E4M3, PJRT_Buffer_Type_F8E4M3},
    {PrimitiveType::kF8E3M4, PJRT_Buffer_Type_F8E3M4},
    {PrimitiveType::kF8E8M0FNU, PJRT_Buffer_Type_F8E8M0FNU},
    {PrimitiveType::kF4E2M1FN, PJRT_Buffer_Type_F4E2M1FN},
    {PrimitiveType::kF6E2M3FN, PJRT_Buffer_Type_F6E2M3FN},
    {PrimitiveType::kF6E3M2FN, PJRT_Buffer_Type_F6E3M2FN},
};

absl::StatusOr<Layout> ReadTiled(const PJRT_Buffer_MemoryLayout_Tiled& tiled, const Shape& shape) {
  const size_t rank = static_cast<size_t>(shape.rank());
  if (tiled.minor_to_major_size != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout: minor_to_major has ", tiled.minor_to_major_size, " entries, the array has rank ", rank));
  }
  if (rank > 0) BP_REQUIRE(tiled.minor_to_major);
  Layout layout;
  layout.minor_to_major.assign(tiled.minor_to_major, tiled.minor_to_major + rank);
  DimVector sorted = layout.minor_to_major;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < rank; ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout: minor_to_major {", absl::StrJoin(layout.minor_to_major, ","), "} is no permutation"));
    }
  }
  if (tiled.num_tiles > 0) {
    BP_REQUIRE(tiled.tile_dim_sizes);
    BP_REQUIRE(tiled.tile_dims);
  }
  const int64_t* at = tiled.tile_dims;
  for (size_t t = 0; t < tiled.num_tiles; ++t) {
    const size_t n = tiled.tile_dim_sizes[t];
    if (n > 64) return absl::InvalidArgumentError(absl::StrCat("layout: tile ", t, " has ", n, " dimensions"));
    layout.tiles.push_back(Tile{DimVector(at, at + n)});
    at += n;
  }
  return layout;
}

absl::StatusOr<Layout> ReadStrides(const PJRT_Buffer_MemoryLayout_Strides& strides, const Shape& shape) {
  const int64_t rank = shape.rank();
  if (strides.num_byte_strides != static_cast<size_t>(rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout: ", strides.num_byte_strides, " strides, the array has rank ", rank));
  }
  if (rank > 0) BP_REQUIRE(strides.byte_strides);
  const int64_t* stride = strides.byte_strides;
  Layout layout;
  layout.minor_to_major.resize(rank);
  std::iota(layout.minor_to_major.rbegin(), layout.minor_to_major.rend(), 0);
  std::stable_sort(layout.minor_to_major.begin(), layout.minor_to_major.end(),
                   [&](int64_t x, int64_t y) { return stride[x] < stride[y]; });
  int64_t expected = ByteWidth(shape.element_type());
  for (int64_t d : layout.minor_to_major) {
    if (shape.dimensions(d) > 1 && stride[d] != expected) {
      return absl::UnimplementedError(absl::StrCat("layout: byte strides {", absl::StrJoin(stride, stride + rank, ","),
                                                   "} of ", shape.ToString(), " are not dense"));
    }
    expected *= std::max<int64_t>(shape.dimensions(d), 1);
  }
  return layout;
}

}  // namespace

PJRT_Buffer_Type ToBufferType(PrimitiveType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.ours == type) return pair.theirs;
  }
  return PJRT_Buffer_Type_INVALID;
}

absl::StatusOr<PrimitiveType> FromBufferType(PJRT_Buffer_Type type) {
  for (const TypePair& pair : kTypes) {
    if (pair.theirs == type) return pair.ours;
  }
  return absl::InvalidArgumentError(absl::StrCat("element type: number ", static_cast<int>(type), " is not known"));
}

absl::StatusOr<Shape> ReadShape(PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims) {
  ASSIGN_OR_RETURN(PrimitiveType t, FromBufferType(type));
  if (t == PrimitiveType::kToken) return Shape::Token();
  if (num_dims > 0) BP_REQUIRE(dims);
  if (num_dims > 255) return absl::InvalidArgumentError(absl::StrCat("shape: rank ", num_dims, " is above 255"));
  Shape shape(t, absl::MakeConstSpan(dims, num_dims));
  RETURN_IF_ERROR(shape.Validate());
  return shape;
}

absl::StatusOr<Layout> ReadLayout(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape) {
  BP_REQUIRE(layout);
  // jaxlib does not set the struct_size of this struct. The first release already had all its fields.
  const PJRT_Buffer_MemoryLayout& in = *layout;
  switch (in.type) {
    case PJRT_Buffer_MemoryLayout_Type_Tiled:
      return ReadTiled(in.tiled, shape);
    case PJRT_Buffer_MemoryLayout_Type_Strides:
      return ReadStrides(in.strides, shape);
  }
  return absl::InvalidArgumentError(absl::StrCat("layout: unknown type ", static_cast<int>(in.type)));
}

LayoutView::LayoutView(const Layout& layout)
    : minor_to_major_(layout.minor_to_major.begin(), layout.minor_to_major.end()) {
  for (const Tile& tile : layout.tiles) {
    tile_dims_.insert(tile_dims_.end(), tile.dims.begin(), tile.dims.end());
    tile_dim_sizes_.push_back(tile.dims.size());
  }
  view_.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  view_.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  PJRT_Buffer_MemoryLayout_Tiled tiled{};
  tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  tiled.minor_to_major = minor_to_major_.data();
  tiled.minor_to_major_size = minor_to_major_.size();
  tiled.tile_dims = tile_dims_.data();
  tiled.tile_dim_sizes = tile_dim_sizes_.data();
  tiled.num_tiles = layout.tiles.size();
  view_.tiled = tiled;
}

}  // namespace backplane::shim
