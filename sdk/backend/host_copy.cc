#include "sdk/backend/host_copy.h"

#include <cstdint>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/relayout/relayout.h"
#include "core/types/status_macros.h"
#include "sdk/backend/strided_copy.h"

namespace backplane {
namespace {

// Tiled arrays have no strides; the relayout kernel computes the positions of their elements.
bool HasTiles(const Shape& shape) { return shape.IsArray() && shape.has_layout() && !shape.layout().tiles.empty(); }

// Hosts may leave any bits in the unused part of a byte. Our arrays hold s4 sign-extended and all other types
// zero-extended.
void CompleteSubBytes(PrimitiveType type, void* data, size_t bytes) {
  if (!IsSubByte(type)) return;
  const int spare = 8 - BitWidth(type);
  uint8_t* p = static_cast<uint8_t*>(data);
  for (size_t k = 0; k < bytes; ++k) {
    const uint8_t high = static_cast<uint8_t>(p[k] << spare);
    p[k] =
        IsSigned(type) ? static_cast<uint8_t>(static_cast<int8_t>(high) >> spare) : static_cast<uint8_t>(high >> spare);
  }
}

}  // namespace

absl::StatusOr<size_t> ComputeStorageBytes(const Shape& shape) {
  if (!HasTiles(shape)) {
    RETURN_IF_ERROR(DenseByteStrides(shape).status());
    return static_cast<size_t>(shape.byte_size());
  }
  ASSIGN_OR_RETURN(PhysicalLayout layout, PhysicalLayout::Of(shape));
  return static_cast<size_t>(layout.byte_size());
}

size_t StorageBytes(const Shape& shape) {
  if (!shape.IsArray()) return 0;
  const bool has_padding =
      shape.has_layout() && (!shape.layout().tiles.empty() || shape.layout().element_size_in_bits != 0);
  if (!has_padding) return static_cast<size_t>(shape.byte_size());
  const absl::StatusOr<PhysicalLayout> physical = PhysicalLayout::Of(shape);
  return physical.ok() ? static_cast<size_t>(physical->byte_size()) : 0;
}

absl::Status CheckStorageFits(const DeviceArray& array, absl::string_view what) {
  if (array.storage == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": the array has no storage"));
  }
  ASSIGN_OR_RETURN(size_t bytes, ComputeStorageBytes(array.shape));
  if (array.storage->size() < bytes) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", array.shape.ToString(true), " takes ", bytes,
                                                   " bytes, the storage has ", array.storage->size()));
  }
  return absl::OkStatus();
}

absl::Status CopyHostArray(const HostArray& src, const DeviceArray& dst) {
  if (src.type != dst.shape.element_type() || !absl::c_equal(src.dims, dst.shape.dimensions())) {
    return absl::InvalidArgumentError(absl::StrCat("copy from host: source ", Shape(src.type, src.dims).ToString(),
                                                   ", destination ", dst.shape.ToString()));
  }
  RETURN_IF_ERROR(CheckStorageFits(dst, "copy from host"));
  if (HasTiles(dst.shape)) {
    Shape dense(src.type, src.dims);
    dense.set_row_major();
    ASSIGN_OR_RETURN(Relayout relayout, Relayout::Plan(dense, dst.shape, PaddingFill::kZero));
    const size_t width = static_cast<size_t>(ByteWidth(src.type));
    if (IsDenseRowMajor(src.dims, width, src.byte_strides) && !IsSubByte(src.type)) {
      relayout.Run(src.data, dst.storage->data());
      return absl::OkStatus();
    }
    std::vector<std::byte> gathered(static_cast<size_t>(dense.byte_size()));
    ASSIGN_OR_RETURN(DimVector dense_strides, DenseByteStrides(dense));
    StridedCopy(src.dims, width, src.data, src.byte_strides, gathered.data(), dense_strides);
    CompleteSubBytes(src.type, gathered.data(), gathered.size());
    relayout.Run(gathered.data(), dst.storage->data());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(DimVector strides, DenseByteStrides(dst.shape));
  StridedCopy(src.dims, static_cast<size_t>(ByteWidth(src.type)), src.data, src.byte_strides, dst.storage->data(),
              strides);
  CompleteSubBytes(src.type, dst.storage->data(), static_cast<size_t>(dst.shape.byte_size()));
  return absl::OkStatus();
}

absl::Status CopyArrayToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) {
  if (!(src.shape == host_shape_with_layout)) {
    return absl::InvalidArgumentError(absl::StrCat("copy to host: source ", src.shape.ToString(), ", destination ",
                                                   host_shape_with_layout.ToString()));
  }
  RETURN_IF_ERROR(CheckStorageFits(src, "copy to host"));
  if (HasTiles(src.shape) || HasTiles(host_shape_with_layout)) {
    ASSIGN_OR_RETURN(Relayout relayout, Relayout::Plan(src.shape, host_shape_with_layout, PaddingFill::kZero));
    relayout.Run(src.storage->data(), dst);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(DimVector from, DenseByteStrides(src.shape));
  ASSIGN_OR_RETURN(DimVector to, DenseByteStrides(host_shape_with_layout));
  StridedCopy(src.shape.dimensions(), static_cast<size_t>(ByteWidth(src.shape.element_type())), src.storage->data(),
              from, dst, to);
  return absl::OkStatus();
}

}  // namespace backplane
