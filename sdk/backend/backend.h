// What a plugin author implements. The shim (sdk/shim) turns it into the C ABI.
//
//   Backend      the plugin itself: name, topology without hardware, compile. One per process, stateless.
//   Client       opened hardware: memory, copies, load. Made by Backend::CreateClient.
//   Executable   a compiled program; serializable; not bound to a client.
//   LoadedExecutable  an executable ready to run on a client's devices.
//
// A backend supplies devices, memory, copies, compile and execute. The shim supplies argument checks, events,
// callbacks, reference counts, donation, host-buffer semantics, layouts, named values and the extensions. Shapes that
// cross this interface always carry layouts. Optional abilities are virtual functions with a default; the default says
// Unimplemented, naming itself, unless its comment says what else it does.
//
// A backend over host memory writes CopyFromHost and its like, which block, or nothing: the defaults do it. One whose
// device works by itself writes StartCopyFromHost and its like, which return at once, and gives events with signals, so
// that copies and programs order themselves on the device (event.h). docs/writing_a_plugin.md goes this way.
//
// Threads. Everything is called from any thread, concurrently, and may not wait for another call to be made.
//
// Exceptions. What is called here may throw for want of memory or threads alone (std::bad_alloc, std::system_error),
// and has started nothing then. A backend catches on its own threads (exceptions.h). What the shim hands down, such as
// callbacks of events, does not throw.
//
// Who destroys what, and where:
//   Storage           with the last reference, on whichever thread drops it, one of the backend's own perhaps: the
//                     destructor must not wait for the device. Work on a device holds the storages it reads and writes
//                     until it has ended, so none is destroyed under it. May outlive its client by a moment.
//   LoadedExecutable  once the host has let it go and everything it launched is `done`, on any thread.
//   Executable        on any thread; before or after the clients it was loaded on.
//   Client            once the host has let it go, with its buffers and programs, and every copy and program is done.
//                     Never on a thread that runs one of its tasks or sets one of its events, so that the destructor
//                     may wait for the client's threads.
//   Backend           never. Nor are clients, when the host's process ends without destroying them: what threads of a
//                     client use must not be a static object with a destructor.
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
#include "sdk/backend/executable_signature.h"
#include "sdk/backend/key_values.h"

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

// A block of memory of one memory space. Freed when the last reference goes. A storage that comes in through this
// interface may be a part of one that the backend made, or memory of somebody else (a view): go by its address and
// size, never by its class.
class Storage {
 public:
  virtual ~Storage() = default;
  // An address of the device; of the host too where Client::IsHostMemory says so. The shim adds offsets to others, and
  // hands them to hosts that ask, but never looks at what lies there.
  virtual void* data() const = 0;
  virtual size_t size() const = 0;                // bytes
  virtual bool writable() const { return true; }  // false: somebody else's memory that may only be read; never donated
};

// One array on a device. `ready` gates reading; its error means there is no value. Of the destination of a copy it
// gates writing.
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

// How long the memory of a HostArray may be read.
enum class HostUse : uint8_t {
  kUntilReleased,  // until the copy's `host_released` is set
  kDuringCall,     // until the function returns: it has copied the data elsewhere, or waited
};

// A copy from the host under way.
struct CopyFromHostEvents {
  Event done;           // the destination holds the value, or an error: it has none
  Event host_released;  // the host's memory is not read any more; set before `done`, or with it
};

// ---- Programs ----------------------------------------------------------------------------------------------------

struct CompiledMemoryStats {
  int64_t generated_code = 0, argument = 0, output = 0, alias = 0, temp = 0, total = 0, peak = 0;
  int64_t host_generated_code = 0, host_argument = 0, host_output = 0, host_alias = 0, host_temp = 0;
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual const std::string& name() const = 0;
  virtual const CompileOptions& options() const = 0;
  // What a launch takes and gives; constant. See DescribeEntry for an executable with a module.
  virtual const ExecutableSignature& signature() const = 0;
  // The program after all passes; null where the backend keeps none, as with a compiler of its own.
  virtual const Module* optimized_module() const { return nullptr; }
  virtual std::string fingerprint() const = 0;
  virtual int64_t code_size() const { return 0; }  // bytes of generated code
  virtual NamedValues cost() const = 0;            // "flops", "bytes accessed", "transcendentals", ...
  virtual CompiledMemoryStats memory_stats() const = 0;
  virtual std::string compile_log() const { return ""; }      // kernels chosen and refused, one line each
  virtual absl::StatusOr<std::string> Serialize() const = 0;  // serialized_executable.h writes it
};

struct ExecuteRequest {
  int32_t device = 0;                           // device id
  int32_t replica = 0, partition = 0;           // this device's position in the assignment
  absl::Span<const int32_t> device_assignment;  // device ids, [replica * partitions + partition]
  int64_t run_id = 0;                           // equal on all devices of one launch
  std::vector<DeviceArray> arguments;           // the request keeps them alive
  // Per argument: its storage may be reused, written from the moment the argument's `ready` is set (on a device: behind
  // its signal), and given back as an output. True only where no other buffer, copy or program of the host reads that
  // memory. Storage that is not donated may be given back as an output too, but not written.
  std::vector<bool> donated;
  std::shared_ptr<const ExecuteContext> context;  // may be null
  // What the host asks of this execution by names of the backend's own; null when it asks nothing. A backend passes
  // over names that it does not know, as the ABI says.
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
  // outputs'. Where such an event has a signal of the backend's own, the device waits for it: the program is handed to
  // it now, behind the signal, and the outputs have signals in their turn. A program that ran behind a failed argument
  // has computed nothing of worth: look at the arguments' events again before setting the outputs'. Must be re-entrant:
  // a custom call of a running program may compile, copy and execute on the same device. An error means that nothing
  // was started here and no memory was touched: the host keeps its donated arguments. A backend whose devices wait for
  // one another makes the other devices of the run fail then.
  virtual absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) = 0;
  // Some devices of this run will never be launched, because one before them could not be: those that run already must
  // not wait for them.
  virtual void Abandon(int64_t run_id, const absl::Status& why) {}
};

