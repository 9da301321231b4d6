#include "sdk/layers/record/replayer.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"
#include "sdk/layers/record/replayer_internal.h"

namespace backplane::record {

using internal::SessionError;
using internal::Skip;
using internal::Stopwatch;

Replayer::HostMemory::HostMemory(size_t n)
    : data(static_cast<std::byte*>(::operator new (n == 0 ? 1 : n, std::align_val_t{64}, std::nothrow))), size(n) {}
Replayer::HostMemory::~HostMemory() { ::operator delete (data, std::align_val_t{64}); }

Replayer::Replayer(const SessionReader& session, const host::Plugin& plugin, ReplayOptions options)
    : session_(session), plugin_(plugin), options_(std::move(options)) {}

Replayer::~Replayer() {
  // Reads for which nothing waited still write to our memory.
  for (auto& [id, object] : objects_) {
    if (auto* event = std::get_if<Event>(&object); event != nullptr && event->read != nullptr)
      Await(*event->event).IgnoreError();
  }
}

void Replayer::BreakLatePromises(const host::Event& event) {
  const auto promised = [](const auto& entry) {
    return std::holds_alternative<Promise>(entry.second) || std::holds_alternative<Transfer>(entry.second);
  };
  if (refused_.empty() && std::none_of(objects_.begin(), objects_.end(), promised)) return;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.promise_patience_ms);
  for (absl::StatusOr<bool> ready = event.IsReady(); ready.ok() && !*ready; ready = event.IsReady()) {
    if (std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      continue;
    }
    std::vector<Object> broken;
    for (auto it = objects_.begin(); it != objects_.end();) {
      const auto at = it++;
      if (!promised(*at)) continue;
      broken.push_back(std::move(at->second));
      objects_.erase(at);
    }
    const auto break_promise = [](const Promise& promise) {
      promise(absl::CancelledError("replay: the session waits for a value that it never gives")).IgnoreError();
    };
    for (const Object& object : broken)
      if (const auto* promise = std::get_if<Promise>(&object)) break_promise(*promise);
    for (const Promise& promise : std::exchange(refused_, {})) break_promise(promise);
    return;  // transfers end with their objects
  }
}

absl::Status Replayer::Await(const host::Event& event) {
  BreakLatePromises(event);
  return event.Await();
}

absl::Status Replayer::Await(const host::Buffer& buffer) {
  if (const absl::StatusOr<host::Event> ready = buffer.ReadyEvent(); ready.ok()) BreakLatePromises(*ready);
  return buffer.Await();
}

absl::StatusOr<host::HostArray> Replayer::Read(const host::Buffer& buffer) {
  if (const absl::StatusOr<host::Event> ready = buffer.ReadyEvent(); ready.ok()) BreakLatePromises(*ready);
  return buffer.ToHost();
}

Outcome Replayer::Step(const Operation& op) {
  Outcome out;
  out.status = Do(op, out);
  if (!out.status.ok() && out.status.GetPayload(internal::kSkip).has_value()) {
    out.skipped = std::string(out.status.message());
    out.status = absl::OkStatus();
  }
  return out;
}

