#include "sdk/host/executable.h"

#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"

namespace backplane::host {
namespace {

std::vector<std::string> Texts(const char* const* data, const size_t* sizes, size_t count) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back(internal::CopyString(data[i], sizes[i]));
  return texts;
}

}  // namespace

// Defines a getter: calls `fn` with the executable and returns the expression `out`.
#define BP_ASK(fn, in, out)                        \
  const Plugin& plugin = handle_.plugin();         \
  BP_PJRT_ARGS(plugin, a, fn);                     \
  a.in = handle_.get();                            \
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, fn, a)); \
  return out

absl::StatusOr<std::string> Executable::Name() const {
  BP_ASK(PJRT_Executable_Name, executable, internal::CopyString(a.executable_name, a.executable_name_size));
}
absl::StatusOr<size_t> Executable::NumReplicas() const {
  BP_ASK(PJRT_Executable_NumReplicas, executable, a.num_replicas);
}
absl::StatusOr<size_t> Executable::NumPartitions() const {
  BP_ASK(PJRT_Executable_NumPartitions, executable, a.num_partitions);
}
absl::StatusOr<size_t> Executable::NumOutputs() const { BP_ASK(PJRT_Executable_NumOutputs, executable, a.num_outputs); }
absl::StatusOr<int64_t> Executable::SizeOfGeneratedCode() const {
  BP_ASK(PJRT_Executable_SizeOfGeneratedCodeInBytes, executable, a.size_in_bytes);
}
absl::StatusOr<std::string> Executable::Fingerprint() const {
  BP_ASK(PJRT_Executable_Fingerprint, executable,
         internal::CopyString(a.executable_fingerprint, a.executable_fingerprint_size));
}
absl::StatusOr<std::vector<NamedValue>> Executable::CostAnalysis() const {
  BP_ASK(PJRT_Executable_GetCostAnalysis, executable, CopyNamedValues(a.properties, a.num_properties));
}
absl::StatusOr<std::vector<std::string>> Executable::ParameterMemoryKinds() const {
  BP_ASK(PJRT_Executable_ParameterMemoryKinds, executable,
         Texts(a.memory_kinds, a.memory_kind_sizes, a.num_parameters));
}
absl::StatusOr<std::vector<std::string>> Executable::OutputMemoryKinds() const {
  BP_ASK(PJRT_Executable_OutputMemoryKinds, executable, Texts(a.memory_kinds, a.memory_kind_sizes, a.num_outputs));
}

absl::StatusOr<CompiledMemoryStats> Executable::MemoryStats() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Executable_GetCompiledMemoryStats);
  a.executable = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Executable_GetCompiledMemoryStats, a));
  CompiledMemoryStats s;
  s.generated_code = a.generated_code_size_in_bytes;
  s.argument = a.argument_size_in_bytes;
  s.output = a.output_size_in_bytes;
  s.alias = a.alias_size_in_bytes;
  s.temp = a.temp_size_in_bytes;
  s.host_generated_code = a.host_generated_code_size_in_bytes;
  s.host_argument = a.host_argument_size_in_bytes;
  s.host_output = a.host_output_size_in_bytes;
  s.host_alias = a.host_alias_size_in_bytes;
  s.host_temp = a.host_temp_size_in_bytes;
  s.peak_memory = a.peak_memory_in_bytes;
  s.total_size = a.total_size_in_bytes;
  s.total_allocation = a.total_allocation_bytes;
  s.indefinite_allocations = a.indefinite_allocations;
  s.peak_unpadded_heap = a.peak_unpadded_heap_bytes;
  return s;
}

absl::StatusOr<std::vector<ArrayShape>> Executable::OutputShapes() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, t, PJRT_Executable_OutputElementTypes);
  t.executable = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Executable_OutputElementTypes, t));
  BP_PJRT_ARGS(plugin, d, PJRT_Executable_OutputDimensions);
  d.executable = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Executable_OutputDimensions, d));
  if (t.num_output_types != d.num_outputs) {
    return absl::InternalError(absl::StrCat(plugin.name(), ": the executable has ", t.num_output_types,
                                            " output types and ", d.num_outputs, " output shapes"));
  }
  std::vector<ArrayShape> shapes;
  const int64_t* next = d.dims;
  for (size_t i = 0; i < d.num_outputs; ++i) {
    shapes.push_back({t.output_types[i], std::vector<int64_t>(next, next + d.dim_sizes[i])});
    next += d.dim_sizes[i];
  }
  return shapes;
}

