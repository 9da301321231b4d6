// The objects behind the C ABI's pointers. Only this folder knows their definitions.
//
// Ownership: a PJRT_Client holds a ClientState. Buffers, executables and running work hold it too, so the client may be
// destroyed before them. Devices and memories belong to the state and never move.
#ifndef BACKPLANE_SDK_SHIM_OBJECTS_H_
#define BACKPLANE_SDK_SHIM_OBJECTS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "api/pjrt_c_api.h"
#include "base/mutex.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/block_cache.h"
#include "sdk/backend/compile_cache.h"
#include "sdk/backend/exceptions.h"
#include "sdk/shim/convert.h"
#include "sdk/shim/guard.h"
#include "sdk/shim/named_values.h"

namespace backplane::shim {
struct ClientState;
struct MemoryObject;
struct ContextData;
}  // namespace backplane::shim

struct PJRT_Event {
  backplane::Event event;
  bool host_owned = false;  // created by PJRT_Event_Create; the host may set it
};

// A kind of memory that a device can address, for the MemoryDescriptions extension.
struct PJRT_MemoryDescription {
  std::string kind;
  int kind_id = 0;
};

struct PJRT_DeviceDescription {
  const backplane::DeviceInfo* info = nullptr;
  backplane::shim::NamedValueList attributes;
  std::vector<PJRT_MemoryDescription> memories;  // the first is the default
  std::vector<const PJRT_MemoryDescription*> memory_pointers;
};

struct PJRT_TopologyDescription {
  explicit PJRT_TopologyDescription(backplane::Topology t);
  const backplane::Topology topology;
  std::vector<std::unique_ptr<PJRT_DeviceDescription>> owned;
  std::vector<PJRT_DeviceDescription*> descriptions;
  std::vector<int> memory_kind_ids;  // each kind once, in order of first appearance
  backplane::shim::NamedValueList attributes;
  std::shared_ptr<const backplane::CompileCache> compile_cache;  // null: none; set before the host sees the object
};

struct PJRT_Device {
  backplane::shim::ClientState* client = nullptr;
  PJRT_DeviceDescription* description = nullptr;
  bool addressable = true;
  std::vector<PJRT_Memory*> memories;
  const backplane::DeviceInfo& info() const { return *description->info; }
};

namespace backplane::shim {

struct MemoryObject : PJRT_Memory {
  ClientState* client = nullptr;
  const MemoryInfo* info = nullptr;
  bool host = false;  // Client::IsHostMemory
  size_t zero_copy_alignment = 0;
  std::string debug_string, to_string;
  std::vector<PJRT_Device*> devices;
  ~MemoryObject();

  struct UserData {
    void* data;
    void (*dtor)(void*);
  };
  Mutex mu;
  std::map<const void*, UserData> user_data ABSL_GUARDED_BY(mu);
};
const PJRT_Memory_FunctionTable* GetMemoryTable();
inline MemoryObject* ToMemory(PJRT_Memory* memory) { return static_cast<MemoryObject*>(memory); }

// The store that uses the callbacks of PJRT_Client_Create to communicate with the other processes of a program.
class HostKeyValues : public KeyValueStore {
 public:
  // Returns null if the host passes no callback for get or put.
  static std::shared_ptr<HostKeyValues> Of(const PJRT_Client_Create_Args& args);
  absl::StatusOr<std::string> Get(absl::string_view key, std::chrono::milliseconds limit) override;
  absl::StatusOr<std::string> TryGet(absl::string_view key) override;
  absl::Status Put(absl::string_view key, absl::string_view value) override;
  void Close() { closed_ = true; }  // the host has destroyed its client, so its functions must not be called

