// A client: one process's hold on a plugin's platform. The thin C++ form of the PJRT C API; everything that can fail
// returns absl::Status or absl::StatusOr with the plugin's own code and words.
//
//   BP_ASSIGN_OR_RETURN(const Plugin* plugin, Plugin::Load(path));
//   BP_ASSIGN_OR_RETURN(Client client, Client::Create(*plugin, {{"cpu_device_count", 4}}));
//   BP_ASSIGN_OR_RETURN(LoadedExecutable add, client.Compile({"mlir", text}));
//   BP_ASSIGN_OR_RETURN(Buffer x, client.ToDevice(HostArray::Of<float>({2}, {1, 2})));
//   BP_ASSIGN_OR_RETURN(std::vector<Buffer> out, add.Execute({&x, &x}));
//   BP_ASSIGN_OR_RETURN(HostArray sum, out[0].ToHost());
//
// The client object may go before its buffers, executables and events: each of them keeps the platform open. Devices
// and memories are views and do not.
//
// Thread-safety: everything from any thread, but moving and destroying.
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

// Host memory to make a buffer from.
struct HostView {
  const void* data = nullptr;  // address of element zero
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  absl::Span<const int64_t> dims;
  absl::Span<const int64_t> byte_strides;  // empty: dense, last dimension fastest
};

// Memory of a device, owned by somebody else, to make a buffer over.
struct DeviceView {
  void* data = nullptr;
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  absl::Span<const int64_t> dims;            // dense
  absl::Span<const int64_t> minor_to_major;  // empty: last dimension fastest
  intptr_t stream = 0;                       // of the platform, on which the contents become ready; 0: they are
};

// Where a buffer goes: a device (its default memory), a memory, or by default the first addressable device.
struct Place {
  Place() = default;
  Place(const Device& d) : device(d.raw()) {}  // NOLINT: meant to convert
  Place(const Memory& m) : memory(m.raw()) {}  // NOLINT: meant to convert
  PJRT_Device* device = nullptr;
  PJRT_Memory* memory = nullptr;
};

class Client {
 public:
  // Initializes the plugin if nobody has, and opens its platform; after a failed initialize there is no client. Names
  // of options are the platform's own. `store` is for programs of several processes and kept as long as the client.
  static absl::StatusOr<Client> Create(const Plugin& plugin, absl::Span<const NamedValue> options = {},
                                       std::shared_ptr<KeyValueStore> store = nullptr);

  // ---- What it is
  absl::StatusOr<std::string> PlatformName() const;
  absl::StatusOr<std::string> PlatformVersion() const;
  absl::StatusOr<int> ProcessIndex() const;
  absl::StatusOr<std::vector<Device>> Devices() const;             // of all processes
  absl::StatusOr<std::vector<Device>> AddressableDevices() const;  // of this one
  absl::StatusOr<Device> LookupDevice(int id) const;
  absl::StatusOr<Device> LookupAddressableDevice(int local_hardware_id) const;
  absl::StatusOr<std::vector<Memory>> AddressableMemories() const;
  absl::StatusOr<Topology> GetTopology() const;
  // Ids of devices, one row of partitions for each replica.
  absl::StatusOr<std::vector<int>> DefaultDeviceAssignment(int num_replicas, int num_partitions) const;

  // ---- Programs
  absl::StatusOr<LoadedExecutable> Compile(const Program& program, const CompileOptions& options = {}) const;
  // With options as a serialized CompileOptionsProto.
  absl::StatusOr<LoadedExecutable> CompileWithBytes(const Program& program, absl::string_view options) const;
  absl::StatusOr<LoadedExecutable> Load(const Executable& executable, const CompileOptions& options = {}) const;
  absl::StatusOr<LoadedExecutable> Deserialize(absl::string_view bytes) const;

  // ---- Buffers
  // Copies during the call.
  absl::StatusOr<Buffer> ToDevice(const HostArray& array, Place place = {}) const;
  absl::StatusOr<Buffer> ToDevice(const HostView& view, Place place = {}) const;
  // With any semantics; the second is ready when the memory is the caller's again.
  absl::StatusOr<std::pair<Buffer, Event>> FromHost(const HostView& view, PJRT_HostBufferSemantics semantics,
                                                    Place place = {}) const;
  absl::StatusOr<Buffer> Uninitialized(const ArrayShape& shape, Place place = {}) const;
  // Each use of it gives this error.
  absl::StatusOr<Buffer> ErrorBuffer(const absl::Status& error, const ArrayShape& shape, const Memory& memory) const;
  // Over memory of somebody else, who keeps it until `on_delete` has been called. The plugin may write to it.
  absl::StatusOr<Buffer> View(const DeviceView& view, std::function<void()> on_delete, Place place = {}) const;
  // A buffer that will stand for another one; `fulfill` is called once with that one, or with an error. When the last
  // copy of `fulfill` goes uncalled, the alias gets the error Aborted.
  struct Alias {
    Buffer buffer;
    std::function<absl::Status(absl::StatusOr<const Buffer*>)> fulfill;
  };
  absl::StatusOr<Alias> AliasBuffer(const ArrayShape& shape, const Memory& memory) const;
  absl::StatusOr<AsyncTransfer> StartTransfer(absl::Span<const ArrayShape> shapes, const Memory& memory) const;

  // ---- Events and host memory
  // An event of the host's own, and what sets it, once and while the event object lives.
  absl::StatusOr<std::pair<Event, std::function<absl::Status(absl::Status)>>> CreateEvent() const;
  absl::Status DmaMap(void* data, size_t size) const;
  absl::Status DmaUnmap(void* data) const;

  PJRT_Client* raw() const;
  const Plugin& plugin() const;
  // What keeps the platform open; for objects made by calls of one's own.
  std::shared_ptr<const void> keep() const { return state_; }

 private:
  struct State;
  explicit Client(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  absl::StatusOr<Place> Resolve(Place place) const;
  std::shared_ptr<const State> state_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_CLIENT_H_
