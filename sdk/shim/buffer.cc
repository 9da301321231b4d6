// PJRT_Buffer: properties, deletion, external references.
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

namespace {

absl::Status Deleted(const PJRT_Buffer* buffer, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": buffer ", buffer->shape.ToString(), " has been deleted or donated"));
}

}  // namespace

absl::StatusOr<backplane::shim::HeldArray> PJRT_Buffer::Read(const char* what) {
  backplane::MutexLock lock(mu);
  if (gone()) return Deleted(this, what);
  return backplane::shim::HeldArray{{shape, memory->info->id, storage, ready}, GetMark()};
}

absl::StatusOr<backplane::shim::HeldArray> PJRT_Buffer::Take(const char* what) {
  backplane::MutexLock lock(mu);
  if (gone()) return Deleted(this, what);
  deleted = true;
  return backplane::shim::HeldArray{{shape, memory->info->id, std::move(storage), std::move(ready)}, std::move(use)};
}

absl::StatusOr<backplane::shim::HeldArray> PJRT_Buffer::Claim(bool* sole, const char* what) {
  backplane::MutexLock lock(mu);
  if (gone()) return Deleted(this, what);
  backplane::shim::HeldArray array{{shape, memory->info->id, nullptr, backplane::Event()}, nullptr};
  // Nothing throws from here on.
  claimed = true;
  *sole = use.use_count() <= 1;
  if (*sole) std::atomic_thread_fence(std::memory_order_acquire);
  array.storage = std::move(storage);
  array.ready = std::move(ready);
  array.use = std::move(use);
  return array;
}

void PJRT_Buffer::UndoClaim(backplane::shim::HeldArray array) {
  backplane::MutexLock lock(mu);
  claimed = false;
  if (deleted) return;  // deleted by the host meanwhile; `array` is freed after the lock is released
  storage = std::move(array.storage);
  ready = std::move(array.ready);
  use = std::move(array.use);
}

void PJRT_Buffer::CommitDonation() {
  backplane::MutexLock lock(mu);
  claimed = false;
  deleted = true;
}

namespace backplane::shim {
namespace {

// Waits for the value and returns the array, for calls that return an address. Returns InvalidArgument after deletion.
absl::StatusOr<HeldArray> AwaitArray(PJRT_Buffer* buffer, const char* what) {
  ASSIGN_OR_RETURN(HeldArray array, buffer->Read(what));
  RETURN_IF_ERROR(array.ready.Await());
  if (array.storage == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(what, ": buffer ", buffer->shape.ToString(), " has no memory"));
  }
  return array;
}

}  // namespace

PJRT_Buffer* NewBuffer(std::shared_ptr<ClientState> client, PJRT_Device* device, MemoryObject* memory,
                       DeviceArray&& array, UseMark use) {
  return new PJRT_Buffer(std::move(client), device != nullptr ? device : memory->devices.front(), memory,
                         std::move(array), std::move(use));
}

