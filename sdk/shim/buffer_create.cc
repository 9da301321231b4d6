// Creates buffers from host memory, from memory of the caller, without contents, and with errors.
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/backend/strided_copy.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

// The promise of a value for an alias buffer.
struct PJRT_FulfillAliasBufferCallback {
  std::unique_ptr<PJRT_Buffer> alias;  // refers to the same memory as the host's buffer
  backplane::Promise ready{"alias buffer"};
};

namespace backplane::shim {
namespace {

struct HostSource {
  const void* data;
  Shape shape;
  DimVector strides;
};

absl::StatusOr<HostSource> ReadHostSource(const PJRT_Client_BufferFromHostBuffer_Args& a) {
  ASSIGN_OR_RETURN(Shape shape, ReadShape(a.type, a.dims, a.num_dims));
  HostSource source{a.data, std::move(shape), {}};
  if (!source.shape.IsArray()) return absl::InvalidArgumentError("buffer from host: a token has no host memory");
  if (a.data == nullptr && source.shape.num_elements() > 0) return MakeNullFieldError("data");
  if (a.num_byte_strides != 0) {
    if (a.num_byte_strides != a.num_dims) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer from host: ", a.num_byte_strides, " byte strides for rank ", a.num_dims));
    }
    BP_REQUIRE(a.byte_strides);
    source.strides.assign(a.byte_strides, a.byte_strides + a.num_byte_strides);
  } else {
    ASSIGN_OR_RETURN(source.strides, DenseByteStrides(source.shape));
  }
  return source;
}

// Whether so many bytes from the address on can be memory at all.
bool IsPossibleAddressRange(const void* data, uint64_t bytes, bool host) {
  const uint64_t address = reinterpret_cast<uintptr_t>(data);
  // Linux gives a program host memory beyond 48 bits only where it asks for addresses there, so no block reaches across
  // from below; with larger page tables addresses have up to 57 bits. Of a device's addresses nothing is known.
  const int bits = !host ? 63 : address < (uint64_t{1} << 48) ? 48 : 57;
  const uint64_t end = uint64_t{1} << bits;
  return address <= end && bytes <= end - address;
}

absl::Status CheckAddressRange(const char* what, const void* data, const Shape& shape, uint64_t bytes, bool host) {
  if (IsPossibleAddressRange(data, bytes, host)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": no memory has the ", bytes, " bytes of ", shape.ToString(), " behind that address"));
}

// Whether the host memory itself can be the storage: same order, no gaps, and an address that the backend accepts.
bool FitsInPlace(const HostSource& source, const Shape& device_shape, const MemoryObject& memory) {
  if (memory.zero_copy_alignment == 0 || !memory.host) return false;
  if (IsSubByte(device_shape.element_type())) return false;  // the copy normalizes the unused bits
  if (reinterpret_cast<uintptr_t>(source.data) % memory.zero_copy_alignment != 0 || source.data == nullptr)
    return false;
  absl::StatusOr<DimVector> strides = DenseByteStrides(device_shape);
  if (!strides.ok()) return false;
  for (int64_t d = 0; d < device_shape.rank(); ++d) {
    if (device_shape.dimensions(d) != 1 && source.strides[d] != (*strides)[d]) return false;
  }
  return true;
}

absl::StatusOr<Shape> ShapeFor(ClientState& client, PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims,
                               const PJRT_Buffer_MemoryLayout* layout) {
  ASSIGN_OR_RETURN(Shape shape, ReadShape(type, dims, num_dims));
  RETURN_IF_ERROR(SetLayout(client, layout, &shape));
  return shape;
}

}  // namespace

