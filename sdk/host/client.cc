#include "sdk/host/client.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"

namespace backplane::host {

struct Client::State {
  const Plugin* plugin;
  std::shared_ptr<KeyValueStore> store;  // called by the client until it is destroyed
  PJRT_Client* raw = nullptr;
  State(const Plugin* p, std::shared_ptr<KeyValueStore> s) : plugin(p), store(std::move(s)) {}
  State(const State&) = delete;
  ~State() {
    if (raw != nullptr) internal::Destroy(*plugin, raw);
  }
};

namespace {

// Returns the C form of a dense layout, which refers to `minor_to_major`.
PJRT_Buffer_MemoryLayout DenseLayout(absl::Span<const int64_t> minor_to_major) {
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  return layout;
}

}  // namespace

absl::StatusOr<Client> Client::Create(const Plugin& plugin, absl::Span<const NamedValue> options,
                                      std::shared_ptr<KeyValueStore> store) {
  BP_RETURN_IF_ERROR(plugin.Initialize());
  auto state = std::make_shared<State>(&plugin, std::move(store));
  std::vector<PJRT_NamedValue> borrowed = BorrowNamedValues(options);
  BP_PJRT_ARGS(plugin, a, PJRT_Client_Create);
  a.create_options = borrowed.data();
  a.num_options = borrowed.size();
  if (state->store != nullptr) SetCallbacks(state->store.get(), &a);
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Client_Create, a));
  if (a.client == nullptr)
    return absl::InternalError(absl::StrCat(plugin.name(), ": PJRT_Client_Create gave no client"));
  state->raw = a.client;
  return Client(std::move(state));
}

PJRT_Client* Client::raw() const { return state_->raw; }
const Plugin& Client::plugin() const { return *state_->plugin; }

// Defines a getter: calls `fn` with the client and returns the expression `out`.
#define BP_ASK(fn, out)                              \
  BP_PJRT_ARGS(plugin(), a, fn);                     \
  a.client = raw();                                  \
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), fn, a)); \
  return out

absl::StatusOr<std::string> Client::PlatformName() const {
  BP_ASK(PJRT_Client_PlatformName, internal::CopyString(a.platform_name, a.platform_name_size));
}
absl::StatusOr<std::string> Client::PlatformVersion() const {
  BP_ASK(PJRT_Client_PlatformVersion, internal::CopyString(a.platform_version, a.platform_version_size));
}
absl::StatusOr<int> Client::ProcessIndex() const { BP_ASK(PJRT_Client_ProcessIndex, a.process_index); }
absl::StatusOr<Topology> Client::GetTopology() const {
  BP_ASK(PJRT_Client_TopologyDescription, Topology(plugin(), state_, a.topology));
}

absl::StatusOr<std::vector<Device>> Client::Devices() const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_Devices);
  a.client = raw();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_Devices, a));
  std::vector<Device> devices;
  for (size_t i = 0; i < a.num_devices; ++i) devices.emplace_back(plugin(), a.devices[i]);
  return devices;
}

absl::StatusOr<std::vector<Device>> Client::AddressableDevices() const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_AddressableDevices);
  a.client = raw();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_AddressableDevices, a));
  std::vector<Device> devices;
  for (size_t i = 0; i < a.num_addressable_devices; ++i) devices.emplace_back(plugin(), a.addressable_devices[i]);
  return devices;
}

absl::StatusOr<Device> Client::LookupDevice(int id) const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_LookupDevice);
  a.client = raw();
  a.id = id;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_LookupDevice, a));
  return Device(plugin(), a.device);
}

absl::StatusOr<Device> Client::LookupAddressableDevice(int local_hardware_id) const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_LookupAddressableDevice);
  a.client = raw();
  a.local_hardware_id = local_hardware_id;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_LookupAddressableDevice, a));
  return Device(plugin(), a.addressable_device);
}