 private:
  absl::Status CheckOpen(const void* function, const char* what) const;
  PJRT_KeyValueGetCallback get_ = nullptr;
  void* get_arg_ = nullptr;
  PJRT_KeyValuePutCallback put_ = nullptr;
  void* put_arg_ = nullptr;
  PJRT_KeyValueTryGetCallback try_get_ = nullptr;
  void* try_get_arg_ = nullptr;
  std::atomic<bool> closed_{false};
};

struct ClientState : std::enable_shared_from_this<ClientState> {
  ClientState(std::unique_ptr<Client> client, std::shared_ptr<HostKeyValues> key_values);
  PJRT_Device* FindDevice(int32_t id) const;  // null if there is none
  MemoryObject* FindMemory(int32_t id) const;

  const std::shared_ptr<HostKeyValues> key_values;  // null: the host has passed none
  const std::unique_ptr<Client> client;
  PJRT_TopologyDescription topology;
  int process_index = 0;
  std::vector<std::unique_ptr<PJRT_Device>> owned_devices;
  std::vector<PJRT_Device*> devices, addressable_devices;
  std::vector<std::unique_ptr<MemoryObject>> owned_memories;
  std::vector<PJRT_Memory*> memories, addressable_memories;
};

// Creates the state of a new client. The last reference destroys it, except on a thread that sets an event. That thread
// may belong to the backend, and the client may wait for it. In this case a new thread destroys the state.
std::shared_ptr<ClientState> NewClientState(std::unique_ptr<Client> client, std::shared_ptr<HostKeyValues> key_values);

}  // namespace backplane::shim

struct PJRT_Client {
  std::shared_ptr<backplane::shim::ClientState> state;
};

namespace backplane::shim {

// A mark that is shared by everything that may read the same memory: buffers, copies and programs in progress, external
// references. If a buffer has the only reference to its mark, it may be donated with its memory. The program that
// computes its value needs no mark, because the ready event orders the writes. A buffer has no mark until something
// else reads its memory.
using UseMark = std::shared_ptr<const char>;
inline UseMark MakeUseMark() { return std::make_shared<const char>('\0'); }

struct HeldArray : DeviceArray {
  UseMark use;
};

}  // namespace backplane::shim

struct PJRT_Buffer final {  // its operator new serves no larger type
  PJRT_Buffer(std::shared_ptr<backplane::shim::ClientState> c, PJRT_Device* d, backplane::shim::MemoryObject* m,
              backplane::DeviceArray&& a, backplane::shim::UseMark u)
      : client(std::move(c)),
        device(d),
        memory(m),
        shape(std::move(a.shape)),
        storage(std::move(a.storage)),
        ready(std::move(a.ready)),
        use(std::move(u)) {}

  // A program may have hundreds of outputs, which live until the next call.
  static void* operator new(size_t) { return backplane::BlockCache<sizeof(PJRT_Buffer)>::Allocate(); }
  static void operator delete(void* block) { backplane::BlockCache<sizeof(PJRT_Buffer)>::Free(block); }

  const std::shared_ptr<backplane::shim::ClientState> client;
  PJRT_Device* const device;
  backplane::shim::MemoryObject* const memory;
  const backplane::Shape shape;  // with layout; stays after deletion

  backplane::Mutex mu;
  // Null once deleted or donated, or if there is no value.
  std::shared_ptr<backplane::Storage> storage ABSL_GUARDED_BY(mu);
  backplane::Event ready ABSL_GUARDED_BY(mu);
  backplane::shim::UseMark use ABSL_GUARDED_BY(mu);  // null: nothing else reads the memory; reset with the storage
  bool deleted ABSL_GUARDED_BY(mu) = false;
  bool claimed ABSL_GUARDED_BY(mu) = false;  // a launch has taken the array and may put it back
  int64_t external_references ABSL_GUARDED_BY(mu) = 0;
  // Keeps the memory while there are external references; null: there are none.
  std::unique_ptr<backplane::shim::HeldArray> external_hold ABSL_GUARDED_BY(mu);
  std::unique_ptr<backplane::shim::LayoutView> layout_view ABSL_GUARDED_BY(mu);  // created on demand
  std::vector<size_t> dynamic_dimensions ABSL_GUARDED_BY(mu);                    // created on demand