absl::Status Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args& a) {
  BP_REQUIRE(a.client);
  const std::shared_ptr<ClientState>& client = a.client->state;
  ASSIGN_OR_RETURN(HostSource source, ReadHostSource(a));
  PJRT_Device* device = a.device;
  ASSIGN_OR_RETURN(MemoryObject * memory, ChooseMemory(*client, a.device, a.memory, &device));
  Shape shape = std::move(source.shape);
  RETURN_IF_ERROR(SetLayout(*client, a.device_layout, &shape));

  const bool may_borrow = a.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy ||
                          a.host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy;
  if (may_borrow && FitsInPlace(source, shape, *memory)) {
    RETURN_IF_ERROR(
        CheckAddressRange("buffer from host", source.data, shape, static_cast<uint64_t>(shape.byte_size()), true));
    Event released = Event::Create();
    const bool writable = a.host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy;
    std::shared_ptr<Storage> storage =
        BorrowStorage(const_cast<void*>(source.data), static_cast<size_t>(shape.byte_size()), writable,
                      [released] { released.Set(); });
    DeviceArray array{std::move(shape), memory->info->id, std::move(storage), Event()};
    std::unique_ptr<PJRT_Buffer> buffer(NewBuffer(client, device, memory, std::move(array)));
    a.done_with_host_buffer = NewEvent(std::move(released));
    a.buffer = buffer.release();
    return absl::OkStatus();
  }

  ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, AllocateFor(*client, shape, memory));
  DeviceArray array{std::move(shape), memory->info->id, std::move(storage), Event()};
  std::unique_ptr<PJRT_Event> released(NewEvent(Event()));
  const bool lent = a.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  CopyFromHostEvents copy =
      CopyIn(client, {source.data, array.shape.element_type(), array.shape.dimensions(), source.strides}, array,
             lent ? HostUse::kDuringCall : HostUse::kUntilReleased);
  if (copy.done.IsReady()) RETURN_IF_ERROR(copy.done.status());
  array.ready = std::move(copy.done);
  // If there is no memory for the buffer, this call fails, and the host may reuse its memory at once.
  absl::Cleanup read = [&copy] { (void)copy.host_released.Await(); };
  a.buffer = NewBuffer(client, device, memory, std::move(array));
  std::move(read).Cancel();
  released->event = std::move(copy.host_released);
  a.done_with_host_buffer = released.release();
  return absl::OkStatus();
}

absl::Status Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args& a) {
  BP_REQUIRE(a.client);
  const std::shared_ptr<ClientState>& client = a.client->state;
  ASSIGN_OR_RETURN(Shape shape, ShapeFor(*client, a.element_type, a.dims, a.num_dims, a.layout));
  PJRT_Device* device = a.device;
  ASSIGN_OR_RETURN(MemoryObject * memory, ChooseMemory(*client, a.device, a.memory, &device));
  ASSIGN_OR_RETURN(size_t bytes, client->client->StorageSize(shape, memory->info->id));
  if (a.device_buffer_ptr == nullptr && bytes > 0) return MakeNullFieldError("device_buffer_ptr");
  RETURN_IF_ERROR(CheckAddressRange("view of device buffer", a.device_buffer_ptr, shape, bytes, memory->host));
  Event ready;
  // Host memory has no streams, so `stream` is ignored; hosts without streams leave it unset.
  if (!memory->host && a.stream != 0) {
    ASSIGN_OR_RETURN(ready, client->client->GetStreamEvent(device->info().id, reinterpret_cast<void*>(a.stream)));
  }
  const size_t alignment = client->client->ViewAlignment(memory->info->id, shape.element_type());
  if (alignment == 0 && memory->host)
    return absl::UnimplementedError("view of device buffer: this memory takes no foreign addresses");
  if (alignment != 0 && reinterpret_cast<uintptr_t>(a.device_buffer_ptr) % alignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("view of device buffer: the address is not aligned to ", alignment, " bytes"));
  }
  std::function<void()> release;
  if (a.on_delete_callback != nullptr) {
    release = [callback = a.on_delete_callback, pointer = a.device_buffer_ptr, arg = a.on_delete_callback_arg] {
      callback(pointer, arg);
    };
  }
  DeviceArray array{std::move(shape), memory->info->id,
                    BorrowStorage(a.device_buffer_ptr, bytes, true, std::move(release)), std::move(ready)};
  a.buffer = NewBuffer(client, device, memory, std::move(array));
  return absl::OkStatus();
}

absl::Status Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args& a) {
  BP_REQUIRE(a.client);
  const std::shared_ptr<ClientState>& client = a.client->state;
  ASSIGN_OR_RETURN(Shape shape,
                   ShapeFor(*client, a.shape_element_type, a.shape_dims, a.shape_num_dims, a.shape_layout));
  PJRT_Device* device = a.device;
  ASSIGN_OR_RETURN(MemoryObject * memory, ChooseMemory(*client, a.device, a.memory, &device));
  ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, AllocateFor(*client, shape, memory));
  a.buffer = NewBuffer(client, device, memory, {std::move(shape), memory->info->id, std::move(storage), Event()});
  return absl::OkStatus();
}

