// What a plugin author implements. The shim (sdk/shim) turns it into the C ABI.
//
//   Backend      the plugin itself: name, topology without hardware, compile. One per process, stateless.
//   Client       opened hardware: memory, copies, load. Made by Backend::CreateClient.
//   Executable   a compiled program; serializable; not bound to a client.
//   LoadedExecutable  an executable ready to run on a client's devices.
//
// A backend supplies devices, memory, copies, compile and execute. The shim supplies argument checks, events,
// callbacks, reference counts, donation, host-buffer semantics, layouts, named values and the extensions. Everything
// here is called from any thread, concurrently; nothing may throw but for want of memory or threads. A client is never
// destroyed on a thread that runs one of its tasks or events. Shapes that cross this interface always carry layouts.
// Optional abilities are virtual functions with a default; the default says Unimplemented, naming itself.
#ifndef BACKPLANE_SDK_BACKEND_BACKEND_H_
#define BACKPLANE_SDK_BACKEND_BACKEND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/import/compile_options.h"
#include "core/ir/module.h"
#include "core/types/shape.h"
#include "sdk/backend/custom_call.h"
#include "sdk/backend/event.h"

namespace backplane {

// A value with a name: create options, device attributes, plugin attributes, cost properties.
using NamedValue = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue>;

// ---- Description: plain data ------------------------------------------------------------------------------------

struct MemoryInfo {
  int32_t id = 0;    // unique in the client, also the index in Topology::memories
  std::string kind;  // "device", "pinned_host", "unpinned_host"
  int32_t kind_id = 0;
  std::vector<int32_t> devices;  // ids of devices that can address it
};

struct DeviceInfo {
  int32_t id = 0;  // unique in the client, also the index in Topology::devices
  int32_t process_index = 0;
  int32_t local_hardware_id = 0;
  std::string kind, debug_string, to_string;
  NamedValues attributes;
  std::vector<int32_t> memories;  // ids; the first is the default memory
};

struct Topology {
  std::string platform_name;     // "cpu"
  std::string platform_version;  // part of JAX's compile-cache key: build id and instruction set belong here
  std::vector<DeviceInfo> devices;
  std::vector<MemoryInfo> memories;
  NamedValues attributes;
};

struct MemoryStats {  // of one device; absent values are not reported
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved,
      peak_bytes_reserved, largest_free_block_bytes, pool_bytes;
};

// ---- Memory ------------------------------------------------------------------------------------------------------

// A block of memory of one memory space. Freed when the last reference goes.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual void* data() const = 0;                 // device address; host address too where memory is host-visible
  virtual size_t size() const = 0;                // bytes
  virtual bool writable() const { return true; }  // false: somebody else's memory that may only be read; never donated
};

// One array on a device. `ready` gates reading; its error means there is no value.
struct DeviceArray {
  Shape shape;  // with layout
  int32_t memory = 0;
  std::shared_ptr<Storage> storage;
  Event ready;
};

// An array in host memory. Strides in bytes, one per dimension; may be 0 or negative. Sub-byte types: a byte an
// element.
struct HostArray {
  const void* data = nullptr;
  PrimitiveType type = PrimitiveType::kInvalid;
  absl::Span<const int64_t> dims, byte_strides;
};

// ---- Programs ----------------------------------------------------------------------------------------------------

struct CompiledMemoryStats {
  int64_t generated_code = 0, argument = 0, output = 0, alias = 0, temp = 0, total = 0, peak = 0;
  int64_t host_generated_code = 0, host_argument = 0, host_output = 0, host_alias = 0, host_temp = 0;
};

struct ParameterInfo {
  Shape shape;  // with layout
  std::string memory_kind = "device";
  bool donated = false;  // the caller's buffer is consumed (its memory is an output's) unless marked non-donatable
};
struct OutputInfo {
  Shape shape;  // with layout; one leaf of the result tuple
  std::string memory_kind = "device";
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual const std::string& name() const = 0;
  virtual const CompileOptions& options() const = 0;  // num_replicas, num_partitions, device assignment
  virtual absl::Span<const ParameterInfo> parameters() const = 0;
  virtual absl::Span<const OutputInfo> outputs() const = 0;
  virtual const Module& optimized_module() const = 0;
  virtual std::string fingerprint() const = 0;
  virtual int64_t code_size() const { return 0; }  // bytes of generated code
  virtual NamedValues cost() const = 0;            // "flops", "bytes accessed", "transcendentals", ...
  virtual CompiledMemoryStats memory_stats() const = 0;
  virtual std::string compile_log() const { return ""; }  // kernels chosen and refused, one line each
  virtual absl::StatusOr<std::string> Serialize() const = 0;
};