  // Returns the array for reading. Returns InvalidArgument after deletion or donation.
  absl::StatusOr<backplane::shim::HeldArray> Read(const char* what);
  // Takes the array out; the buffer is deleted afterwards.
  absl::StatusOr<backplane::shim::HeldArray> Take(const char* what);
  // Takes the array out for a launch or a buffer to which it is donated. This buffer then counts as deleted until
  // UndoClaim undoes this, or for ever if CommitDonation is called. Sets `sole` to whether nothing else reads the
  // memory.
  absl::StatusOr<backplane::shim::HeldArray> Claim(bool* sole, const char* what);
  void UndoClaim(backplane::shim::HeldArray array);
  void CommitDonation();
  bool gone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return deleted || claimed; }
  // Returns the mark for another reader.
  const backplane::shim::UseMark& GetMark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (use == nullptr) use = backplane::shim::MakeUseMark();
    return use;
  }
};

namespace backplane::shim {

// An array of bytes that is returned with its own deleter (serialized executables, topologies, layouts, ...).
struct OwnedBytes {
  std::string bytes;
};
template <typename T>
void DeleteOwnedBytes(T* holder) {
  delete reinterpret_cast<OwnedBytes*>(holder);
}

// All data of an executable that the ABI returns by pointer; created on first use.
struct ExecutableViews;

}  // namespace backplane::shim

struct PJRT_Executable {
  explicit PJRT_Executable(std::shared_ptr<const backplane::Executable> e);
  ~PJRT_Executable();
  const std::shared_ptr<const backplane::Executable> executable;
  const backplane::shim::ExecutableViews& views();
  absl::StatusOr<const std::string*> optimized_program();  // serialized HloModuleProtoWithConfig
  // Executable::PrintCode; the text lives as long as this object.
  absl::StatusOr<const std::string*> code_text(absl::string_view form);

 private:
  std::once_flag once_, program_once_;
  std::unique_ptr<backplane::shim::ExecutableViews> views_;
  absl::StatusOr<std::string> program_ = absl::UnknownError("");
  backplane::Mutex code_mu_;
  std::map<std::string, std::string, std::less<>> code_texts_ ABSL_GUARDED_BY(code_mu_);  // by form, created on demand
};

struct PJRT_LoadedExecutable {
  std::shared_ptr<backplane::shim::ClientState> client;
  std::shared_ptr<const backplane::Executable> executable;
  backplane::CompileOptions options;  // those of the load, whose device assignment is used
  // [replica * partitions + partition]; empty: any single device. Running work holds it too.
  std::shared_ptr<const std::vector<int32_t>> device_assignment;
  int32_t num_replicas = 1, num_partitions = 1;
  std::vector<PJRT_Device*> devices;  // addressable ones, in order of the assignment
  std::vector<PJRT_LogicalDeviceIds> logical_ids;
  std::vector<int64_t> donated_arguments;
  std::vector<backplane::shim::MemoryObject*> output_memories;  // [device * outputs + output]
  std::string fingerprint;

  backplane::Mutex mu;
  std::shared_ptr<backplane::LoadedExecutable> loaded ABSL_GUARDED_BY(mu);  // null once deleted
  std::optional<std::string> compile_log ABSL_GUARDED_BY(mu);               // created on demand
  // If the executable is launched separately on each device (execute_device), the n-th launches of all devices form one
  // run.
  std::vector<int64_t> lone_launches ABSL_GUARDED_BY(mu);  // by index in `devices`
  int64_t lone_runs ABSL_GUARDED_BY(mu) = 0;  // the run id of the first launches, the next ones follow; 0: none yet
};

struct PJRT_ExecuteContext {
  backplane::Mutex mu;
  std::shared_ptr<const backplane::shim::ContextData> data ABSL_GUARDED_BY(mu);  // replaced as a whole
};

