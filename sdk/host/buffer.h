// Buffers: arrays in a memory of a client. Contents may not be there yet; what reads them waits, or gives an event.
//
// Thread-safety: everything from any thread, but moving and destroying. A buffer keeps its client alive.
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

// A dense array in host memory, last dimension fastest, one element to a byte for types of less.
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
  // The elements; empty when T is not the array's type.
  template <typename T>
  absl::Span<const T> Values() const {
    if (ElementTypeOf<T>::value != type) return {};
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

// How a buffer lies in its memory, as PJRT_Buffer_GetMemoryLayout tells.
struct BufferLayout {
  PJRT_Buffer_MemoryLayout_Type type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  std::vector<int64_t> minor_to_major;      // when tiled
  std::vector<std::vector<int64_t>> tiles;  // when tiled
  std::vector<int64_t> byte_strides;        // when strided
  bool IsDense() const;                     // no tiles, no strides: the dimensions in some order
  // And that order has the last dimension fastest.
  bool IsDenseRowMajor() const;
};

class Buffer {
 public:
  Buffer() = default;  // no buffer
  // Takes `raw` over.
  Buffer(const Plugin& plugin, std::shared_ptr<const void> client, PJRT_Buffer* raw)
      : handle_(plugin, std::move(client), raw) {}

  // ---- What it is. Answered also by a deleted buffer.
  absl::StatusOr<PJRT_Buffer_Type> ElementType() const;
  absl::StatusOr<std::vector<int64_t>> Dims() const;
  absl::StatusOr<std::vector<int64_t>> UnpaddedDims() const;
  absl::StatusOr<std::vector<size_t>> DynamicDims() const;
  absl::StatusOr<BufferLayout> Layout() const;
  absl::StatusOr<size_t> OnDeviceSize() const;  // bytes
  absl::StatusOr<Device> GetDevice() const;
  absl::StatusOr<Memory> GetMemory() const;
  absl::StatusOr<bool> IsOnCpu() const;
  absl::StatusOr<std::string> ShapeText() const;  // "f32[2,3]"

  // ---- Its life
  absl::Status Delete() const;
  absl::StatusOr<bool> IsDeleted() const;
  absl::StatusOr<Event> ReadyEvent() const;
  absl::Status Await() const;  // until the contents are there

  // ---- Its contents
  // Waits and copies, dense with the last dimension fastest.
  absl::StatusOr<HostArray> ToHost() const;
  // Starts a copy of that form into `dst`, which the caller leaves alone until the event is ready. Its size:
  // HostByteSize.
  absl::StatusOr<Event> CopyToHost(absl::Span<std::byte> dst) const;
  // Bytes as they lie in the memory of the device.
  absl::StatusOr<Event> CopyRawToHost(absl::Span<std::byte> dst, int64_t offset) const;
  absl::StatusOr<Buffer> CopyToDevice(const Device& device) const;
  absl::StatusOr<Buffer> CopyToMemory(const Memory& memory) const;
  absl::StatusOr<Buffer> Bitcast(PJRT_Buffer_Type type, absl::Span<const int64_t> dims) const;
  // The memory moves to a new buffer, which is not ready before `done` has been called, once, with OK or with the error
  // it shall have. `done` that is never called calls itself with CANCELLED when it is destroyed.
  struct Dependent;
  absl::StatusOr<Dependent> DonateWithControlDependency() const;

  // ---- Its address
  absl::StatusOr<uintptr_t> UnsafePointer() const;  // for comparing
  // Holds the memory where it is while the reference lives: neither freed nor moved nor donated.
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

// Somebody's hold on the memory of a buffer; the buffer object must outlive it.
class ExternalReference {
 public:
  ExternalReference() = default;
  ExternalReference(const Plugin& plugin, std::shared_ptr<const void> client, PJRT_Buffer* buffer, void* data)
      : plugin_(&plugin), client_(std::move(client)), buffer_(buffer), data_(data) {}
  ExternalReference(ExternalReference&& other) noexcept { *this = std::move(other); }
  ExternalReference& operator=(ExternalReference&& other) noexcept;
  ~ExternalReference() { reset(); }
  void reset();
  // The address of the memory on its device; for the host to read when the buffer says IsOnCpu.
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
