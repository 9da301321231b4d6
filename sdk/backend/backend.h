// The interface that the author of a plugin implements. The shim (sdk/shim) implements the C ABI on top of it.
//
//   Backend           the plugin: platform name, topology without hardware, compilation. One per process, stateless.
//   Client            opened hardware: memory, copies, loading of executables. Created by Backend::CreateClient.
//   Executable        a compiled program. It can be serialized and is not bound to a client.
//   LoadedExecutable  an executable that is ready to run on devices of a client.
//
// A backend supplies devices, memory, copies, compilation and execution. The shim supplies argument checks, callbacks,
// reference counts, donation, host-buffer semantics, named values and the ABI's extensions. Every shape that crosses
// this interface has a layout. Optional functions are virtual functions with a default. A default returns Unimplemented
// with the name of the function, unless its comment says otherwise.
//
// Copies come in two forms. A backend whose devices use host memory overrides the blocking form (CopyFromHost,
// CopyToHost, CopyDevice) or nothing at all, because the defaults serve host memory. A backend whose devices have
// queues of their own overrides the asynchronous form (StartCopyFromHost, StartCopyToHost, StartCopyDevice) and returns
// events with signals, so that the device orders copies and programs without the host (event.h).
// docs/writing_a_plugin.md shows both, step by step.
//
// Threads. The shim calls every function from any thread, concurrently. No function may wait for a later call.
//
// Exceptions. A function of a backend may throw only because memory or threads have run out (std::bad_alloc,
// std::system_error), and only before it has started anything. On its own threads a backend must catch exceptions
// itself (exceptions.h). What the shim passes in, such as callbacks of events, does not throw.
//
// Destruction:
//   Storage           when the last reference is dropped, on the thread that drops it, which may be one of the
//                     backend's. The destructor must not wait for the device. Work on a device holds references to the
//                     storages that it reads and writes until it has ended, so no storage is destroyed while in use. A
//                     storage may outlive its client for a short time.
//   LoadedExecutable  after the host has released it and every launch is `done`; on any thread.
//   Executable        on any thread, before or after the clients on which it was loaded.
//   Client            after the host has released it, its buffers and its programs, and all copies and programs are
//                     done. Never on a thread that runs one of its tasks or sets one of its events, so the destructor
//                     may join the client's threads.
//   Backend           never. If the host's process ends without destroying a client, that client is not destroyed
//                     either. Threads of a client must therefore not use static objects that have destructors.
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
// Returns the integer that an option states, also as a text ("4"): JAX passes the create options that a user writes as
// one text as texts. Returns nullopt for other values.
std::optional<int64_t> ReadInteger(const NamedValue& value);

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
  std::string platform_version;  // part of the key of JAX's compilation cache: include build id and instruction set
  std::vector<DeviceInfo> devices;
  std::vector<MemoryInfo> memories;
  NamedValues attributes;
};

// Statistics of one device. Values that are not set are not reported to the host.
struct MemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved,
      peak_bytes_reserved, largest_free_block_bytes, pool_bytes;
};

// ---- Memory ------------------------------------------------------------------------------------------------------

struct KeptForms;

// A block of memory in one memory space. The destructor frees it. A backend receives storages that are slices of those
// it allocated, and views of memory that it does not own. It must therefore use only the address and the size of a
// storage and never cast it to a class of its own.
class Storage {
 public:
  virtual ~Storage() = default;
  // The address on the device. It is also a host address if Client::IsHostMemory is true for the memory space. If not,
  // the shim adds offsets to it and passes it to hosts that ask for it, but never dereferences it.
  virtual void* data() const = 0;
  virtual size_t size() const = 0;                // bytes
  virtual bool writable() const { return true; }  // false: a read-only view; it is never donated

  // A backend that keeps data derived from the contents of a storage, such as weights in another layout, defines
  // KeptForms for itself. Null: nothing is kept.
  virtual KeptForms* kept_forms() { return nullptr; }
  // Between the two calls a host has the address of the memory and may change the contents. Data that was derived from
  // the contents must not be used in between.
  virtual void BeginHostAccess() {}
  virtual void EndHostAccess() {}
};