struct ExecuteRequest {
  int32_t device = 0;                           // device id
  int32_t replica = 0, partition = 0;           // this device's place in the assignment
  absl::Span<const int32_t> device_assignment;  // device ids, [replica * partitions + partition]
  int64_t run_id = 0;                           // equal on all devices of one launch
  std::vector<DeviceArray> arguments;           // the request keeps them alive
  // Per argument: its storage may be reused, written from the moment the argument's `ready` is set, and given back as
  // an output. True only where no other buffer, copy or program of the host reads that memory. Storage that is not
  // donated may be given back as an output too, but not written.
  std::vector<bool> donated;
  std::shared_ptr<const ExecuteContext> context;  // may be null
  // What the host asks of this execution by names of the backend's own; null when it asks nothing. A backend passes over
  // names that it does not know, as the ABI says.
  std::shared_ptr<const NamedValues> options;
};

struct ExecuteResult {               // drop your references to arguments before you set `done`
  std::vector<DeviceArray> outputs;  // ready events set when each holds its value (or an error)
  Event done;                        // everything of this launch on this device has finished; of a Promise
  // Not OK: the program has run to its end inside Execute and failed, and the host is to learn it from the call.
  // Donated arguments are gone; `outputs` are not looked at.
  absl::Status failure;
};

class LoadedExecutable {
 public:
  virtual ~LoadedExecutable() = default;
  // Returns at once; arguments whose `ready` is not set are waited for asynchronously, their errors become the
  // outputs'. Must be re-entrant: a custom call of a running program may compile, copy and execute on the same device.
  // An error means that nothing was started here and no memory was touched: the host keeps its donated arguments. A
  // backend whose devices wait for one another makes the other devices of the run fail then.
  virtual absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) = 0;
  // Some devices of this run will never be launched, because one before them could not be: those that run already must
  // not wait for them.
  virtual void Abandon(int64_t run_id, const absl::Status& why) {}
};

// ---- The interfaces ----------------------------------------------------------------------------------------------

class Client {
 public:
  virtual ~Client() = default;
  virtual const Topology& topology() const = 0;  // all devices are addressable unless `addressable` says no
  virtual bool addressable(int32_t device) const { return true; }

  // ResourceExhausted with sizes when there is no room. Contents are undefined.
  virtual absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) = 0;
  // Bytes that an array of this shape (with layout) takes in that memory.
  virtual absl::StatusOr<size_t> StorageSize(const Shape& shape, int32_t memory) const;
  // The default layout of a shape in that memory: row-major unless overridden.
  virtual absl::StatusOr<Layout> DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims) const;
  // True: storage of this memory is ordinary host memory (JAX then reads it in place), dense in the array's layout.
  virtual bool IsHostMemory(int32_t memory) const = 0;
  // True: a host pointer aligned to this many bytes can serve as storage without a copy. 0: never.
  virtual size_t ZeroCopyAlignment(int32_t memory) const { return 0; }
  // The same for a view, which a host asks for where it wants no copy and may have no other way: JAX's from_dlpack
  // fails where a view is refused. A backend that computes from any address of an element says so here.
  virtual size_t ViewAlignment(int32_t memory, PrimitiveType type) const { return ZeroCopyAlignment(memory); }

  // Host array -> storage in `dst.shape`'s layout, and back into the given host layout. Blocking; the shim decides
  // where they run. The defaults serve host memory in any untiled layout.
  virtual absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst);
  virtual absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst);
  // Between storages of any two memories of this client; same dims, layouts may differ. Blocking.
  virtual absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst);

  virtual absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable) = 0;

  virtual absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const;
  virtual absl::Status ClearMemoryStats(int32_t device);
  // Runs `task` soon on a thread of the backend's budget; tasks may block and do not throw. The default starts a
  // thread. May throw where no thread can be had; then the task is not run.
  virtual void Schedule(std::function<void()> task);
};

struct BackendServices {
  std::shared_ptr<CustomCallRegistry> custom_calls;  // never null
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string platform_name() const = 0;                // what the host sees: decides JAX's lowering rules
  virtual NamedValues plugin_attributes() const { return {}; }  // added to what the shim says (StableHLO versions)

  // Unknown options are an InvalidArgument error that lists the known ones.
  virtual absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& options) = 0;
  // Without opening hardware. `name` may be empty.
  virtual absl::StatusOr<Topology> DescribeTopology(const std::string& name, const NamedValues& options) = 0;

  // The module is verified, has been through no pass, and belongs to the callee. Must not need a client.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module,
                                                              const CompileOptions& options,
                                                              const Topology& topology) = 0;
  // Of bytes made by Executable::Serialize of the same build on compatible hardware; else FailedPrecondition.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes,
                                                                  const Topology& topology) = 0;
};

// A plugin defines this one function; the shim calls it once, at the first use of the table.
std::unique_ptr<Backend> CreateBackend(BackendServices services);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_BACKEND_H_