absl::Status Replayer::Do(const Operation& op, Outcome& out) {
  switch (op.kind) {
    case Kind::kClient:
      return DoClient(op, out);
    case Kind::kCompile:
      return DoCompile(op, out);
    case Kind::kCompileAhead: {
      // It is compiled when it is loaded, because this plugin cannot use an executable of another platform.
      if (op.code != 0) return Skip("it was compiled without a client, and failed; not done again");
      BP_ASSIGN_OR_RETURN(std::string code, Blob(op, 0));
      BP_ASSIGN_OR_RETURN(std::string options, Blob(op, 1));
      Make(op, 0, CompiledAhead{{op.text, std::move(code)}, std::move(options)});
      return absl::OkStatus();
    }
    case Kind::kLoad:
      return DoLoad(op, out);
    case Kind::kSerialize:
      return DoSerialize(op, out);
    case Kind::kDeserialize:
      return DoDeserialize(op, out);
    case Kind::kExecutableDelete: {
      BP_ASSIGN_OR_RETURN(Loaded* const loaded, Use<Loaded>(op, 0));
      Stopwatch watch(out);
      return (*loaded)->Delete();
    }
    case Kind::kFromHost:
    case Kind::kView:
      return DoFromHost(op, out);
    case Kind::kUninitialized:
    case Kind::kErrorBuffer:
    case Kind::kAlias:
      return DoMake(op, out);
    case Kind::kFulfillAlias:
    case Kind::kDonationReady:
      return DoFulfill(op, out);
    case Kind::kTransferStart:
    case Kind::kTransferData:
    case Kind::kTransferLiteral:
    case Kind::kTransferRetrieve:
    case Kind::kTransferError:
    case Kind::kTransferMetadata:
      return DoTransfer(op, out);
    case Kind::kExecute:
      return DoExecute(op, out);
    case Kind::kCopyToDevice:
    case Kind::kCopyToMemory:
    case Kind::kBitcast:
    case Kind::kDonate:
      return DoCopy(op, out);
    case Kind::kDelete: {
      BP_ASSIGN_OR_RETURN(Buffer* const buffer, Use<Buffer>(op, 0));
      Stopwatch watch(out);
      return (*buffer)->Delete();
    }
    case Kind::kReadyEvent: {
      BP_ASSIGN_OR_RETURN(Buffer* const buffer, Use<Buffer>(op, 0));
      Stopwatch watch(out);
      BP_ASSIGN_OR_RETURN(host::Event event, (*buffer)->ReadyEvent());
      Make(op, 0, Event{std::make_shared<host::Event>(std::move(event)), nullptr, *buffer});
      return absl::OkStatus();
    }
    case Kind::kRead:
    case Kind::kReadRaw:
      return DoRead(op, out);
    case Kind::kWait:
      return DoWait(op, out);
    case Kind::kEventDestroy: {
      const auto found = op.uses.empty() ? objects_.end() : objects_.find(op.uses[0]);
      if (found == objects_.end()) return absl::OkStatus();
      if (auto* event = std::get_if<Event>(&found->second); event != nullptr && event->read != nullptr)
        Await(*event->event).IgnoreError();
      objects_.erase(found);
      return absl::OkStatus();
    }
    case Kind::kPointer:
      return DoPointer(op, out);
    case Kind::kClientDestroy:
    case Kind::kExecutableDestroy:
    case Kind::kTransferDestroy:
    case Kind::kDestroy: {
      Stopwatch watch(out);
      if (!op.uses.empty()) objects_.erase(op.uses[0]);
      return absl::OkStatus();
    }
    case Kind::kCall:
      return Skip(absl::StrCat(op.name, " makes nothing that a replay needs"));
    case Kind::kObstacle:
      return Skip(op.obstacle);
  }
  return absl::InternalError(absl::StrCat("replay: kind ", static_cast<uint32_t>(op.kind)));
}

// ---- Objects

void Replayer::Make(const Operation& op, size_t index, Object object) {
  // An operation that failed in the session names no objects, so nothing uses the ones that it creates now.
  if (index < op.makes.size() && op.makes[index] != 0) objects_[op.makes[index]] = std::move(object);
}

absl::StatusOr<Replayer::Client*> Replayer::GetClient(const Operation& op) { return Use<Client>(op, 0); }

Replayer::Client* Replayer::AnyClient() {
  const auto found = objects_.find(last_client_);
  return found == objects_.end() ? nullptr : std::get_if<Client>(&found->second);
}

const host::Buffer* Replayer::FindBuffer(uint64_t id) const {
  const auto found = objects_.find(id);
  if (found == objects_.end()) return nullptr;
  const auto* buffer = std::get_if<Buffer>(&found->second);
  return buffer == nullptr ? nullptr : buffer->get();
}

Replayer::Buffer Replayer::Wrap(const std::shared_ptr<host::Client>& client, PJRT_Buffer* raw) const {
  return std::make_shared<host::Buffer>(plugin_, client->keep(), raw);
}
Replayer::Event Replayer::WrapEvent(const std::shared_ptr<host::Client>& client, PJRT_Event* raw) const {
  return {std::make_shared<host::Event>(plugin_, client->keep(), raw), nullptr, nullptr};
}

void Replayer::KeepAliveUntil(const Event& event, Memory memory) {
  if (!event.event->OnReady([memory](absl::Status) {}).ok()) event.event->Await().IgnoreError();
}

absl::StatusOr<std::string> Replayer::Blob(const Operation& op, size_t i, uint64_t limit) const {
  if (i >= op.blobs.size())
    return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": names no blob ", i));
  if (op.data_left_out && !session_.HasBlob(op.blobs[i])) return Skip("the session was recorded without data");
  return session_.ReadBlob(op.blobs[i], limit);
}

// ---- Clients, devices, programs

absl::Status Replayer::DoClient(const Operation& op, Outcome& out) {
  std::vector<host::NamedValue> options = options_.create_options;
  if (options_.session_options) {
    for (const host::NamedValue& value : op.options)
      if (host::Find(options, value.name) == nullptr) options.push_back(value);
  }
  Stopwatch watch(out);
  BP_ASSIGN_OR_RETURN(host::Client made, host::Client::Create(plugin_, options));
  Client client;
  client.client = std::make_shared<host::Client>(std::move(made));
  BP_ASSIGN_OR_RETURN(client.devices, client.client->AddressableDevices());
  for (const DeviceFact& fact : op.devices)
    if (fact.addressable) client.facts.push_back(fact);
  for (size_t i = 0; i < client.facts.size() && i < client.devices.size(); ++i) {
    BP_ASSIGN_OR_RETURN(const int id, client.devices[i].Id());
    client.ids[client.facts[i].id] = id;
  }
  for (const MemoryFact& fact : op.memories) client.memory_kinds[fact.id] = fact.kind;
  if (!op.makes.empty()) last_client_ = op.makes[0];
  Make(op, 0, std::move(client));
  return absl::OkStatus();
}

