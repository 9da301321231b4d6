// Executables: compiled programs, and compiled programs that are loaded on devices. Both are independent objects that
// the caller owns.
#ifndef BACKPLANE_API_PJRT_EXECUTABLE_H_
#define BACKPLANE_API_PJRT_EXECUTABLE_H_

#include "api/pjrt/execute.h"

#ifdef __cplusplus
extern "C" {
#endif

// Frees an executable.
struct PJRT_Executable_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_Destroy_Args, executable);
typedef PJRT_Error* PJRT_Executable_Destroy(PJRT_Executable_Destroy_Args* args);

// Returns the name of the program.
struct PJRT_Executable_Name_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in
  const char* executable_name;  // out: lives as long as the executable
  size_t executable_name_size;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_Name_Args, executable_name_size);
typedef PJRT_Error* PJRT_Executable_Name(PJRT_Executable_Name_Args* args);

// Returns the number of replicas.
struct PJRT_Executable_NumReplicas_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in
  size_t num_replicas;          // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_NumReplicas_Args, num_replicas);
typedef PJRT_Error* PJRT_Executable_NumReplicas(PJRT_Executable_NumReplicas_Args* args);

// Returns the number of partitions of each replica.
struct PJRT_Executable_NumPartitions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in
  size_t num_partitions;        // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_NumPartitions_Args, num_partitions);
typedef PJRT_Error* PJRT_Executable_NumPartitions(PJRT_Executable_NumPartitions_Args* args);

// Returns the number of outputs on each device.
struct PJRT_Executable_NumOutputs_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in
  size_t num_outputs;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_NumOutputs_Args, num_outputs);
typedef PJRT_Error* PJRT_Executable_NumOutputs(PJRT_Executable_NumOutputs_Args* args);

// Returns the size of the generated code in bytes.
struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in
  int64_t size_in_bytes;        // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, size_in_bytes);
typedef PJRT_Error* PJRT_Executable_SizeOfGeneratedCodeInBytes(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* args);

// Returns a string that is equal for equal programs that were compiled with equal options. Since 0.35.
struct PJRT_Executable_Fingerprint_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;         // in
  const char* executable_fingerprint;  // out: lives as long as the executable
  size_t executable_fingerprint_size;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_Fingerprint_Args, executable_fingerprint_size);
typedef PJRT_Error* PJRT_Executable_Fingerprint(PJRT_Executable_Fingerprint_Args* args);

// Returns cost estimates such as `flops` and `bytes accessed`.
struct PJRT_Executable_GetCostAnalysis_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;        // in
  size_t num_properties;              // out
  const PJRT_NamedValue* properties;  // out: live as long as the executable
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_GetCostAnalysis_Args, properties);
typedef PJRT_Error* PJRT_Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args* args);

// Returns the memory that the program needs on one device, in bytes. Since 0.40.
struct PJRT_Executable_GetCompiledMemoryStats_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;                // in
  int64_t generated_code_size_in_bytes;       // out: in device memory, like the next four
  int64_t argument_size_in_bytes;             // out
  int64_t output_size_in_bytes;               // out
  int64_t alias_size_in_bytes;                // out: the part of the outputs that uses memory of arguments
  int64_t temp_size_in_bytes;                 // out
  int64_t host_generated_code_size_in_bytes;  // out: in host memory, like the next four; since 0.43
  int64_t host_argument_size_in_bytes;        // out
  int64_t host_output_size_in_bytes;          // out
  int64_t host_alias_size_in_bytes;           // out
  int64_t host_temp_size_in_bytes;            // out
  int64_t peak_memory_in_bytes;               // out: since 0.72
  int64_t total_size_in_bytes;                // out: since 0.90
  int64_t total_allocation_bytes;             // out: since 0.104, like the next two
  int64_t indefinite_allocations;             // out
  int64_t peak_unpadded_heap_bytes;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_GetCompiledMemoryStats_Args, peak_unpadded_heap_bytes);
typedef PJRT_Error* PJRT_Executable_GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args);

