#include "conformance/kit/steps.h"

#include <malloc.h>

#include <algorithm>
#include <thread>

namespace backplane::conformance {

// The arguments of a call that takes only one object, which is named last.
#define ASK(fn, owner, object) \
  ([&] {                       \
    KIT_ARGS(k, a, fn);        \
    a.owner = object;          \
    KIT_OK(k, fn, a);          \
    return a;                  \
  }())

PJRT_Buffer_MemoryLayout MakeLayout(const Dims& minor_to_major) {
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  return layout;
}

// ---- Destruction

void Destroy(Kit& k, PJRT_Buffer* object) { ASK(PJRT_Buffer_Destroy, buffer, object); }
void Destroy(Kit& k, PJRT_Event* object) { ASK(PJRT_Event_Destroy, event, object); }
void Destroy(Kit& k, PJRT_LoadedExecutable* object) { ASK(PJRT_LoadedExecutable_Destroy, executable, object); }
void Destroy(Kit& k, PJRT_Executable* object) { ASK(PJRT_Executable_Destroy, executable, object); }
void Destroy(Kit& k, PJRT_Client* object) { ASK(PJRT_Client_Destroy, client, object); }
void Destroy(Kit& k, PJRT_TopologyDescription* object) { ASK(PJRT_TopologyDescription_Destroy, topology, object); }

// ---- Events

Err Outcome(Kit& k, PJRT_Event* event) {
  if (event == nullptr) return {};  // allowed if there is nothing to wait for
  KIT_ARGS(k, a, PJRT_Event_Await);
  a.event = event;
  const Err outcome = KIT_TRY(k, PJRT_Event_Await, a);
  Destroy(k, event);
  return outcome;
}

void Await(Kit& k, PJRT_Event* event, absl::string_view what) {
  const Err outcome = Outcome(k, event);
  k.Require(outcome.ok(), what, ": ", FormatError(outcome));
}

bool IsReady(Kit& k, PJRT_Event* event) { return ASK(PJRT_Event_IsReady, event, event).is_ready; }

PJRT_Event* ReadyEvent(Kit& k, PJRT_Buffer* buffer) {
  const auto a = ASK(PJRT_Buffer_ReadyEvent, buffer, buffer);
  k.Require(a.event != nullptr, "PJRT_Buffer_ReadyEvent: succeeded without an event");
  return a.event;
}

double GetSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool WaitFor(double seconds, const std::function<bool()>& done) {
  const double end = GetSeconds() + seconds;
  while (!done()) {
    if (GetSeconds() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// ---- Buffers

PJRT_Client_BufferFromHostBuffer_Args PutArgs(Kit& k, PJRT_Buffer_Type type, const Dims& dims, const void* data,
                                              PJRT_Device* device) {
  KIT_ARGS(k, a, PJRT_Client_BufferFromHostBuffer);
  a.client = k.client();
  a.data = data;
  a.type = type;
  a.dims = dims.data();
  a.num_dims = dims.size();
  a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  a.device = device != nullptr ? device : k.device();
  return a;
}

PJRT_Buffer* Put(Kit& k, PJRT_Buffer_Type type, const Dims& dims, const void* data, PJRT_Device* device) {
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, type, dims, data, device);
  KIT_OK(k, PJRT_Client_BufferFromHostBuffer, a);
  k.Require(a.buffer != nullptr, "PJRT_Client_BufferFromHostBuffer: succeeded without a buffer");
  Await(k, a.done_with_host_buffer, "done_with_host_buffer");
  return a.buffer;
}

std::string Get(Kit& k, PJRT_Buffer* buffer) {
  // Without a layout the bytes have the buffer's own layout, which a program may have chosen.
  const size_t rank = GetDims(k, buffer).size();
  Dims order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(rank - 1 - i);
  PJRT_Buffer_MemoryLayout layout = MakeLayout(order);
  KIT_ARGS(k, a, PJRT_Buffer_ToHostBuffer);
  a.src = buffer;
  if (rank > 1) a.host_layout = &layout;
  KIT_OK(k, PJRT_Buffer_ToHostBuffer, a);
  std::string bytes(a.dst_size, '\xA7');
  KIT_ARGS(k, b, PJRT_Buffer_ToHostBuffer);
  b.src = buffer;
  b.host_layout = a.host_layout;
  b.dst = bytes.data();
  b.dst_size = bytes.size();
  // A null destination requests the size, even if the size is zero.
  char nothing = 0;
  if (bytes.empty()) b.dst = &nothing;
  KIT_OK(k, PJRT_Buffer_ToHostBuffer, b);
  Await(k, b.event, "the event of PJRT_Buffer_ToHostBuffer");
  return bytes;
}

PJRT_Buffer_Type GetType(Kit& k, PJRT_Buffer* buffer) { return ASK(PJRT_Buffer_ElementType, buffer, buffer).type; }

Dims GetDims(Kit& k, PJRT_Buffer* buffer) {
  const auto a = ASK(PJRT_Buffer_Dimensions, buffer, buffer);
  k.Require(a.num_dims < 64, "PJRT_Buffer_Dimensions: a rank of ", a.num_dims);
  return Dims(a.dims, a.dims + a.num_dims);
}

std::string FormatShape(Kit& k, PJRT_Buffer* buffer) {
  return host::FormatShape(GetType(k, buffer), GetDims(k, buffer));
}

bool IsDeleted(Kit& k, PJRT_Buffer* buffer) { return ASK(PJRT_Buffer_IsDeleted, buffer, buffer).is_deleted; }

void Delete(Kit& k, PJRT_Buffer* buffer) { ASK(PJRT_Buffer_Delete, buffer, buffer); }

PJRT_Device* GetDevice(Kit& k, PJRT_Buffer* buffer) { return ASK(PJRT_Buffer_Device, buffer, buffer).device; }

PJRT_Memory* GetMemory(Kit& k, PJRT_Buffer* buffer) { return ASK(PJRT_Buffer_Memory, buffer, buffer).memory; }

bool IsOnCpu(Kit& k, PJRT_Buffer* buffer) { return ASK(PJRT_Buffer_IsOnCpu, buffer, buffer).is_on_cpu; }

// ---- Programs

Err TryCompile(Kit& k, absl::string_view program, absl::string_view format, absl::string_view options,
               PJRT_LoadedExecutable** out) {
  std::string code(program);  // the field is not const
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  p.code = code.data();
  p.code_size = code.size();
  p.format = format.data();
  p.format_size = format.size();
  KIT_ARGS(k, a, PJRT_Client_Compile);
  a.client = k.client();
  a.program = &p;
  a.compile_options = options.data();
  a.compile_options_size = options.size();
  const Err error = KIT_TRY(k, PJRT_Client_Compile, a);
  if (error.ok()) k.Require(a.executable != nullptr, "PJRT_Client_Compile: succeeded without an executable");
  *out = error.ok() ? a.executable : nullptr;
  return error;
}

PJRT_LoadedExecutable* Compile(Kit& k, absl::string_view program, const host::CompileOptions& options) {
  PJRT_LoadedExecutable* loaded = nullptr;
  const Err error = TryCompile(k, program, "mlir", options.Serialize(), &loaded);
  if (error.code == PJRT_Error_Code_UNIMPLEMENTED) k.Unsupported("PJRT_Client_Compile: ", FormatError(error));
  k.Require(error.ok(), "PJRT_Client_Compile: ", FormatError(error));
  return loaded;
}

host::CompileOptions PlainOptions(Kit& k) {
  host::CompileOptions options;
  options.overrides = k.setup().compile_options;
  return options;
}

PJRT_LoadedExecutable* Compile(Kit& k, absl::string_view program) { return Compile(k, program, PlainOptions(k)); }

PJRT_Executable* GetExecutable(Kit& k, PJRT_LoadedExecutable* loaded) {
  const auto a = ASK(PJRT_LoadedExecutable_GetExecutable, loaded_executable, loaded);
  k.Require(a.executable != nullptr, "PJRT_LoadedExecutable_GetExecutable: succeeded without an executable");
  return a.executable;
}

size_t NumOutputs(Kit& k, PJRT_LoadedExecutable* loaded) {
  PJRT_Executable* executable = GetExecutable(k, loaded);
  const auto a = ASK(PJRT_Executable_NumOutputs, executable, executable);
  k.Require(a.num_outputs < 100000, "PJRT_Executable_NumOutputs: ", a.num_outputs);
  Destroy(k, executable);
  return a.num_outputs;
}

std::string GetFingerprint(Kit& k, PJRT_LoadedExecutable* loaded) {
  PJRT_Executable* executable = GetExecutable(k, loaded);
  const auto a = ASK(PJRT_Executable_Fingerprint, executable, executable);
  std::string print(a.executable_fingerprint, a.executable_fingerprint_size);
  Destroy(k, executable);
  return print;
}

Err TryExecute(Kit& k, Launch* launch) {
  const size_t devices = launch->arguments.size();
  const size_t count = NumOutputs(k, launch->executable);
  const size_t num_args = devices == 0 ? 0 : launch->arguments[0].size();
  launch->outputs.assign(devices, std::vector<PJRT_Buffer*>(count, nullptr));
  launch->events.assign(devices, nullptr);
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> output_lists;
  PJRT_Buffer* none[1] = {nullptr};
  for (const auto& list : launch->arguments) argument_lists.push_back(list.empty() ? none : list.data());
  for (auto& list : launch->outputs) output_lists.push_back(list.empty() ? none : list.data());
  PJRT_ExecuteOptions options{};
  options.struct_size = host::StructSizeAt(k.minor(), &options, PJRT_ExecuteOptions_STRUCT_SIZE);
  options.non_donatable_input_indices = launch->not_donated.data();
  options.num_non_donatable_input_indices = launch->not_donated.size();
  std::vector<PJRT_SendCallbackInfo*> sends;
  std::vector<PJRT_RecvCallbackInfo*> recvs;
  for (auto& list : launch->sends) sends.push_back(list.data());
  for (auto& list : launch->recvs) recvs.push_back(list.data());
  if (!sends.empty()) options.send_callbacks = sends.data(), options.num_send_ops = launch->sends[0].size();
  if (!recvs.empty()) options.recv_callbacks = recvs.data(), options.num_recv_ops = launch->recvs[0].size();
  KIT_ARGS(k, a, PJRT_LoadedExecutable_Execute);
  a.executable = launch->executable;
  a.options = &options;
  a.argument_lists = argument_lists.data();
  a.num_devices = devices;
  a.num_args = num_args;
  a.output_lists = output_lists.data();
  a.device_complete_events = launch->want_events ? launch->events.data() : nullptr;
  a.execute_device = launch->device;
  const Err error = KIT_TRY(k, PJRT_LoadedExecutable_Execute, a);
  if (!error.ok()) {
    launch->outputs.clear();
    return error;
  }
  for (size_t d = 0; d < devices; ++d) {
    for (size_t i = 0; i < count; ++i) {
      k.Require(launch->outputs[d][i] != nullptr, "PJRT_LoadedExecutable_Execute: output ", i, " of device ", d,
                " was not set");
    }
    if (launch->want_events)
      k.Require(launch->events[d] != nullptr, "PJRT_LoadedExecutable_Execute: event ", d, " was not set");
  }
  return error;
}

std::vector<PJRT_Buffer*> Execute(Kit& k, PJRT_LoadedExecutable* executable,
                                  const std::vector<PJRT_Buffer*>& arguments) {
  Launch launch;
  launch.executable = executable;
  launch.arguments = {arguments};
  const Err error = TryExecute(k, &launch);
  k.Require(error.ok(), "PJRT_LoadedExecutable_Execute: ", FormatError(error));
  return launch.outputs[0];
}

std::vector<float> RunF32(Kit& k, PJRT_LoadedExecutable* executable, const std::vector<std::vector<float>>& arguments) {
  std::vector<PJRT_Buffer*> buffers;
  for (const auto& values : arguments) buffers.push_back(Put<float>(k, {static_cast<int64_t>(values.size())}, values));
  const std::vector<PJRT_Buffer*> outputs = Execute(k, executable, buffers);
  k.Require(outputs.size() == 1, "expected one output, found ", outputs.size());
  const std::vector<float> result = GetAs<float>(k, outputs[0]);
  for (PJRT_Buffer* b : buffers) Destroy(k, b);
  Destroy(k, outputs[0]);
  return result;
}

// ---- Devices

PJRT_DeviceDescription* GetDescription(Kit& k, PJRT_Device* device) {
  const auto a = ASK(PJRT_Device_GetDescription, device, device);
  k.Require(a.device_description != nullptr, "PJRT_Device_GetDescription: succeeded without a description");
  return a.device_description;
}

int GetId(Kit& k, PJRT_Device* device) {
  return ASK(PJRT_DeviceDescription_Id, device_description, GetDescription(k, device)).id;
}

PJRT_Memory* DefaultMemory(Kit& k, PJRT_Device* device) {
  const auto a = ASK(PJRT_Device_DefaultMemory, device, device);
  k.Require(a.memory != nullptr, "PJRT_Device_DefaultMemory: succeeded without a memory");
  return a.memory;
}

std::vector<PJRT_Memory*> GetMemories(Kit& k, PJRT_Device* device) {
  const auto a = ASK(PJRT_Device_AddressableMemories, device, device);
  return {a.memories, a.memories + a.num_memories};
}

std::string GetKind(Kit& k, PJRT_Memory* memory) {
  const auto a = ASK(PJRT_Memory_Kind, memory, memory);
  return {a.kind, a.kind_size};
}

// ---- Serialized things

std::string Serialize(Kit& k, PJRT_Executable* executable) {
  const auto a = ASK(PJRT_Executable_Serialize, executable, executable);
  k.Require(a.serialized_bytes != nullptr && a.serialized_bytes_size > 0,
            "PJRT_Executable_Serialize: succeeded without bytes");
  k.Require(a.serialized_executable_deleter != nullptr, "PJRT_Executable_Serialize: no deleter");
  std::string bytes(a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_executable_deleter(a.serialized_executable);
  return bytes;
}

int64_t CountHeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks) + static_cast<int64_t>(info.hblkhd);
}

#undef ASK

}  // namespace backplane::conformance
