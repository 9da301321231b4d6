// The recorder behind record.h. It has one method for the beginning and one for the end of each call that it records.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_RECORDER_H_
#define BACKPLANE_SDK_LAYERS_RECORD_RECORDER_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "sdk/host/loader.h"
#include "sdk/layers/extensions.h"
#include "sdk/layers/layer.h"
#include "sdk/layers/record/array_bytes.h"
#include "sdk/layers/record/session_file.h"

// The functions that become one operation each. Events are handled separately.
#define BP_RECORDED_FUNCTIONS(F)                           \
  F(PJRT_Client_Create)                                    \
  F(PJRT_Client_Destroy)                                   \
  F(PJRT_Client_Compile)                                   \
  F(PJRT_Compile)                                          \
  F(PJRT_Client_Load)                                      \
  F(PJRT_Executable_Serialize)                             \
  F(PJRT_Executable_DeserializeAndLoad)                    \
  F(PJRT_Executable_Destroy)                               \
  F(PJRT_LoadedExecutable_GetExecutable)                   \
  F(PJRT_LoadedExecutable_Delete)                          \
  F(PJRT_LoadedExecutable_Destroy)                         \
  F(PJRT_LoadedExecutable_Execute)                         \
  F(PJRT_Client_BufferFromHostBuffer)                      \
  F(PJRT_Client_CreateUninitializedBuffer)                 \
  F(PJRT_Client_CreateErrorBuffer)                         \
  F(PJRT_Client_CreateAliasBuffer)                         \
  F(PJRT_Client_FulfillAliasBuffer)                        \
  F(PJRT_Client_CreateViewOfDeviceBuffer)                  \
  F(PJRT_Client_CreateBuffersForAsyncHostToDevice)         \
  F(PJRT_AsyncHostToDeviceTransferManager_TransferData)    \
  F(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral) \
  F(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer)  \
  F(PJRT_AsyncHostToDeviceTransferManager_SetBufferError)  \
  F(PJRT_AsyncHostToDeviceTransferManager_AddMetadata)     \
  F(PJRT_AsyncHostToDeviceTransferManager_Destroy)         \
  F(PJRT_Buffer_CopyToDevice)                              \
  F(PJRT_Buffer_CopyToMemory)                              \
  F(PJRT_Buffer_Bitcast)                                   \
  F(PJRT_Buffer_DonateWithControlDependency)               \
  F(PJRT_Buffer_Delete)                                    \
  F(PJRT_Buffer_Destroy)                                   \
  F(PJRT_Buffer_ReadyEvent)                                \
  F(PJRT_Buffer_ToHostBuffer)                              \
  F(PJRT_Buffer_CopyRawToHost)                             \
  F(PJRT_Buffer_CopyRawToHostFuture)                       \
  F(PJRT_Buffer_OpaqueDeviceMemoryDataPointer)             \
  F(PJRT_Event_Destroy)

namespace backplane::record {

class Recorder final : public layers::Layer {
 public:
  enum class Data { kAll, kInputs, kNone };
  Recorder(std::string path, Data data, SessionWriter::Settings settings);

  // Creates the file. Called before Attach.
  absl::Status Open();

  const char* name() const override { return "record"; }
  void Attach(layers::Stack& stack) override;
  bool Wants(layers::Fn fn) const override;
  void Before(layers::Call& call) override;
  void After(layers::Call& call) override;
  void Flush() override;

 private:
  // The data that the host will have read when an event is ready.
  struct Read {
    const void* memory = nullptr;
    PJRT_Buffer_Type type = PJRT_Buffer_Type_U8;
    std::vector<int64_t> dims;
    HostExtent extent;
  };
  // The memory of a buffer whose address the host has, and may read when the buffer is ready.
  struct Exposed {
    Mutex mutex;  // held while the memory is read, so that it is not freed meanwhile
    Read read;    // its memory is null when the buffer is deleted, destroyed or donated
  };
  using ExposedPtr = std::shared_ptr<Exposed>;
  struct EventState {
    uint64_t id = 0;
    std::optional<Read> read;
    ExposedPtr exposed;  // another way to have data
    Mutex mutex;         // held while the host's memory is read, so that nothing reports the event meanwhile
    bool observed = false, destroyed = false, destroy_written = false;
    int callbacks = 0;
  };
  using EventPtr = std::shared_ptr<EventState>;
  struct Executable {
    uint64_t id = 0;
    size_t num_outputs = 0;
    bool loaded = true;  // false for PJRT_Compile
  };
  struct Pending {  // data of one call, from Before to After
    Operation op;
    EventPtr event;
    std::optional<Read> read;
    bool write = true;
  };

