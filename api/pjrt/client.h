// The client: a connection of this process to a platform. It owns devices and memories. All its functions are
// thread-safe.
#ifndef BACKPLANE_API_PJRT_CLIENT_H_
#define BACKPLANE_API_PJRT_CLIENT_H_

#include "api/pjrt/event.h"
#include "api/pjrt/memory.h"
#include "api/pjrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Key-value store. The host of a distributed program supplies three functions by which the clients of its
// processes exchange data. All are thread-safe. Each error is created with the `callback_error` that is passed in.

// Frees a value that a get callback has returned.
typedef void (*PJRT_KeyValueGetCallback_ValueDeleter)(char* value);

// Gets a value and waits until there is one.
struct PJRT_KeyValueGetCallback_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* key;                                               // in: borrowed for the call
  size_t key_size;                                               // in
  int timeout_in_ms;                                             // in: after which the answer is DEADLINE_EXCEEDED
  PJRT_CallbackError* callback_error;                            // in: makes errors
  void* user_arg;                                                // in: `kv_get_user_arg` of PJRT_Client_Create
  char* value;                                                   // out: the plugin copies it, then calls the deleter
  size_t value_size;                                             // out
  PJRT_KeyValueGetCallback_ValueDeleter value_deleter_callback;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_KeyValueGetCallback_Args, value_deleter_callback);

typedef PJRT_Error* (*PJRT_KeyValueGetCallback)(PJRT_KeyValueGetCallback_Args* args);

// Frees a value that a try-get callback has returned.
typedef void (*PJRT_KeyValueTryGetCallback_ValueDeleter)(char* value);

// Gets a value without waiting. Returns NOT_FOUND if there is none. Since 0.61.
struct PJRT_KeyValueTryGetCallback_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* key;                                                  // in: borrowed for the call
  size_t key_size;                                                  // in
  PJRT_CallbackError* callback_error;                               // in: makes errors
  void* user_arg;                                                   // in: `kv_try_get_user_arg` of PJRT_Client_Create
  char* value;                                                      // out: the plugin copies it, then calls the deleter
  size_t value_size;                                                // out
  PJRT_KeyValueTryGetCallback_ValueDeleter value_deleter_callback;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_KeyValueTryGetCallback_Args, value_deleter_callback);

typedef PJRT_Error* (*PJRT_KeyValueTryGetCallback)(PJRT_KeyValueTryGetCallback_Args* args);

// Stores a value.
struct PJRT_KeyValuePutCallback_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* key;                     // in: borrowed for the call
  size_t key_size;                     // in
  const char* value;                   // in: borrowed for the call
  size_t value_size;                   // in
  PJRT_CallbackError* callback_error;  // in: makes errors
  void* user_arg;                      // in: `kv_put_user_arg` of PJRT_Client_Create
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_KeyValuePutCallback_Args, user_arg);

typedef PJRT_Error* (*PJRT_KeyValuePutCallback)(PJRT_KeyValuePutCallback_Args* args);

// ---- Life and contents

// Opens the platform. The three callbacks may be NULL in a program of one process. Otherwise they must stay callable
// until the client is destroyed.
struct PJRT_Client_Create_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_NamedValue* create_options;            // in: borrowed for the call; names are platform-specific
  size_t num_options;                               // in
  PJRT_KeyValueGetCallback kv_get_callback;         // in
  void* kv_get_user_arg;                            // in: stays the caller's
  PJRT_KeyValuePutCallback kv_put_callback;         // in
  void* kv_put_user_arg;                            // in: stays the caller's
  PJRT_Client* client;                              // out: owned by the caller
  PJRT_KeyValueTryGetCallback kv_try_get_callback;  // in: since 0.61
  void* kv_try_get_user_arg;                        // in: since 0.61; stays the caller's
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_Create_Args, kv_try_get_user_arg);
typedef PJRT_Error* PJRT_Client_Create(PJRT_Client_Create_Args* args);