absl::StatusOr<host::Device> Replayer::GetDevice(int64_t id, const Client& client) const {
  for (size_t i = 0; i < client.facts.size(); ++i) {
    if (client.facts[i].id != id) continue;
    if (i < client.devices.size()) return client.devices[i];
    return absl::FailedPreconditionError(absl::StrCat("replay: the session uses its device ", i, " of ",
                                                      client.facts.size(), ", the plugin has ", client.devices.size(),
                                                      "; an option of the client may give it more"));
  }
  return absl::InvalidArgumentError(absl::StrCat("replay: the session names no device ", id));
}

absl::StatusOr<host::Memory> Replayer::GetMemory(int64_t id, const Client& client) const {
  const auto kind = client.memory_kinds.find(id);
  for (const DeviceFact& fact : client.facts) {
    for (int64_t memory : fact.memories) {
      if (memory != id || kind == client.memory_kinds.end()) continue;
      BP_ASSIGN_OR_RETURN(const host::Device device, GetDevice(fact.id, client));
      absl::StatusOr<host::Memory> same = device.MemoryOfKind(kind->second);
      if (!same.ok() && fact.default_memory == id) return device.DefaultMemory();  // kinds may have other names here
      return same;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("replay: the session names no memory ", id));
}

absl::StatusOr<host::Location> Replayer::GetLocation(const Operation& op, const Client& client) const {
  if (op.memory != -1) {
    BP_ASSIGN_OR_RETURN(const host::Memory memory, GetMemory(op.memory, client));
    return host::Location(memory);
  }
  if (op.device != -1) {
    BP_ASSIGN_OR_RETURN(const host::Device device, GetDevice(op.device, client));
    return host::Location(device);
  }
  if (client.devices.empty()) return absl::FailedPreconditionError("replay: the plugin has no device");
  return host::Location(client.devices[0]);
}

absl::StatusOr<std::string> Replayer::OptionsFor(const Client& client, const std::string& bytes) const {
  bool same = client.ids.size() == client.facts.size();
  for (const auto& [theirs, ours] : client.ids) same = same && theirs == ours;
  if (same) return bytes;
  return ReplaceDevices(bytes, client.ids);
}

absl::Status Replayer::DoCompile(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Client* const client, GetClient(op));
  BP_ASSIGN_OR_RETURN(std::string code, Blob(op, 0));
  BP_ASSIGN_OR_RETURN(const std::string bytes, Blob(op, 1));
  BP_ASSIGN_OR_RETURN(const std::string options, OptionsFor(*client, bytes));
  const host::Program program{op.text, std::move(code)};
  Stopwatch watch(out);
  BP_ASSIGN_OR_RETURN(host::LoadedExecutable loaded, client->client->CompileWithBytes(program, options));
  Make(op, 0, std::make_shared<host::LoadedExecutable>(std::move(loaded)));
  return absl::OkStatus();
}

absl::Status Replayer::DoLoad(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Client* const client, GetClient(op));
  BP_ASSIGN_OR_RETURN(CompiledAhead* const ahead, Use<CompiledAhead>(op, 1));
  BP_ASSIGN_OR_RETURN(std::string bytes, Blob(op, 0));
  BP_ASSIGN_OR_RETURN(const std::string options, OptionsFor(*client, bytes.empty() ? ahead->options : bytes));
  Stopwatch watch(out);
  BP_ASSIGN_OR_RETURN(host::LoadedExecutable loaded, client->client->CompileWithBytes(ahead->program, options));
  Make(op, 0, std::make_shared<host::LoadedExecutable>(std::move(loaded)));
  return absl::OkStatus();
}

absl::Status Replayer::DoSerialize(const Operation& op, Outcome& out) {
  if (op.uses.empty() || objects_.count(op.uses[0]) == 0) return Skip("its executable was not made");
  if (std::get_if<CompiledAhead>(&objects_[op.uses[0]]) != nullptr)
    return Skip("executables compiled without a client are compiled when they are loaded");
  BP_ASSIGN_OR_RETURN(Loaded* const loaded, Use<Loaded>(op, 0));
  Stopwatch watch(out);
  BP_ASSIGN_OR_RETURN(const host::Executable executable, (*loaded)->GetExecutable());
  BP_ASSIGN_OR_RETURN(std::string bytes, executable.Serialize());
  if (!op.blobs.empty()) serialized_[op.blobs[0].digest] = std::move(bytes);
  return absl::OkStatus();
}

