#include "sdk/backend/memory_spaces.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/relayout/relayout.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/strided_copy.h"

namespace backplane {
namespace {

// Host memory in which an array is brought into the order of a device's memory, or out of it.
class Staging : public Storage {
 public:
  explicit Staging(size_t bytes) : data_(new std::byte[bytes]), size_(bytes) {}
  void* data() const override { return data_.get(); }
  size_t size() const override { return size_; }

 private:
  const std::unique_ptr<std::byte[]> data_;
  const size_t size_;
};

// Arrays in such a layout have padding, and are copied by the relayout kernel.
bool IsPadded(const Shape& shape) {
  return shape.has_layout() && (!shape.layout().tiles.empty() || shape.layout().element_size_in_bits != 0);
}

// A literal's data as storage that is only read.
class LiteralStorage : public Storage {
 public:
  explicit LiteralStorage(const Literal& literal) : literal_(literal) {}
  void* data() const override { return const_cast<void*>(static_cast<const void*>(literal_.bytes())); }
  size_t size() const override { return static_cast<size_t>(literal_.shape().byte_size()); }
  bool writable() const override { return false; }

 private:
  const Literal& literal_;
};

// Copies between two layouts in the host's memory.
absl::Status CopyBetweenLayouts(const Shape& from_shape, const void* from, const Shape& to_shape, void* to) {
  if (IsPadded(from_shape) || IsPadded(to_shape)) {
    ASSIGN_OR_RETURN(Relayout relayout, Relayout::Plan(from_shape, to_shape));
    relayout.Run(from, to);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(DimVector from_strides, DenseByteStrides(from_shape));
  ASSIGN_OR_RETURN(DimVector to_strides, DenseByteStrides(to_shape));
  StridedCopy(from_shape.dimensions(), static_cast<size_t>(ByteWidth(from_shape.element_type())), from, from_strides,
              to, to_strides);
  return absl::OkStatus();
}

absl::Status CheckHasStorage(const DeviceArray& array, absl::string_view what) {
  if (array.storage == nullptr) return absl::InvalidArgumentError(absl::StrCat(what, ": the array has no storage"));
  if (array.storage->size() < StorageBytes(array.shape)) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", array.shape.ToString(true), " takes ",
                                                   StorageBytes(array.shape), " bytes, the storage has ",
                                                   array.storage->size()));
  }
  return absl::OkStatus();
}

}  // namespace

class MemorySpaces::DeviceStorage : public Storage {
 public:
  DeviceStorage(std::shared_ptr<MemorySpaces> spaces, int32_t device, size_t size)
      : spaces_(std::move(spaces)), device_(device), size_(size) {}
  ~DeviceStorage() override {
    if (address_ == nullptr) return;
    spaces_->memory_->Free(device_, address_, std::max<size_t>(size_, 1));
    spaces_->counters_[static_cast<size_t>(device_)]->Remove(static_cast<int64_t>(size_));
  }
  absl::Status Allocate() {
    ASSIGN_OR_RETURN(address_, spaces_->memory_->Allocate(device_, std::max<size_t>(size_, 1)));
    // The device's memory has its own limit: the counter has none.
    return spaces_->counters_[static_cast<size_t>(device_)]->Add(static_cast<int64_t>(size_));
  }
  void* data() const override { return address_; }
  size_t size() const override { return size_; }

 private:
  const std::shared_ptr<MemorySpaces> spaces_;
  const int32_t device_;
  void* address_ = nullptr;
  const size_t size_;
};

MemorySpaces::MemorySpaces(Topology topology, std::shared_ptr<DeviceMemory> memory, int64_t limit_bytes)
    : topology_(std::move(topology)), memory_(std::move(memory)) {
  const auto all_devices = std::make_shared<HostMemoryCounter>(memory_ == nullptr ? limit_bytes : 0);
  for (size_t d = 0; d < topology_.devices.size(); ++d)
    counters_.push_back(std::make_shared<HostMemoryCounter>(0, all_devices));
}

bool MemorySpaces::IsHost(int32_t memory) const {
  return memory_ == nullptr || topology_.memories[static_cast<size_t>(memory)].kind != "device";
}

absl::StatusOr<std::shared_ptr<Storage>> MemorySpaces::Allocate(int32_t memory, size_t bytes) {
  RETURN_IF_ERROR(Fault(FaultSite::kStorage));
  const int32_t device = GetDevice(memory);
  if (memory_ == nullptr) return AllocateHostStorage(bytes, counters_[static_cast<size_t>(device)]);
  if (IsHost(memory)) return AllocateHostStorage(bytes, nullptr);
  if (bytes > SIZE_MAX / 2) {
    return absl::ResourceExhaustedError(absl::StrCat("allocate: ", bytes, " bytes are more than there can be"));
  }
  auto storage = std::make_shared<DeviceStorage>(shared_from_this(), device, bytes);
  RETURN_IF_ERROR(storage->Allocate());
  return storage;
}

absl::StatusOr<size_t> MemorySpaces::StorageSize(const Shape& shape) const {
  if (shape.IsToken()) return size_t{0};
  if (!shape.IsArray() || !IsPadded(shape)) return ComputeStorageBytes(shape);
  ASSIGN_OR_RETURN(PhysicalLayout physical, PhysicalLayout::Of(shape));
  return static_cast<size_t>(physical.byte_size());
}