  // One pair for each function of the list above. Begin returns false if there is nothing to record. End runs if the
  // call has succeeded.
  using Layer::End;
#define BP_DECLARE(fn)                        \
  bool Begin(fn##_Args& args, Pending& call); \
  void End(fn##_Args& args, Pending& call);
  BP_RECORDED_FUNCTIONS(BP_DECLARE)
#undef BP_DECLARE

  void PutBackAlias(const layers::Call& call, const Pending& pending);
  void BeforeEvent(layers::Call& call);
  void AfterEvent(layers::Call& call);
  // Before the memory of a buffer can be freed or given to a program: it is not read any more.
  void ForgetExposed(PJRT_Buffer* buffer);
  // The host is about to learn that the event is ready, with this error.
  void Observe(const EventPtr& event, const PJRT_Error* error, WaitKind kind);

  void Write(Operation& op, layers::Ticks start, layers::Ticks end);
  uint64_t NewId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  template <typename Map, typename Key>
  auto Find(const Map& map, Key key) {
    MutexLock lock(mutex_);
    const auto found = map.find(key);
    return found == map.end() ? typename Map::mapped_type{} : found->second;
  }
  template <typename Map, typename Key>
  auto Take(Map& map, Key key) {
    MutexLock lock(mutex_);
    const auto found = map.find(key);
    typename Map::mapped_type value{};
    if (found == map.end()) return value;
    value = std::move(found->second);
    map.erase(found);
    return value;
  }
  template <typename Map, typename Key, typename Value>
  void DropIfSame(Map& map, Key key, const Value& value) {
    MutexLock lock(mutex_);
    auto at = map.find(key);
    if (at != map.end() && at->second == value) map.erase(at);
  }
  template <typename Map, typename Key, typename Value>
  void Put(Map& map, Key key, Value value) {
    MutexLock lock(mutex_);
    map[key] = std::move(value);
  }
  // Adds a new object with a new id.
  uint64_t MakeBuffer(PJRT_Buffer* buffer);
  uint64_t MakeEvent(PJRT_Event* event, std::optional<Read> read = std::nullopt, ExposedPtr exposed = nullptr);

  void RecordClient(PJRT_Client* client, Operation& op);
  void RecordExecutable(PJRT_LoadedExecutable* loaded, Operation& op);
  std::optional<std::pair<PJRT_Buffer_Type, std::vector<int64_t>>> GetShape(PJRT_Buffer* buffer);
  std::optional<host::BufferLayout> GetLayout(PJRT_Buffer* buffer);
  bool OnCpu(PJRT_Buffer* buffer);
  bool Ready(PJRT_Buffer* buffer);
  // Adds data that the host wrote as a blob of the operation.
  void AddInput(const void* data, PJRT_Buffer_Type type, absl::Span<const int64_t> dims, const HostExtent& extent,
                Operation& op);
  void AddPlace(PJRT_Device* device, PJRT_Memory* memory, Operation& op);
  BlobRef AddRead(const Read& read);

  std::string path_;
  const Data data_;
  const SessionWriter::Settings settings_;
  const int process_;
  const int64_t start_ns_;
  std::unique_ptr<SessionWriter> writer_;
  layers::Stack* stack_ = nullptr;
  const host::Plugin* plugin_ = nullptr;  // the target, for queries
  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint64_t> finished_at_{0};

  Mutex mutex_;  // guards the following
  absl::flat_hash_map<PJRT_Client*, uint64_t> clients_;
  absl::flat_hash_map<const PJRT_Executable*, Executable> executables_;
  absl::flat_hash_map<PJRT_LoadedExecutable*, Executable> loaded_;
  absl::flat_hash_map<PJRT_Buffer*, uint64_t> buffers_;
  absl::flat_hash_map<PJRT_Buffer*, ExposedPtr> exposed_;
  absl::flat_hash_map<PJRT_Event*, EventPtr> events_;
  absl::flat_hash_map<PJRT_AsyncHostToDeviceTransferManager*, uint64_t> transfers_;
  absl::flat_hash_map<PJRT_FulfillAliasBufferCallback*, uint64_t> aliases_;
  absl::flat_hash_map<PJRT_Device*, int64_t> devices_;
  absl::flat_hash_map<PJRT_Memory*, int64_t> memories_;
};

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_RECORDER_H_
