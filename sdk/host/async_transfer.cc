#include "sdk/host/async_transfer.h"

#include "sdk/host/status.h"

namespace backplane::host {

// Declares the arguments `a` of a call on this manager.
#define BP_BEGIN(fn)                       \
  const Plugin& plugin = handle_.plugin(); \
  BP_PJRT_ARGS(plugin, a, fn);             \
  a.transfer_manager = handle_.get()

absl::StatusOr<size_t> AsyncTransfer::NumBuffers() const {
  BP_BEGIN(PJRT_AsyncHostToDeviceTransferManager_BufferCount);
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_AsyncHostToDeviceTransferManager_BufferCount, a));
  return a.buffer_count;
}

absl::StatusOr<size_t> AsyncTransfer::BufferSize(int index) const {
  BP_BEGIN(PJRT_AsyncHostToDeviceTransferManager_BufferSize);
  a.buffer_index = index;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_AsyncHostToDeviceTransferManager_BufferSize, a));
  return a.buffer_size;
}

absl::StatusOr<Device> AsyncTransfer::GetDevice() const {
  BP_BEGIN(PJRT_AsyncHostToDeviceTransferManager_Device);
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_AsyncHostToDeviceTransferManager_Device, a));
  return Device(plugin, a.device_out);
}

absl::StatusOr<Buffer> AsyncTransfer::Retrieve(int index) const {
  BP_BEGIN(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer);
  a.buffer_index = index;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, a));
  return Buffer(plugin, handle_.keep(), a.buffer_out);
}

absl::StatusOr<Event> AsyncTransfer::Send(int index, absl::Span<const std::byte> data, int64_t offset,
                                          bool last) const {
  BP_BEGIN(PJRT_AsyncHostToDeviceTransferManager_TransferData);
  a.buffer_index = index;
  a.data = data.data();
  a.offset = offset;
  a.transfer_size = static_cast<int64_t>(data.size());
  a.is_last_transfer = last;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_AsyncHostToDeviceTransferManager_TransferData, a));
  return Event(plugin, handle_.keep(), a.done_with_h2d_transfer);
}

absl::StatusOr<Event> AsyncTransfer::SendArray(int index, const HostArray& array) const {
  BP_BEGIN(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral);
  a.buffer_index = index;
  a.data = array.data.data();
  a.shape_dims = array.dims.data();
  a.shape_num_dims = array.dims.size();
  a.shape_element_type = array.type;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, a));
  return Event(plugin, handle_.keep(), a.done_with_h2d_transfer);
}

absl::Status AsyncTransfer::Fail(int index, const absl::Status& error) const {
  BP_BEGIN(PJRT_AsyncHostToDeviceTransferManager_SetBufferError);
  a.buffer_index = index;
  a.error_code = static_cast<PJRT_Error_Code>(error.code());
  a.error_message = error.message().data();
  a.error_message_size = error.message().size();
  return BP_PJRT_CALL(plugin, PJRT_AsyncHostToDeviceTransferManager_SetBufferError, a);
}

absl::Status AsyncTransfer::AddMetadata(absl::Span<const NamedValue> facts) const {
  BP_BEGIN(PJRT_AsyncHostToDeviceTransferManager_AddMetadata);
  std::vector<PJRT_NamedValue> borrowed = BorrowNamedValues(facts);
  a.transfer_metadata = borrowed.data();
  a.num_metadata = borrowed.size();
  return BP_PJRT_CALL(plugin, PJRT_AsyncHostToDeviceTransferManager_AddMetadata, a);
}

}  // namespace backplane::host