// Waits for running work and frees the client with its devices and memories. The caller must have destroyed the
// buffers, executables and events of the client before.
struct PJRT_Client_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_Destroy_Args, client);
typedef PJRT_Error* PJRT_Client_Destroy(PJRT_Client_Destroy_Args* args);

// Returns the name of the platform. Hosts choose lowerings and some features by it.
struct PJRT_Client_PlatformName_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;        // in
  const char* platform_name;  // out: lives as long as the client
  size_t platform_name_size;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_PlatformName_Args, platform_name_size);
typedef PJRT_Error* PJRT_Client_PlatformName(PJRT_Client_PlatformName_Args* args);

// Returns the number of this process in a distributed program; 0 if there is a single process.
struct PJRT_Client_ProcessIndex_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;  // in
  int process_index;    // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_ProcessIndex_Args, process_index);
typedef PJRT_Error* PJRT_Client_ProcessIndex(PJRT_Client_ProcessIndex_Args* args);

// Returns the versions of the components, for users and for cache keys.
struct PJRT_Client_PlatformVersion_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;           // in
  const char* platform_version;  // out: lives as long as the client
  size_t platform_version_size;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_PlatformVersion_Args, platform_version_size);
typedef PJRT_Error* PJRT_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args* args);

// Returns the devices of the client as a topology for compilation. Since 0.36.
struct PJRT_Client_TopologyDescription_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                 // in
  PJRT_TopologyDescription* topology;  // out: belongs to the client; the caller does not destroy it
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_TopologyDescription_Args, topology);
typedef PJRT_Error* PJRT_Client_TopologyDescription(PJRT_Client_TopologyDescription_Args* args);

// Returns all devices of the program, including those of other processes.
struct PJRT_Client_Devices_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;          // in
  PJRT_Device* const* devices;  // out: list and devices live as long as the client
  size_t num_devices;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_Devices_Args, num_devices);
typedef PJRT_Error* PJRT_Client_Devices(PJRT_Client_Devices_Args* args);

// Returns the devices of this process.
struct PJRT_Client_AddressableDevices_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                      // in
  PJRT_Device* const* addressable_devices;  // out: list and devices live as long as the client
  size_t num_addressable_devices;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_AddressableDevices_Args, num_addressable_devices);
typedef PJRT_Error* PJRT_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args* args);

// Returns the device with this id, or an error.
struct PJRT_Client_LookupDevice_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;  // in
  int id;               // in: as of PJRT_DeviceDescription_Id
  PJRT_Device* device;  // out: lives as long as the client
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_LookupDevice_Args, device);
typedef PJRT_Error* PJRT_Client_LookupDevice(PJRT_Client_LookupDevice_Args* args);

// Returns the device of this process with this hardware id, or an error.
struct PJRT_Client_LookupAddressableDevice_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;              // in
  int local_hardware_id;            // in: as of PJRT_Device_LocalHardwareId
  PJRT_Device* addressable_device;  // out: lives as long as the client
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_LookupAddressableDevice_Args, addressable_device);
typedef PJRT_Error* PJRT_Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args* args);

// Informs the client of the state of all processes of the program. Since 0.73.
struct PJRT_Client_UpdateGlobalProcessInfo_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;              // in
  PJRT_ProcessInfo* process_infos;  // in: borrowed for the call
  size_t num_process_infos;         // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_UpdateGlobalProcessInfo_Args, num_process_infos);
typedef PJRT_Error* PJRT_Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args* args);

// Returns the memories of this process.
struct PJRT_Client_AddressableMemories_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                       // in
  PJRT_Memory* const* addressable_memories;  // out: list and memories live as long as the client
  size_t num_addressable_memories;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_AddressableMemories_Args, num_addressable_memories);
typedef PJRT_Error* PJRT_Client_AddressableMemories(PJRT_Client_AddressableMemories_Args* args);

// ---- Programs

