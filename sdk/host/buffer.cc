#include "sdk/host/buffer.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/host/status.h"

namespace backplane::host {

// Defines a getter: calls `fn` with the buffer and returns the expression `out`.
#define BP_ASK(fn, out)                            \
  const Plugin& plugin = handle_.plugin();         \
  BP_PJRT_ARGS(plugin, a, fn);                     \
  a.buffer = handle_.get();                        \
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, fn, a)); \
  return out

namespace {

// Converts `raw`, which is dense with the given order of dimensions, to row-major elements of `array`.
void ToRowMajor(const std::vector<std::byte>& raw, const std::vector<int64_t>& minor_to_major, HostArray* array) {
  const size_t width = static_cast<size_t>(HostBytesPerElement(array->type)), rank = array->dims.size();
  std::vector<int64_t> stride(rank), index(rank, 0);
  int64_t next = 1;
  for (int64_t dim : minor_to_major) {
    stride[dim] = next;
    next *= array->dims[dim];
  }
  int64_t from = 0;
  for (size_t to = 0; to < raw.size(); to += width) {
    std::memcpy(array->data.data() + to, raw.data() + static_cast<size_t>(from) * width, width);
    for (size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < array->dims[d]) break;
      from -= stride[d] * array->dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace

bool BufferLayout::IsDense() const { return type == PJRT_Buffer_MemoryLayout_Type_Tiled && tiles.empty(); }

bool BufferLayout::IsDenseRowMajor() const {
  if (!IsDense()) return false;
  for (size_t i = 0; i < minor_to_major.size(); ++i) {
    if (minor_to_major[i] != static_cast<int64_t>(minor_to_major.size() - 1 - i)) return false;
  }
  return true;
}

absl::StatusOr<PJRT_Buffer_Type> Buffer::ElementType() const { BP_ASK(PJRT_Buffer_ElementType, a.type); }
absl::StatusOr<std::vector<int64_t>> Buffer::Dims() const {
  BP_ASK(PJRT_Buffer_Dimensions, std::vector<int64_t>(a.dims, a.dims + a.num_dims));
}
absl::StatusOr<std::vector<int64_t>> Buffer::UnpaddedDims() const {
  BP_ASK(PJRT_Buffer_UnpaddedDimensions, std::vector<int64_t>(a.unpadded_dims, a.unpadded_dims + a.num_dims));
}
absl::StatusOr<std::vector<size_t>> Buffer::DynamicDims() const {
  BP_ASK(PJRT_Buffer_DynamicDimensionIndices,
         std::vector<size_t>(a.dynamic_dim_indices, a.dynamic_dim_indices + a.num_dynamic_dims));
}
absl::StatusOr<size_t> Buffer::OnDeviceSize() const {
  BP_ASK(PJRT_Buffer_OnDeviceSizeInBytes, a.on_device_size_in_bytes);
}
absl::StatusOr<Device> Buffer::GetDevice() const { BP_ASK(PJRT_Buffer_Device, Device(plugin, a.device)); }
absl::StatusOr<Memory> Buffer::GetMemory() const { BP_ASK(PJRT_Buffer_Memory, Memory(plugin, a.memory)); }
absl::StatusOr<bool> Buffer::IsOnCpu() const { BP_ASK(PJRT_Buffer_IsOnCpu, a.is_on_cpu); }
absl::Status Buffer::Delete() const { BP_ASK(PJRT_Buffer_Delete, absl::OkStatus()); }
absl::StatusOr<bool> Buffer::IsDeleted() const { BP_ASK(PJRT_Buffer_IsDeleted, a.is_deleted); }
absl::StatusOr<Event> Buffer::ReadyEvent() const {
  BP_ASK(PJRT_Buffer_ReadyEvent, Event(plugin, handle_.keep(), a.event));
}
absl::StatusOr<uintptr_t> Buffer::UnsafePointer() const { BP_ASK(PJRT_Buffer_UnsafePointer, a.buffer_pointer); }

absl::StatusOr<std::string> Buffer::FormatShape() const {
  BP_ASSIGN_OR_RETURN(PJRT_Buffer_Type type, ElementType());
  BP_ASSIGN_OR_RETURN(std::vector<int64_t> dims, Dims());
  return host::FormatShape(type, dims);
}

absl::StatusOr<BufferLayout> Buffer::Layout() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_GetMemoryLayout);
  a.buffer = handle_.get();
  a.layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_GetMemoryLayout, a));
  BufferLayout layout;
  layout.type = a.layout.type;
  if (layout.type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    const auto& s = a.layout.strides;
    layout.byte_strides.assign(s.byte_strides, s.byte_strides + s.num_byte_strides);
    return layout;
  }
  const auto& t = a.layout.tiled;
  layout.minor_to_major.assign(t.minor_to_major, t.minor_to_major + t.minor_to_major_size);
  const int64_t* next = t.tile_dims;
  for (size_t i = 0; i < t.num_tiles; ++i) {
    layout.tiles.emplace_back(next, next + t.tile_dim_sizes[i]);
    next += t.tile_dim_sizes[i];
  }
  return layout;
}

