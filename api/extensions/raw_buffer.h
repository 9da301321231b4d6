// Extension 8, RawBuffer, version 2, experimental: the memory of a buffer without type and shape.
#ifndef BACKPLANE_API_EXTENSIONS_RAW_BUFFER_H_
#define BACKPLANE_API_EXTENSIONS_RAW_BUFFER_H_

#include "api/extensions/device_event.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_RAW_BUFFER_EXTENSION_VERSION 2

typedef struct PJRT_RawBuffer PJRT_RawBuffer;

// The functions of a raw buffer. Offsets and sizes are in bytes and must lie inside the buffer. The platform may
// require an alignment.
struct PJRT_RawBuffer_FunctionTable {
  size_t struct_size;
  size_t instance_size;  // PJRT_RawBuffer_STRUCT_SIZE of its creator
  PJRT_Extension_Base* extension_start;
  void (*inc_ref)(PJRT_RawBuffer* raw_buffer);
  void (*dec_ref)(PJRT_RawBuffer* raw_buffer);
  size_t (*get_on_device_size_in_bytes)(const PJRT_RawBuffer* raw_buffer);
  PJRT_Memory* (*get_memory_space)(const PJRT_RawBuffer* raw_buffer);
  void* (*get_host_pointer)(const PJRT_RawBuffer* raw_buffer);  // NULL if the host cannot access the memory
  // Copy after the dependencies are ready. `event` (out, owned by the caller) is ready when the copy is complete or has
  // failed.
  PJRT_Error* (*copy_raw_host_to_device_and_return_event)(PJRT_RawBuffer* raw_buffer, const void* src, int64_t offset,
                                                          int64_t transfer_size, PJRT_DeviceEventVector* dependencies,
                                                          PJRT_DeviceEvent* event);
  PJRT_Error* (*copy_raw_device_to_host_and_return_event)(PJRT_RawBuffer* raw_buffer, void* dst, int64_t offset,
                                                          int64_t transfer_size, PJRT_DeviceEventVector* dependencies,
                                                          PJRT_DeviceEvent* event);
  void* (*opaque_device_memory_data_pointer)(const PJRT_RawBuffer* raw_buffer);
  PJRT_Error* (*make_allocation_ready_event)(PJRT_RawBuffer* raw_buffer, PJRT_DeviceEvent* event);
  PJRT_Error* (*get_raw_buffer_async_value)(PJRT_RawBuffer* raw_buffer, PJRT_DeviceEvent* event);
  bool (*is_mutable)(const PJRT_RawBuffer* raw_buffer);
  PJRT_Error* (*slice)(PJRT_RawBuffer* raw_buffer, int64_t offset, int64_t slice_size, PJRT_RawBuffer** sliced_buffer);
  // Copies into another raw buffer after the dependencies are ready (NULL: at once). Calls the callback before it
  // accesses `dst_buffer`. Sets the first promise when `dst_buffer` is ready, and the second one when it no longer
  // needs `src_buffer`.
  void (*schedule_copy_to)(PJRT_RawBuffer* src_buffer, PJRT_DeviceEventVector* transfer_dependency_events,
                           PJRT_RawBuffer* dst_buffer, PJRT_DeviceEventPromise* definition_event_promise,
                           PJRT_DeviceEventPromise* src_usage_event_promise,
                           void (*allocation_event_callback)(PJRT_Error* status, void* user_data),
                           void* allocation_event_user_data);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_FunctionTable, schedule_copy_to);

struct PJRT_RawBuffer {
  const PJRT_RawBuffer_FunctionTable* vtable;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer, vtable);

// Returns the memory of a buffer as a raw buffer.
struct PJRT_RawBuffer_CreateRawAliasOfBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;         // in
  PJRT_RawBuffer* raw_buffer;  // out: owned by the caller; keeps the memory alive
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_CreateRawAliasOfBuffer_Args, raw_buffer);
typedef PJRT_Error* PJRT_RawBuffer_CreateRawAliasOfBuffer(PJRT_RawBuffer_CreateRawAliasOfBuffer_Args* args);

// Frees a raw buffer.
struct PJRT_RawBuffer_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_RawBuffer* buffer;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_Destroy_Args, buffer);
typedef PJRT_Error* PJRT_RawBuffer_Destroy(PJRT_RawBuffer_Destroy_Args* args);

// Returns the host address of the memory.
struct PJRT_RawBuffer_GetHostPointer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_RawBuffer* buffer;  // in
  void* host_pointer;      // out: NULL if the host cannot access the memory
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_GetHostPointer_Args, host_pointer);
typedef PJRT_Error* PJRT_RawBuffer_GetHostPointer(PJRT_RawBuffer_GetHostPointer_Args* args);

// Returns the size in bytes.
struct PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_RawBuffer* buffer;          // in
  size_t on_device_size_in_bytes;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args, on_device_size_in_bytes);
typedef PJRT_Error* PJRT_RawBuffer_GetOnDeviceSizeInBytes(PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args* args);

// Returns the memory space of the buffer.
struct PJRT_RawBuffer_GetMemorySpace_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_RawBuffer* buffer;     // in
  PJRT_Memory* memory_space;  // out: belongs to the client
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_GetMemorySpace_Args, memory_space);
typedef PJRT_Error* PJRT_RawBuffer_GetMemorySpace(PJRT_RawBuffer_GetMemorySpace_Args* args);

// Copies to the host.
struct PJRT_RawBuffer_CopyRawDeviceToHost_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_RawBuffer* buffer;  // in
  void* dst;               // in: the caller must not use it until the event is ready
  int64_t offset;          // in: in bytes
  int64_t transfer_size;   // in: in bytes
  PJRT_Event* event;       // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_CopyRawDeviceToHost_Args, event);
typedef PJRT_Error* PJRT_RawBuffer_CopyRawDeviceToHost(PJRT_RawBuffer_CopyRawDeviceToHost_Args* args);

// Copies from the host.
struct PJRT_RawBuffer_CopyRawHostToDevice_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_RawBuffer* buffer;  // in
  const void* src;         // in: the caller must not use it until the event is ready
  int64_t offset;          // in: in bytes
  int64_t transfer_size;   // in: in bytes
  PJRT_Event* event;       // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_CopyRawHostToDevice_Args, event);
typedef PJRT_Error* PJRT_RawBuffer_CopyRawHostToDevice(PJRT_RawBuffer_CopyRawHostToDevice_Args* args);

// The extension.
struct PJRT_RawBuffer_Extension {
  PJRT_Extension_Base base;
  PJRT_API_FIELD(PJRT_RawBuffer_CreateRawAliasOfBuffer);
  PJRT_API_FIELD(PJRT_RawBuffer_Destroy);
  PJRT_API_FIELD(PJRT_RawBuffer_GetOnDeviceSizeInBytes);
  PJRT_API_FIELD(PJRT_RawBuffer_GetMemorySpace);
  PJRT_API_FIELD(PJRT_RawBuffer_CopyRawHostToDevice);
  PJRT_API_FIELD(PJRT_RawBuffer_CopyRawDeviceToHost);
  PJRT_API_FIELD(PJRT_RawBuffer_GetHostPointer);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RawBuffer_Extension, PJRT_RawBuffer_GetHostPointer);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_RAW_BUFFER_H_