// One array on a device. The array may be read once `ready` is set; if its status is an error, the array has no value.
// For the destination of a copy, `ready` says when the storage may be written.
struct DeviceArray {
  Shape shape;         // with layout
  int32_t memory = 0;  // memory id
  std::shared_ptr<Storage> storage;
  Event ready;
};

// An array in host memory. `byte_strides` has one stride in bytes per dimension; strides may be 0 or negative. Elements
// of types smaller than a byte take one byte each.
struct HostArray {
  const void* data = nullptr;
  PrimitiveType type = PrimitiveType::kInvalid;
  absl::Span<const int64_t> dims, byte_strides;
};

// How long the backend may read the memory of a HostArray.
enum class HostUse : uint8_t {
  kUntilReleased,  // until the backend sets the copy's `host_released`
  kDuringCall,     // until the function returns; it must copy the data elsewhere or wait for the copy
};

// The progress of a copy from the host.
struct CopyFromHostEvents {
  Event done;           // OK: the destination holds the value. Error: the destination has no value.
  Event host_released;  // the host's memory is no longer read; set before `done` or together with it
};

class TransferService;  // transfer_service.h

// ---- Programs ----------------------------------------------------------------------------------------------------

struct CompiledMemoryStats {
  int64_t generated_code = 0, argument = 0, output = 0, alias = 0, temp = 0, total = 0, peak = 0;
  int64_t host_generated_code = 0, host_argument = 0, host_output = 0, host_alias = 0, host_temp = 0;
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual const std::string& name() const = 0;
  virtual const CompileOptions& options() const = 0;  // num_replicas, num_partitions, device assignment
  // What a launch takes and gives; constant. See DescribeEntry for an executable with a module.
  virtual const ExecutableSignature& signature() const = 0;
  // The program after all passes. Null if the backend keeps no module, for example because it uses a vendor's compiler.
  virtual const Module* optimized_module() const { return nullptr; }
  virtual std::string fingerprint() const = 0;
  virtual int64_t code_size() const { return 0; }  // bytes of generated code
  virtual NamedValues cost() const = 0;            // "flops", "bytes accessed", "transcendentals", ...
  virtual CompiledMemoryStats memory_stats() const = 0;
  virtual std::string compile_log() const { return ""; }  // one line per kernel that was chosen or refused
  // Returns the generated code as text, for people and tools. The backend names the forms of it that it has, such as
  // "isa". Returns Unimplemented for any other, with the names of those there are.
  virtual absl::StatusOr<std::string> PrintCode(absl::string_view form) const;
  virtual absl::StatusOr<std::string> Serialize() const = 0;  // serialized_executable.h writes it
};

struct ExecuteRequest {
  int32_t device = 0;                           // device id
  int32_t replica = 0, partition = 0;           // the position of this device in the assignment
  absl::Span<const int32_t> device_assignment;  // device ids, [replica * partitions + partition]
  int64_t run_id = 0;                           // equal on all devices of one launch
  std::vector<DeviceArray> arguments;           // the request keeps them alive
  // By argument. True: the program may write to the storage of the argument and return it as an output. It may write as
  // soon as the argument's `ready` is set, or on the device after the signal of that event. No other buffer, copy or
  // program of the host reads that memory. An argument that is not donated may be returned as an output as well, but
  // must not be written.
  std::vector<bool> donated;
  std::shared_ptr<const ExecuteContext> context;  // may be null
  // Options of this execution, with names that the backend defines. Null if the host gives none. The ABI requires that
  // unknown names are ignored.
  std::shared_ptr<const NamedValues> options;
};

struct ExecuteResult {
  std::vector<DeviceArray> outputs;  // each `ready` is set once the output holds its value, or with an error
  // Set when this launch has finished on this device. The backend must drop its references to the arguments first, and
  // should take the event from a Promise.
  Event done;
  // Not OK: the program has already run and failed, and the call that started it reports this error to the host.
  // Donated arguments are consumed, and `outputs` is ignored.
  absl::Status failure;
};