absl::Status Buffer::Await() const {
  BP_ASSIGN_OR_RETURN(Event ready, ReadyEvent());
  return ready.Await();
}

absl::StatusOr<Event> Buffer::CopyToHost(absl::Span<std::byte> dst) const {
  const Plugin& plugin = handle_.plugin();
  BP_ASSIGN_OR_RETURN(std::vector<int64_t> dims, Dims());
  // States the layout, because without one the copy has the layout of the buffer.
  std::vector<int64_t> minor_to_major(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) minor_to_major[i] = static_cast<int64_t>(dims.size() - 1 - i);
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_ToHostBuffer);
  a.src = handle_.get();
  a.host_layout = &layout;
  // Null would ask for the size, so an empty array needs an address as well.
  std::byte nowhere;
  a.dst = dst.empty() ? &nowhere : dst.data();
  a.dst_size = dst.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_ToHostBuffer, a));
  return Event(plugin, handle_.keep(), a.event);
}

absl::StatusOr<HostArray> Buffer::ToHost() const {
  HostArray array;
  BP_ASSIGN_OR_RETURN(array.type, ElementType());
  BP_ASSIGN_OR_RETURN(array.dims, Dims());
  BP_ASSIGN_OR_RETURN(size_t size, HostByteSize(array.type, array.dims));
  array.data.resize(size);
  // Some plugins (XLA's of 0.81) ignore the requested layout and use that of the buffer. A raw copy is not affected.
  if (size > 0 && BitsPerElement(array.type) >= 8 && handle_.plugin().Has(&PJRT_Api::PJRT_Buffer_CopyRawToHost)) {
    absl::StatusOr<BufferLayout> layout = Layout();
    if (layout.ok() && layout->IsDense() && !layout->IsDenseRowMajor() &&
        layout->minor_to_major.size() == array.dims.size()) {
      std::vector<std::byte> raw(size);
      BP_ASSIGN_OR_RETURN(Event copied, CopyRawToHost(absl::MakeSpan(raw), 0));
      BP_RETURN_IF_ERROR(copied.Await());
      ToRowMajor(raw, layout->minor_to_major, &array);
      return array;
    }
  }
  BP_ASSIGN_OR_RETURN(Event done, CopyToHost(absl::MakeSpan(array.data)));
  BP_RETURN_IF_ERROR(done.Await());
  return array;
}

absl::StatusOr<Event> Buffer::CopyRawToHost(absl::Span<std::byte> dst, int64_t offset) const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_CopyRawToHost);
  a.buffer = handle_.get();
  a.dst = dst.data();
  a.offset = offset;
  a.transfer_size = static_cast<int64_t>(dst.size());
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_CopyRawToHost, a));
  return Event(plugin, handle_.keep(), a.event);
}

