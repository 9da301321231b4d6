#include "sdk/testing/api_calls.h"

#include <cstdlib>

#include "base/wire.h"

namespace backplane::testing {

const char kAdd[] = R"(
module @add {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";
const char kDonate[] = R"(
module @donate {
  func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

const PJRT_Api& Api() { return *GetPjrtApi(); }

absl::Status Take(PJRT_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  BP_ARGS(m, PJRT_Error_Message);
  m.error = error;
  Api().PJRT_Error_Message(&m);
  BP_ARGS(c, PJRT_Error_GetCode);
  c.error = error;
  if (Api().PJRT_Error_GetCode(&c) != nullptr) std::abort();
  absl::Status status(static_cast<absl::StatusCode>(c.code), absl::string_view(m.message, m.message_size));
  BP_ARGS(d, PJRT_Error_Destroy);
  d.error = error;
  Api().PJRT_Error_Destroy(&d);
  return status;
}

PJRT_Client* NewClient(int64_t devices) {
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = "devices";
  option.name_size = 7;
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = devices;
  option.value_size = 1;
  BP_ARGS(a, PJRT_Client_Create);
  a.create_options = &option;
  a.num_options = 1;
  return BP_CALL(PJRT_Client_Create, a).ok() ? a.client : nullptr;
}

void Destroy(PJRT_Client* client) {
  BP_ARGS(a, PJRT_Client_Destroy);
  a.client = client;
  if (!BP_CALL(PJRT_Client_Destroy, a).ok()) std::abort();
}

std::vector<PJRT_Device*> Devices(PJRT_Client* client) {
  BP_ARGS(a, PJRT_Client_AddressableDevices);
  a.client = client;
  if (!BP_CALL(PJRT_Client_AddressableDevices, a).ok()) return {};
  return {a.addressable_devices, a.addressable_devices + a.num_addressable_devices};
}

std::vector<PJRT_Memory*> Memories(PJRT_Device* device) {
  BP_ARGS(a, PJRT_Device_AddressableMemories);
  a.device = device;
  if (!BP_CALL(PJRT_Device_AddressableMemories, a).ok()) return {};
  return {a.memories, a.memories + a.num_memories};
}

absl::Status AwaitAndDestroy(PJRT_Event* event) {
  BP_ARGS(w, PJRT_Event_Await);
  w.event = event;
  absl::Status status = BP_CALL(PJRT_Event_Await, w);
  BP_ARGS(d, PJRT_Event_Destroy);
  d.event = event;
  if (!BP_CALL(PJRT_Event_Destroy, d).ok()) std::abort();
  return status;
}

PJRT_Buffer* NewBuffer(PJRT_Client* client, PJRT_Device* device, const std::vector<float>& values,
                       std::vector<int64_t> dims) {
  if (dims.empty()) dims = {static_cast<int64_t>(values.size())};
  BP_ARGS(a, PJRT_Client_BufferFromHostBuffer);
  a.client = client;
  a.data = values.data();
  a.type = PJRT_Buffer_Type_F32;
  a.dims = dims.data();
  a.num_dims = dims.size();
  a.device = device;
  a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  if (!BP_CALL(PJRT_Client_BufferFromHostBuffer, a).ok()) return nullptr;
  if (!AwaitAndDestroy(a.done_with_host_buffer).ok()) std::abort();
  return a.buffer;
}

void Destroy(PJRT_Buffer* buffer) {
  BP_ARGS(a, PJRT_Buffer_Destroy);
  a.buffer = buffer;
  if (!BP_CALL(PJRT_Buffer_Destroy, a).ok()) std::abort();
}

bool IsDeleted(PJRT_Buffer* buffer) {
  BP_ARGS(a, PJRT_Buffer_IsDeleted);
  a.buffer = buffer;
  return BP_CALL(PJRT_Buffer_IsDeleted, a).ok() && a.is_deleted;
}

absl::Status Delete(PJRT_Buffer* buffer) {
  BP_ARGS(a, PJRT_Buffer_Delete);
  a.buffer = buffer;
  return BP_CALL(PJRT_Buffer_Delete, a);
}

const void* Address(PJRT_Buffer* buffer) {
  BP_ARGS(a, PJRT_Buffer_UnsafePointer);
  a.buffer = buffer;
  return BP_CALL(PJRT_Buffer_UnsafePointer, a).ok() ? reinterpret_cast<const void*>(a.buffer_pointer) : nullptr;
}

absl::Status Read(PJRT_Buffer* buffer, std::vector<float>* values) {
  BP_ARGS(a, PJRT_Buffer_ToHostBuffer);
  a.src = buffer;
  if (absl::Status s = BP_CALL(PJRT_Buffer_ToHostBuffer, a); !s.ok()) return s;
  values->assign(a.dst_size / sizeof(float), -1);
  a.dst = values->data();
  if (absl::Status s = BP_CALL(PJRT_Buffer_ToHostBuffer, a); !s.ok()) return s;
  return AwaitAndDestroy(a.event);
}

std::vector<float> Values(PJRT_Buffer* buffer) {
  std::vector<float> values;
  return Read(buffer, &values).ok() ? values : std::vector<float>();
}

absl::Status Compile(PJRT_Client* client, const std::string& text, PJRT_LoadedExecutable** out,
                     const std::string& options) {
  std::string code = text;
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  program.code = code.data();
  program.code_size = code.size();
  program.format = "mlir";
  program.format_size = 4;
  BP_ARGS(a, PJRT_Client_Compile);
  a.client = client;
  a.program = &program;
  a.compile_options = options.data();
  a.compile_options_size = options.size();
  absl::Status status = BP_CALL(PJRT_Client_Compile, a);
  *out = status.ok() ? a.executable : nullptr;
  return status;
}

PJRT_LoadedExecutable* MustCompile(PJRT_Client* client, const std::string& text, const std::string& options) {
  PJRT_LoadedExecutable* executable = nullptr;
  if (!Compile(client, text, &executable, options).ok()) std::abort();
  return executable;
}

void Destroy(PJRT_LoadedExecutable* executable) {
  BP_ARGS(a, PJRT_LoadedExecutable_Destroy);
  a.executable = executable;
  if (!BP_CALL(PJRT_LoadedExecutable_Destroy, a).ok()) std::abort();
}

std::string OptionsFor(int replicas, int partitions, bool portable) {
  // CompileOptionsProto: executable_build_options 3 {num_replicas 4, num_partitions 5}, compile_portable_executable 4.
  WireWriter build;
  build.Varint(4, static_cast<uint64_t>(replicas));
  build.Varint(5, static_cast<uint64_t>(partitions));
  WireWriter options;
  options.Bytes(3, build.str());
  if (portable) options.Varint(4, 1);
  return options.Take();
}

absl::Status Execute(PJRT_LoadedExecutable* executable, const std::vector<std::vector<PJRT_Buffer*>>& arguments,
                     size_t num_outputs, std::vector<std::vector<PJRT_Buffer*>>* outputs, PJRT_ExecuteOptions* options,
                     std::vector<PJRT_Event*>* events, PJRT_Device* device) {
  PJRT_ExecuteOptions standard{};
  standard.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  std::vector<PJRT_Buffer* const*> rows;
  for (const auto& row : arguments) rows.push_back(row.data());
  outputs->assign(arguments.size(), std::vector<PJRT_Buffer*>(num_outputs, nullptr));
  std::vector<PJRT_Buffer**> output_rows;
  for (auto& row : *outputs) output_rows.push_back(row.data());
  if (events != nullptr) events->assign(arguments.size(), nullptr);
  BP_ARGS(a, PJRT_LoadedExecutable_Execute);
  a.executable = executable;
  a.options = options != nullptr ? options : &standard;
  a.argument_lists = rows.data();
  a.num_devices = rows.size();
  a.num_args = arguments.empty() ? 0 : arguments[0].size();
  a.output_lists = output_rows.data();
  a.device_complete_events = events != nullptr ? events->data() : nullptr;
  a.execute_device = device;
  return BP_CALL(PJRT_LoadedExecutable_Execute, a);
}

}  // namespace backplane::testing