MemoryStats MemorySpaces::Stats(int32_t device) const {
  MemoryStats stats = counters_[static_cast<size_t>(device)]->Stats();
  if (memory_ != nullptr) stats.bytes_limit = memory_->Capacity(device);
  return stats;
}

absl::StatusOr<Literal> MemorySpaces::Read(const DeviceArray& array) const {
  if (array.shape.IsToken()) return Literal::Token();
  RETURN_IF_ERROR(CheckHasStorage(array, "read"));
  const Shape row_major = array.shape.WithoutLayout();
  if (IsHost(array.memory)) {
    if (array.shape.IsRowMajor()) return Literal::Borrow(row_major, array.storage->data());
    Literal out(row_major);
    RETURN_IF_ERROR(CopyBetweenLayouts(array.shape, array.storage->data(), row_major, out.mutable_bytes()));
    return out;
  }
  Literal out(row_major);
  const size_t bytes = StorageBytes(array.shape);
  if (bytes == 0) return out;
  const int32_t device = GetDevice(array.memory);
  if (array.shape.IsRowMajor()) {
    RETURN_IF_ERROR(memory_->CopyOut(device, array.storage->data(), out.mutable_bytes(), bytes));
    return out;
  }
  Staging staging(bytes);
  RETURN_IF_ERROR(memory_->CopyOut(device, array.storage->data(), staging.data(), bytes));
  RETURN_IF_ERROR(CopyBetweenLayouts(array.shape, staging.data(), row_major, out.mutable_bytes()));
  return out;
}

absl::Status MemorySpaces::Write(const Literal& value, const DeviceArray& array) const {
  const size_t bytes = StorageBytes(array.shape);
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckHasStorage(array, "write"));
  const Shape row_major = value.shape().WithoutLayout();
  if (IsHost(array.memory)) return CopyBetweenLayouts(row_major, value.bytes(), array.shape, array.storage->data());
  const int32_t device = GetDevice(array.memory);
  if (array.shape.IsRowMajor()) return memory_->CopyIn(device, value.bytes(), array.storage->data(), bytes);
  Staging staging(bytes);
  if (IsPadded(array.shape)) {  // keeps what is in the padding
    RETURN_IF_ERROR(memory_->CopyOut(device, array.storage->data(), staging.data(), bytes));
  }
  RETURN_IF_ERROR(CopyBetweenLayouts(row_major, value.bytes(), array.shape, staging.data()));
  return memory_->CopyIn(device, staging.data(), array.storage->data(), bytes);
}

absl::Status MemorySpaces::CopyFromHost(const HostArray& src, const DeviceArray& dst) const {
  RETURN_IF_ERROR(CheckHasStorage(dst, "copy from host"));
  if (IsPadded(dst.shape)) {
    Shape plain = dst.shape.WithoutLayout();
    plain.set_row_major();
    DeviceArray staged{plain, dst.memory, std::make_shared<Staging>(StorageBytes(plain)), Event()};
    RETURN_IF_ERROR(CopyHostArray(src, staged));
    return Write(Literal::Borrow(plain, staged.storage->data()), dst);
  }
  if (IsHost(dst.memory)) return CopyHostArray(src, dst);
  DeviceArray staged{dst.shape, dst.memory, std::make_shared<Staging>(StorageBytes(dst.shape)), Event()};
  RETURN_IF_ERROR(CopyHostArray(src, staged));
  if (staged.storage->size() == 0) return absl::OkStatus();
  return memory_->CopyIn(GetDevice(dst.memory), staged.storage->data(), dst.storage->data(), staged.storage->size());
}

absl::Status MemorySpaces::CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) const {
  RETURN_IF_ERROR(CheckHasStorage(src, "copy to host"));
  if (IsPadded(src.shape)) {
    ASSIGN_OR_RETURN(Literal value, Read(src));
    Shape plain = src.shape.WithoutLayout();
    plain.set_row_major();
    return CopyArrayToHost({plain, src.memory, std::make_shared<LiteralStorage>(value), Event()},
                           host_shape_with_layout, dst);
  }
  if (IsHost(src.memory)) return CopyArrayToHost(src, host_shape_with_layout, dst);
  DeviceArray staged{src.shape, src.memory, std::make_shared<Staging>(StorageBytes(src.shape)), Event()};
  if (staged.storage->size() > 0) {
    RETURN_IF_ERROR(
        memory_->CopyOut(GetDevice(src.memory), src.storage->data(), staged.storage->data(), staged.storage->size()));
  }
  return CopyArrayToHost(staged, host_shape_with_layout, dst);
}

absl::Status MemorySpaces::CopyDevice(const DeviceArray& src, const DeviceArray& dst) const {
  if (!(src.shape == dst.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy device: source ", src.shape.ToString(), ", destination ", dst.shape.ToString()));
  }
  RETURN_IF_ERROR(CheckHasStorage(src, "copy device"));
  RETURN_IF_ERROR(CheckHasStorage(dst, "copy device"));
  const int32_t device = GetDevice(dst.memory);
  if (!IsHost(src.memory) && !IsHost(dst.memory) && GetDevice(src.memory) == device && src.shape.Identical(dst.shape)) {
    const size_t bytes = StorageBytes(src.shape);
    return bytes == 0 ? absl::OkStatus() : memory_->CopyWithin(device, src.storage->data(), dst.storage->data(), bytes);
  }
  ASSIGN_OR_RETURN(Literal value, Read(src));
  return Write(value, dst);
}

}  // namespace backplane
