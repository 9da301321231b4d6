// Transfers data to a device piece by piece: a manager creates buffers at once and fills them as the data arrives.
// Since 0.60.
#ifndef BACKPLANE_API_PJRT_TRANSFER_H_
#define BACKPLANE_API_PJRT_TRANSFER_H_

#include "api/pjrt/client.h"

#ifdef __cplusplus
extern "C" {
#endif

// Creates a manager with one buffer for each shape.
struct PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                                      // in
  PJRT_ShapeSpec* shape_specs;                              // in: borrowed for the call
  size_t num_shape_specs;                                   // in
  PJRT_Buffer_MemoryLayout** device_layouts;                // in: NULL, or one for each shape (each may be NULL)
  size_t num_device_layouts;                                // in: 0 or num_shape_specs
  PJRT_Memory* memory;                                      // in: where the buffers are
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args, transfer_manager);
typedef PJRT_Error* PJRT_Client_CreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* args);

// Frees a manager. Buffers that were retrieved stay valid. Buffers that are not complete yet become errors.
struct PJRT_AsyncHostToDeviceTransferManager_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args, transfer_manager);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_Destroy(
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args);

// Copies bytes into a part of a buffer.
struct PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in
  int buffer_index;                                         // in
  const void* data;                                         // in: the caller must not use it until the event is ready
  int64_t offset;                                           // in: in bytes, into the buffer
  int64_t transfer_size;                                    // in: in bytes
  bool is_last_transfer;               // in: true for the last piece of this buffer, which then becomes ready
  PJRT_Event* done_with_h2d_transfer;  // out: ready when the piece is copied; owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args, done_with_h2d_transfer);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_TransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args* args);

// Fills a whole buffer from host memory of the given shape. Since 0.83.
struct PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in
  int buffer_index;                                         // in
  const void* data;                                         // in: the caller must not use it until the event is ready
  const int64_t* shape_dims;                                // in: borrowed for the call
  size_t shape_num_dims;                                    // in
  PJRT_Buffer_Type shape_element_type;                      // in
  PJRT_Buffer_MemoryLayout* shape_layout;                   // in: of the host memory; NULL for the default
  PJRT_Event* done_with_h2d_transfer;                       // out: ready when the data is copied; owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args, done_with_h2d_transfer);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args* args);

// Returns a buffer, which may not be filled yet. May be called once for each buffer.
struct PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in
  int buffer_index;                                         // in
  PJRT_Buffer* buffer_out;                                  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args, buffer_out);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* args);

// Returns the device of the buffers.
struct PJRT_AsyncHostToDeviceTransferManager_Device_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in
  PJRT_Device* device_out;                                  // out: belongs to the client
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_Device_Args, device_out);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_Device(
    PJRT_AsyncHostToDeviceTransferManager_Device_Args* args);

// Returns the number of buffers.
struct PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in
  size_t buffer_count;                                      // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args, buffer_count);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_BufferCount(
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args* args);

// Returns the size of one buffer on the device, in bytes.
struct PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in
  int buffer_index;                                         // in
  size_t buffer_size;                                       // out: in bytes
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args, buffer_size);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_BufferSize(
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args* args);

// Makes one buffer fail with an error instead of becoming ready.
struct PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in
  int buffer_index;                                         // in
  PJRT_Error_Code error_code;                               // in
  const char* error_message;                                // in: copied
  size_t error_message_size;                                // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args, error_message_size);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args* args);

// Adds metadata for diagnostics of the platform.
struct PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;  // in
  const PJRT_NamedValue* transfer_metadata;                 // in: borrowed for the call
  size_t num_metadata;                                      // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args, num_metadata);
typedef PJRT_Error* PJRT_AsyncHostToDeviceTransferManager_AddMetadata(
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_TRANSFER_H_
