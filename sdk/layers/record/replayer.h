// Repeats the operations of a recorded session on a plugin, one by one, without the host.
//
// Devices and memories are matched by position: the first addressable device of the session is the plugin's first, and
// a memory is the one of the same kind at the same device. Device ids in compile options are changed accordingly. Step
// reports what happened; the caller compares it with the session.
//
// Not thread-safe. Operations run in the order of the session, in one thread. An operation that was asynchronous in the
// session is asynchronous in the replay.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_REPLAYER_H_
#define BACKPLANE_SDK_LAYERS_RECORD_REPLAYER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "sdk/host/client.h"
#include "sdk/layers/record/array_bytes.h"
#include "sdk/layers/record/session_file.h"

namespace backplane::record {

struct ReplayOptions {
  std::vector<host::NamedValue> create_options;  // override those of the session
  bool session_options = true;                   // whether clients get the create options of the session
  bool wait_for_results = false;  // waits after each execution and copy, so that durations include the work
  // No host will supply what the session has promised (values of aliases, pieces of transfers). If a wait takes this
  // long while there are such promises, they are broken, and operations that depend on them end with an error.
  int64_t promise_patience_ms = 60000;
};

struct Outcome {
  // The status of the call on this plugin; for a wait, that of the event.
  absl::Status status;
  // Why the operation was not repeated. Then `status` is OK.
  std::string skipped;
  // The data that the host would have read.
  std::optional<host::HostArray> read;
  int64_t duration_ns = 0;  // of the call of the plugin
};

class Replayer {
 public:
  Replayer(const SessionReader& session, const host::Plugin& plugin, ReplayOptions options);
  ~Replayer();
  Replayer(const Replayer&) = delete;

  Outcome Step(const Operation& op);

  // Returns a live buffer by its id in the session, or null.
  const host::Buffer* FindBuffer(uint64_t id) const;
  // Returns a kFromHost operation that creates the buffer with its current contents, which are added to `writer`.
  absl::StatusOr<Operation> AsFromHost(uint64_t id, SessionWriter* writer);
  const host::Plugin& plugin() const { return plugin_; }

 private:
  struct Client {
    std::shared_ptr<host::Client> client;
    std::vector<host::Device> devices;                       // addressable
    std::vector<DeviceFact> facts;                           // the addressable devices of the session, in order
    absl::flat_hash_map<int64_t, int64_t> ids;               // from device ids of the session to ours
    absl::flat_hash_map<int64_t, std::string> memory_kinds;  // of the session, by id
  };
  struct HostMemory {  // aligned as hosts align their memory
    explicit HostMemory(size_t size);
    ~HostMemory();
    HostMemory(const HostMemory&) = delete;
    std::byte* data;
    size_t size;
  };
  using Memory = std::shared_ptr<HostMemory>;
  struct PendingRead {
    Memory memory;
    PJRT_Buffer_Type type = PJRT_Buffer_Type_U8;
    std::vector<int64_t> dims;
    HostExtent extent;
  };
  struct Event {
    std::shared_ptr<host::Event> event;
    std::shared_ptr<PendingRead> read;
    std::shared_ptr<host::Buffer> buffer;  // the buffer whose contents it is about
    bool in_place = false;                 // ready when the plugin does not use memory of the host any more
  };
  struct CompiledAhead {
    host::Program program;
    std::string options;
  };
  using Buffer = std::shared_ptr<host::Buffer>;
  using Loaded = std::shared_ptr<host::LoadedExecutable>;
  using Transfer = std::shared_ptr<host::AsyncTransfer>;
  using Promise = std::function<absl::Status(absl::StatusOr<const host::Buffer*>)>;
  using Object = std::variant<std::monostate, Client, Loaded, CompiledAhead, Buffer, Event, Transfer, Promise>;

  absl::Status Do(const Operation& op, Outcome& out);
  absl::Status DoClient(const Operation& op, Outcome& out);
  absl::Status DoCompile(const Operation& op, Outcome& out);
  absl::Status DoLoad(const Operation& op, Outcome& out);
  absl::Status DoSerialize(const Operation& op, Outcome& out);
  absl::Status DoDeserialize(const Operation& op, Outcome& out);
  absl::Status DoFromHost(const Operation& op, Outcome& out);
  absl::Status DoMake(const Operation& op, Outcome& out);  // creates buffers without data
  absl::Status DoFulfill(const Operation& op, Outcome& out);
  absl::Status DoTransfer(const Operation& op, Outcome& out);
  absl::Status DoExecute(const Operation& op, Outcome& out);
  absl::Status DoCopy(const Operation& op, Outcome& out);
  absl::Status DoRead(const Operation& op, Outcome& out);
  absl::Status DoWait(const Operation& op, Outcome& out);
  absl::Status DoPointer(const Operation& op, Outcome& out);

  // Returns the object that the operation uses at this index, as T. Returns FAILED_PRECONDITION, with the payload of a
  // skip, if it does not exist.
  template <typename T>
  absl::StatusOr<T*> Use(const Operation& op, size_t index);
  void Make(const Operation& op, size_t index, Object object);
  absl::StatusOr<Client*> GetClient(const Operation& op);
  absl::StatusOr<host::Location> GetLocation(const Operation& op, const Client& client) const;
  absl::StatusOr<host::Device> GetDevice(int64_t id, const Client& client) const;
  absl::StatusOr<host::Memory> GetMemory(int64_t id, const Client& client) const;
  Client* AnyClient();
  absl::StatusOr<std::string> Blob(const Operation& op, size_t i, uint64_t limit = uint64_t{1} << 32) const;
  absl::StatusOr<std::string> OptionsFor(const Client& client, const std::string& bytes) const;
  Buffer Wrap(const std::shared_ptr<host::Client>& client, PJRT_Buffer* raw) const;
  Event WrapEvent(const std::shared_ptr<host::Client>& client, PJRT_Event* raw) const;
  // All waits of the replay go through this function, so that a session that waits for a broken promise ends as well.
  absl::Status Await(const host::Event& event);
  absl::Status Await(const host::Buffer& buffer);
  absl::StatusOr<host::HostArray> Read(const host::Buffer& buffer);
  void BreakLatePromises(const host::Event& event);
  // Keeps `memory` until the event is ready.
  static void KeepAliveUntil(const Event& event, Memory memory);

  const SessionReader& session_;
  const host::Plugin& plugin_;
  const ReplayOptions options_;
  absl::flat_hash_map<uint64_t, Object> objects_;
  // The promises of which a fulfillment was refused. Unlike others, they are not broken by their destruction
  // (host::Client::AliasBuffer).
  std::vector<Promise> refused_;
  std::map<Digest, std::string> serialized_;  // from serialized executables of the session to this plugin's
  uint64_t last_client_ = 0;
};

// Returns a CompileOptionsProto in which the device ids are changed according to `ids`. Returns INVALID_ARGUMENT for an
// id that is not in it.
absl::StatusOr<std::string> ReplaceDevices(absl::string_view options, const absl::flat_hash_map<int64_t, int64_t>& ids);

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_REPLAYER_H_