absl::Status SetLayout(ClientState& client, const PJRT_Buffer_MemoryLayout* layout, Shape* shape) {
  if (!shape->IsArray()) return absl::OkStatus();
  if (layout != nullptr) {
    ASSIGN_OR_RETURN(Layout wanted, ReadLayout(layout, *shape));
    shape->set_layout(std::move(wanted));
  } else {
    ASSIGN_OR_RETURN(Layout standard, client.client->DefaultLayout(shape->element_type(), shape->dimensions()));
    shape->set_layout(std::move(standard));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Storage>> AllocateFor(ClientState& client, const Shape& shape, MemoryObject* memory) {
  ASSIGN_OR_RETURN(size_t bytes, client.client->StorageSize(shape, memory->info->id));
  return client.client->Allocate(memory->info->id, bytes);
}

absl::Status Buffer_Destroy(PJRT_Buffer_Destroy_Args& a) {
  delete a.buffer;
  return absl::OkStatus();
}

absl::Status Buffer_ElementType(PJRT_Buffer_ElementType_Args& a) {
  BP_REQUIRE(a.buffer);
  a.type = ToBufferType(a.buffer->shape.element_type());
  return absl::OkStatus();
}

absl::Status Buffer_Dimensions(PJRT_Buffer_Dimensions_Args& a) {
  BP_REQUIRE(a.buffer);
  a.dims = a.buffer->shape.dimensions().data();
  a.num_dims = a.buffer->shape.dimensions().size();
  return absl::OkStatus();
}

absl::Status Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args& a) {
  BP_REQUIRE(a.buffer);
  if (a.buffer->shape.HasDynamicDimensions()) {
    return absl::UnimplementedError(
        absl::StrCat("unpadded dimensions: sizes of ", a.buffer->shape.ToString(), " are known to the program only"));
  }
  a.unpadded_dims = a.buffer->shape.dimensions().data();
  a.num_dims = a.buffer->shape.dimensions().size();
  return absl::OkStatus();
}

absl::Status Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args& a) {
  BP_REQUIRE(a.buffer);
  PJRT_Buffer& buffer = *a.buffer;
  MutexLock lock(buffer.mu);
  if (buffer.dynamic_dimensions.empty()) {
    for (int64_t d = 0; d < buffer.shape.rank(); ++d) {
      if (buffer.shape.is_dynamic(d)) buffer.dynamic_dimensions.push_back(static_cast<size_t>(d));
    }
  }
  a.dynamic_dim_indices = buffer.dynamic_dimensions.data();
  a.num_dynamic_dims = buffer.dynamic_dimensions.size();
  return absl::OkStatus();
}

absl::Status Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args& a) {
  BP_REQUIRE(a.buffer);
  PJRT_Buffer& buffer = *a.buffer;
  MutexLock lock(buffer.mu);
  if (buffer.layout_view == nullptr) {
    buffer.layout_view = std::make_unique<LayoutView>(buffer.shape.has_layout() ? buffer.shape.layout() : Layout());
  }
  a.layout = buffer.layout_view->view();
  return absl::OkStatus();
}

absl::Status Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args& a) {
  BP_REQUIRE(a.buffer);
  ASSIGN_OR_RETURN(a.on_device_size_in_bytes,
                   a.buffer->client->client->StorageSize(a.buffer->shape, a.buffer->memory->info->id));
  return absl::OkStatus();
}

absl::Status Buffer_Device(PJRT_Buffer_Device_Args& a) {
  BP_REQUIRE(a.buffer);
  a.device = a.buffer->device;
  return absl::OkStatus();
}

absl::Status Buffer_Memory(PJRT_Buffer_Memory_Args& a) {
  BP_REQUIRE(a.buffer);
  a.memory = a.buffer->memory;
  return absl::OkStatus();
}

absl::Status Buffer_Delete(PJRT_Buffer_Delete_Args& a) {
  BP_REQUIRE(a.buffer);
  HeldArray gone;  // freed after the lock is released
  {
    MutexLock lock(a.buffer->mu);
    a.buffer->deleted = true;
    gone.storage = std::move(a.buffer->storage);
    gone.ready = std::move(a.buffer->ready);
    gone.use = std::move(a.buffer->use);
  }
  return absl::OkStatus();
}

absl::Status Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args& a) {
  BP_REQUIRE(a.buffer);
  MutexLock lock(a.buffer->mu);
  a.is_deleted = a.buffer->gone();
  return absl::OkStatus();
}

absl::Status Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args& a) {
  BP_REQUIRE(a.buffer);
  a.is_on_cpu = a.buffer->memory->host;
  return absl::OkStatus();
}

absl::Status Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args& a) {
  BP_REQUIRE(a.buffer);
  MutexLock lock(a.buffer->mu);
  a.event = NewEvent(a.buffer->gone() ? Event::Ready(Deleted(a.buffer, "ready event")) : a.buffer->ready);
  return absl::OkStatus();
}

absl::Status Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args& a) {
  BP_REQUIRE(a.buffer);
  ASSIGN_OR_RETURN(HeldArray array, AwaitArray(a.buffer, "unsafe pointer"));
  array.storage->BeginHostAccess();  // without an end
  a.buffer_pointer = reinterpret_cast<uintptr_t>(array.storage->data());
  return absl::OkStatus();
}

