#include "sdk/backend/mixed/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/relayout/relayout.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/mixed/executable.h"
#include "sdk/backend/strided_copy.h"

namespace backplane::mixed {
namespace {

// A host buffer that holds a copy of a device array while it is converted between layouts.
class Staging : public Storage {
 public:
  explicit Staging(size_t bytes) : data_(new std::byte[bytes]), size_(bytes) {}
  void* data() const override { return data_.get(); }
  size_t size() const override { return size_; }

 private:
  const std::unique_ptr<std::byte[]> data_;
  const size_t size_;
};

bool IsTiled(const Shape& shape) {
  return shape.has_layout() && (!shape.layout().tiles.empty() || shape.layout().element_size_in_bits != 0);
}

// Read-only storage over the data of a literal.
class LiteralStorage : public Storage {
 public:
  explicit LiteralStorage(const Literal& literal) : literal_(literal) {}
  void* data() const override { return const_cast<void*>(static_cast<const void*>(literal_.bytes())); }
  size_t size() const override { return static_cast<size_t>(literal_.shape().byte_size()); }
  bool writable() const override { return false; }

 private:
  const Literal& literal_;
};

absl::Status Permute(const Shape& from_shape, const void* from, const Shape& to_shape, void* to) {
  if (IsTiled(from_shape) || IsTiled(to_shape)) {
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

absl::Status CheckRoom(const DeviceArray& array, absl::string_view what) {
  if (array.storage == nullptr) return absl::InvalidArgumentError(absl::StrCat(what, ": the array has no storage"));
  if (array.storage->size() < StorageBytes(array.shape)) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", array.shape.ToString(true), " takes ",
                                                   StorageBytes(array.shape), " bytes, the storage has ",
                                                   array.storage->size()));
  }
  return absl::OkStatus();
}

}  // namespace

size_t StorageBytes(const Shape& shape) {
  if (!shape.IsArray()) return 0;
  if (!IsTiled(shape)) return static_cast<size_t>(shape.byte_size());
  const absl::StatusOr<PhysicalLayout> physical = PhysicalLayout::Of(shape);
  return physical.ok() ? static_cast<size_t>(physical->byte_size()) : 0;
}

class Runtime::DeviceStorage : public Storage {
 public:
  DeviceStorage(std::shared_ptr<Runtime> runtime, int32_t device, size_t size)
      : runtime_(std::move(runtime)), device_(device), size_(size) {}
  ~DeviceStorage() override {
    if (address_ == nullptr) return;
    runtime_->memory_->Free(device_, address_, std::max<size_t>(size_, 1));
    runtime_->counters_[static_cast<size_t>(device_)]->Remove(static_cast<int64_t>(size_));
  }
  absl::Status Allocate() {
    ASSIGN_OR_RETURN(address_, runtime_->memory_->Allocate(device_, std::max<size_t>(size_, 1)));
    // The device's memory enforces its own limit, so this counter has none and never refuses.
    return runtime_->counters_[static_cast<size_t>(device_)]->Add(static_cast<int64_t>(size_));
  }
  void* data() const override { return address_; }
  size_t size() const override { return size_; }

 private:
  const std::shared_ptr<Runtime> runtime_;
  const int32_t device_;
  void* address_ = nullptr;
  const size_t size_;
};

Runtime::Runtime(Topology topology, std::shared_ptr<DeviceMemory> memory, std::chrono::milliseconds time_limit,
                 int64_t limit_bytes)
    : collective_time_limit(time_limit), topology_(std::move(topology)), memory_(std::move(memory)) {
  const auto total = std::make_shared<HostMemoryCounter>(memory_ == nullptr ? limit_bytes : 0);
  for (size_t d = 0; d < topology_.devices.size(); ++d)
    counters_.push_back(std::make_shared<HostMemoryCounter>(0, total));
}

bool Runtime::IsHost(int32_t memory) const {
  return memory_ == nullptr || topology_.memories[static_cast<size_t>(memory)].kind != "device";
}

absl::StatusOr<std::shared_ptr<Storage>> Runtime::Allocate(int32_t memory, size_t bytes) {
  RETURN_IF_ERROR(Fault(FaultSite::kStorage));
  const int32_t device = DeviceOf(memory);
  if (memory_ == nullptr) return AllocateHostStorage(bytes, counters_[static_cast<size_t>(device)]);
  if (IsHost(memory)) return AllocateHostStorage(bytes, nullptr);
  if (bytes > SIZE_MAX / 2) {
    return absl::ResourceExhaustedError(absl::StrCat("allocate: ", bytes, " bytes are more than there can be"));
  }
  auto storage = std::make_shared<DeviceStorage>(shared_from_this(), device, bytes);
  RETURN_IF_ERROR(storage->Allocate());
  return storage;
}

MemoryStats Runtime::Stats(int32_t device) const {
  MemoryStats stats = counters_[static_cast<size_t>(device)]->Stats();
  if (memory_ != nullptr) stats.bytes_limit = memory_->Capacity(device);
  return stats;
}

absl::StatusOr<Literal> Runtime::Read(const DeviceArray& array) const {
  if (array.shape.IsToken()) return Literal::Token();
  RETURN_IF_ERROR(CheckRoom(array, "read"));
  const Shape row_major = array.shape.WithoutLayout();
  if (IsHost(array.memory)) {
    if (IsRowMajor(array.shape)) return Literal::Borrow(row_major, array.storage->data());
    Literal out(row_major);
    RETURN_IF_ERROR(Permute(array.shape, array.storage->data(), row_major, out.mutable_bytes()));
    return out;
  }
  Literal out(row_major);
  const size_t bytes = StorageBytes(array.shape);
  if (bytes == 0) return out;
  const int32_t device = DeviceOf(array.memory);
  if (IsRowMajor(array.shape)) {
    RETURN_IF_ERROR(memory_->CopyOut(device, array.storage->data(), out.mutable_bytes(), bytes));
    return out;
  }
  Staging staging(bytes);
  RETURN_IF_ERROR(memory_->CopyOut(device, array.storage->data(), staging.data(), bytes));
  RETURN_IF_ERROR(Permute(array.shape, staging.data(), row_major, out.mutable_bytes()));
  return out;
}

