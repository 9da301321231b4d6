// Transfers by key, by means of Client::transfers. There are none by descriptor: their functions return UNIMPLEMENTED.
#include "api/extensions/cross_host_transfers.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/backend/transfer_service.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

// Hosts before version 8, whose structs are smaller, have 32-bit device ids.
absl::StatusOr<std::vector<int32_t>> ReadDeviceIds(const int64_t* ids, size_t count, bool wide) {
  std::vector<int32_t> out(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t id = wide ? ids[i] : reinterpret_cast<const int32_t*>(ids)[i];
    if (id < 0 || id > INT32_MAX) return absl::InvalidArgumentError(absl::StrCat("there is no device ", id));
    out[i] = static_cast<int32_t>(id);
  }
  return out;
}

// The incarnations are checked only, because the processes notice themselves when one of them ends.
template <typename Args>
absl::Status CheckTasks(const Args& a) {
  if (a.num_tasks == 0) return absl::OkStatus();
  BP_REQUIRE(a.task_ids);
  BP_REQUIRE(a.incarnation_ids);
  return absl::OkStatus();
}

absl::StatusOr<TransferService*> TransfersOf(ClientState& client) {
  TransferService* const transfers = client.client->transfers();
  if (transfers == nullptr)
    return absl::UnimplementedError("transfers between processes: the client has one process, or does not offer them");
  return transfers;
}

absl::Status CheckIsElsewhere(const ClientState& client, int32_t id) {
  const PJRT_Device* device = client.FindDevice(id);
  if (device == nullptr) return absl::InvalidArgumentError(absl::StrCat("there is no device ", id));
  if (device->addressable) return absl::InvalidArgumentError(absl::StrCat("device ", id, " is one of this process"));
  return absl::OkStatus();
}

absl::Status SendBuffers(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args& a) {
  BP_REQUIRE(a.client);
  if (a.num_buffers == 0) return absl::OkStatus();
  BP_REQUIRE(a.buffers);
  BP_REQUIRE(a.dst_global_device_ids);
  BP_REQUIRE(a.transfer_keys);
  BP_REQUIRE(a.send_events);
  RETURN_IF_ERROR(CheckTasks(a));
  const std::shared_ptr<ClientState>& client = a.client->state;
  const bool wide = a.struct_size >= PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args_STRUCT_SIZE;
  ASSIGN_OR_RETURN(const std::vector<int32_t> targets, ReadDeviceIds(a.dst_global_device_ids, a.num_buffers, wide));
  std::vector<HeldArray> arrays(a.num_buffers);
  std::vector<std::unique_ptr<PJRT_Event>> events(a.num_buffers);
  for (size_t i = 0; i < a.num_buffers; ++i) {
    BP_REQUIRE(a.buffers[i]);
    if (a.buffers[i]->client != client) return absl::InvalidArgumentError("send: the buffer belongs to another client");
    if (!a.buffers[i]->shape.IsArray()) return absl::InvalidArgumentError("send: a token has no value");
    RETURN_IF_ERROR(CheckIsElsewhere(*client, targets[i]));
    absl::StatusOr<HeldArray> array = a.buffers[i]->Read("send");
    if (array.ok()) {
      arrays[i] = *std::move(array);
    } else {
      // It starts all the same: both sides get the error, and later transfers still match.
      arrays[i].shape = a.buffers[i]->shape;
      arrays[i].memory = a.buffers[i]->memory->info->id;
      arrays[i].ready = Event::Ready(array.status());
    }
    events[i].reset(NewEvent(Event()));
  }
  ASSIGN_OR_RETURN(TransferService * transfers, TransfersOf(*client));
  for (size_t i = 0; i < a.num_buffers; ++i) {
    const ArrayTransfer transfer{a.buffers[i]->device->info().id, targets[i], a.transfer_keys[i]};
    events[i]->event = transfers->StartSend(AttachMark(std::move(arrays[i])), transfer);
    KeepClient(client, events[i]->event);
    a.send_events[i] = events[i].release();
  }
  return absl::OkStatus();
}

// Hosts give every shape a layout, by default the row-major one, which says nothing about what the device prefers.
absl::Status SetPreferredLayout(ClientState& client, const PJRT_Buffer_MemoryLayout* layout, Shape* shape) {
  RETURN_IF_ERROR(SetLayout(client, layout, shape));
  if (layout == nullptr || !shape->layout().IsRowMajor()) return absl::OkStatus();
  return SetLayout(client, nullptr, shape);
}