absl::StatusOr<Program> Executable::OptimizedProgram() const {
  const Plugin& plugin = handle_.plugin();
  PJRT_Program raw{};
  raw.struct_size = PJRT_Program_STRUCT_SIZE;
  BP_PJRT_ARGS(plugin, a, PJRT_Executable_OptimizedProgram);
  a.executable = handle_.get();
  a.program = &raw;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Executable_OptimizedProgram, a));
  Program program;
  program.code.resize(raw.code_size);
  raw.code = program.code.data();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Executable_OptimizedProgram, a));
  program.format = internal::CopyString(raw.format, raw.format_size);
  return program;
}

absl::StatusOr<std::string> Executable::Serialize() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Executable_Serialize);
  a.executable = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Executable_Serialize, a));
  std::string bytes = internal::CopyString(a.serialized_bytes, a.serialized_bytes_size);
  if (a.serialized_executable_deleter != nullptr) a.serialized_executable_deleter(a.serialized_executable);
  return bytes;
}

absl::StatusOr<std::string> Executable::SerializedCompileOptions() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_Executable_GetCompileOptions);
  a.executable = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Executable_GetCompileOptions, a));
  std::string bytes = internal::CopyString(a.serialized_bytes, a.serialized_bytes_size);
  if (a.serialized_compile_options_deleter != nullptr) {
    a.serialized_compile_options_deleter(a.serialized_compile_options);
  }
  return bytes;
}

absl::StatusOr<Executable> LoadedExecutable::GetExecutable() const {
  BP_ASK(PJRT_LoadedExecutable_GetExecutable, loaded_executable, Executable(plugin, handle_.keep(), a.executable));
}

absl::StatusOr<std::vector<Device>> LoadedExecutable::AddressableDevices() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_LoadedExecutable_AddressableDevices);
  a.executable = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_LoadedExecutable_AddressableDevices, a));
  std::vector<Device> devices;
  for (size_t i = 0; i < a.num_addressable_devices; ++i) devices.emplace_back(plugin, a.addressable_devices[i]);
  return devices;
}

absl::StatusOr<std::vector<LoadedExecutable::LogicalId>> LoadedExecutable::AddressableDeviceLogicalIds() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_LoadedExecutable_AddressableDeviceLogicalIds);
  a.executable = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_LoadedExecutable_AddressableDeviceLogicalIds, a));
  std::vector<LogicalId> ids;
  for (size_t i = 0; i < a.num_addressable_device_logical_ids; ++i) {
    ids.push_back({a.addressable_device_logical_ids[i].replica, a.addressable_device_logical_ids[i].partition});
  }
  return ids;
}

absl::StatusOr<std::string> LoadedExecutable::DeviceAssignment() const {
  const Plugin& plugin = handle_.plugin();
  BP_PJRT_ARGS(plugin, a, PJRT_LoadedExecutable_GetDeviceAssignment);
  a.executable = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_LoadedExecutable_GetDeviceAssignment, a));
  std::string bytes = internal::CopyString(a.serialized_bytes, a.serialized_bytes_size);
  if (a.serialized_device_assignment_deleter != nullptr) {
    a.serialized_device_assignment_deleter(a.serialized_device_assignment);
  }
  return bytes;
}

absl::Status LoadedExecutable::Delete() const { BP_ASK(PJRT_LoadedExecutable_Delete, executable, absl::OkStatus()); }
absl::StatusOr<bool> LoadedExecutable::IsDeleted() const {
  BP_ASK(PJRT_LoadedExecutable_IsDeleted, executable, a.is_deleted);
}

#undef BP_ASK

}  // namespace backplane::host