absl::StatusOr<std::vector<Memory>> Client::AddressableMemories() const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_AddressableMemories);
  a.client = raw();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_AddressableMemories, a));
  std::vector<Memory> memories;
  for (size_t i = 0; i < a.num_addressable_memories; ++i) memories.emplace_back(plugin(), a.addressable_memories[i]);
  return memories;
}

absl::StatusOr<std::vector<int>> Client::DefaultDeviceAssignment(int num_replicas, int num_partitions) const {
  int64_t count = static_cast<int64_t>(num_replicas) * num_partitions;
  if (num_replicas < 1 || num_partitions < 1 || count > (1 << 20)) {
    return absl::InvalidArgumentError(absl::StrCat("device assignment: ", num_replicas, " replicas of ", num_partitions,
                                                   " partitions, expected 1 to 2^20 in all"));
  }
  std::vector<int> ids(static_cast<size_t>(count), -1);
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_DefaultDeviceAssignment);
  a.client = raw();
  a.num_replicas = num_replicas;
  a.num_partitions = num_partitions;
  a.default_assignment = ids.data();
  a.default_assignment_size = ids.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_DefaultDeviceAssignment, a));
  return ids;
}

absl::StatusOr<LoadedExecutable> Client::Compile(const Program& program, const CompileOptions& options) const {
  return CompileWithBytes(program, options.Serialize());
}

absl::StatusOr<LoadedExecutable> Client::CompileWithBytes(const Program& program, absl::string_view options) const {
  std::string code = program.code;  // the field is not const
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  p.code = code.data();
  p.code_size = code.size();
  p.format = program.format.data();
  p.format_size = program.format.size();
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_Compile);
  a.client = raw();
  a.program = &p;
  a.compile_options = options.data();
  a.compile_options_size = options.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_Compile, a));
  return LoadedExecutable(plugin(), state_, a.executable);
}

absl::StatusOr<LoadedExecutable> Client::Load(const Executable& executable, const CompileOptions& options) const {
  const std::string bytes = options.Serialize();
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_Load);
  a.client = raw();
  a.executable = executable.raw();
  a.compile_options = bytes.data();
  a.compile_options_size = bytes.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_Load, a));
  return LoadedExecutable(plugin(), state_, a.loaded_executable);
}

absl::StatusOr<LoadedExecutable> Client::Deserialize(absl::string_view bytes) const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Executable_DeserializeAndLoad);
  a.client = raw();
  a.serialized_executable = bytes.data();
  a.serialized_executable_size = bytes.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Executable_DeserializeAndLoad, a));
  return LoadedExecutable(plugin(), state_, a.loaded_executable);
}

absl::StatusOr<Location> Client::Resolve(Location location) const {
  if (location.device != nullptr || location.memory != nullptr) return location;
  BP_ASSIGN_OR_RETURN(std::vector<Device> devices, AddressableDevices());
  if (devices.empty()) return absl::FailedPreconditionError(absl::StrCat(plugin().name(), ": no addressable device"));
  return Location(devices[0]);
}

absl::StatusOr<std::pair<Buffer, Event>> Client::FromHost(const HostView& view, PJRT_HostBufferSemantics semantics,
                                                          Location location) const {
  BP_ASSIGN_OR_RETURN(location, Resolve(location));
  if (!view.byte_strides.empty() && view.byte_strides.size() != view.dims.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer from host: ", view.byte_strides.size(), " strides for ", view.dims.size(), " dims"));
  }
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_BufferFromHostBuffer);
  a.client = raw();
  a.data = view.data;
  a.type = view.type;
  a.dims = view.dims.data();
  a.num_dims = view.dims.size();
  a.byte_strides = view.byte_strides.empty() ? nullptr : view.byte_strides.data();
  a.num_byte_strides = view.byte_strides.size();
  a.host_buffer_semantics = semantics;
  a.device = location.device;
  a.memory = location.memory;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_BufferFromHostBuffer, a));
  return std::make_pair(Buffer(plugin(), state_, a.buffer), Event(plugin(), state_, a.done_with_host_buffer));
}

