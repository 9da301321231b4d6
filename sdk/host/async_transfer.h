// Buffers that are created together and filled piece by piece (PJRT 0.60 and later).
#ifndef BACKPLANE_SDK_HOST_ASYNC_TRANSFER_H_
#define BACKPLANE_SDK_HOST_ASYNC_TRANSFER_H_

#include "sdk/host/buffer.h"

namespace backplane::host {

struct ArrayShape {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
};

// Created by Client::StartTransfer. Buffers that are not complete when it is destroyed become errors. Thread-safe,
// except for moving and destroying.
class AsyncTransfer {
 public:
  AsyncTransfer(const Plugin& plugin, std::shared_ptr<const void> client, PJRT_AsyncHostToDeviceTransferManager* raw)
      : handle_(plugin, std::move(client), raw) {}
  absl::StatusOr<size_t> NumBuffers() const;
  absl::StatusOr<size_t> BufferSize(int index) const;  // bytes on the device
  absl::StatusOr<Device> GetDevice() const;
  // Returns a buffer, which may not be filled yet. May be called once for each buffer.
  absl::StatusOr<Buffer> Retrieve(int index) const;
  // Copies `data` into the buffer, starting at byte `offset`. `data` must not change until the event is ready. `last`:
  // this completes the buffer.
  absl::StatusOr<Event> Send(int index, absl::Span<const std::byte> data, int64_t offset, bool last) const;
  absl::StatusOr<Event> SendArray(int index, const HostArray& array) const;  // `array` must not change either
  absl::Status Fail(int index, const absl::Status& error) const;
  absl::Status AddMetadata(absl::Span<const NamedValue> facts) const;
  PJRT_AsyncHostToDeviceTransferManager* raw() const { return handle_.get(); }

 private:
  internal::Handle<PJRT_AsyncHostToDeviceTransferManager> handle_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_ASYNC_TRANSFER_H_
