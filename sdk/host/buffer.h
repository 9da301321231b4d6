// Buffers: arrays in a memory space of a client. Their contents may not be available yet; functions that read them wait
// or return an event.
//
// Thread-safe, except for moving and destroying. A buffer keeps its client alive.
#ifndef BACKPLANE_SDK_HOST_BUFFER_H_
#define BACKPLANE_SDK_HOST_BUFFER_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sdk/host/device.h"
#include "sdk/host/element_type.h"
#include "sdk/host/event.h"

namespace backplane::host {

class ExternalReference;

// A dense array in host memory, last dimension fastest. Elements smaller than a byte take one byte each.
struct HostArray {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
  std::vector<std::byte> data;  // HostByteSize(type, dims) bytes

  template <typename T>
  static HostArray Of(std::vector<int64_t> dims, absl::Span<const T> values) {
    HostArray array{ElementTypeOf<T>::value, std::move(dims), {}};
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    array.data.assign(bytes, bytes + values.size() * sizeof(T));
    return array;
  }
  // Returns the elements. Empty if T is not the type of the array.
  template <typename T>
  absl::Span<const T> Values() const {
    if (ElementTypeOf<T>::value != type) return {};
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

// The layout of a buffer in its memory, as PJRT_Buffer_GetMemoryLayout reports it.
struct BufferLayout {
  PJRT_Buffer_MemoryLayout_Type type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  std::vector<int64_t> minor_to_major;      // when tiled
  std::vector<std::vector<int64_t>> tiles;  // when tiled
  std::vector<int64_t> byte_strides;        // when strided
  bool IsDense() const;                     // whether there are no tiles and no strides; dimensions in any order
  // Whether the layout is dense and the last dimension is the fastest.
  bool IsDenseRowMajor() const;
};

class Buffer {
 public:
  Buffer() = default;  // no buffer
  // Takes ownership of `raw`.
  Buffer(const Plugin& plugin, std::shared_ptr<const void> client, PJRT_Buffer* raw)
      : handle_(plugin, std::move(client), raw) {}

  // ---- Properties. Available for deleted buffers too.
  absl::StatusOr<PJRT_Buffer_Type> ElementType() const;
  absl::StatusOr<std::vector<int64_t>> Dims() const;
  absl::StatusOr<std::vector<int64_t>> UnpaddedDims() const;
  absl::StatusOr<std::vector<size_t>> DynamicDims() const;
  absl::StatusOr<BufferLayout> Layout() const;
  absl::StatusOr<size_t> OnDeviceSize() const;  // bytes
  absl::StatusOr<Device> GetDevice() const;
  absl::StatusOr<Memory> GetMemory() const;
  absl::StatusOr<bool> IsOnCpu() const;
  absl::StatusOr<std::string> FormatShape() const;  // "f32[2,3]"

  // ---- Lifetime
  absl::Status Delete() const;
  absl::StatusOr<bool> IsDeleted() const;
  absl::StatusOr<Event> ReadyEvent() const;
  absl::Status Await() const;  // until the contents are available

  // ---- Contents
  // Waits and copies. The result is dense, last dimension fastest.
  absl::StatusOr<HostArray> ToHost() const;
  // Starts a copy to `dst` in the form of a HostArray; the size must be HostByteSize. The caller must not use `dst`
  // until the event is ready.
  absl::StatusOr<Event> CopyToHost(absl::Span<std::byte> dst) const;
  // Starts a copy of bytes as they are stored on the device, from byte `offset` on. The caller must not use `dst` until
  // the event is ready.
  absl::StatusOr<Event> CopyRawToHost(absl::Span<std::byte> dst, int64_t offset) const;
  absl::StatusOr<Buffer> CopyToDevice(const Device& device) const;
  absl::StatusOr<Buffer> CopyToMemory(const Memory& memory) const;
  absl::StatusOr<Buffer> Bitcast(PJRT_Buffer_Type type, absl::Span<const int64_t> dims) const;
  // Moves the memory to a new buffer, which becomes ready when `done` is called, once, with OK or with the error of the
  // buffer. If `done` is destroyed without having been called, the buffer gets the error CANCELLED.
  struct Dependent;
  absl::StatusOr<Dependent> DonateWithControlDependency() const;

  // ---- Address
  absl::StatusOr<uintptr_t> UnsafePointer() const;  // for comparisons only
  // While the reference exists, the memory is not freed, moved or donated.
  absl::StatusOr<ExternalReference> Reference() const;

  explicit operator bool() const { return static_cast<bool>(handle_); }
  PJRT_Buffer* raw() const { return handle_.get(); }
  PJRT_Buffer* release() { return handle_.release(); }
  const Plugin& plugin() const { return handle_.plugin(); }

 private:
  friend class ExternalReference;
  internal::Handle<PJRT_Buffer> handle_;
};

struct Buffer::Dependent {
  Buffer buffer;
  absl::AnyInvocable<void(absl::Status)> done;
};

// A reference to the memory of a buffer. The buffer object must outlive it.
class ExternalReference {
 public:
  ExternalReference() = default;
  ExternalReference(const Plugin& plugin, std::shared_ptr<const void> client, PJRT_Buffer* buffer, void* data)
      : plugin_(&plugin), client_(std::move(client)), buffer_(buffer), data_(data) {}
  ExternalReference(ExternalReference&& other) noexcept { *this = std::move(other); }
  ExternalReference& operator=(ExternalReference&& other) noexcept;
  ~ExternalReference() { reset(); }
  void reset();
  // The address of the memory on its device. The host may read it if the buffer's IsOnCpu is true.
  void* data() const { return data_; }

 private:
  friend class Buffer;
  const Plugin* plugin_ = nullptr;
  std::shared_ptr<const void> client_;
  PJRT_Buffer* buffer_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_BUFFER_H_