absl::Status Replayer::DoDeserialize(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Client* const client, GetClient(op));
  if (op.blobs.empty()) return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": names no bytes"));
  // Serialized executables belong to one platform and version. Those that this session created have been compiled again
  // by this plugin.
  const auto ours = serialized_.find(op.blobs[0].digest);
  std::string bytes;
  if (ours != serialized_.end()) {
    bytes = ours->second;
  } else {
    BP_ASSIGN_OR_RETURN(bytes, Blob(op, 0));
  }
  Stopwatch watch(out);
  absl::StatusOr<host::LoadedExecutable> loaded = client->client->Deserialize(bytes);
  if (!loaded.ok()) {
    return host::AddContext(loaded.status(),
                            ours != serialized_.end()
                                ? "deserialize"
                                : "deserialize: bytes of another session, perhaps of another platform");
  }
  Make(op, 0, std::make_shared<host::LoadedExecutable>(*std::move(loaded)));
  return absl::OkStatus();
}

absl::Status Replayer::DoExecute(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Loaded* const loaded, Use<Loaded>(op, 0));
  if (!op.obstacle.empty()) return Skip(op.obstacle);
  if (op.numbers.size() < kExecuteNumbers)
    return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": an execution without its numbers"));
  const int64_t devices = op.numbers[kNumDevices], arguments = op.numbers[kNumArguments];
  const int64_t outputs = op.numbers[kNumOutputs];
  if (devices < 1 || arguments < 0 || outputs < 0 || devices > static_cast<int64_t>(op.uses.size() + op.makes.size()) ||
      (arguments > 0 && static_cast<int64_t>(op.uses.size() - 1) / arguments != devices) ||
      static_cast<int64_t>(op.uses.size()) != 1 + devices * arguments) {
    return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": ", op.uses.size() - 1, " buffers for ",
                                                   devices, " devices of ", arguments, " arguments"));
  }
  std::vector<std::vector<const host::Buffer*>> rows(static_cast<size_t>(devices));
  size_t index = 1;
  for (auto& row : rows) {
    for (int64_t i = 0; i < arguments; ++i) {
      BP_ASSIGN_OR_RETURN(Buffer* const buffer, Use<Buffer>(op, index++));
      row.push_back(buffer->get());
    }
  }
  host::ExecuteOptions options;
  options.launch_id = static_cast<int>(op.numbers[kLaunchId]);
  options.non_donatable = op.non_donatable;
  options.call_location = op.text;
  options.want_events = op.numbers[kNumEvents] > 0;
  if (op.device != -1) {
    Client* const client = AnyClient();
    if (client == nullptr) return Skip("its client was not made");
    BP_ASSIGN_OR_RETURN(options.device, GetDevice(op.device, *client));
  }
  host::ExecuteResult result;
  {
    Stopwatch watch(out);
    BP_ASSIGN_OR_RETURN(result, (*loaded)->Execute(rows, options));
    if (options_.wait_for_results) {
      for (const auto& row : result.outputs)
        for (const host::Buffer& buffer : row) Await(buffer).IgnoreError();
    }
  }
  index = 0;
  for (auto& row : result.outputs) {
    if (op.code == 0 && static_cast<int64_t>(row.size()) != outputs) {
      return absl::InternalError(
          absl::StrCat("execute: ", row.size(), " outputs, in the session there were ", outputs));
    }
    for (host::Buffer& buffer : row) Make(op, index++, std::make_shared<host::Buffer>(std::move(buffer)));
  }
  for (host::Event& event : result.done)
    Make(op, index++, Event{std::make_shared<host::Event>(std::move(event)), nullptr, nullptr});
  return absl::OkStatus();
}

absl::Status Replayer::DoFulfill(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Promise* const promise, Use<Promise>(op, 0));
  absl::StatusOr<const host::Buffer*> value = nullptr;
  if (op.numbers.empty()) return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": without a code"));
  if (op.numbers[0] != 0) {
    value = SessionError(op.numbers[0], op.text);
  } else if (op.kind == Kind::kFulfillAlias) {
    BP_ASSIGN_OR_RETURN(Buffer* const buffer, Use<Buffer>(op, 1));
    value = buffer->get();
  }
  Promise fulfill = std::move(*promise);
  objects_.erase(op.uses[0]);
  Stopwatch watch(out);
  absl::Status status = fulfill(value);
  // Refused, as in the session or not: the host may have fulfilled it correctly afterwards. If it has not, whoever
  // waits for the value breaks the promise (BreakLatePromises), also when another object has got its number by then.
  if (!status.ok() && op.kind == Kind::kFulfillAlias) {
    refused_.push_back(fulfill);
    objects_[op.uses[0]] = std::move(fulfill);
  }
  return status;
}

}  // namespace backplane::record
