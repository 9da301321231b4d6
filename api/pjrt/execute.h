// The inputs of an execution besides its arguments: callbacks for send and receive, options, the execute context, and
// the stream by which a receive callback passes data to the device.
#ifndef BACKPLANE_API_PJRT_EXECUTE_H_
#define BACKPLANE_API_PJRT_EXECUTE_H_

#include "api/pjrt/event.h"
#include "api/pjrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Execute context

// Creates a context, to which extensions add data for one execution. Since 0.52.
struct PJRT_ExecuteContext_Create_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecuteContext_Create_Args, context);
typedef PJRT_Error* PJRT_ExecuteContext_Create(PJRT_ExecuteContext_Create_Args* args);

// Frees a context. Allowed as soon as PJRT_LoadedExecutable_Execute has returned.
struct PJRT_ExecuteContext_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecuteContext_Destroy_Args, context);
typedef PJRT_Error* PJRT_ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args* args);

// ---- Send and receive

// A piece of data and the function that frees it.
struct PJRT_Chunk {
  void* data;
  size_t size;                                     // in bytes
  void (*deleter)(void* data, void* deleter_arg);  // called once by the owner of the chunk
  void* deleter_arg;
};
typedef struct PJRT_Chunk PJRT_Chunk;

// Called when the program sends data. Takes ownership of the chunk and calls its deleter. `done` is true for the last
// chunk of `total_size_in_bytes`. Returns NULL or an error made with `*callback_error`.
typedef PJRT_Error* (*PJRT_SendCallback)(PJRT_Chunk* chunk, PJRT_CallbackError* callback_error,
                                         size_t total_size_in_bytes, bool done, void* user_arg);

// Called when the program receives data. Owns the stream, adds chunks to it at once or later, and then destroys it.
typedef void (*PJRT_RecvCallback)(PJRT_CopyToDeviceStream* stream, void* user_arg);

struct PJRT_SendCallbackInfo {
  int64_t channel_id;  // of the send operation this is for
  void* user_arg;
  PJRT_SendCallback send_callback;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_SendCallbackInfo, send_callback);

struct PJRT_RecvCallbackInfo {
  int64_t channel_id;  // of the receive operation this is for
  void* user_arg;
  PJRT_RecvCallback recv_callback;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RecvCallbackInfo, recv_callback);

// Receives one operand of an output operation of the program. The data and dimensions are borrowed for the call.
typedef void (*PJRT_HloOutputCallback)(int64_t replica_id, int64_t partition_id, const void* data,
                                       const int64_t* shape_dims, size_t shape_num_dims,
                                       PJRT_Buffer_Type shape_element_type, int64_t operand_index, void* user_arg);

// Since 0.112.
struct PJRT_HloOutputCallbackInfo {
  void* user_arg;
  PJRT_HloOutputCallback callback;
  int64_t callback_id;  // of the operation this is for
  size_t num_operands;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_HloOutputCallbackInfo, num_operands);

// ---- Options

// Options of one execution. All pointers are borrowed for the call; the functions behind them stay callable
// until the execution is complete.
struct PJRT_ExecuteOptions {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_SendCallbackInfo** send_callbacks;  // one list for each device, of `num_send_ops` each, in any order
  PJRT_RecvCallbackInfo** recv_callbacks;  // one list for each device, of `num_recv_ops` each, in any order
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;  // the same number on all processes of one launch; 0 when there is none
  // arguments that must not be donated, though the program may take them; since 0.39
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  PJRT_ExecuteContext* context;  // may be NULL; since 0.64
  // where in the user's program the call is, terminated by NUL; may be NULL; since 0.76
  const char* call_location;
  size_t num_tasks;  // of the two lists below; since 0.78
  int* task_ids;
  int64_t* incarnation_ids;                    // of the task with the same index
  PJRT_MultiSlice_Config* multi_slice_config;  // may be NULL; since 0.97
  // data of send and receive callbacks is dense with the last dimension fastest; since 0.108
  bool use_major_to_minor_data_layout_for_callbacks;
  PJRT_HloOutputCallbackInfo* hlo_output_callbacks;  // one list for all devices; since 0.112
  size_t num_hlo_output_callbacks;
  // plugin-specific options of this execution; a plugin ignores unknown names; since 0.116
  const PJRT_NamedValue* custom_options;
  size_t num_custom_options;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecuteOptions, num_custom_options);

// ---- Streams to the device, made by the plugin for a receive callback

// Frees a stream.
struct PJRT_CopyToDeviceStream_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_CopyToDeviceStream* stream;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CopyToDeviceStream_Destroy_Args, stream);
typedef PJRT_Error* PJRT_CopyToDeviceStream_Destroy(PJRT_CopyToDeviceStream_Destroy_Args* args);

// Copies the next piece to the device.
struct PJRT_CopyToDeviceStream_AddChunk_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_CopyToDeviceStream* stream;  // in
  PJRT_Chunk* chunk;  // in: taken; its size is a multiple of the granule and does not exceed what is missing
  PJRT_Event* transfer_complete;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CopyToDeviceStream_AddChunk_Args, transfer_complete);
typedef PJRT_Error* PJRT_CopyToDeviceStream_AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args* args);

// Returns the total size in bytes of the data that the stream transfers.
struct PJRT_CopyToDeviceStream_TotalBytes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_CopyToDeviceStream* stream;  // in
  int64_t total_bytes;              // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CopyToDeviceStream_TotalBytes_Args, total_bytes);
typedef PJRT_Error* PJRT_CopyToDeviceStream_TotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args* args);

// Returns the granularity in bytes: the size of each chunk must be a multiple of it.
struct PJRT_CopyToDeviceStream_GranuleSize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_CopyToDeviceStream* stream;  // in
  int64_t granule_size_in_bytes;    // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CopyToDeviceStream_GranuleSize_Args, granule_size_in_bytes);
typedef PJRT_Error* PJRT_CopyToDeviceStream_GranuleSize(PJRT_CopyToDeviceStream_GranuleSize_Args* args);

// Returns the number of bytes that have been added so far.
struct PJRT_CopyToDeviceStream_CurrentBytes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_CopyToDeviceStream* stream;  // in
  int64_t current_bytes;            // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CopyToDeviceStream_CurrentBytes_Args, current_bytes);
typedef PJRT_Error* PJRT_CopyToDeviceStream_CurrentBytes(PJRT_CopyToDeviceStream_CurrentBytes_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_EXECUTE_H_