class LoadedExecutable {
 public:
  virtual ~LoadedExecutable() = default;
  // Starts the program on one device and returns without waiting for it. The program starts after the `ready` events of
  // its arguments are set. An error of an argument becomes the error of all outputs.
  //
  // If the event of an argument has a signal of this backend, the device itself waits: the backend submits the program
  // to the device now, ordered after the signal, and gives signals to the events of the outputs. Such a program runs
  // even if an argument turns out to have an error, so the backend must check the events of the arguments again before
  // it sets those of the outputs.
  //
  // Must be re-entrant: a custom call of a running program may compile, copy and execute on the same device.
  //
  // An error means that nothing was started and no memory was written; the host keeps its donated arguments. If the
  // devices of a run wait for one another, the backend must then fail the run on the other devices.
  virtual absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) = 0;
  // Reports that the remaining devices of the run will never be launched, because launching one of them failed with
  // `why`. Devices that run already must not wait for them.
  virtual void Abandon(int64_t run_id, const absl::Status& why) {}
};

struct LoadOptions {
  CompileOptions compile_options;  // those of the executable, or the ones that the host passed to this load instead
  // Device ids, [replica * partitions + partition]. Complete and checked by the shim; overrides the assignment in
  // `compile_options`. Empty: the program runs on a single device, which is chosen at each Execute.
  std::vector<int32_t> device_assignment;
};

// ---- The interfaces ----------------------------------------------------------------------------------------------

class Client {
 public:
  virtual ~Client() = default;
  virtual const Topology& topology() const = 0;                    // constant while the client lives
  virtual bool addressable(int32_t device) const { return true; }  // whether this process can use the device
  // Reports that another process of the program has failed, as the host has found out. Programs that wait for that
  // process should end with an error that names it. The default does nothing. Must not wait.
  virtual void ReportProcessFailure(int32_t process, const std::string& why) {}

  // The host has destroyed its client. Buffers, executables and work in progress may live on for a while and use this
  // object, so its destructor comes later, perhaps never if the host ends its process. What must happen before the
  // process ends belongs here. Called once, on a thread of the host, which may wait. Not called if the host destroys
  // its client in a callback of an event. The default does nothing.
  virtual void Close() {}

  // Copies arrays to and from other processes. Null (the default): the client cannot do that. The result lives as long
  // as the client.
  virtual TransferService* transfers() { return nullptr; }

  // Allocates uninitialized memory. Returns ResourceExhausted, with the sizes, if there is not enough memory.
  virtual absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) = 0;
  // Returns how many bytes an array of this shape, in the layout of the shape, occupies in the memory space.
  virtual absl::StatusOr<size_t> StorageSize(const Shape& shape, int32_t memory) const;
  // Returns the layout that an array gets if the host asks for none. The default is row-major.
  virtual absl::StatusOr<Layout> DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims) const;
  // Whether the storages of this memory space are ordinary host memory, with arrays dense in their layout. The host may
  // then read them in place, as JAX does.
  virtual bool IsHostMemory(int32_t memory) const = 0;
  // The alignment in bytes from which on host memory can serve as storage without a copy. 0: never.
  virtual size_t ZeroCopyAlignment(int32_t memory) const { return 0; }
  // The same for views. A host asks for a view when it wants no copy, and may have no alternative: JAX's from_dlpack
  // fails if a view is refused. A backend that can compute on data with the natural alignment of `type` returns that.
  // 0 for memory of a device: any address.
  virtual size_t ViewAlignment(int32_t memory, PrimitiveType type) const { return ZeroCopyAlignment(memory); }

  // ---- Asynchronous copies. The shim calls only these three.
  //
  // StartCopyFromHost copies a host array to `dst.storage`, in the layout of `dst.shape`. StartCopyToHost copies an
  // array to `dst`, in the given layout; `dst` stays valid until the event is set. StartCopyDevice copies between any
  // two memory spaces of this client; the dimensions are equal, the layouts may differ.
  //
  // The functions return without waiting. A copy begins after the `ready` events of its arrays are set, or on the
  // device after their signals. If such an event has an error, nothing is copied and the copy has the same error. All
  // errors are reported through the returned events, never otherwise. A copy holds references to the storages of its
  // arrays until it ends, and drops them before it sets `done`: from the references the shim concludes whether
  // something still reads the memory. `dims` and `byte_strides` of a host array are valid during the call only.
  //
  // The defaults call the blocking functions below. They do so in the calling thread if the arrays are ready and either
  // have at most kInlineCopyBytes or come with HostUse::kDuringCall. Otherwise they use a task (Schedule).
  virtual CopyFromHostEvents StartCopyFromHost(const HostArray& src, const DeviceArray& dst, HostUse use);
  virtual Event StartCopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst);
  virtual Event StartCopyDevice(const DeviceArray& src, const DeviceArray& dst);
  static constexpr int64_t kInlineCopyBytes = 64 * 1024;

  // ---- Blocking copies. The arrays are ready. The defaults serve host memory.
  virtual absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst);
  virtual absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst);
  virtual absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst);

  // Allocates pinned host memory, which the device can read without the CPU. If the host passes memory for the duration
  // of a call only, the shim copies the data to staging memory, so that the call does not wait for the device. A
  // backend with staging memory therefore receives HostUse::kDuringCall only after AllocateStaging has failed. Returns
  // ResourceExhausted if no staging memory is left.
  virtual absl::StatusOr<std::shared_ptr<Storage>> AllocateStaging(int32_t device, size_t bytes);
  // Announces host memory that the host will often copy from or to, so that the backend can pin or map it. The host
  // unregisters it by its first address once no copy uses it. The defaults do nothing and return OK.
  virtual absl::Status RegisterHostMemory(void* data, size_t size);
  virtual absl::Status UnregisterHostMemory(void* data);

  // Returns an event that is set when all work submitted to `stream` so far is done. The shim needs it for a view of
  // memory that the stream still writes. `stream` is a handle of the platform, such as a hipStream_t. Never called for
  // host memory.
  virtual absl::StatusOr<Event> GetStreamEvent(int32_t device, void* stream);

  // Prepares the executable to run on the devices that the options name.
  virtual absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                                 const LoadOptions& options) = 0;

  virtual absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const;
  virtual absl::Status ClearMemoryStats(int32_t device);
  // Runs `task` soon on a thread of the backend. Tasks may block and do not throw. The default starts a new thread.
  // Throws if no thread can be started; then the task does not run.
  virtual void Schedule(std::function<void()> task);
};