absl::Status Runtime::Write(const Literal& value, const DeviceArray& array) const {
  const size_t bytes = StorageBytes(array.shape);
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRoom(array, "write"));
  const Shape row_major = value.shape().WithoutLayout();
  if (IsHost(array.memory)) return Permute(row_major, value.bytes(), array.shape, array.storage->data());
  const int32_t device = DeviceOf(array.memory);
  if (IsRowMajor(array.shape)) return memory_->CopyIn(device, value.bytes(), array.storage->data(), bytes);
  Staging staging(bytes);
  if (IsTiled(array.shape)) {  // keeps the bytes that the padding holds now
    RETURN_IF_ERROR(memory_->CopyOut(device, array.storage->data(), staging.data(), bytes));
  }
  RETURN_IF_ERROR(Permute(row_major, value.bytes(), array.shape, staging.data()));
  return memory_->CopyIn(device, staging.data(), array.storage->data(), bytes);
}

absl::StatusOr<std::shared_ptr<Storage>> MixedClient::Allocate(int32_t memory, size_t bytes) {
  return runtime_->Allocate(memory, bytes);
}

absl::StatusOr<size_t> MixedClient::StorageSize(const Shape& shape, int32_t memory) const {
  if (!shape.IsArray() || !IsTiled(shape)) return Client::StorageSize(shape, memory);
  ASSIGN_OR_RETURN(PhysicalLayout physical, PhysicalLayout::Of(shape));
  return static_cast<size_t>(physical.byte_size());
}

size_t MixedClient::ZeroCopyAlignment(int32_t memory) const {
  return runtime_->IsHost(memory) ? kHostStorageAlignment : 0;
}

absl::Status MixedClient::CopyFromHost(const HostArray& src, const DeviceArray& dst) {
  RETURN_IF_ERROR(CheckRoom(dst, "copy from host"));
  if (IsTiled(dst.shape)) {
    Shape plain = dst.shape.WithoutLayout();
    plain.set_row_major();
    DeviceArray staged{plain, dst.memory, std::make_shared<Staging>(StorageBytes(plain)), Event()};
    RETURN_IF_ERROR(Client::CopyFromHost(src, staged));
    return runtime_->Write(Literal::Borrow(plain, staged.storage->data()), dst);
  }
  if (runtime_->IsHost(dst.memory)) return Client::CopyFromHost(src, dst);
  DeviceArray staged{dst.shape, dst.memory, std::make_shared<Staging>(StorageBytes(dst.shape)), Event()};
  RETURN_IF_ERROR(Client::CopyFromHost(src, staged));
  if (staged.storage->size() == 0) return absl::OkStatus();
  return runtime_->memory()->CopyIn(runtime_->DeviceOf(dst.memory), staged.storage->data(), dst.storage->data(),
                                    staged.storage->size());
}

absl::Status MixedClient::CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) {
  RETURN_IF_ERROR(CheckRoom(src, "copy to host"));
  if (IsTiled(src.shape)) {
    ASSIGN_OR_RETURN(Literal value, runtime_->Read(src));
    Shape plain = src.shape.WithoutLayout();
    plain.set_row_major();
    return Client::CopyToHost({plain, src.memory, std::make_shared<LiteralStorage>(value), Event()},
                              host_shape_with_layout, dst);
  }
  if (runtime_->IsHost(src.memory)) return Client::CopyToHost(src, host_shape_with_layout, dst);
  DeviceArray staged{src.shape, src.memory, std::make_shared<Staging>(StorageBytes(src.shape)), Event()};
  if (staged.storage->size() > 0) {
    RETURN_IF_ERROR(runtime_->memory()->CopyOut(runtime_->DeviceOf(src.memory), src.storage->data(),
                                                staged.storage->data(), staged.storage->size()));
  }
  return Client::CopyToHost(staged, host_shape_with_layout, dst);
}

absl::Status MixedClient::CopyDevice(const DeviceArray& src, const DeviceArray& dst) {
  if (!(src.shape == dst.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy device: source ", src.shape.ToString(), ", destination ", dst.shape.ToString()));
  }
  RETURN_IF_ERROR(CheckRoom(src, "copy device"));
  RETURN_IF_ERROR(CheckRoom(dst, "copy device"));
  const int32_t device = runtime_->DeviceOf(dst.memory);
  if (!runtime_->IsHost(src.memory) && !runtime_->IsHost(dst.memory) && runtime_->DeviceOf(src.memory) == device &&
      src.shape.Identical(dst.shape)) {
    const size_t bytes = StorageBytes(src.shape);
    return bytes == 0 ? absl::OkStatus()
                      : runtime_->memory()->CopyWithin(device, src.storage->data(), dst.storage->data(), bytes);
  }
  ASSIGN_OR_RETURN(Literal value, runtime_->Read(src));
  return runtime_->Write(value, dst);
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> MixedClient::Load(std::shared_ptr<const Executable> executable,
                                                                    const LoadOptions&) {
  return LoadMixed(std::move(executable), runtime_);
}

absl::Status MixedClient::ClearMemoryStats(int32_t device) {
  runtime_->ClearStats(device);
  return absl::OkStatus();
}

}  // namespace backplane::mixed
