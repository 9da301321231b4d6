// Buffers: arrays in a memory of the client. Their contents may not be available yet; see PJRT_Buffer_ReadyEvent. All
// functions are thread-safe, and none waits for the contents.
#ifndef BACKPLANE_API_PJRT_BUFFER_H_
#define BACKPLANE_API_PJRT_BUFFER_H_

#include "api/pjrt/event.h"
#include "api/pjrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Frees a buffer; its memory is released when no running work uses it any more.
struct PJRT_Buffer_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_Destroy_Args, buffer);
typedef PJRT_Error* PJRT_Buffer_Destroy(PJRT_Buffer_Destroy_Args* args);

// Returns the element type of a buffer.
struct PJRT_Buffer_ElementType_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;    // in
  PJRT_Buffer_Type type;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_ElementType_Args, type);
typedef PJRT_Error* PJRT_Buffer_ElementType(PJRT_Buffer_ElementType_Args* args);

// Returns the dimensions of a buffer.
struct PJRT_Buffer_Dimensions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
  const int64_t* dims;  // out: lives as long as the buffer object
  size_t num_dims;      // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_Dimensions_Args, num_dims);
typedef PJRT_Error* PJRT_Buffer_Dimensions(PJRT_Buffer_Dimensions_Args* args);

// Returns the actual dimensions of a buffer. They differ from PJRT_Buffer_Dimensions only for dynamic dimensions, for
// which that function returns the bound.
struct PJRT_Buffer_UnpaddedDimensions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;           // in
  const int64_t* unpadded_dims;  // out: lives as long as the buffer object
  size_t num_dims;               // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_UnpaddedDimensions_Args, num_dims);
typedef PJRT_Error* PJRT_Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args* args);

// Returns which dimensions of a buffer are dynamic.
struct PJRT_Buffer_DynamicDimensionIndices_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;                // in
  const size_t* dynamic_dim_indices;  // out: lives as long as the buffer object
  size_t num_dynamic_dims;            // out: 0 when all are static
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_DynamicDimensionIndices_Args, num_dynamic_dims);
typedef PJRT_Error* PJRT_Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args* args);

// Returns the layout of a buffer. Superseded by the Layouts extension since 0.54.
struct PJRT_Buffer_GetMemoryLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;              // in
  PJRT_Buffer_MemoryLayout layout;  // out: the arrays inside live as long as the buffer object
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_GetMemoryLayout_Args, layout);
typedef PJRT_Error* PJRT_Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args* args);

// Copies the contents to host memory once they are ready. If `dst` is NULL, nothing is copied and the function returns
// the size.
struct PJRT_Buffer_ToHostBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* src;                       // in
  PJRT_Buffer_MemoryLayout* host_layout;  // in: borrowed for the call; NULL for the layout of the buffer
  void* dst;                              // in: memory of the caller, who must not use it until the event is ready
  size_t dst_size;  // in: bytes at `dst`, too few is an error; out: bytes needed, when `dst` is NULL
  // out: ready when the copy is complete; owned by the caller; not set by a question for the size
  PJRT_Event* event;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_ToHostBuffer_Args, event);
typedef PJRT_Error* PJRT_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args* args);

// Returns the size of a buffer on the device in bytes, including all padding.
struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;             // in
  size_t on_device_size_in_bytes;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_OnDeviceSizeInBytes_Args, on_device_size_in_bytes);
typedef PJRT_Error* PJRT_Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args* args);

// Releases the memory of a buffer as soon as running work allows it. The object stays and keeps its properties, but has
// no contents.
struct PJRT_Buffer_Delete_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_Delete_Args, buffer);
typedef PJRT_Error* PJRT_Buffer_Delete(PJRT_Buffer_Delete_Args* args);

// Returns whether a buffer has been deleted, or donated to an execution.
struct PJRT_Buffer_IsDeleted_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
  bool is_deleted;      // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_IsDeleted_Args, is_deleted);
typedef PJRT_Error* PJRT_Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args* args);

// Copies bytes as they are stored on the device. Since 0.56.
struct PJRT_Buffer_CopyRawToHost_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;    // in
  void* dst;              // in: the caller must not use it until the event is ready
  int64_t offset;         // in: in bytes
  int64_t transfer_size;  // in: in bytes
  PJRT_Event* event;      // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_CopyRawToHost_Args, event);
typedef PJRT_Error* PJRT_Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args* args);

// The arguments by which the caller gives the destination of a PJRT_Buffer_CopyRawToHostFuture.
struct PJRT_Buffer_CopyRawToHostFuture_Callback_Args {
  size_t struct_size;
  void* callback_data;         // in: as PJRT_Buffer_CopyRawToHostFuture returned it; invalid after the call
  PJRT_Error_Code error_code;  // in: OK, or why there will be no destination
  const char* error_message;   // in: copied; read when the code is not OK
  size_t error_message_size;   // in
  void* dst;                   // in: read when the code is OK
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_CopyRawToHostFuture_Callback_Args, dst);

// Like PJRT_Buffer_CopyRawToHost, to a destination that is given later. Since 0.84.
struct PJRT_Buffer_CopyRawToHostFuture_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;    // in
  int64_t offset;         // in: in bytes
  int64_t transfer_size;  // in: in bytes
  PJRT_Event* event;      // out: ready when the copy is complete; owned by the caller
  void* callback_data;    // out: to be passed to the callback
  // out: the caller calls it exactly once
  void (*future_ready_callback)(PJRT_Buffer_CopyRawToHostFuture_Callback_Args* args);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_CopyRawToHostFuture_Args, future_ready_callback);