struct BackendServices {
  std::shared_ptr<CustomCallRegistry> custom_calls;  // never null
};

// Services of the host for one client.
struct HostServices {
  std::shared_ptr<KeyValueStore> key_values;  // null: the program has a single process
};

// A program as the host passed it in.
struct ProgramBytes {
  absl::string_view format;  // "mlir" (StableHLO, portable bytecode or text), "hlo", "hlo_with_config"
  absl::string_view bytes;   // both live during the call
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string platform_name() const = 0;                // seen by the host; JAX chooses lowering rules by it
  virtual NamedValues plugin_attributes() const { return {}; }  // added to those of the shim (StableHLO versions)

  // Opens the hardware. Returns InvalidArgument, with a list of the known options, for an option that is unknown.
  virtual absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& options,
                                                               const HostServices& services = {}) = 0;
  // Describes the devices of a topology without opening hardware. `name` may be empty.
  virtual absl::StatusOr<Topology> DescribeTopology(const std::string& name, const NamedValues& options) = 0;

  // Compiles without a client. The module is verified, no pass has run on it, and the callee owns it.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module,
                                                              const CompileOptions& options, const Topology& topology);
  // For a vendor's own compiler. Programs in a format for which AcceptsProgramBytes is true are passed to CompileBytes
  // as they are: they are not imported, not verified, and not changed by module transformations that the host has
  // registered. All other programs are passed to Compile.
  virtual bool AcceptsProgramBytes(absl::string_view format) const { return false; }
  virtual absl::StatusOr<std::shared_ptr<Executable>> CompileBytes(const ProgramBytes& program,
                                                                   const CompileOptions& options,
                                                                   const Topology& topology);
  // Reads the result of Executable::Serialize. Returns FailedPrecondition if another build wrote it, or if it was
  // compiled for hardware that is not compatible.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes,
                                                                  const Topology& topology) = 0;

  // BeginTrace is called when a profiler of the host starts, EndTrace when it stops; the calls may be nested. A backend
  // records the work of its devices in OperationTrace (operation_trace.h). If the device itself keeps records, the
  // backend enables them in BeginTrace and passes them to OperationTrace before EndTrace returns. The defaults do
  // nothing.
  virtual void BeginTrace() {}
  virtual void EndTrace() {}
};

// Every plugin defines this function. The shim calls it once, when the host first uses the function table.
std::unique_ptr<Backend> CreateBackend(BackendServices services);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_BACKEND_H_