// Returns the element type of each output. Since 0.29.
struct PJRT_Executable_OutputElementTypes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;     // in
  PJRT_Buffer_Type* output_types;  // out: lives as long as the executable
  size_t num_output_types;         // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_OutputElementTypes_Args, num_output_types);
typedef PJRT_Error* PJRT_Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args* args);

// Returns the dimensions of all outputs, one output after the other in one list. Since 0.29.
struct PJRT_Executable_OutputDimensions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in
  size_t num_outputs;           // out
  const int64_t* dims;          // out: lives as long as the executable
  const size_t* dim_sizes;      // out: the rank of each output; lives as long as the executable
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_OutputDimensions_Args, dim_sizes);
typedef PJRT_Error* PJRT_Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args* args);

// Returns the memory kind of each parameter. Since 0.102.
struct PJRT_Executable_ParameterMemoryKinds_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;      // in
  size_t num_parameters;            // out
  const char* const* memory_kinds;  // out: lists and strings live as long as the executable
  const size_t* memory_kind_sizes;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_ParameterMemoryKinds_Args, memory_kind_sizes);
typedef PJRT_Error* PJRT_Executable_ParameterMemoryKinds(PJRT_Executable_ParameterMemoryKinds_Args* args);

// Returns the memory kind of each output.
struct PJRT_Executable_OutputMemoryKinds_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;      // in
  size_t num_outputs;               // out
  const char* const* memory_kinds;  // out: lists and strings live as long as the executable
  const size_t* memory_kind_sizes;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_OutputMemoryKinds_Args, memory_kind_sizes);
typedef PJRT_Error* PJRT_Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args* args);

// Returns the program after optimization. The caller calls the function twice: first with `code` NULL to get the size,
// then with memory of that size.
struct PJRT_Executable_OptimizedProgram_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in
  // in and out: `format` is set by the plugin and lives as long as the executable; `code` is the caller's
  PJRT_Program* program;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_OptimizedProgram_Args, program);
typedef PJRT_Error* PJRT_Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args* args);

// Serializes the executable for the same version of the same platform.
struct PJRT_Executable_Serialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_Executable* executable;                                       // in
  const char* serialized_bytes;                                            // out: live until the deleter is called
  size_t serialized_bytes_size;                                            // out
  PJRT_SerializedExecutable* serialized_executable;                        // out: keeps the bytes alive
  void (*serialized_executable_deleter)(PJRT_SerializedExecutable* exec);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_Serialize_Args, serialized_executable_deleter);
typedef PJRT_Error* PJRT_Executable_Serialize(PJRT_Executable_Serialize_Args* args);

// Returns the options with which the program was compiled. Since 0.87.
struct PJRT_Executable_GetCompileOptions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;   // in
  const char* serialized_bytes;  // out: CompileOptionsProto; live until the deleter is called
  size_t serialized_bytes_size;  // out
  PJRT_SerializedCompileOptions* serialized_compile_options;  // out: keeps the bytes alive
  // out: the caller calls it once
  void (*serialized_compile_options_deleter)(PJRT_SerializedCompileOptions* options);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_GetCompileOptions_Args, serialized_compile_options_deleter);
typedef PJRT_Error* PJRT_Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args* args);

// The options for loading an executable. Since 0.111.
struct PJRT_LoadOptions {
  size_t struct_size;
  const int32_t* computation_origin;  // coordinates of its first device; borrowed for the call
  size_t computation_origin_size;
  PJRT_MultiSlice_Config* multi_slice_config;  // may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadOptions, multi_slice_config);

// Creates an executable from the bytes of PJRT_Executable_Serialize and loads it.
struct PJRT_Executable_DeserializeAndLoad_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                       // in
  const char* serialized_executable;         // in: borrowed for the call
  size_t serialized_executable_size;         // in
  PJRT_LoadedExecutable* loaded_executable;  // out: owned by the caller
  // in: CompileOptionsProto to use instead of the one in the bytes, or NULL; since 0.71
  const char* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;  // in: since 0.71
  PJRT_LoadOptions* load_options;                     // in: may be NULL; since 0.111
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_DeserializeAndLoad_Args, load_options);
typedef PJRT_Error* PJRT_Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args* args);