absl::Status ReceiveBuffers(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args& a) {
  BP_REQUIRE(a.client);
  if (a.num_shapes == 0) return absl::OkStatus();
  BP_REQUIRE(a.shape_num_dims);
  BP_REQUIRE(a.num_dims);
  BP_REQUIRE(a.element_types);
  BP_REQUIRE(a.device);
  BP_REQUIRE(a.src_global_device_ids);
  BP_REQUIRE(a.transfer_keys);
  BP_REQUIRE(a.buffers);
  RETURN_IF_ERROR(CheckTasks(a));
  const std::shared_ptr<ClientState>& client = a.client->state;
  const bool wide = a.struct_size >= PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args_STRUCT_SIZE;
  ASSIGN_OR_RETURN(const std::vector<int32_t> sources, ReadDeviceIds(a.src_global_device_ids, a.num_shapes, wide));
  PJRT_Device* device = a.device;
  ASSIGN_OR_RETURN(MemoryObject * memory, ChooseMemory(*client, a.device, nullptr, &device));
  if (!device->addressable) return absl::InvalidArgumentError("receive: the device is one of another process");
  std::vector<DeviceArray> arrays(a.num_shapes);
  for (size_t i = 0; i < a.num_shapes; ++i) {
    RETURN_IF_ERROR(CheckIsElsewhere(*client, sources[i]));
    if (a.shape_num_dims[i] > 0) BP_REQUIRE(a.num_dims[i]);
    ASSIGN_OR_RETURN(arrays[i].shape, ReadShape(a.element_types[i], a.num_dims[i], a.shape_num_dims[i]));
    if (!arrays[i].shape.IsArray()) return absl::InvalidArgumentError("receive: a token has no value");
    RETURN_IF_ERROR(SetPreferredLayout(*client, a.layouts == nullptr ? nullptr : a.layouts[i], &arrays[i].shape));
    arrays[i].memory = memory->info->id;
  }
  ASSIGN_OR_RETURN(TransferService * transfers, TransfersOf(*client));
  // Without memory the transfers start all the same: the senders get the error, and later transfers still match.
  absl::Status allocated;
  for (size_t i = 0; i < a.num_shapes && allocated.ok(); ++i) {
    absl::StatusOr<std::shared_ptr<Storage>> storage = AllocateFor(*client, arrays[i].shape, memory);
    allocated = storage.status();
    if (storage.ok()) arrays[i].storage = *std::move(storage);
  }
  std::vector<std::unique_ptr<PJRT_Buffer>> buffers;
  for (size_t i = 0; i < a.num_shapes; ++i) {
    if (!allocated.ok()) {
      arrays[i].storage.reset();
      arrays[i].ready = Event::Ready(allocated);
    }
    const Event done = transfers->StartReceive(arrays[i], {sources[i], device->info().id, a.transfer_keys[i]});
    KeepClient(client, done);
    if (!allocated.ok()) continue;
    arrays[i].ready = done;
    buffers.emplace_back(NewBuffer(client, device, memory, std::move(arrays[i])));
  }
  RETURN_IF_ERROR(allocated);
  for (size_t i = 0; i < a.num_shapes; ++i) a.buffers[i] = buffers[i].release();
  return absl::OkStatus();
}

void CopyToRemoteDevice(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args* args) {
  constexpr char kName[] = "PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice";
  (void)GuardedStatus(
      kName, args, PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args_STRUCT_SIZE,
      [&](PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args& a) {
        // The host allocates the descriptor when it sets the event.
        const std::unique_ptr<PJRT_Event> event(a.event);
        if (event != nullptr && a.descriptor_destructor != nullptr) {
          event->event.OnReady([free = a.descriptor_destructor, data = a.serialized_descriptor,
                                size = a.serialized_descriptor_size](const absl::Status& there) {
            if (there.ok()) free(data, size);
          });
        }
        if (a.on_done.on_done == nullptr) return absl::OkStatus();
        a.on_done.on_done(
            MakeError(absl::UnimplementedError(absl::StrCat(kName, ": this plugin transfers arrays by key only"))),
            false, a.on_done.user_arg);
        return absl::OkStatus();
      });
}

}  // namespace

PJRT_Extension_Base* CrossHostTransfersExtension() {
  static PJRT_CrossHostTransfers_Extension extension = [] {
    PJRT_CrossHostTransfers_Extension e{};
    e.base = {PJRT_CrossHostTransfers_Extension_STRUCT_SIZE, PJRT_Extension_Type_CrossHostTransfers, nullptr};
    e.PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers =
        BP_UNSUPPORTED(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers);
    e.PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice = &CopyToRemoteDevice;
    e.PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers =
        BP_ENTRY(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers, &ReceiveBuffers);
    e.PJRT_Transfers_PJRT_Client_CrossHostSendBuffers =
        BP_ENTRY(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers, &SendBuffers);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