// What one load asks for.
struct LoadOptions {
  CompileOptions compile_options;  // of the executable, or what the host gave to this load in their place
  // Device ids, [replica * partitions + partition], which count: complete and checked. Empty: any one device, chosen at
  // each Execute.
  std::vector<int32_t> device_assignment;
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

  // ---- Copies. The shim calls the three that start one.
  //
  // From a host array to `dst.storage` in `dst.shape`'s layout; back into the given host layout at `dst`, which stays
  // valid until the event is set; between storages of any two memories of this client, same dims, layouts may differ.
  //
  // They return at once. The copy begins when `ready` of its arrays is set, or on the device behind their signals; an
  // error there is the copy's, and nothing is copied. Errors come through the events, which are ready where nothing was
  // started. Until its end a copy holds `storage` of its arrays, and lets go before it sets `done`: the shim counts on
  // that to know whether somebody still reads a memory. `dims` and `byte_strides` of a host array live during the call
  // only.
  //
  // The defaults run the blocking functions below: in the calling thread where the arrays are ready and have up to
  // kInlineCopyBytes or the host's memory is lent for the call, else as a task (Schedule).
  virtual CopyFromHostEvents StartCopyFromHost(const HostArray& src, const DeviceArray& dst, HostUse use);
  virtual Event StartCopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst);
  virtual Event StartCopyDevice(const DeviceArray& src, const DeviceArray& dst);
  static constexpr int64_t kInlineCopyBytes = 64 * 1024;

  // The same, blocking, of arrays that are ready. The defaults serve host memory.
  virtual absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst);
  virtual absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst);
  virtual absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst);

  // Host memory from which the device copies by itself (pinned). The shim moves there what a host lends for the length
  // of a call, so that no call waits for the device: a backend that offers this sees kDuringCall only when it has no
  // room. ResourceExhausted where there is none.
  virtual absl::StatusOr<std::shared_ptr<Storage>> AllocateStaging(int32_t device, size_t bytes);
  // The host will copy from or into this memory of its own often: pin it, map it. The host unregisters it, by its first
  // address, when no copy uses it any more. The defaults have nothing to do, which is OK.
  virtual absl::Status RegisterHostMemory(void* data, size_t size);
  virtual absl::Status UnregisterHostMemory(void* data);

  // An event for all that `stream` has been given until now, as a view of memory that the stream still writes needs it.
  // A stream is the platform's own, such as a hipStream_t. Not asked of host memory.
  virtual absl::StatusOr<Event> EventOfStream(int32_t device, void* stream);

  // OK: programs of this executable can run from now on, on the devices that the options say.
  virtual absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                                 const LoadOptions& options) = 0;

  virtual absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const;
  virtual absl::Status ClearMemoryStats(int32_t device);
  // Runs `task` soon on a thread of the backend's budget; tasks may block and do not throw. The default starts a
  // thread. May throw where no thread can be had; then the task is not run.
  virtual void Schedule(std::function<void()> task);
};

struct BackendServices {
  std::shared_ptr<CustomCallRegistry> custom_calls;  // never null
};

// What the host gives to one client.
struct HostServices {
  std::shared_ptr<KeyValueStore> key_values;  // null: a program of one process
};

// A program as the host handed it over.
struct ProgramBytes {
  absl::string_view format;  // "mlir" (StableHLO, portable bytecode or text), "hlo", "hlo_with_config"
  absl::string_view bytes;   // both live during the call
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string platform_name() const = 0;                // what the host sees: decides JAX's lowering rules
  virtual NamedValues plugin_attributes() const { return {}; }  // added to what the shim says (StableHLO versions)

  // Unknown options are an InvalidArgument error that lists the known ones.
  virtual absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& options,
                                                               const HostServices& services = {}) = 0;
  // Without opening hardware. `name` may be empty.
  virtual absl::StatusOr<Topology> DescribeTopology(const std::string& name, const NamedValues& options) = 0;

  // Compiling needs no client. The module is verified, has been through no pass, and belongs to the callee.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module,
                                                              const CompileOptions& options, const Topology& topology);
  // For a vendor with a compiler of its own: programs of a format that TakesBytes go to CompileBytes, neither imported
  // nor verified, nor changed by what the host registered to change modules; all others to Compile.
  virtual bool TakesBytes(absl::string_view format) const { return false; }
  virtual absl::StatusOr<std::shared_ptr<Executable>> CompileBytes(const ProgramBytes& program,
                                                                   const CompileOptions& options,
                                                                   const Topology& topology);
  // Of bytes made by Executable::Serialize of the same build on compatible hardware; else FailedPrecondition.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes,
                                                                  const Topology& topology) = 0;

  // A host's profiler begins to listen, and has ended; may be nested. A backend records what its device does in
  // OperationTrace (operation_trace.h). One whose device keeps records of its own turns them on here, and has handed
  // them over with OperationTrace::Record by the time EndTrace returns. The defaults have nothing to do.
  virtual void BeginTrace() {}
  virtual void EndTrace() {}
};

// A plugin defines this one function; the shim calls it once, at the first use of the table.
std::unique_ptr<Backend> CreateBackend(BackendServices services);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_BACKEND_H_
