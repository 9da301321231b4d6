#include "sdk/layers/record/recorder.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/host/device.h"
#include "sdk/host/executable.h"
#include "sdk/host/status.h"
#include "sdk/layers/record/record.h"

namespace backplane::record {
namespace {

using layers::Call;
using layers::Fn;

uint32_t ThisThread() {
  static std::atomic<uint32_t> next{1};
  thread_local const uint32_t id = next.fetch_add(1);
  return id;
}

// Functions that pass code or memory of this process to the plugin, so their effect cannot be recorded.
std::string ObstacleOf(Call& call) {
  auto named = [](const char* name, size_t size) {
    return std::string(name == nullptr ? "" : name, name == nullptr ? 0 : size);
  };
  switch (call.fn) {
    case Fn::PJRT_FFI_Register_Handler: {
      const auto* a = call.As<PJRT_FFI_Register_Handler_Args>();
      return absl::StrCat("a custom call of the host process: ", named(a->target_name, a->target_name_size));
    }
    case Fn::PJRT_Gpu_Register_Custom_Call: {
      const auto* a = call.As<PJRT_Gpu_Register_Custom_Call_Args>();
      return absl::StrCat("a custom call of the host process: ", named(a->function_name, a->function_name_size));
    }
    case Fn::Backplane_RegisterHandlerBundle: {
      const auto* a = call.As<Backplane_RegisterHandlerBundle_Args>();
      return absl::StrCat("a custom call of the host process: ", named(a->target_name, a->target_name_size));
    }
    case Fn::Backplane_SetCallbackTrampoline:
      return "functions of the host process that programs call back";
    case Fn::PJRT_FFI_UserData_Add:
      return "data of the host process for handlers of custom calls";
    case Fn::PJRT_Register_Custom_Partitioner:
    case Fn::PJRT_Register_Batch_Partitionable:
      return "a partitioner of the host process";
    case Fn::PJRT_Register_Xla_Transform:
      return "a transform of the host process";
    case Fn::PJRT_Callback_RegisterCallback:
      return "a callback of the host process";
    case Fn::PJRT_PhaseCompile_Run_Phase:
      return "a compilation in phases";
    case Fn::PJRT_RawBuffer_CopyRawHostToDevice:
    case Fn::PJRT_RawBuffer_GetHostPointer:
    case Fn::PJRT_RawBuffer_CreateRawAliasOfBuffer:
      return "memory of a buffer used without the buffer";
    case Fn::PJRT_Get_Stream_For_External_Ready_Events:
    case Fn::PJRT_Wait_Until_Buffer_Ready_On_Stream:
      return "a stream of the platform that the host works on";
    case Fn::PJRT_Transfers_PJRT_Client_CrossHostSendBuffers:
    case Fn::PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers:
    case Fn::PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers:
    case Fn::PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice:
      return "a transfer to or from another process";
    case Fn::PJRT_Device_PoisonExecution:
      return "an execution made to fail at a moment of the host's choice";
    case Fn::PJRT_Client_UpdateGlobalProcessInfo:
      return "news of the other processes of the program";
    default:
      return "";
  }
}

bool IsEventFunction(Fn fn) {
  return fn == Fn::PJRT_Event_Await || fn == Fn::PJRT_Event_OnReady || fn == Fn::PJRT_Event_IsReady ||
         fn == Fn::PJRT_Event_Error;
}

}  // namespace

Recorder::Recorder(std::string path, Data data, SessionWriter::Settings settings)
    : path_(std::move(path)),
      data_(data),
      settings_(settings),
      process_(getpid()),
      start_ns_(layers::ReadMonotonicNanos()) {}

absl::Status Recorder::Open() {
  // Another copy of the library in this process, or a process that the host started with its own environment, writes a
  // file of its own.
  constexpr int kMaxFiles = 1000;
  const std::string name = path_;
  const size_t slash = name.rfind('/'), dot = name.rfind('.');
  const size_t end = dot == std::string::npos || (slash != std::string::npos && dot < slash) ? name.size() : dot;
  for (int n = 1;; ++n) {
    if (n > 1) path_ = absl::StrCat(name.substr(0, end), ".", n, name.substr(end));
    absl::StatusOr<std::unique_ptr<SessionWriter>> writer = SessionWriter::Create(path_, settings_);
    if (absl::IsAlreadyExists(writer.status()) && n < kMaxFiles) continue;
    BP_RETURN_IF_ERROR(writer.status());
    writer_ = *std::move(writer);
    return absl::OkStatus();
  }
}

void Recorder::Attach(layers::Stack& stack) {
  stack_ = &stack;
  SessionInfo info;
  info.plugin = stack.name();
  info.api_major = stack.target().pjrt_api_version.major_version;
  info.api_minor = stack.minor_version();
  info.host = program_invocation_short_name;
  info.process = process_;
  info.unix_seconds = std::time(nullptr);
  info.recorder = "0.1.0";
  writer_->Describe(info);
  // Null for a table that host::Plugin refuses. Then nothing is queried, and the properties of objects are unknown.
  if (auto plugin = host::Plugin::FromApi(&stack.target(), stack.name()); plugin.ok()) plugin_ = *plugin;
}

bool Recorder::Wants(Fn fn) const {
  switch (fn) {
    // These are called often and depend only on the plugin.
    case Fn::PJRT_Error_Destroy:
    case Fn::PJRT_Error_Message:
    case Fn::PJRT_Error_GetCode:
    case Fn::PJRT_Error_ForEachPayload:
    case Fn::PJRT_Buffer_ElementType:
    case Fn::PJRT_Buffer_Dimensions:
    case Fn::PJRT_Buffer_UnpaddedDimensions:
    case Fn::PJRT_Buffer_DynamicDimensionIndices:
    case Fn::PJRT_Buffer_OnDeviceSizeInBytes:
    case Fn::PJRT_Buffer_IsDeleted:
    case Fn::PJRT_Buffer_IsOnCpu:
    case Fn::PJRT_Buffer_Device:
    case Fn::PJRT_Buffer_Memory:
    case Fn::PJRT_Buffer_UnsafePointer:
    case Fn::PJRT_LoadedExecutable_IsDeleted:
      return false;
    default:
      return true;
  }
}

void Recorder::Before(Call& call) {
  switch (call.fn) {
#define BP_BEGIN(name)                                                                                          \
  case Fn::name: {                                                                                              \
    auto pending = std::make_unique<Pending>();                                                                 \
    if (Begin(*call.As<name##_Args>(), *pending)) call.memo[0] = reinterpret_cast<uint64_t>(pending.release()); \
    return;                                                                                                     \
  }
    BP_RECORDED_FUNCTIONS(BP_BEGIN)
#undef BP_BEGIN
    default:
      if (IsEventFunction(call.fn)) BeforeEvent(call);
  }
}

void Recorder::After(Call& call) {
  if (IsEventFunction(call.fn)) return AfterEvent(call);
  switch (call.fn) {
#define BP_END(name)                                                                   \
  case Fn::name: {                                                                     \
    std::unique_ptr<Pending> pending(reinterpret_cast<Pending*>(call.memo[0]));        \
    if (pending == nullptr) return;                                                    \
    if (call.result == nullptr) {                                                      \
      End(*call.As<name##_Args>(), *pending);                                          \
    } else {                                                                           \
      pending->op.code = layers::ErrorCode(*stack_, call.result);                      \
      pending->op.message = layers::ErrorMessage(*stack_, call.result);                \
      if (call.fn == Fn::PJRT_Client_FulfillAliasBuffer) PutBackAlias(call, *pending); \
    }                                                                                  \
    if (pending->write) Write(pending->op, call.start, call.end);                      \
    return;                                                                            \
  }
    BP_RECORDED_FUNCTIONS(BP_END)
#undef BP_END
    default:
      break;
  }
  Operation op;
  op.kind = Kind::kCall;
  if (std::string obstacle = ObstacleOf(call); !obstacle.empty()) {
    op.kind = Kind::kObstacle;
    op.obstacle = std::move(obstacle);
  }
  if (op.kind == Kind::kCall && call.result == nullptr) return;
  op.name = call.name();
  if (call.result != nullptr) {
    op.code = layers::ErrorCode(*stack_, call.result);
    op.message = layers::ErrorMessage(*stack_, call.result);
  }
  Write(op, call.start, call.end);
}

void Recorder::Write(Operation& op, layers::Ticks start, layers::Ticks end) {
  // A forked child has the parent's memory, but it is not the host that is being recorded.
  if (getpid() != process_) return;
  constexpr size_t kLongest = size_t{1} << 16;
  if (op.message.size() > kLongest) op.message.resize(kLongest);
  op.thread = ThisThread();
  const layers::TickScale scale;
  op.start_ns = scale.ToNanos(start) - start_ns_;
  op.duration_ns = scale.ToNanos(end) - scale.ToNanos(start);
  writer_->Add(op);
}

void Recorder::Flush() {
  if (getpid() != process_) return;
  const uint64_t count = writer_->num_operations();
  if (finished_at_.exchange(count + 1) == count + 1) return;
  writer_->Finish();
  // The file cannot contain the error if the disk is full, so a line is printed.
  if (const absl::Status status = writer_->status(); !status.ok())
    fprintf(stderr, "record: %s\n", std::string(status.message()).c_str());
}

uint64_t Recorder::MakeBuffer(PJRT_Buffer* buffer) {
  if (buffer == nullptr) return 0;
  const uint64_t id = NewId();
  Put(buffers_, buffer, id);
  return id;
}

uint64_t Recorder::MakeEvent(PJRT_Event* event, std::optional<Read> read, ExposedPtr exposed) {
  if (event == nullptr) return 0;
  auto state = std::make_shared<EventState>();
  state->id = NewId();
  state->read = std::move(read);
  state->exposed = std::move(exposed);
  Put(events_, event, state);
  return state->id;
}

// ---- Events. The host learns that an event is ready by waiting for it, by its callback or by polling. The data of a
// read is recorded just before that, because afterwards the host may change the memory.

void Recorder::BeforeEvent(Call& call) {
  PJRT_Event* event = nullptr;
  if (call.fn == Fn::PJRT_Event_Await) event = call.As<PJRT_Event_Await_Args>()->event;
  if (call.fn == Fn::PJRT_Event_OnReady) event = call.As<PJRT_Event_OnReady_Args>()->event;
  if (call.fn == Fn::PJRT_Event_IsReady) event = call.As<PJRT_Event_IsReady_Args>()->event;
  if (call.fn == Fn::PJRT_Event_Error) event = call.As<PJRT_Event_Error_Args>()->event;
  EventPtr state = Find(events_, event);
  if (state == nullptr) return;
  if (call.fn == Fn::PJRT_Event_OnReady) {
    {
      MutexLock lock(state->mutex);
      if (state->observed) return;
      ++state->callbacks;
    }
    const bool hooked = layers::HookOnReady(call, [this, state](PJRT_Error* error) {
      Observe(state, error, kCalledBack);
      return error;
    });
    if (!hooked) {
      MutexLock lock(state->mutex);
      --state->callbacks;
    }
    return;
  }
  call.memo[0] = reinterpret_cast<uint64_t>(new EventPtr(std::move(state)));
}

void Recorder::AfterEvent(Call& call) {
  if (call.memo[0] == 0) return;
  const std::unique_ptr<EventPtr> state(reinterpret_cast<EventPtr*>(call.memo[0]));
  if (call.fn == Fn::PJRT_Event_Await) return Observe(*state, call.result, kAwaited);
  if (call.fn == Fn::PJRT_Event_Error) return Observe(*state, call.result, kPolled);
  if (call.fn != Fn::PJRT_Event_IsReady || call.result != nullptr) return;
  const auto* asked = call.As<PJRT_Event_IsReady_Args>();
  if (!asked->is_ready || !stack_->TargetHas(&PJRT_Api::PJRT_Event_Error)) return;
  PJRT_Event_Error_Args args{};
  args.struct_size = PJRT_Event_Error_Args_STRUCT_SIZE;
  args.event = asked->event;
  PJRT_Error* error = stack_->target().PJRT_Event_Error(&args);
  Observe(*state, error, kPolled);
  layers::DestroyError(*stack_, error);
}

void Recorder::ForgetExposed(PJRT_Buffer* buffer) {
  const ExposedPtr exposed = Take(exposed_, buffer);
  if (exposed == nullptr) return;
  MutexLock lock(exposed->mutex);
  exposed->read.memory = nullptr;
}

void Recorder::Observe(const EventPtr& event, const PJRT_Error* error, WaitKind kind) {
  const layers::Ticks start = layers::ReadTicks();
  Operation op, destroy;
  op.kind = Kind::kWait;
  op.uses = {event->id};
  op.numbers = {kind};
  if (error != nullptr) {
    op.code = layers::ErrorCode(*stack_, error);
    op.message = layers::ErrorMessage(*stack_, error);
  }
  // Another thread that learns of the same event waits here until the memory has been read.
  MutexLock lock(event->mutex);
  if (event->observed) return;
  event->observed = true;
  const auto add = [&](const Read& read) {
    if (read.memory == nullptr || error != nullptr) return;
    op.type = read.type;
    op.dims = read.dims;
    op.blobs.push_back(AddRead(read));
    op.data_left_out = data_ != Data::kAll;
  };
  if (event->read.has_value()) {
    add(*event->read);
  } else if (event->exposed != nullptr) {
    MutexLock reading(event->exposed->mutex);
    add(event->exposed->read);
  }
  Write(op, start, layers::ReadTicks());
  if (event->destroyed && !event->destroy_written) {
    destroy.kind = Kind::kEventDestroy;
    destroy.uses = {event->id};
    event->destroy_written = true;
    Write(destroy, start, start);
  }
}

bool Recorder::Begin(PJRT_Event_Destroy_Args& args, Pending& call) {
  call.event = Take(events_, args.event);
  if (call.event == nullptr) return false;
  call.op.kind = Kind::kEventDestroy;
  call.op.uses = {call.event->id};
  return true;
}

void Recorder::End(PJRT_Event_Destroy_Args&, Pending& call) {
  // A replay needs the event for a callback that has not run yet, so its destruction is recorded after the wait.
  MutexLock lock(call.event->mutex);
  call.event->destroyed = true;
  call.write = call.event->observed || call.event->callbacks == 0;
  call.event->destroy_written = call.write;
}

BlobRef Recorder::AddRead(const Read& read) {
  const size_t element = static_cast<size_t>(host::HostBytesPerElement(read.type));
  StridedSource source(static_cast<const std::byte*>(read.memory) + read.extent.below, element, read.dims,
                       read.extent.byte_strides);
  return writer_->AddBlob(source, data_ == Data::kAll && getpid() == process_);
}

void Recorder::AddInput(const void* data, PJRT_Buffer_Type type, absl::Span<const int64_t> dims,
                        const HostExtent& extent, Operation& op) {
  // `data` is the address of element zero, for all strides.
  StridedSource source(data, static_cast<size_t>(host::HostBytesPerElement(type)), dims, extent.byte_strides);
  op.blobs.push_back(writer_->AddBlob(source, data_ != Data::kNone && getpid() == process_));
  op.data_left_out = data_ == Data::kNone;
}

// ---- Queries of the target. If it does not answer, the property stays unknown.

void Recorder::RecordClient(PJRT_Client* client, Operation& op) {
  if (plugin_ == nullptr) return;
  if (auto attributes = plugin_->Attributes(); attributes.ok()) op.attributes = *std::move(attributes);
  BP_PJRT_ARGS(*plugin_, platform, PJRT_Client_PlatformName);
  platform.client = client;
  if (BP_PJRT_CALL(*plugin_, PJRT_Client_PlatformName, platform).ok())
    op.name.assign(platform.platform_name, platform.platform_name_size);
  BP_PJRT_ARGS(*plugin_, version, PJRT_Client_PlatformVersion);
  version.client = client;
  if (BP_PJRT_CALL(*plugin_, PJRT_Client_PlatformVersion, version).ok())
    op.text.assign(version.platform_version, version.platform_version_size);

  BP_PJRT_ARGS(*plugin_, list, PJRT_Client_Devices);
  list.client = client;
  if (BP_PJRT_CALL(*plugin_, PJRT_Client_Devices, list).ok()) {
    for (size_t i = 0; i < list.num_devices; ++i) {
      const host::Device device(*plugin_, list.devices[i]);
      DeviceFact fact;
      if (auto id = device.Id(); id.ok()) fact.id = *id;
      if (auto description = device.Description(); description.ok()) {
        if (auto process = description->ProcessIndex(); process.ok()) fact.process = *process;
        if (auto kind = description->Kind(); kind.ok()) fact.kind = *kind;
      }
      if (auto here = device.IsAddressable(); here.ok()) fact.addressable = *here;
      if (fact.addressable) {
        if (auto id = device.LocalHardwareId(); id.ok()) fact.local_hardware_id = *id;
        if (auto memory = device.DefaultMemory(); memory.ok()) {
          if (auto id = memory->Id(); id.ok()) fact.default_memory = *id;
        }
        if (auto memories = device.AddressableMemories(); memories.ok()) {
          for (const host::Memory& memory : *memories) {
            MemoryFact m;
            auto id = memory.Id();
            if (!id.ok()) continue;
            m.id = *id;
            if (auto kind = memory.Kind(); kind.ok()) m.kind = *kind;
            fact.memories.push_back(m.id);
            bool known = false;
            for (const MemoryFact& other : op.memories) known = known || other.id == m.id;
            if (!known) op.memories.push_back(m);
            Put(memories_, memory.raw(), m.id);
          }
        }
      }
      Put(devices_, list.devices[i], fact.id);
      op.devices.push_back(std::move(fact));
    }
  }
}

void Recorder::RecordExecutable(PJRT_LoadedExecutable* loaded, Operation& op) {
  Executable facts;
  facts.id = NewId();
  op.makes = {facts.id};
  if (plugin_ != nullptr) {
    BP_PJRT_ARGS(*plugin_, get, PJRT_LoadedExecutable_GetExecutable);
    get.loaded_executable = loaded;
    if (BP_PJRT_CALL(*plugin_, PJRT_LoadedExecutable_GetExecutable, get).ok()) {
      const host::Executable executable(*plugin_, nullptr, get.executable);
      if (auto name = executable.Name(); name.ok()) op.name = *name;
      if (auto outputs = executable.NumOutputs(); outputs.ok()) facts.num_outputs = *outputs;
      if (auto shapes = executable.OutputShapes(); shapes.ok()) op.shapes = *std::move(shapes);
    }
    BP_PJRT_ARGS(*plugin_, devices, PJRT_LoadedExecutable_AddressableDevices);
    devices.executable = loaded;
    if (BP_PJRT_CALL(*plugin_, PJRT_LoadedExecutable_AddressableDevices, devices).ok()) {
      for (size_t i = 0; i < devices.num_addressable_devices; ++i)
        op.placement.push_back(Find(devices_, devices.addressable_devices[i]));
    }
  }
  Put(loaded_, loaded, facts);
}

std::optional<std::pair<PJRT_Buffer_Type, std::vector<int64_t>>> Recorder::GetShape(PJRT_Buffer* buffer) {
  if (plugin_ == nullptr) return std::nullopt;
  BP_PJRT_ARGS(*plugin_, type, PJRT_Buffer_ElementType);
  type.buffer = buffer;
  BP_PJRT_ARGS(*plugin_, dims, PJRT_Buffer_Dimensions);
  dims.buffer = buffer;
  if (!BP_PJRT_CALL(*plugin_, PJRT_Buffer_ElementType, type).ok() ||
      !BP_PJRT_CALL(*plugin_, PJRT_Buffer_Dimensions, dims).ok()) {
    return std::nullopt;
  }
  return std::make_pair(type.type, std::vector<int64_t>(dims.dims, dims.dims + dims.num_dims));
}

std::optional<host::BufferLayout> Recorder::GetLayout(PJRT_Buffer* buffer) {
  if (plugin_ == nullptr) return std::nullopt;
  BP_PJRT_ARGS(*plugin_, layout, PJRT_Buffer_GetMemoryLayout);
  layout.buffer = buffer;
  if (!BP_PJRT_CALL(*plugin_, PJRT_Buffer_GetMemoryLayout, layout).ok()) return std::nullopt;
  return CopyLayout(&layout.layout);
}

bool Recorder::OnCpu(PJRT_Buffer* buffer) {
  if (plugin_ == nullptr) return false;
  BP_PJRT_ARGS(*plugin_, asked, PJRT_Buffer_IsOnCpu);
  asked.buffer = buffer;
  return BP_PJRT_CALL(*plugin_, PJRT_Buffer_IsOnCpu, asked).ok() && asked.is_on_cpu;
}

bool Recorder::Ready(PJRT_Buffer* buffer) {
  if (plugin_ == nullptr) return false;
  BP_PJRT_ARGS(*plugin_, asked, PJRT_Buffer_ReadyEvent);
  asked.buffer = buffer;
  if (!BP_PJRT_CALL(*plugin_, PJRT_Buffer_ReadyEvent, asked).ok()) return false;
  const host::Event event(*plugin_, nullptr, asked.event);
  const auto ready = event.IsReady();
  return ready.ok() && *ready && event.Outcome().ok();
}

void Recorder::AddPlace(PJRT_Device* device, PJRT_Memory* memory, Operation& op) {
  auto id_of = [this](const auto& map, auto* object) -> int64_t {
    if (object == nullptr) return -1;
    MutexLock lock(mutex_);
    const auto found = map.find(object);
    return found == map.end() ? -1 : found->second;
  };
  op.device = id_of(devices_, device);
  op.memory = id_of(memories_, memory);
}

}  // namespace backplane::record

namespace backplane::layers {

absl::StatusOr<std::unique_ptr<Layer>> MakeRecordLayer(const Options& options) {
  using record::Recorder;
  if (absl::Status names = options.CheckNames({"file", "data", "compression", "limit"}); !names.ok()) return names;
  const std::string text = options.Get("data");
  Recorder::Data data = Recorder::Data::kAll;
  if (text == "inputs") data = Recorder::Data::kInputs;
  if (text == "none") data = Recorder::Data::kNone;
  if (!text.empty() && text != "all" && data == Recorder::Data::kAll)
    return absl::InvalidArgumentError(absl::StrCat("record: data is '", text, "', expected all, inputs or none"));
  BP_ASSIGN_OR_RETURN(const int64_t level, options.GetInt("compression", 1));
  if (level < 0 || level > 19)
    return absl::InvalidArgumentError(absl::StrCat("record: compression is ", level, ", expected 0 to 19"));
  BP_ASSIGN_OR_RETURN(const int64_t limit, options.GetInt("limit", 0));
  if (limit < 0) return absl::InvalidArgumentError(absl::StrCat("record: limit is ", limit, ", expected bytes"));
  record::SessionWriter::Settings settings;
  settings.compression = static_cast<int>(level);
  settings.size_limit = static_cast<uint64_t>(limit);
  auto layer = std::make_unique<Recorder>(options.GetPath("file", "backplane-%p.bprec"), data, settings);
  BP_RETURN_IF_ERROR(host::AddContext(layer->Open(), "record"));
  return layer;
}

}  // namespace backplane::layers
