// A client is a connection of this process to the platform of a plugin. The class is a thin C++ layer over the PJRT C
// API. Functions that can fail return absl::Status or absl::StatusOr with the plugin's code and message.
//
//   BP_ASSIGN_OR_RETURN(const Plugin* plugin, Plugin::Load(path));
//   BP_ASSIGN_OR_RETURN(Client client, Client::Create(*plugin, {{"cpu_device_count", 4}}));
//   BP_ASSIGN_OR_RETURN(LoadedExecutable add, client.Compile({"mlir", text}));
//   BP_ASSIGN_OR_RETURN(Buffer x, client.ToDevice(HostArray::Of<float>({2}, {1, 2})));
//   BP_ASSIGN_OR_RETURN(std::vector<Buffer> out, add.Execute({&x, &x}));
//   BP_ASSIGN_OR_RETURN(HostArray sum, out[0].ToHost());
//
// The client object may be destroyed before its buffers, executables and events: each of them keeps the platform open.
// Devices and memories are views and do not keep it open.
//
// Thread-safe, except for moving and destroying.
#ifndef BACKPLANE_SDK_HOST_CLIENT_H_
#define BACKPLANE_SDK_HOST_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/host/async_transfer.h"
#include "sdk/host/buffer.h"
#include "sdk/host/compile_options.h"
#include "sdk/host/device.h"
#include "sdk/host/executable.h"
#include "sdk/host/key_value_store.h"
#include "sdk/host/topology.h"

namespace backplane::host {

// Host memory from which a buffer is created.
struct HostView {
  const void* data = nullptr;  // address of element zero
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  absl::Span<const int64_t> dims;
  absl::Span<const int64_t> byte_strides;  // empty: dense, last dimension fastest
};

// Device memory that the caller owns, for a buffer that refers to it.
struct DeviceView {
  void* data = nullptr;
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  absl::Span<const int64_t> dims;            // dense
  absl::Span<const int64_t> minor_to_major;  // empty: last dimension fastest
  intptr_t stream = 0;  // a stream of the platform after which the contents are ready; 0: they are ready
};

// The location of a new buffer: a device (its default memory), a memory, or by default the first addressable device.
struct Location {
  Location() = default;
  Location(const Device& d) : device(d.raw()) {}  // NOLINT: meant to convert
  Location(const Memory& m) : memory(m.raw()) {}  // NOLINT: meant to convert
  PJRT_Device* device = nullptr;
  PJRT_Memory* memory = nullptr;
};

class Client {
 public:
  // Initializes the plugin if that has not been done, and opens its platform. Fails if the initialization fails. The
  // names of options are defined by the platform. `store` is for programs of several processes; the client keeps a
  // reference.
  static absl::StatusOr<Client> Create(const Plugin& plugin, absl::Span<const NamedValue> options = {},
                                       std::shared_ptr<KeyValueStore> store = nullptr);

  // ---- Properties
  absl::StatusOr<std::string> PlatformName() const;
  absl::StatusOr<std::string> PlatformVersion() const;
  absl::StatusOr<int> ProcessIndex() const;
  absl::StatusOr<std::vector<Device>> Devices() const;             // of all processes
  absl::StatusOr<std::vector<Device>> AddressableDevices() const;  // of this one
  absl::StatusOr<Device> LookupDevice(int id) const;
  absl::StatusOr<Device> LookupAddressableDevice(int local_hardware_id) const;
  absl::StatusOr<std::vector<Memory>> AddressableMemories() const;
  absl::StatusOr<Topology> GetTopology() const;
  // Returns device ids, num_partitions of them for each replica.
  absl::StatusOr<std::vector<int>> DefaultDeviceAssignment(int num_replicas, int num_partitions) const;

  // ---- Programs
  absl::StatusOr<LoadedExecutable> Compile(const Program& program, const CompileOptions& options = {}) const;
  // `options` is a serialized CompileOptionsProto.
  absl::StatusOr<LoadedExecutable> CompileWithBytes(const Program& program, absl::string_view options) const;
  absl::StatusOr<LoadedExecutable> Load(const Executable& executable, const CompileOptions& options = {}) const;
  absl::StatusOr<LoadedExecutable> Deserialize(absl::string_view bytes) const;

  // ---- Buffers
  // The data is copied before the function returns.
  absl::StatusOr<Buffer> ToDevice(const HostArray& array, Location location = {}) const;
  absl::StatusOr<Buffer> ToDevice(const HostView& view, Location location = {}) const;
  // Uses the given semantics. The event is ready when the caller may reuse its memory.
  absl::StatusOr<std::pair<Buffer, Event>> FromHost(const HostView& view, PJRT_HostBufferSemantics semantics,
                                                    Location location = {}) const;
  absl::StatusOr<Buffer> Uninitialized(const ArrayShape& shape, Location location = {}) const;
  // Returns a buffer that yields this error whenever it is used.
  absl::StatusOr<Buffer> ErrorBuffer(const absl::Status& error, const ArrayShape& shape, const Memory& memory) const;
  // Returns a buffer that refers to memory of the caller. The memory must stay valid until `on_delete` is called. The
  // plugin may write to it.
  absl::StatusOr<Buffer> View(const DeviceView& view, std::function<void()> on_delete, Location location = {}) const;
  // A buffer that stands for another buffer which does not exist yet. `fulfill` must be called once, with that buffer
  // or with an error. If all copies of `fulfill` are destroyed without a call, the buffer gets the error ABORTED.
  struct Alias {
    Buffer buffer;
    std::function<absl::Status(absl::StatusOr<const Buffer*>)> fulfill;
  };
  absl::StatusOr<Alias> AliasBuffer(const ArrayShape& shape, const Memory& memory) const;
  absl::StatusOr<AsyncTransfer> StartTransfer(absl::Span<const ArrayShape> shapes, const Memory& memory) const;

  // ---- Events and host memory
  // Creates an event that the host sets. The returned function sets it; call it once, while the event object exists.
  absl::StatusOr<std::pair<Event, std::function<absl::Status(absl::Status)>>> CreateEvent() const;
  absl::Status DmaMap(void* data, size_t size) const;
  absl::Status DmaUnmap(void* data) const;

  PJRT_Client* raw() const;
  const Plugin& plugin() const;
  // Keeps the platform open; for objects that were created by direct calls of the C API.
  std::shared_ptr<const void> keep() const { return state_; }

 private:
  struct State;
  explicit Client(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  absl::StatusOr<Location> Resolve(Location location) const;
  std::shared_ptr<const State> state_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_CLIENT_H_
