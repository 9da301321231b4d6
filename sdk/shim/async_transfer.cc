// Buffers that are filled from host memory piece by piece.
#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/strided_copy.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

struct PJRT_AsyncHostToDeviceTransferManager {
  struct Slot {
    backplane::Shape shape;
    std::shared_ptr<backplane::Storage> storage;  // null after an error, and once complete and retrieved
    backplane::Promise ready;
    size_t bytes = 0;
    int64_t pending = 0;  // transfers in progress
    bool last_seen = false, finished = false, retrieved = false;
    absl::Status error;  // the first error of a transfer
  };
  std::shared_ptr<backplane::shim::ClientState> client;
  PJRT_Device* device = nullptr;
  backplane::shim::MemoryObject* memory = nullptr;
  struct Shared {
    backplane::Mutex mu;
    std::vector<Slot> slots ABSL_GUARDED_BY(mu);
    backplane::NamedValues metadata;
  };
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
};

namespace backplane::shim {
namespace {

using Manager = PJRT_AsyncHostToDeviceTransferManager;

absl::StatusOr<Manager::Slot*> FindSlot(Manager& manager, int index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(manager.shared->mu) {
  auto& slots = manager.shared->slots;
  if (index < 0 || index >= static_cast<int>(slots.size())) {
    return absl::InvalidArgumentError(absl::StrCat("transfer: buffer index ", index, " of ", slots.size()));
  }
  return &slots[index];
}

// Starts a transfer of `src` to the part of a slot that `prepare` determines. Returns an event for the host. After an
// error nothing reads `src`.
absl::StatusOr<PJRT_Event*> Transfer(Manager& manager, int index, bool last, const HostArray& src,
                                     absl::FunctionRef<absl::StatusOr<DeviceArray>(const Manager::Slot&)> prepare) {
  std::unique_ptr<PJRT_Event> event(NewEvent(Event()));
  DeviceArray target;
  std::function<void(const absl::Status&)> end = [shared = manager.shared, index](const absl::Status& status) {
    Promise ready;
    absl::Status result;
    {
      MutexLock lock(shared->mu);
      Manager::Slot& slot = shared->slots[index];
      --slot.pending;
      if (slot.error.ok()) slot.error = status;
      if (slot.finished || !slot.last_seen || slot.pending > 0) return;
      slot.finished = true;
      if (slot.retrieved) slot.storage.reset();  // only the buffer holds it now
      ready = slot.ready;
      result = slot.error;
    }
    ready.Set(result);
  };
  {
    MutexLock lock(manager.shared->mu);
    ASSIGN_OR_RETURN(Manager::Slot * slot, FindSlot(manager, index));
    if (slot->finished) return absl::FailedPreconditionError(absl::StrCat("transfer: buffer ", index, " has an error"));
    if (slot->last_seen) {
      return absl::FailedPreconditionError(absl::StrCat("transfer: buffer ", index, " had its last transfer"));
    }
    ASSIGN_OR_RETURN(target, prepare(*slot));
    slot->last_seen = last;
    ++slot->pending;
  }
  // If there is no memory for the transfer, the slot must not wait for it.
  Event done;
  absl::Cleanup failed = [&done, &end] {
    (void)done.Await();
    end(CatchExceptions(
        []() -> absl::Status { return absl::ResourceExhaustedError("transfer: there was no memory to begin it"); }));
  };
  done = CopyIn(manager.client, src, target, HostUse::kUntilReleased).done;
  target.storage.reset();
  done.OnReady(end);
  std::move(failed).Cancel();
  event->event = std::move(done);
  return event.release();
}

}  // namespace

absl::Status Client_CreateBuffersForAsyncHostToDevice(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& a) {
  BP_REQUIRE(a.client);
  BP_REQUIRE(a.memory);
  if (a.num_shape_specs > 0) BP_REQUIRE(a.shape_specs);
  if (a.num_device_layouts != 0 && a.num_device_layouts != a.num_shape_specs) {
    return absl::InvalidArgumentError(
        absl::StrCat("transfer: ", a.num_device_layouts, " layouts for ", a.num_shape_specs, " buffers"));
  }
  if (a.num_device_layouts > 0) BP_REQUIRE(a.device_layouts);
  auto manager = std::make_unique<Manager>();
  manager->client = a.client->state;
  ASSIGN_OR_RETURN(manager->memory, ChooseMemory(*manager->client, nullptr, a.memory, &manager->device));
  const char* at = reinterpret_cast<const char*>(a.shape_specs);
  for (size_t i = 0; i < a.num_shape_specs; ++i) {
    ASSIGN_OR_RETURN(PJRT_ShapeSpec spec, ReadStruct("PJRT_ShapeSpec", reinterpret_cast<const PJRT_ShapeSpec*>(at),
                                                     PJRT_ShapeSpec_STRUCT_SIZE));
    at += std::max(spec.struct_size, sizeof(PJRT_ShapeSpec));
    Manager::Slot slot;
    ASSIGN_OR_RETURN(slot.shape, ReadShape(spec.element_type, spec.dims, spec.num_dims));
    RETURN_IF_ERROR(SetLayout(*manager->client, a.num_device_layouts > 0 ? a.device_layouts[i] : nullptr, &slot.shape));
    ASSIGN_OR_RETURN(slot.bytes, manager->client->client->StorageSize(slot.shape, manager->memory->info->id));
    ASSIGN_OR_RETURN(slot.storage, AllocateFor(*manager->client, slot.shape, manager->memory));
    slot.ready = Promise("transfer");
    MutexLock lock(manager->shared->mu);
    manager->shared->slots.push_back(std::move(slot));
  }
  a.transfer_manager = manager.release();
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_Destroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args& a) {
  if (a.transfer_manager == nullptr) return absl::OkStatus();
  // Buffers that will never get their last piece become errors. Transfers in progress continue. Nothing is allocated
  // but the text of the error.
  const std::shared_ptr<Manager::Shared> shared = a.transfer_manager->shared;
  for (size_t i = 0;; ++i) {
    Promise abandoned;
    {
      MutexLock lock(shared->mu);
      if (i == shared->slots.size()) break;
      Manager::Slot& slot = shared->slots[i];
      if (slot.finished || slot.last_seen) continue;
      slot.finished = true;
      slot.storage.reset();
      abandoned = slot.ready;
    }
    abandoned.Set(CatchExceptions([]() -> absl::Status {
      return absl::CancelledError("transfer: the manager was destroyed before the last transfer");
    }));
  }
  delete a.transfer_manager;
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_TransferData(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& a) {
  BP_REQUIRE(a.transfer_manager);
  if (a.transfer_size > 0) BP_REQUIRE(a.data);
  Manager& manager = *a.transfer_manager;
  auto prepare = [&](const Manager::Slot& slot) -> absl::StatusOr<DeviceArray> {
    const uint64_t have = slot.bytes;
    if (a.offset < 0 || a.transfer_size < 0 || static_cast<uint64_t>(a.offset) > have ||
        static_cast<uint64_t>(a.transfer_size) > have - a.offset) {
      return absl::InvalidArgumentError(
          absl::StrCat("transfer: ", a.transfer_size, " bytes to ", a.offset, " of a buffer of ", have, " bytes"));
    }
    Shape bytes(PrimitiveType::kU8, {a.transfer_size});
    bytes.set_row_major();
    return DeviceArray{std::move(bytes), manager.memory->info->id,
                       SliceStorage(slot.storage, static_cast<size_t>(a.offset), static_cast<size_t>(a.transfer_size)),
                       Event()};
  };
  const int64_t stride = 1;
  const HostArray source{a.data, PrimitiveType::kU8, absl::MakeConstSpan(&a.transfer_size, 1),
                         absl::MakeConstSpan(&stride, 1)};
  ASSIGN_OR_RETURN(a.done_with_h2d_transfer, Transfer(manager, a.buffer_index, a.is_last_transfer, source, prepare));
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args& a) {
  BP_REQUIRE(a.transfer_manager);
  Manager& manager = *a.transfer_manager;
  ASSIGN_OR_RETURN(Shape source, ReadShape(a.shape_element_type, a.shape_dims, a.shape_num_dims));
  if (source.IsArray() && source.num_elements() > 0) BP_REQUIRE(a.data);
  if (a.shape_layout != nullptr) {
    ASSIGN_OR_RETURN(Layout layout, ReadLayout(a.shape_layout, source));
    source.set_layout(std::move(layout));
  }
  ASSIGN_OR_RETURN(DimVector strides, DenseByteStrides(source));
  auto prepare = [&](const Manager::Slot& slot) -> absl::StatusOr<DeviceArray> {
    if (!(slot.shape == source)) {
      return absl::InvalidArgumentError(
          absl::StrCat("transfer: literal ", source.ToString(), " for a buffer ", slot.shape.ToString()));
    }
    return DeviceArray{slot.shape, manager.memory->info->id, slot.storage, Event()};
  };
  const HostArray host{a.data, source.element_type(), source.dimensions(), strides};
  ASSIGN_OR_RETURN(a.done_with_h2d_transfer, Transfer(manager, a.buffer_index, /*last=*/true, host, prepare));
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args& a) {
  BP_REQUIRE(a.transfer_manager);
  Manager& manager = *a.transfer_manager;
  MutexLock lock(manager.shared->mu);
  ASSIGN_OR_RETURN(Manager::Slot * slot, FindSlot(manager, a.buffer_index));
  if (slot->retrieved) {
    return absl::FailedPreconditionError(absl::StrCat("transfer: buffer ", a.buffer_index, " was retrieved before"));
  }
  slot->retrieved = true;
  std::shared_ptr<Storage> storage = slot->storage;
  if (slot->finished) slot->storage.reset();
  a.buffer_out = NewBuffer(manager.client, manager.device, manager.memory,
                           {slot->shape, manager.memory->info->id, std::move(storage), slot->ready.event()});
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_Device(PJRT_AsyncHostToDeviceTransferManager_Device_Args& a) {
  BP_REQUIRE(a.transfer_manager);
  a.device_out = a.transfer_manager->device;
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_BufferCount(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args& a) {
  BP_REQUIRE(a.transfer_manager);
  MutexLock lock(a.transfer_manager->shared->mu);
  a.buffer_count = a.transfer_manager->shared->slots.size();
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_BufferSize(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args& a) {
  BP_REQUIRE(a.transfer_manager);
  MutexLock lock(a.transfer_manager->shared->mu);
  ASSIGN_OR_RETURN(Manager::Slot * slot, FindSlot(*a.transfer_manager, a.buffer_index));
  a.buffer_size = slot->bytes;
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args& a) {
  BP_REQUIRE(a.transfer_manager);
  absl::Status error = MakeStatus(a.error_code, a.error_message, a.error_message_size);
  if (error.ok()) return absl::InvalidArgumentError("transfer: code OK is no error");
  Promise ready;
  {
    MutexLock lock(a.transfer_manager->shared->mu);
    ASSIGN_OR_RETURN(Manager::Slot * slot, FindSlot(*a.transfer_manager, a.buffer_index));
    if (slot->finished || slot->last_seen) {
      return absl::FailedPreconditionError(absl::StrCat("transfer: buffer ", a.buffer_index, " is complete"));
    }
    slot->finished = true;
    slot->storage.reset();
    ready = slot->ready;
  }
  ready.Set(error);
  return absl::OkStatus();
}

absl::Status AsyncHostToDeviceTransferManager_AddMetadata(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args& a) {
  BP_REQUIRE(a.transfer_manager);
  ASSIGN_OR_RETURN(NamedValues metadata, ReadNamedValues(a.transfer_metadata, a.num_metadata));
  MutexLock lock(a.transfer_manager->shared->mu);
  for (auto& [name, value] : metadata) a.transfer_manager->shared->metadata[name] = std::move(value);
  return absl::OkStatus();
}

}  // namespace backplane::shim