typedef PJRT_Error* PJRT_Buffer_CopyRawToHostFuture(PJRT_Buffer_CopyRawToHostFuture_Args* args);

// Copies to the default memory of another device.
struct PJRT_Buffer_CopyToDevice_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;      // in
  PJRT_Device* dst_device;  // in: the buffer's own is an error
  PJRT_Buffer* dst_buffer;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_CopyToDevice_Args, dst_buffer);
typedef PJRT_Error* PJRT_Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args* args);

// Copies to another memory of the client. Since 0.32.
struct PJRT_Buffer_CopyToMemory_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;      // in
  PJRT_Memory* dst_memory;  // in: the buffer's own is an error
  PJRT_Buffer* dst_buffer;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_CopyToMemory_Args, dst_buffer);
typedef PJRT_Error* PJRT_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args* args);

// Creates a buffer that contains the same bytes with another type, shape and layout. Since 0.98.
struct PJRT_Buffer_Bitcast_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;                      // in
  PJRT_Buffer_Type element_type;            // in
  const int64_t* dims;                      // in: borrowed for the call
  size_t num_dims;                          // in
  PJRT_Buffer_MemoryLayout* device_layout;  // in: NULL for the default (not the one of `buffer`)
  PJRT_Buffer* out_buffer;                  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_Bitcast_Args, out_buffer);
typedef PJRT_Error* PJRT_Buffer_Bitcast(PJRT_Buffer_Bitcast_Args* args);

// Returns whether the host may read the memory through PJRT_Buffer_OpaqueDeviceMemoryDataPointer.
struct PJRT_Buffer_IsOnCpu_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
  bool is_on_cpu;       // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_IsOnCpu_Args, is_on_cpu);
typedef PJRT_Error* PJRT_Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args* args);

// Returns the device of a buffer.
struct PJRT_Buffer_Device_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
  PJRT_Device* device;  // out: belongs to the client
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_Device_Args, device);
typedef PJRT_Error* PJRT_Buffer_Device(PJRT_Buffer_Device_Args* args);

// Returns the memory space of a buffer.
struct PJRT_Buffer_Memory_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
  PJRT_Memory* memory;  // out: belongs to the client
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_Memory_Args, memory);
typedef PJRT_Error* PJRT_Buffer_Memory(PJRT_Buffer_Memory_Args* args);

// Returns an event that is ready when the contents are, or when their computation has failed. For a deleted or donated
// buffer it has an error at once; events that were created before are not affected.
struct PJRT_Buffer_ReadyEvent_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
  PJRT_Event* event;    // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_ReadyEvent_Args, event);
typedef PJRT_Error* PJRT_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args* args);

// Returns an address that identifies the memory, for comparisons only.
struct PJRT_Buffer_UnsafePointer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;       // in
  uintptr_t buffer_pointer;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_UnsafePointer_Args, buffer_pointer);
typedef PJRT_Error* PJRT_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args* args);

// Adds an external reference: the memory is neither freed nor moved nor donated while the count is above zero.
struct PJRT_Buffer_IncreaseExternalReferenceCount_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_IncreaseExternalReferenceCount_Args, buffer);
typedef PJRT_Error* PJRT_Buffer_IncreaseExternalReferenceCount(PJRT_Buffer_IncreaseExternalReferenceCount_Args* args);

// Removes an external reference. Returns an error if the count is zero.
struct PJRT_Buffer_DecreaseExternalReferenceCount_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_DecreaseExternalReferenceCount_Args, buffer);
typedef PJRT_Error* PJRT_Buffer_DecreaseExternalReferenceCount(PJRT_Buffer_DecreaseExternalReferenceCount_Args* args);

// Returns the address of the memory, which is valid while the external reference count is above zero.
struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;      // in
  void* device_memory_ptr;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, device_memory_ptr);
typedef PJRT_Error* PJRT_Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* args);

// The arguments by which the caller ends the dependency of a PJRT_Buffer_DonateWithControlDependency.
struct PJRT_Buffer_DonateWithControlDependency_Callback_Args {
  size_t struct_size;
  void* callback_data;         // in: as PJRT_Buffer_DonateWithControlDependency returned it; invalid after the call
  PJRT_Error_Code error_code;  // in: OK, or the error of the new buffer
  const char* error_message;   // in: copied; read when the code is not OK
  size_t error_message_size;   // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_DonateWithControlDependency_Callback_Args, error_message_size);

// Moves the memory to a new buffer that does not become ready before the caller allows it. Since 0.88.
struct PJRT_Buffer_DonateWithControlDependency_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;  // in: donated by the call
  void* callback_data;  // out: to be passed to the callback
  // out: the caller calls it exactly once
  void (*dependency_ready_callback)(PJRT_Buffer_DonateWithControlDependency_Callback_Args* args);
  PJRT_Buffer* out_buffer;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_DonateWithControlDependency_Args, out_buffer);
typedef PJRT_Error* PJRT_Buffer_DonateWithControlDependency(PJRT_Buffer_DonateWithControlDependency_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_BUFFER_H_