// Compiles a program and makes it ready to run on the client's devices.
struct PJRT_Client_Compile_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                // in
  const PJRT_Program* program;        // in: borrowed for the call, with all it points to
  const char* compile_options;        // in: serialized CompileOptionsProto, borrowed for the call
  size_t compile_options_size;        // in
  PJRT_LoadedExecutable* executable;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_Compile_Args, executable);
typedef PJRT_Error* PJRT_Client_Compile(PJRT_Client_Compile_Args* args);

// Makes a program compiled without a client ready to run. Since 0.95.
struct PJRT_Client_Load_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                       // in
  PJRT_Executable* executable;               // in: stays the caller's
  const char* compile_options;               // in: serialized CompileOptionsProto, borrowed for the call
  size_t compile_options_size;               // in
  PJRT_LoadedExecutable* loaded_executable;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_Load_Args, loaded_executable);
typedef PJRT_Error* PJRT_Client_Load(PJRT_Client_Load_Args* args);

// Returns the devices on which a program of this size would run.
struct PJRT_Client_DefaultDeviceAssignment_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;             // in
  int num_replicas;                // in
  int num_partitions;              // in
  size_t default_assignment_size;  // in: elements of the array, at least num_replicas * num_partitions
  int* default_assignment;         // in: array of the caller; out: device ids, one row of partitions for each replica
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_DefaultDeviceAssignment_Args, default_assignment);
typedef PJRT_Error* PJRT_Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args* args);

// ---- Buffers

// Creates a buffer from host memory; the copy may continue after the function returns.
struct PJRT_Client_BufferFromHostBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;    // in
  const void* data;       // in: its lifetime depends on the semantics
  PJRT_Buffer_Type type;  // in: of the data and of the buffer; types smaller than a byte take one byte per element
  const int64_t* dims;    // in: borrowed for the call
  size_t num_dims;        // in
  // in: borrowed for the call; may be negative; `data` is the address of element zero
  const int64_t* byte_strides;
  size_t num_byte_strides;                         // in: num_dims, or 0 for dense with the last dimension fastest
  PJRT_HostBufferSemantics host_buffer_semantics;  // in
  PJRT_Device* device;                             // in: the destination if `memory` is NULL
  PJRT_Memory* memory;                             // in: the destination; may be NULL
  PJRT_Buffer_MemoryLayout* device_layout;         // in: NULL for the default, dense with the last dimension fastest
  PJRT_Event* done_with_host_buffer;               // out: ready when the caller may reuse `data`; owned by the caller
  PJRT_Buffer* buffer;                             // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_BufferFromHostBuffer_Args, buffer);
typedef PJRT_Error* PJRT_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args* args);

// Creates a buffer with unspecified contents. Since 0.69.
struct PJRT_Client_CreateUninitializedBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                     // in
  const int64_t* shape_dims;               // in: borrowed for the call
  size_t shape_num_dims;                   // in
  PJRT_Buffer_Type shape_element_type;     // in
  PJRT_Buffer_MemoryLayout* shape_layout;  // in: NULL for the default
  PJRT_Device* device;                     // in: the location if `memory` is NULL
  PJRT_Memory* memory;                     // in: the location; may be NULL
  PJRT_Buffer* buffer;                     // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_CreateUninitializedBuffer_Args, buffer);
typedef PJRT_Error* PJRT_Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args* args);

// Creates a buffer without memory. Its ready event, and every use of it, has this error. Since 0.82.
struct PJRT_Client_CreateErrorBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                     // in
  PJRT_Error_Code error_code;              // in
  const char* error_message;               // in: copied
  size_t error_message_size;               // in
  const int64_t* shape_dims;               // in: borrowed for the call
  size_t shape_num_dims;                   // in
  PJRT_Buffer_Type shape_element_type;     // in
  PJRT_Buffer_MemoryLayout* shape_layout;  // in: NULL for the default; used if `device_layout` is NULL
  PJRT_Memory* memory;                     // in: its nominal location
  PJRT_Buffer* buffer;                     // out: owned by the caller
  const PJRT_NamedValue* payload;          // in: copied; since 0.103
  size_t num_payload;                      // in: since 0.103
  // in: NULL for the default; since 0.117, in place of `shape_layout`, which that minor deprecates
  PJRT_Buffer_MemoryLayout* device_layout;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_CreateErrorBuffer_Args, device_layout);
