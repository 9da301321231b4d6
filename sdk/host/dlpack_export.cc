#include <optional>

#include "absl/strings/str_cat.h"
#include "sdk/host/dlpack.h"
#include "sdk/host/status.h"

namespace backplane::host::dlpack {
namespace {

// Owns the memory that an exported tensor points to.
struct Owner {
  std::shared_ptr<const Buffer> buffer;
  ExternalReference reference;  // released before the buffer
  HostArray copy;
  std::vector<int64_t> shape, strides;
  std::string reason;
  bool copied = false, padded = false;
  Tensor tensor{};
  ManagedTensorVersioned versioned{};
  ManagedTensor unversioned{};

  ~Owner() { reference.reset(); }
};

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape, const std::vector<int64_t>& minor_to_major) {
  std::vector<int64_t> strides(shape.size(), 1);
  int64_t stride = 1;
  for (int64_t dim : minor_to_major) {
    strides[dim] = stride;
    stride *= std::max<int64_t>(shape[dim], 1);
  }
  return strides;
}

std::vector<int64_t> RowMajor(size_t rank) {
  std::vector<int64_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(rank - 1 - i);
  return order;
}

// Makes the tensor refer to the buffer's memory. Returns the reason if that is impossible.
absl::StatusOr<std::optional<std::string>> UseMemory(Owner* owner, PJRT_Buffer_Type type,
                                                     const std::optional<DlDevice>& device) {
  const Buffer& buffer = *owner->buffer;
  BP_ASSIGN_OR_RETURN(const bool on_cpu, buffer.IsOnCpu());
  owner->tensor.device = {kCpu, 0};
  if (!on_cpu) {
    if (!device.has_value()) return "its memory is not the host's";
    owner->tensor.device = *device;
  }
  std::vector<int64_t> order = RowMajor(owner->shape.size());
  absl::StatusOr<BufferLayout> layout = buffer.Layout();
  if (layout.ok()) {
    if (layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled || !layout->tiles.empty()) return "its layout is tiled";
    if (layout->minor_to_major.size() == order.size()) order = layout->minor_to_major;
  } else if (!absl::IsUnimplemented(layout.status())) {
    return layout.status();  // a plugin without layouts has the default one
  }
  if (const int bits = BitsPerElement(type); bits < 8) {
    // Elements are padded to a byte each, or packed; the size tells which.
    BP_ASSIGN_OR_RETURN(const int64_t count, NumElements(owner->shape));
    BP_ASSIGN_OR_RETURN(const size_t size, buffer.OnDeviceSize());
    const size_t packed = (static_cast<size_t>(count) * bits + 7) / 8;
    if (size < static_cast<size_t>(count) && size >= packed) {
      if (count * bits % 8 != 0) return "its last byte is shared";
    } else {
      owner->padded = true;
    }
  }
  absl::StatusOr<ExternalReference> reference = buffer.Reference();
  if (!reference.ok()) return std::string(reference.status().message());
  owner->reference = *std::move(reference);
  owner->tensor.data = owner->reference.data();
  owner->strides = DenseStrides(owner->shape, order);
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<Owner>> MakeOwner(std::shared_ptr<const Buffer> buffer, const ExportOptions& options) {
  auto owner = std::make_unique<Owner>();
  owner->buffer = std::move(buffer);
  BP_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, owner->buffer->ElementType());
  BP_ASSIGN_OR_RETURN(owner->tensor.dtype, ToDlpack(type));
  BP_ASSIGN_OR_RETURN(owner->shape, owner->buffer->Dims());
  BP_RETURN_IF_ERROR(owner->buffer->Await());
  std::optional<std::string> reason = "a copy was asked for";
  if (options.copy != Copy::kAlways) {
    BP_ASSIGN_OR_RETURN(reason, UseMemory(owner.get(), type, options.device));
  }
  if (reason.has_value()) {
    if (options.copy == Copy::kNever) {
      return absl::FailedPreconditionError(
          absl::StrCat("dlpack: ", FormatShape(type, owner->shape), " needs a copy: ", *reason));
    }
    BP_ASSIGN_OR_RETURN(owner->copy, owner->buffer->ToHost());
    owner->tensor.device = {kCpu, 0};
    owner->tensor.data = owner->copy.data.data();
    owner->strides = DenseStrides(owner->shape, RowMajor(owner->shape.size()));
    owner->padded = BitsPerElement(type) < 8;
    owner->copied = true;
    owner->reason = *std::move(reason);
    owner->buffer.reset();
  }
  owner->tensor.ndim = static_cast<int32_t>(owner->shape.size());
  owner->tensor.shape = owner->shape.data();
  owner->tensor.strides = owner->strides.data();
  return owner;
}

}  // namespace

absl::StatusOr<DlDevice> GetDlDevice(const Client& client, const Device& device) {
  BP_ASSIGN_OR_RETURN(const std::string platform, client.PlatformName());
  BP_ASSIGN_OR_RETURN(const int id, device.LocalHardwareId());
  if (platform == "cuda") return DlDevice{kCuda, id};
  if (platform == "rocm") return DlDevice{kRocm, id};
  if (platform == "oneapi") return DlDevice{kOneApi, id};
  return absl::UnimplementedError(absl::StrCat("dlpack: has no device type for platform ", platform));
}

void Exported::Delete::operator()(ManagedTensorVersioned* tensor) const {
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}
void ExportedUnversioned::Delete::operator()(ManagedTensor* tensor) const {
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

absl::StatusOr<Exported> Export(std::shared_ptr<const Buffer> buffer, const ExportOptions& options) {
  BP_ASSIGN_OR_RETURN(std::unique_ptr<Owner> owner, MakeOwner(std::move(buffer), options));
  ManagedTensorVersioned& managed = owner->versioned;
  managed.version = {kMajorVersion, kMinorVersion};
  managed.manager_ctx = owner.get();
  managed.deleter = [](ManagedTensorVersioned* self) { delete static_cast<Owner*>(self->manager_ctx); };
  // Only the consumer has the copy.
  managed.flags = (owner->copied ? kIsCopied : options.writable ? 0 : kReadOnly) | (owner->padded ? kSubbytePadded : 0);
  managed.tensor = owner->tensor;
  Exported out{nullptr, owner->copied, owner->reason};
  out.tensor.reset(&owner.release()->versioned);
  return out;
}

absl::StatusOr<ExportedUnversioned> ExportUnversioned(std::shared_ptr<const Buffer> buffer,
                                                      const ExportOptions& options) {
  BP_ASSIGN_OR_RETURN(std::unique_ptr<Owner> owner, MakeOwner(std::move(buffer), options));
  if (owner->padded) {
    return absl::UnimplementedError(
        "dlpack: tensors of 0.x cannot say that elements of less than a byte take a byte each");
  }
  ManagedTensor& managed = owner->unversioned;
  managed.tensor = owner->tensor;
  managed.manager_ctx = owner.get();
  managed.deleter = [](ManagedTensor* self) { delete static_cast<Owner*>(self->manager_ctx); };
  ExportedUnversioned out{nullptr, owner->copied, owner->reason};
  out.tensor.reset(&owner.release()->unversioned);
  return out;
}

}  // namespace backplane::host::dlpack