absl::StatusOr<Buffer> Client::ToDevice(const HostView& view, Location location) const {
  BP_ASSIGN_OR_RETURN(auto made, FromHost(view, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, location));
  return std::move(made.first);
}

absl::StatusOr<Buffer> Client::ToDevice(const HostArray& array, Location location) const {
  BP_ASSIGN_OR_RETURN(size_t size, HostByteSize(array.type, array.dims));
  if (size != array.data.size()) {
    return absl::InvalidArgumentError(absl::StrCat("buffer from host: ", FormatShape(array.type, array.dims), " takes ",
                                                   size, " bytes, got ", array.data.size()));
  }
  return ToDevice(HostView{array.data.data(), array.type, array.dims, {}}, location);
}

absl::StatusOr<Buffer> Client::Uninitialized(const ArrayShape& shape, Location location) const {
  BP_ASSIGN_OR_RETURN(location, Resolve(location));
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_CreateUninitializedBuffer);
  a.client = raw();
  a.shape_dims = shape.dims.data();
  a.shape_num_dims = shape.dims.size();
  a.shape_element_type = shape.type;
  a.device = location.device;
  a.memory = location.memory;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_CreateUninitializedBuffer, a));
  return Buffer(plugin(), state_, a.buffer);
}

absl::StatusOr<Buffer> Client::ErrorBuffer(const absl::Status& error, const ArrayShape& shape,
                                           const Memory& memory) const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_CreateErrorBuffer);
  a.client = raw();
  a.error_code = static_cast<PJRT_Error_Code>(error.code());
  a.error_message = error.message().data();
  a.error_message_size = error.message().size();
  a.shape_dims = shape.dims.data();
  a.shape_num_dims = shape.dims.size();
  a.shape_element_type = shape.type;
  a.memory = memory.raw();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_CreateErrorBuffer, a));
  return Buffer(plugin(), state_, a.buffer);
}

absl::StatusOr<Buffer> Client::View(const DeviceView& view, std::function<void()> on_delete, Location location) const {
  BP_ASSIGN_OR_RETURN(location, Resolve(location));
  if (location.memory != nullptr && plugin().minor_version() < 66) {
    return absl::UnimplementedError(absl::StrCat("view of device memory: ", plugin().name(),
                                                 " takes a device, a memory came with PJRT C API 0.66"));
  }
  PJRT_Buffer_MemoryLayout layout = DenseLayout(view.minor_to_major);
  auto callback = std::make_unique<std::function<void()>>(std::move(on_delete));
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_CreateViewOfDeviceBuffer);
  a.client = raw();
  a.device_buffer_ptr = view.data;
  a.dims = view.dims.data();
  a.num_dims = view.dims.size();
  a.element_type = view.type;
  a.layout = view.minor_to_major.empty() ? nullptr : &layout;
  a.device = location.device;
  a.memory = location.memory;
  a.stream = view.stream;
  a.on_delete_callback_arg = callback.get();
  a.on_delete_callback = [](void*, void* arg) {
    std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(arg));
    if (*owned) (*owned)();
  };
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_CreateViewOfDeviceBuffer, a));
  callback.release();  // now owned by on_delete_callback
  return Buffer(plugin(), state_, a.buffer);
}