typedef PJRT_Error* PJRT_Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args* args);

// Creates a placeholder for a buffer that is not known yet. Since 0.77.
struct PJRT_Client_CreateAliasBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                     // in
  PJRT_Memory* memory;                     // in
  const int64_t* shape_dims;               // in: borrowed for the call
  size_t shape_num_dims;                   // in
  PJRT_Buffer_Type shape_element_type;     // in
  PJRT_Buffer_MemoryLayout* shape_layout;  // in: NULL for the default
  PJRT_Buffer* alias_buffer;               // out: owned by the caller; ready once it has been fulfilled
  PJRT_FulfillAliasBufferCallback* fulfill_alias_buffer_cb;  // out: consumed by PJRT_Client_FulfillAliasBuffer
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_CreateAliasBuffer_Args, fulfill_alias_buffer_cb);
typedef PJRT_Error* PJRT_Client_CreateAliasBuffer(PJRT_Client_CreateAliasBuffer_Args* args);

// Sets the buffer of a placeholder, or an error if there is none. Must be called once for each placeholder. Since 0.77.
struct PJRT_Client_FulfillAliasBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                                       // in
  PJRT_Buffer* buffer;                                       // in: read when the code is OK
  PJRT_Error_Code status_code;                               // in
  const char* error_message;                                 // in: copied
  size_t error_message_size;                                 // in
  PJRT_FulfillAliasBufferCallback* fulfill_alias_buffer_cb;  // in: invalid after the call
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_FulfillAliasBuffer_Args, fulfill_alias_buffer_cb);
typedef PJRT_Error* PJRT_Client_FulfillAliasBuffer(PJRT_Client_FulfillAliasBuffer_Args* args);

// Creates a buffer that refers to memory of the caller. The plugin may write to it, for instance if the buffer is
// donated. Since 0.33.
struct PJRT_Client_CreateViewOfDeviceBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;               // in
  void* device_buffer_ptr;           // in: must stay valid until the callback
  const int64_t* dims;               // in: borrowed for the call
  size_t num_dims;                   // in
  PJRT_Buffer_Type element_type;     // in
  PJRT_Buffer_MemoryLayout* layout;  // in: NULL for the default
  PJRT_Device* device;               // in: read when `memory` is NULL
  // in: may be NULL; called once when the plugin is done with the memory
  void (*on_delete_callback)(void* device_buffer_ptr, void* user_arg);
  void* on_delete_callback_arg;  // in: passed to the callback as `user_arg`
  intptr_t stream;               // in: stream of the platform on which the contents become ready; 0 when they are
  PJRT_Buffer* buffer;           // out: owned by the caller
  PJRT_Memory* memory;           // in: the memory space of the memory; since 0.66
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_CreateViewOfDeviceBuffer_Args, memory);
typedef PJRT_Error* PJRT_Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args* args);

// Prepares host memory for fast transfers. Since 0.67.
struct PJRT_Client_DmaMap_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;  // in
  void* data;           // in: stays the caller's, who must unmap it before freeing it
  size_t size;          // in: in bytes
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_DmaMap_Args, size);
typedef PJRT_Error* PJRT_Client_DmaMap(PJRT_Client_DmaMap_Args* args);

// Undoes PJRT_Client_DmaMap. Since 0.67.
struct PJRT_Client_DmaUnmap_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;  // in
  void* data;           // in: the address that was mapped
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_DmaUnmap_Args, data);
typedef PJRT_Error* PJRT_Client_DmaUnmap(PJRT_Client_DmaUnmap_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_CLIENT_H_