absl::Status Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args& a) {
  BP_REQUIRE(a.client);
  BP_REQUIRE(a.memory);
  const std::shared_ptr<ClientState>& client = a.client->state;
  PJRT_Buffer_MemoryLayout* layout = a.device_layout != nullptr ? a.device_layout : a.shape_layout;
  ASSIGN_OR_RETURN(Shape shape, ShapeFor(*client, a.shape_element_type, a.shape_dims, a.shape_num_dims, layout));
  ASSIGN_OR_RETURN(MemoryObject * memory, ChooseMemory(*client, nullptr, a.memory, nullptr));
  absl::Status error = MakeStatus(a.error_code, a.error_message, a.error_message_size);
  if (error.ok()) return absl::InvalidArgumentError("error buffer: code OK is no error");
  ASSIGN_OR_RETURN(NamedValues payload, ReadNamedValues(a.payload, a.num_payload));
  for (const auto& [key, value] : payload) {
    if (const auto* text = std::get_if<std::string>(&value)) error.SetPayload(key, absl::Cord(*text));
  }
  a.buffer = NewBuffer(client, nullptr, memory, {std::move(shape), memory->info->id, nullptr, Event::Ready(error)});
  return absl::OkStatus();
}

absl::Status Client_CreateAliasBuffer(PJRT_Client_CreateAliasBuffer_Args& a) {
  BP_REQUIRE(a.client);
  BP_REQUIRE(a.memory);
  const std::shared_ptr<ClientState>& client = a.client->state;
  ASSIGN_OR_RETURN(Shape shape,
                   ShapeFor(*client, a.shape_element_type, a.shape_dims, a.shape_num_dims, a.shape_layout));
  ASSIGN_OR_RETURN(MemoryObject * memory, ChooseMemory(*client, nullptr, a.memory, nullptr));
  // The alias has memory of its own, so that work can be enqueued on it before the value is known.
  ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, AllocateFor(*client, shape, memory));
  auto promise = std::make_unique<PJRT_FulfillAliasBufferCallback>();
  std::unique_ptr<PJRT_Buffer> alias(
      NewBuffer(client, nullptr, memory, {shape, memory->info->id, storage, promise->ready.event()}));
  // The host may destroy the alias before it fulfills the promise, so we keep a buffer.
  promise->alias.reset(
      NewBuffer(client, nullptr, memory, {shape, memory->info->id, std::move(storage), promise->ready.event()}));
  a.alias_buffer = alias.release();
  a.fulfill_alias_buffer_cb = promise.release();
  return absl::OkStatus();
}

absl::Status Client_FulfillAliasBuffer(PJRT_Client_FulfillAliasBuffer_Args& a) {
  BP_REQUIRE(a.client);
  BP_REQUIRE(a.fulfill_alias_buffer_cb);
  const std::shared_ptr<ClientState>& client = a.client->state;
  absl::Status status = MakeStatus(a.status_code, a.error_message, a.error_message_size);
  // If the call is refused, the host keeps the promise. So everything is checked first.
  HeldArray from;
  if (status.ok()) {
    BP_REQUIRE(a.buffer);
    PJRT_Buffer* alias = a.fulfill_alias_buffer_cb->alias.get();
    if (alias->client != client || a.buffer->client != client)
      return absl::InvalidArgumentError("fulfill alias: the alias or the buffer belongs to another client");
    if (!(a.buffer->shape == alias->shape)) {
      return absl::InvalidArgumentError(absl::StrCat("fulfill alias: the alias is ", alias->shape.ToString(),
                                                     ", the buffer is ", a.buffer->shape.ToString()));
    }
    ASSIGN_OR_RETURN(from, a.buffer->Read("fulfill alias"));
    // The value would wait for itself.
    MutexLock lock(alias->mu);
    if (from.storage != nullptr && from.storage == alias->storage)
      return absl::InvalidArgumentError("fulfill alias: the buffer is the alias itself");
  }
  std::unique_ptr<PJRT_FulfillAliasBufferCallback> promise(a.fulfill_alias_buffer_cb);
  if (!status.ok()) {
    promise->ready.Set(status);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(DeviceArray to, promise->alias->Take("fulfill alias"));
  to.ready = Event();  // nothing else writes to it
  const Event done = CopyToArray(client, std::move(from), to);
  to.storage.reset();  // only the buffer holds it when the value is available
  done.OnReady([ready = promise->ready](const absl::Status& copied) { ready.Set(copied); });
  return absl::OkStatus();
}

}  // namespace backplane::shim