absl::StatusOr<Client::Alias> Client::AliasBuffer(const ArrayShape& shape, const Memory& memory) const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_CreateAliasBuffer);
  a.client = raw();
  a.memory = memory.raw();
  a.shape_dims = shape.dims.data();
  a.shape_num_dims = shape.dims.size();
  a.shape_element_type = shape.type;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_CreateAliasBuffer, a));
  struct Promise {
    absl::Status Fulfill(absl::StatusOr<const Buffer*> buffer) {
      if (buffer.ok() && *buffer == nullptr)
        return absl::InvalidArgumentError("fulfill alias: neither a buffer nor an error");
      called = true;
      if (fulfilled.exchange(true)) return absl::FailedPreconditionError("the alias buffer has been fulfilled already");
      BP_PJRT_ARGS(*state->plugin, f, PJRT_Client_FulfillAliasBuffer);
      f.client = state->raw;
      f.fulfill_alias_buffer_cb = callback;
      f.status_code = static_cast<PJRT_Error_Code>(buffer.status().code());
      f.error_message = buffer.status().message().data();
      f.error_message_size = buffer.status().message().size();
      f.buffer = buffer.ok() ? (*buffer)->raw() : nullptr;
      absl::Status status = BP_PJRT_CALL(*state->plugin, PJRT_Client_FulfillAliasBuffer, f);
      if (!status.ok()) fulfilled = false;  // a refused call does not take ownership
      return status;
    }
    // Only a call frees the plugin's callback and ends the wait for the alias. After a refused call none is made,
    // because some plugins have freed the callback by then.
    ~Promise() {
      if (!called) Fulfill(absl::AbortedError("the alias buffer was given up before it was fulfilled")).IgnoreError();
    }
    std::shared_ptr<const State> state;
    PJRT_FulfillAliasBufferCallback* callback;
    std::atomic<bool> called{false}, fulfilled{false};
  };
  auto promise = std::make_shared<Promise>();
  promise->state = state_;
  promise->callback = a.fulfill_alias_buffer_cb;
  auto fulfill = [promise](absl::StatusOr<const Buffer*> buffer) { return promise->Fulfill(buffer); };
  return Alias{Buffer(plugin(), state_, a.alias_buffer), std::move(fulfill)};
}

absl::StatusOr<AsyncTransfer> Client::StartTransfer(absl::Span<const ArrayShape> shapes, const Memory& memory) const {
  std::vector<PJRT_ShapeSpec> specs;
  for (const ArrayShape& shape : shapes) {
    PJRT_ShapeSpec spec{};
    spec.struct_size = PJRT_ShapeSpec_STRUCT_SIZE;
    spec.dims = shape.dims.data();
    spec.num_dims = shape.dims.size();
    spec.element_type = shape.type;
    specs.push_back(spec);
  }
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_CreateBuffersForAsyncHostToDevice);
  a.client = raw();
  a.shape_specs = specs.data();
  a.num_shape_specs = specs.size();
  a.memory = memory.raw();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Client_CreateBuffersForAsyncHostToDevice, a));
  return AsyncTransfer(plugin(), state_, a.transfer_manager);
}

absl::StatusOr<std::pair<Event, std::function<absl::Status(absl::Status)>>> Client::CreateEvent() const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Event_Create);
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin(), PJRT_Event_Create, a));
  std::function<absl::Status(absl::Status)> set = [state = state_, event = a.event](absl::Status outcome) {
    BP_PJRT_ARGS(*state->plugin, s, PJRT_Event_Set);
    s.event = event;
    s.error_code = static_cast<PJRT_Error_Code>(outcome.code());
    s.error_message = outcome.message().data();
    s.error_message_size = outcome.message().size();
    return BP_PJRT_CALL(*state->plugin, PJRT_Event_Set, s);
  };
  return std::make_pair(Event(plugin(), state_, a.event), std::move(set));
}

absl::Status Client::DmaMap(void* data, size_t size) const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_DmaMap);
  a.client = raw();
  a.data = data;
  a.size = size;
  return BP_PJRT_CALL(plugin(), PJRT_Client_DmaMap, a);
}

absl::Status Client::DmaUnmap(void* data) const {
  BP_PJRT_ARGS(plugin(), a, PJRT_Client_DmaUnmap);
  a.client = raw();
  a.data = data;
  return BP_PJRT_CALL(plugin(), PJRT_Client_DmaUnmap, a);
}

#undef BP_ASK

}  // namespace backplane::host