namespace backplane::shim {

// User data of one execution, by type id. The implementation of ExecuteContext.
struct ContextData : ExecuteContext {
  absl::InlinedVector<std::pair<int64_t, void*>, 2> entries;
  // The callbacks for host sends and receives of this device.
  std::vector<PJRT_SendCallbackInfo> sends;
  std::vector<PJRT_RecvCallbackInfo> receives;
  absl::Status SendToHost(int64_t channel, const CustomCallBuffer& data) const override;
  absl::Status ReceiveFromHost(int64_t channel, const CustomCallBuffer& data) const override;
};
// Returns the context with the callbacks in the options for the n-th device; `context` itself if there are none.
absl::StatusOr<std::shared_ptr<const ContextData>> AddCallbacks(std::shared_ptr<const ContextData> context,
                                                                const PJRT_ExecuteOptions& options, size_t device);

// The plugin: its backend and the state that all clients share. Created on first use, never destroyed.
struct PluginState {
  BackendServices services;
  std::unique_ptr<Backend> backend;
  NamedValueList attributes;
  NamedValueList attributes_for_old_hosts;
  std::atomic<bool> host_is_old{false};  // the host that created the newest client has a minor version before 0.61
};
PluginState& Plugin();

// Returns a new PJRT_Event for an event.
inline PJRT_Event* NewEvent(Event event) { return new PJRT_Event{std::move(event)}; }

// Returns a new buffer for an array in `memory`. `device` null: the memory's first device. `use` null: nothing else
// reads the memory.
PJRT_Buffer* NewBuffer(std::shared_ptr<ClientState> client, PJRT_Device* device, MemoryObject* memory,
                       DeviceArray&& array, UseMark use = nullptr);

// Returns the memory that a pair of arguments selects (`memory` first, else the default memory of `device`), which must
// belong to this client.
absl::StatusOr<MemoryObject*> ChooseMemory(ClientState& client, PJRT_Device* device, PJRT_Memory* memory,
                                           PJRT_Device** chosen_device);
// Sets the requested layout, or the client's default if `layout` is null.
absl::Status SetLayout(ClientState& client, const PJRT_Buffer_MemoryLayout* layout, Shape* shape);
// Allocates storage for a shape with layout.
absl::StatusOr<std::shared_ptr<Storage>> AllocateFor(ClientState& client, const Shape& shape, MemoryObject* memory);

// Keeps the client alive until the copy that sets `done` has ended.
void KeepClient(const std::shared_ptr<ClientState>& client, const Event& done);
// Returns the array with its mark attached to the storage, so that both are held together.
DeviceArray AttachMark(HeldArray array);
// Copies from an array that others may read or write as well. Its mark and the client are held until the copy has
// ended. If the array has no value or no memory, the event has its error.
Event CopyOut(const std::shared_ptr<ClientState>& client, HeldArray array, const Shape& host_shape, void* dst);
Event CopyToArray(const std::shared_ptr<ClientState>& client, HeldArray array, const DeviceArray& dst);
// Copies from host memory. If the host lends the memory only for the call, it is first copied to staging memory, if the
// backend has staging memory.
CopyFromHostEvents CopyIn(const std::shared_ptr<ClientState>& client, const HostArray& src, const DeviceArray& dst,
                          HostUse use);

// Returns a part of another storage: `size` bytes from `offset`. The caller has checked the range.
std::shared_ptr<Storage> SliceStorage(std::shared_ptr<Storage> whole, size_t offset, size_t size);
// Returns a storage for memory of the caller. `release` runs when the last reference is dropped.
std::shared_ptr<Storage> BorrowStorage(void* data, size_t size, bool writable, std::function<void()> release);

// Compilation and loading, for PJRT_Client_Compile, PJRT_Compile and the loading functions.
absl::StatusOr<std::shared_ptr<const Executable>> CompileProgram(const PJRT_Program* program, const char* options,
                                                                 size_t options_size,
                                                                 const PJRT_TopologyDescription& topology);
absl::StatusOr<PJRT_LoadedExecutable*> LoadExecutable(std::shared_ptr<ClientState> client,
                                                      std::shared_ptr<const Executable> executable,
                                                      CompileOptions options);

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_OBJECTS_H_
