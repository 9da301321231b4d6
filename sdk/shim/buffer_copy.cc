// Copies from a buffer to host memory, to another device or to another memory.
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "sdk/backend/strided_copy.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

// Replaces `array` by an array of the given range of its bytes.
absl::Status SelectBytes(ClientState& client, int64_t offset, int64_t size, DeviceArray* array) {
  ASSIGN_OR_RETURN(size_t have, client.client->StorageSize(array->shape, array->memory));
  if (offset < 0 || size < 0 || static_cast<uint64_t>(offset) > have || static_cast<uint64_t>(size) > have - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy raw: ", size, " bytes from ", offset, " of a buffer of ", have, " bytes"));
  }
  array->shape = Shape(PrimitiveType::kU8, {size});
  array->shape.set_row_major();
  return absl::OkStatus();
}

Event CopyBytesOut(const std::shared_ptr<ClientState>& client, HeldArray array, int64_t offset, void* dst) {
  if (array.storage != nullptr) {
    array.storage = SliceStorage(std::move(array.storage), static_cast<size_t>(offset),
                                 static_cast<size_t>(array.shape.byte_size()));
  }
  const Shape bytes = array.shape;
  return CopyOut(client, std::move(array), bytes, dst);
}

absl::StatusOr<PJRT_Buffer*> CopyTo(PJRT_Buffer* buffer, PJRT_Device* device, MemoryObject* memory) {
  const std::shared_ptr<ClientState>& client = buffer->client;
  ASSIGN_OR_RETURN(HeldArray from, buffer->Read("copy to memory"));
  Shape shape = from.shape;
  // If the destination does not support the layout of the source, the default layout is used.
  if (shape.IsArray() && !client->client->StorageSize(shape, memory->info->id).ok()) {
    RETURN_IF_ERROR(SetLayout(*client, nullptr, &shape));
  }
  if (from.ready.IsReady() && !from.ready.status().ok()) {
    return NewBuffer(client, device, memory, {std::move(shape), memory->info->id, nullptr, from.ready});
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, AllocateFor(*client, shape, memory));
  DeviceArray to{std::move(shape), memory->info->id, std::move(storage), Event()};
  to.ready = CopyToArray(client, std::move(from), to);
  return NewBuffer(client, device, memory, std::move(to));
}

}  // namespace

absl::Status Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args& a) {
  BP_REQUIRE(a.src);
  const std::shared_ptr<ClientState>& client = a.src->client;
  Shape host = a.src->shape;
  if (!host.IsArray()) return absl::InvalidArgumentError("to host buffer: a token has no value");
  if (a.host_layout != nullptr) {
    ASSIGN_OR_RETURN(Layout layout, ReadLayout(a.host_layout, host));
    host.set_layout(std::move(layout));
  }
  if (host.has_layout()) {
    host.mutable_layout().tiles.clear();
    host.mutable_layout().memory_space = 0;
    host.mutable_layout().element_size_in_bits = 0;
  } else {
    host.set_row_major();
  }
  const size_t needed = static_cast<size_t>(host.byte_size());
  if (a.dst == nullptr) {
    a.dst_size = needed;
    a.event = nullptr;
    return absl::OkStatus();
  }
  if (a.dst_size < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("to host buffer: ", host.ToString(true), " needs ", needed, " bytes, dst_size is ", a.dst_size));
  }
  ASSIGN_OR_RETURN(HeldArray array, a.src->Read("to host buffer"));
  // The event is made first: a call that fails must not leave a copy behind that writes to the host's memory.
  std::unique_ptr<PJRT_Event> event(NewEvent(Event()));
  event->event = CopyOut(client, std::move(array), host, a.dst);
  a.event = event.release();
  return absl::OkStatus();
}

absl::Status Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args& a) {
  BP_REQUIRE(a.buffer);
  if (a.transfer_size > 0) BP_REQUIRE(a.dst);
  const std::shared_ptr<ClientState>& client = a.buffer->client;
  ASSIGN_OR_RETURN(HeldArray array, a.buffer->Read("copy raw"));
  RETURN_IF_ERROR(SelectBytes(*client, a.offset, a.transfer_size, &array));
  std::unique_ptr<PJRT_Event> event(NewEvent(Event()));  // as above
  event->event = CopyBytesOut(client, std::move(array), a.offset, a.dst);
  a.event = event.release();
  return absl::OkStatus();
}

absl::Status Buffer_CopyRawToHostFuture(PJRT_Buffer_CopyRawToHostFuture_Args& a) {
  BP_REQUIRE(a.buffer);
  struct Pending {
    std::shared_ptr<ClientState> client;
    HeldArray array;
    int64_t offset;
    Promise done{"copy raw"};
  };
  auto pending = std::make_unique<Pending>();
  pending->client = a.buffer->client;
  ASSIGN_OR_RETURN(pending->array, a.buffer->Read("copy raw"));
  RETURN_IF_ERROR(SelectBytes(*pending->client, a.offset, a.transfer_size, &pending->array));
  pending->offset = a.offset;
  a.event = NewEvent(pending->done.event());
  a.callback_data = pending.release();
  a.future_ready_callback = [](PJRT_Buffer_CopyRawToHostFuture_Callback_Args* args) {
    std::unique_ptr<Pending> p(static_cast<Pending*>(args->callback_data));
    Promise done = p->done;
    absl::Status status = MakeStatus(args->error_code, args->error_message, args->error_message_size);
    if (!status.ok()) {
      p.reset();
      done.Set(status);
      return;
    }
    Event copied;
    const absl::Status started = CatchExceptions([&] {
      copied = CopyBytesOut(p->client, std::move(p->array), p->offset, args->dst);
      p.reset();
      copied.OnReady([done](const absl::Status& end) { done.Set(end); });
    });
    if (started.ok()) return;
    (void)copied.Await();  // it may still write to the host's memory
    done.Set(started);
  };
  return absl::OkStatus();
}

absl::Status Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args& a) {
  BP_REQUIRE(a.buffer);
  BP_REQUIRE(a.dst_device);
  PJRT_Device* device = a.dst_device;
  ASSIGN_OR_RETURN(MemoryObject * memory, ChooseMemory(*a.buffer->client, a.dst_device, nullptr, &device));
  ASSIGN_OR_RETURN(a.dst_buffer, CopyTo(a.buffer, device, memory));
  return absl::OkStatus();
}

absl::Status Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args& a) {
  BP_REQUIRE(a.buffer);
  BP_REQUIRE(a.dst_memory);
  PJRT_Device* device = a.buffer->device;
  ASSIGN_OR_RETURN(MemoryObject * memory, ChooseMemory(*a.buffer->client, a.buffer->device, a.dst_memory, &device));
  ASSIGN_OR_RETURN(a.dst_buffer, CopyTo(a.buffer, device, memory));
  return absl::OkStatus();
}

}  // namespace backplane::shim