// ---- Loaded executables

// Frees a loaded executable. Running executions continue.
struct PJRT_LoadedExecutable_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_Destroy_Args, executable);
typedef PJRT_Error* PJRT_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args* args);

// Returns the executable that was loaded.
struct PJRT_LoadedExecutable_GetExecutable_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* loaded_executable;  // in
  PJRT_Executable* executable;               // out: a new object, owned by the caller; it may outlive the loaded one
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_GetExecutable_Args, executable);
typedef PJRT_Error* PJRT_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args);

// Returns the device of each replica and partition. Since 0.79.
struct PJRT_LoadedExecutable_GetDeviceAssignment_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;  // in
  const char* serialized_bytes;       // out: DeviceAssignmentProto; live until the deleter is called
  size_t serialized_bytes_size;       // out
  PJRT_DeviceAssignmentSerialized* serialized_device_assignment;  // out: keeps the bytes alive
  // out: the caller calls it once
  void (*serialized_device_assignment_deleter)(PJRT_DeviceAssignmentSerialized* da);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_GetDeviceAssignment_Args, serialized_device_assignment_deleter);
typedef PJRT_Error* PJRT_LoadedExecutable_GetDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args* args);

// Returns the devices of this process on which the program runs, in the order of the argument lists of an execution.
struct PJRT_LoadedExecutable_AddressableDevices_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;        // in
  PJRT_Device* const* addressable_devices;  // out: lives as long as the loaded executable
  size_t num_addressable_devices;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_AddressableDevices_Args, num_addressable_devices);
typedef PJRT_Error* PJRT_LoadedExecutable_AddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args* args);

struct PJRT_LogicalDeviceIds {
  int replica;
  int partition;
};
typedef struct PJRT_LogicalDeviceIds PJRT_LogicalDeviceIds;

// Returns the replica and partition that each of the addressable devices runs. Since 0.96.
struct PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;                      // in
  PJRT_LogicalDeviceIds* addressable_device_logical_ids;  // out: lives as long as the loaded executable
  size_t num_addressable_device_logical_ids;              // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args, num_addressable_device_logical_ids);
typedef PJRT_Error* PJRT_LoadedExecutable_AddressableDeviceLogicalIds(
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args* args);

// Releases the resources of a loaded executable. Afterwards only PJRT_LoadedExecutable_IsDeleted and
// PJRT_LoadedExecutable_Destroy may be called.
struct PJRT_LoadedExecutable_Delete_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_Delete_Args, executable);
typedef PJRT_Error* PJRT_LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args* args);

// Returns whether a loaded executable has been deleted.
struct PJRT_LoadedExecutable_IsDeleted_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;  // in
  bool is_deleted;                    // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_IsDeleted_Args, is_deleted);
typedef PJRT_Error* PJRT_LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args* args);

// Starts an execution and returns. The outputs become ready later. After an error no output and no event is set.
struct PJRT_LoadedExecutable_Execute_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;  // in
  PJRT_ExecuteOptions* options;       // in: borrowed for the call
  // in: one list of `num_args` buffers for each device; borrowed; donated ones become deleted
  PJRT_Buffer* const* const* argument_lists;
  size_t num_devices;  // in
  size_t num_args;     // in
  // in: one list of the caller for each device; out: buffers in them, owned by the caller
  PJRT_Buffer** const* output_lists;
  // in: NULL or a list of the caller for `num_devices` events; out: events in it, owned by the caller
  PJRT_Event** device_complete_events;
  PJRT_Device* execute_device;  // in: NULL, or the one device to run on (then num_devices is 1)
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_Execute_Args, execute_device);
typedef PJRT_Error* PJRT_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args* args);

// Returns the fingerprint of the program. Superseded by PJRT_Executable_Fingerprint since 0.35.
struct PJRT_LoadedExecutable_Fingerprint_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;   // in
  const char* executable_fingerprint;  // out: lives as long as the loaded executable
  size_t executable_fingerprint_size;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_LoadedExecutable_Fingerprint_Args, executable_fingerprint_size);
typedef PJRT_Error* PJRT_LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_EXECUTABLE_H_