absl::StatusOr<Buffer> Buffer::CopyToDevice(const Device& device) const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_CopyToDevice);
  a.buffer = handle_.get();
  a.dst_device = device.raw();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_CopyToDevice, a));
  return Buffer(plugin, handle_.keep(), a.dst_buffer);
}

absl::StatusOr<Buffer> Buffer::CopyToMemory(const Memory& memory) const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_CopyToMemory);
  a.buffer = handle_.get();
  a.dst_memory = memory.raw();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_CopyToMemory, a));
  return Buffer(plugin, handle_.keep(), a.dst_buffer);
}

absl::StatusOr<Buffer> Buffer::Bitcast(PJRT_Buffer_Type type, absl::Span<const int64_t> dims) const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_Bitcast);
  a.buffer = handle_.get();
  a.element_type = type;
  a.dims = dims.data();
  a.num_dims = dims.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_Bitcast, a));
  return Buffer(plugin, handle_.keep(), a.out_buffer);
}

namespace {
// Calls the plugin's callback once: when it is called, or with an error if it is destroyed before.
class DependencyDone {
 public:
  using Callback = void (*)(PJRT_Buffer_DonateWithControlDependency_Callback_Args*);
  DependencyDone(Callback callback, void* data) : callback_(callback), data_(data) {}
  DependencyDone(DependencyDone&& other) noexcept
      : callback_(std::exchange(other.callback_, nullptr)), data_(other.data_) {}
  ~DependencyDone() {
    if (callback_ != nullptr) (*this)(absl::CancelledError("the dependency was dropped before it was over"));
  }
  void operator()(absl::Status status) {
    if (callback_ == nullptr) return;
    PJRT_Buffer_DonateWithControlDependency_Callback_Args args{};
    args.struct_size = PJRT_Buffer_DonateWithControlDependency_Callback_Args_STRUCT_SIZE;
    args.callback_data = data_;
    args.error_code = static_cast<PJRT_Error_Code>(status.code());
    args.error_message = status.message().data();
    args.error_message_size = status.message().size();
    std::exchange(callback_, nullptr)(&args);
  }

 private:
  Callback callback_;
  void* data_;
};
}  // namespace

absl::StatusOr<Buffer::Dependent> Buffer::DonateWithControlDependency() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_DonateWithControlDependency);
  a.buffer = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_DonateWithControlDependency, a));
  return Dependent{Buffer(plugin, handle_.keep(), a.out_buffer),
                   DependencyDone(a.dependency_ready_callback, a.callback_data)};
}

namespace {
// The API says that references may be acquired and released from any thread, but XLA's plugins keep them in a list
// without a lock. So this is done by one thread at a time, for all buffers.
Mutex& ReferenceMutex() {
  static Mutex* mutex = new Mutex;
  return *mutex;
}
}  // namespace

absl::StatusOr<ExternalReference> Buffer::Reference() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, up, PJRT_Buffer_IncreaseExternalReferenceCount);
  up.buffer = handle_.get();
  {
    MutexLock lock(ReferenceMutex());
    BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_IncreaseExternalReferenceCount, up));
  }
  ExternalReference reference(plugin, handle_.keep(), handle_.get(), nullptr);
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
  a.buffer = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, a));
  reference.data_ = a.device_memory_ptr;
  return reference;
}

ExternalReference& ExternalReference::operator=(ExternalReference&& other) noexcept {
  if (this != &other) {
    reset();
    plugin_ = other.plugin_;
    client_ = std::move(other.client_);
    buffer_ = std::exchange(other.buffer_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
  }
  return *this;
}

void ExternalReference::reset() {
  if (buffer_ != nullptr) {
    BP_PJRT_ARGS(*plugin_, a, PJRT_Buffer_DecreaseExternalReferenceCount);
    a.buffer = std::exchange(buffer_, nullptr);
    MutexLock lock(ReferenceMutex());
    BP_PJRT_CALL(*plugin_, PJRT_Buffer_DecreaseExternalReferenceCount, a).IgnoreError();
  }
  data_ = nullptr;
  client_.reset();
}

#undef BP_ASK

}  // namespace backplane::host
