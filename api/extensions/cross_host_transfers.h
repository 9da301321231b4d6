// Extension 12, CrossHostTransfers, version 8: copies buffers between processes. There are two ways. Either both sides
// name each other and agree on a key. Or the receiver creates descriptors, which the host transports to the sender.
//
// Device ids and keys are int64_t here; before version 8 the published header had 32-bit device ids. A plugin knows the
// host's form by the size of the struct.
#ifndef BACKPLANE_API_EXTENSIONS_CROSS_HOST_TRANSFERS_H_
#define BACKPLANE_API_EXTENSIONS_CROSS_HOST_TRANSFERS_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_CROSS_HOST_TRANSFERS_EXTENSION_VERSION 8

// ---- By key

// Sends buffers.
struct PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                   // in
  size_t num_buffers;                    // in
  PJRT_Buffer** buffers;                 // in: stay the caller's
  const int64_t* dst_global_device_ids;  // in: one for each buffer
  const int64_t* transfer_keys;          // in: one for each buffer
  // in: list of the caller for `num_buffers` events; out: events in it, owned by the caller
  PJRT_Event** send_events;
  size_t num_tasks;                // in: of the two lists below; since version 8, as they are
  const int* task_ids;             // in: borrowed for the call
  const int64_t* incarnation_ids;  // in: of the task with the same index
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args, incarnation_ids);
typedef PJRT_Error* PJRT_Transfers_PJRT_Client_CrossHostSendBuffers(
    PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args* args);

// Makes buffers that another process fills.
struct PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                   // in
  size_t num_shapes;                     // in
  size_t* shape_num_dims;                // in: the rank of each shape
  const int64_t** num_dims;              // in: the dimensions of each shape
  PJRT_Buffer_Type* element_types;       // in: one for each shape
  PJRT_Buffer_MemoryLayout** layouts;    // in: one for each shape; each may be NULL
  PJRT_Device* device;                   // in: where the buffers are
  const int64_t* src_global_device_ids;  // in: one for each shape
  const int64_t* transfer_keys;          // in: one for each shape
  // in: list of the caller for `num_shapes` buffers; out: buffers in it, owned by the caller
  PJRT_Buffer** buffers;
  size_t num_tasks;                // in: of the two lists below; since version 8, as they are
  const int* task_ids;             // in: borrowed for the call
  const int64_t* incarnation_ids;  // in: of the task with the same index
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args, incarnation_ids);
typedef PJRT_Error* PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers(
    PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args* args);

// ---- By descriptor

// Called when a send has been cancelled. Owns the error.
typedef void (*PJRT_Transfers_CrossHostOnCanceledCallback)(PJRT_Error* error, void* user_arg);

// Cancels the send that belongs to a descriptor, with the reason. The plugin passes this function to the notifier.
typedef void (*PJRT_Transfers_CrossHostSendCancelNotifier)(const char* serialized_descriptor,
                                                           size_t serialized_descriptor_size, PJRT_Error_Code reason,
                                                           const char* error_message, size_t error_message_size,
                                                           PJRT_Transfers_CrossHostOnCanceledCallback on_canceled,
                                                           void* on_canceled_user_arg, void* user_arg);

// Passes the descriptors of the receive buffers, or an error, to the host. The host owns the error. Strings are
// borrowed.
typedef void (*PJRT_Transfers_CrossHostRecvNotifier)(PJRT_Error* error, const char** serialized_descriptors,
                                                     size_t* descriptors_sizes, size_t num_descriptors, void* user_arg,
                                                     PJRT_Transfers_CrossHostSendCancelNotifier cancel_notifier,
                                                     void* cancel_notifier_user_arg);

struct PJRT_Transfers_CrossHostRecvNotifierInfo {
  void* user_arg;
  PJRT_Transfers_CrossHostRecvNotifier notifier;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Transfers_CrossHostRecvNotifierInfo, notifier);

// Creates buffers that are filled by the holders of their descriptors.
struct PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                                // in
  size_t num_shapes;                                  // in
  size_t* shape_num_dims;                             // in: the rank of each shape
  const int64_t** num_dims;                           // in: the dimensions of each shape
  PJRT_Buffer_Type* element_types;                    // in: one for each shape
  PJRT_Buffer_MemoryLayout** layouts;                 // in: one for each shape; each may be NULL
  PJRT_Device* device;                                // in: where the buffers are
  PJRT_Transfers_CrossHostRecvNotifierInfo notifier;  // in: called once
  PJRT_Buffer** buffers;                              // in: list of the caller; out: buffers in it, owned by the caller
  size_t num_buffers;                                 // out
  bool allow_cancel_notifier;                         // in: whether the cancel notifier may be used; since version 7
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args, allow_cancel_notifier);
typedef PJRT_Error* PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers(
    PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args* args);

// Called when a send has been enqueued or has failed. Owns the error (NULL on success).
typedef void (*PJRT_Transfers_CrossHostRemoteSendCallback)(PJRT_Error* error, bool sends_were_enqueued, void* user_arg);

struct PJRT_Transfers_CrossHostRemoteSendCallbackInfo {
  void* user_arg;
  PJRT_Transfers_CrossHostRemoteSendCallback on_done;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Transfers_CrossHostRemoteSendCallbackInfo, on_done);

// Frees a descriptor and its size, both of which the host allocated.
typedef void (*PJRT_Transfers_DescriptorDestructor)(char** descriptor_data, size_t* descriptor_size);

// Sends a buffer to the creator of the descriptor. Failures are reported to `on_done`.
struct PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;                                        // in
  PJRT_Event* event;                                          // in: taken; ready when the descriptor is there
  char** serialized_descriptor;                               // in: read once the event is ready
  size_t* serialized_descriptor_size;                         // in: read once the event is ready
  PJRT_Transfers_CrossHostRemoteSendCallbackInfo on_done;     // in: called once
  PJRT_Transfers_DescriptorDestructor descriptor_destructor;  // in: called by the plugin when done; since version 6
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args, descriptor_destructor);
typedef void PJRT_Buffer_CopyToRemoteDevice(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args* args);

// The extension.
struct PJRT_CrossHostTransfers_Extension {
  PJRT_Extension_Base base;
  PJRT_API_FIELD(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers);
  PJRT_Buffer_CopyToRemoteDevice* PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice;
  PJRT_API_FIELD(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers);
  PJRT_API_FIELD(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CrossHostTransfers_Extension, PJRT_Transfers_PJRT_Client_CrossHostSendBuffers);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_CROSS_HOST_TRANSFERS_H_