absl::Status Buffer_IncreaseExternalReferenceCount(PJRT_Buffer_IncreaseExternalReferenceCount_Args& a) {
  BP_REQUIRE(a.buffer);
  ASSIGN_OR_RETURN(HeldArray array, AwaitArray(a.buffer, "external reference"));
  auto hold = std::make_unique<HeldArray>(std::move(array));
  MutexLock lock(a.buffer->mu);
  if (a.buffer->external_references == 0) {
    hold->storage->BeginHostAccess();
    a.buffer->external_hold = std::move(hold);
  }
  ++a.buffer->external_references;  // last, for the access may fail for want of memory
  return absl::OkStatus();
}

absl::Status Buffer_DecreaseExternalReferenceCount(PJRT_Buffer_DecreaseExternalReferenceCount_Args& a) {
  BP_REQUIRE(a.buffer);
  std::unique_ptr<HeldArray> hold;  // freed after the lock is released
  MutexLock lock(a.buffer->mu);
  if (a.buffer->external_references == 0) {
    return absl::InvalidArgumentError("external reference: decreased more often than increased");
  }
  if (--a.buffer->external_references == 0) {
    hold = std::move(a.buffer->external_hold);
    hold->storage->EndHostAccess();
  }
  return absl::OkStatus();
}

absl::Status Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& a) {
  BP_REQUIRE(a.buffer);
  {
    // Memory with external references stays addressable after deletion and donation.
    MutexLock lock(a.buffer->mu);
    if (a.buffer->external_hold != nullptr) {
      a.device_memory_ptr = a.buffer->external_hold->storage->data();
      return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(HeldArray array, AwaitArray(a.buffer, "device memory pointer"));
  array.storage->BeginHostAccess();  // without an end
  a.device_memory_ptr = array.storage->data();
  return absl::OkStatus();
}

absl::Status Buffer_DonateWithControlDependency(PJRT_Buffer_DonateWithControlDependency_Args& a) {
  BP_REQUIRE(a.buffer);
  constexpr char kWhat[] = "donate with control dependency";
  auto dependency = std::make_unique<Promise>(kWhat);
  bool sole = false;
  ASSIGN_OR_RETURN(HeldArray array, a.buffer->Claim(&sole, kWhat));
  const absl::Status made = CatchExceptions([&] {
    DeviceArray given = array;
    given.ready = Event::All({array.ready, dependency->event()});
    a.out_buffer = NewBuffer(a.buffer->client, a.buffer->device, a.buffer->memory, std::move(given), array.use);
  });
  if (!made.ok()) {  // no memory: the host keeps its array
    a.buffer->UndoClaim(std::move(array));
    return made;
  }
  a.buffer->CommitDonation();
  a.callback_data = dependency.release();
  a.dependency_ready_callback = [](PJRT_Buffer_DonateWithControlDependency_Callback_Args* args) {
    std::unique_ptr<Promise> promise(static_cast<Promise*>(args->callback_data));
    promise->Set(MakeStatus(args->error_code, args->error_message, args->error_message_size));
  };
  return absl::OkStatus();
}

absl::Status Buffer_Bitcast(PJRT_Buffer_Bitcast_Args& a) {
  BP_REQUIRE(a.buffer);
  ASSIGN_OR_RETURN(Shape shape, ReadShape(a.element_type, a.dims, a.num_dims));
  RETURN_IF_ERROR(SetLayout(*a.buffer->client, a.device_layout, &shape));
  ASSIGN_OR_RETURN(HeldArray array, a.buffer->Read("bitcast"));
  const int32_t memory = a.buffer->memory->info->id;
  ASSIGN_OR_RETURN(size_t have, a.buffer->client->client->StorageSize(array.shape, memory));
  ASSIGN_OR_RETURN(size_t want, a.buffer->client->client->StorageSize(shape, memory));
  if (have != want) {
    return absl::InvalidArgumentError(absl::StrCat("bitcast: ", array.shape.ToString(true), " takes ", have, " bytes, ",
                                                   shape.ToString(true), " takes ", want));
  }
  array.shape = std::move(shape);
  UseMark use = std::move(array.use);
  a.out_buffer = NewBuffer(a.buffer->client, a.buffer->device, a.buffer->memory, std::move(array), std::move(use));
  return absl::OkStatus();
}

}  // namespace backplane::shim
