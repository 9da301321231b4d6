// Extension 18, Megascale, version 1: runs programs on several slices that a data-centre network connects.
#ifndef BACKPLANE_API_EXTENSIONS_MEGASCALE_H_
#define BACKPLANE_API_EXTENSIONS_MEGASCALE_H_

#include "api/extensions/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_MEGASCALE_EXTENSION_VERSION 1

typedef struct PJRT_Megascale_ClientContext PJRT_Megascale_ClientContext;
typedef struct PJRT_Megascale_NumDevicesPerSlice PJRT_Megascale_NumDevicesPerSlice;
typedef struct PJRT_Megascale_SerializedConfig PJRT_Megascale_SerializedConfig;
typedef struct PJRT_Megascale_ErrorAggregator PJRT_Megascale_ErrorAggregator;
typedef struct PJRT_Megascale_ErrorDigest PJRT_Megascale_ErrorDigest;
typedef struct PJRT_Megascale_SerializedAddresses PJRT_Megascale_SerializedAddresses;
typedef struct PJRT_Megascale_SerializedError PJRT_Megascale_SerializedError;

// Creates the context of a client.
struct PJRT_Megascale_CreateClientContextFromPjRtClient_Args {
  size_t struct_size;
  PJRT_Client* client;                           // in
  PJRT_Megascale_ClientContext* client_context;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_CreateClientContextFromPjRtClient_Args, client_context);
typedef PJRT_Error* PJRT_Megascale_CreateClientContextFromPjRtClient(
    PJRT_Megascale_CreateClientContextFromPjRtClient_Args* args);

// Creates a context without a client.
struct PJRT_Megascale_CreateDefaultClientContext_Args {
  size_t struct_size;
  PJRT_Megascale_ClientContext* client_context;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_CreateDefaultClientContext_Args, client_context);
typedef PJRT_Error* PJRT_Megascale_CreateDefaultClientContext(PJRT_Megascale_CreateDefaultClientContext_Args* args);

// Frees a context.
struct PJRT_Megascale_DeleteClientContext_Args {
  size_t struct_size;
  PJRT_Megascale_ClientContext* client_context;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_DeleteClientContext_Args, client_context);
typedef PJRT_Error* PJRT_Megascale_DeleteClientContext(PJRT_Megascale_DeleteClientContext_Args* args);

// Creates a configuration for compiling programs without access to the slices.
struct PJRT_Megascale_CreateAoTConfig_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;    // in
  int32_t num_slices;                          // in
  PJRT_MultiSlice_Config* multi_slice_config;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_CreateAoTConfig_Args, multi_slice_config);
typedef PJRT_Error* PJRT_Megascale_CreateAoTConfig(PJRT_Megascale_CreateAoTConfig_Args* args);

// Creates a configuration for running programs.
struct PJRT_Megascale_CreateMultiSliceConfig_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;      // in
  int32_t num_slices;                            // in
  int32_t local_slice_id;                        // in
  int32_t local_host_id;                         // in
  const char* endpoint_addresses;                // in: serialized; borrowed for the call
  int32_t endpoint_addresses_size;               // in
  const char* dcn_topology;                      // in: serialized; borrowed for the call
  int32_t dcn_topology_size;                     // in
  PJRT_Megascale_ClientContext* client_context;  // in
  PJRT_MultiSlice_Config* multi_slice_config;    // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_CreateMultiSliceConfig_Args, multi_slice_config);
typedef PJRT_Error* PJRT_Megascale_CreateMultiSliceConfig(PJRT_Megascale_CreateMultiSliceConfig_Args* args);

// Starts the network.
struct PJRT_Megascale_ClientContext_Initialize_Args {
  size_t struct_size;
  PJRT_Megascale_ClientContext* client_context;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ClientContext_Initialize_Args, client_context);
typedef PJRT_Error* PJRT_Megascale_ClientContext_Initialize(PJRT_Megascale_ClientContext_Initialize_Args* args);

// Makes work of a launch that waits for other processes end with an error.
struct PJRT_Megascale_ClientContext_UnblockPendingWork_Args {
  size_t struct_size;
  PJRT_Megascale_ClientContext* client_context;  // in
  int32_t launch_id;                             // in
  int64_t expire_after_ms;                       // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ClientContext_UnblockPendingWork_Args, expire_after_ms);
typedef PJRT_Error* PJRT_Megascale_ClientContext_UnblockPendingWork(
    PJRT_Megascale_ClientContext_UnblockPendingWork_Args* args);

// Returns the port on which this process listens.
struct PJRT_Megascale_ClientContext_MegascalePort_Args {
  size_t struct_size;
  PJRT_Megascale_ClientContext* client_context;  // in
  int32_t port;                                  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ClientContext_MegascalePort_Args, port);
typedef PJRT_Error* PJRT_Megascale_ClientContext_MegascalePort(PJRT_Megascale_ClientContext_MegascalePort_Args* args);

// The participating processes. Lists have one entry per address; optional ones are NULL if absent.
struct PJRT_Megascale_ProcessesInfo {
  const char** addresses;
  size_t* address_sizes;
  size_t num_addresses;
  int32_t* slice_indexes;  // may be NULL
  size_t num_slice_indexes;
  int32_t* per_slice_indexes;  // may be NULL
  size_t num_per_slice_indexes;
  int32_t num_devices_per_process;
};
typedef struct PJRT_Megascale_ProcessesInfo PJRT_Megascale_ProcessesInfo;

// Creates collectives that use the network.
struct PJRT_Megascale_CreateMegascaleCollectives_Args {
  size_t struct_size;
  PJRT_Megascale_ClientContext* client_context;  // in
  PJRT_Megascale_ProcessesInfo* processes_info;  // in: borrowed for the call
  const char* dcn_topology;                      // in: serialized DCNTopology, or NULL; borrowed for the call
  size_t dcn_topology_size;                      // in
  PJRT_Collectives* collectives;                 // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_CreateMegascaleCollectives_Args, collectives);
typedef PJRT_Error* PJRT_Megascale_CreateMegascaleCollectives(PJRT_Megascale_CreateMegascaleCollectives_Args* args);

// Converts a slice and the id of a device in it to the number of the device among all slices.
struct PJRT_Megascale_DeviceId_To_MegascaleId_Args {
  size_t struct_size;
  int32_t slice_id;             // in
  int32_t per_slice_device_id;  // in
  int64_t megascale_id;         // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_DeviceId_To_MegascaleId_Args, megascale_id);
typedef PJRT_Error* PJRT_Megascale_DeviceId_To_MegascaleId(PJRT_Megascale_DeviceId_To_MegascaleId_Args* args);

// Converts the number of a device among all slices to its slice and its id in that slice.
struct PJRT_Megascale_MegascaleId_To_DeviceId_Args {
  size_t struct_size;
  int64_t megascale_id;         // in
  int32_t slice_id;             // out
  int32_t per_slice_device_id;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_MegascaleId_To_DeviceId_Args, per_slice_device_id);
typedef PJRT_Error* PJRT_Megascale_MegascaleId_To_DeviceId(PJRT_Megascale_MegascaleId_To_DeviceId_Args* args);

// Receives a serialized error of the network. The bytes are borrowed for the call. May be called in any thread.
typedef void (*PJRT_Megascale_ErrorHandler)(const char* serialized_error, size_t serialized_error_size,
                                            void* user_data);

// Registers a handler under a name.
struct PJRT_Megascale_RegisterErrorHandler_Args {
  size_t struct_size;
  const char* handler_name;             // in: copied
  size_t handler_name_size;             // in
  PJRT_Megascale_ErrorHandler handler;  // in
  void* user_data;                      // in: handed to the handler unchanged
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_RegisterErrorHandler_Args, user_data);
typedef PJRT_Error* PJRT_Megascale_RegisterErrorHandler(PJRT_Megascale_RegisterErrorHandler_Args* args);

// Unregisters a handler. It is not called after this function has returned.
struct PJRT_Megascale_UnregisterErrorHandler_Args {
  size_t struct_size;
  const char* handler_name;  // in: borrowed for the call
  size_t handler_name_size;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_UnregisterErrorHandler_Args, handler_name_size);
typedef PJRT_Error* PJRT_Megascale_UnregisterErrorHandler(PJRT_Megascale_UnregisterErrorHandler_Args* args);

// Creates an aggregator, which finds the root cause among the errors of many workers.
struct PJRT_Megascale_ErrorAggregator_Create_Args {
  size_t struct_size;
  const char* app_type;                        // in: copied
  size_t app_type_size;                        // in
  PJRT_Megascale_ErrorAggregator* aggregator;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ErrorAggregator_Create_Args, aggregator);
typedef PJRT_Error* PJRT_Megascale_ErrorAggregator_Create(PJRT_Megascale_ErrorAggregator_Create_Args* args);

// Frees an aggregator.
struct PJRT_Megascale_ErrorAggregator_Delete_Args {
  size_t struct_size;
  PJRT_Megascale_ErrorAggregator* aggregator;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ErrorAggregator_Delete_Args, aggregator);
typedef PJRT_Error* PJRT_Megascale_ErrorAggregator_Delete(PJRT_Megascale_ErrorAggregator_Delete_Args* args);

// Frees a digest.
struct PJRT_Megascale_ErrorDigest_Delete_Args {
  size_t struct_size;
  PJRT_Megascale_ErrorDigest* digest;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ErrorDigest_Delete_Args, digest);
typedef PJRT_Error* PJRT_Megascale_ErrorDigest_Delete(PJRT_Megascale_ErrorDigest_Delete_Args* args);

// Adds the error of a worker.
struct PJRT_Megascale_ErrorAggregator_AddError_Args {
  size_t struct_size;
  PJRT_Megascale_ErrorAggregator* aggregator;  // in
  const char* worker_id;                       // in: copied
  size_t worker_id_size;                       // in
  const char* serialized_error;                // in: copied
  size_t serialized_error_size;                // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ErrorAggregator_AddError_Args, serialized_error_size);
typedef PJRT_Error* PJRT_Megascale_ErrorAggregator_AddError(PJRT_Megascale_ErrorAggregator_AddError_Args* args);

// Stops collecting errors and determines the root cause.
struct PJRT_Megascale_ErrorAggregator_ProcessAndShutdown_Args {
  size_t struct_size;
  PJRT_Megascale_ErrorAggregator* aggregator;  // in
  PJRT_Megascale_ErrorDigest* digest;          // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ErrorAggregator_ProcessAndShutdown_Args, digest);
typedef PJRT_Error* PJRT_Megascale_ErrorAggregator_ProcessAndShutdown(
    PJRT_Megascale_ErrorAggregator_ProcessAndShutdown_Args* args);

// Writes the result to the log of the platform.
struct PJRT_Megascale_ErrorAggregator_LogErrorDigest_Args {
  size_t struct_size;
  PJRT_Megascale_ErrorAggregator* aggregator;  // in
  PJRT_Megascale_ErrorDigest* digest;          // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ErrorAggregator_LogErrorDigest_Args, digest);
typedef PJRT_Error* PJRT_Megascale_ErrorAggregator_LogErrorDigest(
    PJRT_Megascale_ErrorAggregator_LogErrorDigest_Args* args);

// Returns the number of errors.
struct PJRT_Megascale_ErrorAggregator_Size_Args {
  size_t struct_size;
  PJRT_Megascale_ErrorAggregator* aggregator;  // in
  size_t size;                                 // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ErrorAggregator_Size_Args, size);
typedef PJRT_Error* PJRT_Megascale_ErrorAggregator_Size(PJRT_Megascale_ErrorAggregator_Size_Args* args);

// Returns whether the aggregator still collects errors.
struct PJRT_Megascale_ErrorAggregator_Active_Args {
  size_t struct_size;
  PJRT_Megascale_ErrorAggregator* aggregator;  // in
  bool active;                                 // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_ErrorAggregator_Active_Args, active);
typedef PJRT_Error* PJRT_Megascale_ErrorAggregator_Active(PJRT_Megascale_ErrorAggregator_Active_Args* args);

// Returns the addresses at which other machines can reach this one.
struct PJRT_Megascale_GetInterfaceAddressesHelper_Args {
  size_t struct_size;
  const char* megascale_port_name;                                     // in: borrowed for the call
  size_t megascale_port_name_size;                                     // in
  int32_t megascale_port;                                              // in
  const char** interface_prefixes;                                     // in: borrowed for the call
  const size_t* interface_prefixes_sizes;                              // in
  size_t num_interface_prefixes;                                       // in
  bool use_all_interfaces;                                             // in
  bool limit_to_process_numa_local_interfaces;                         // in
  const char** serialized_addresses;                                   // out
  size_t* serialized_addresses_sizes;                                  // out
  size_t num_addresses;                                                // out
  PJRT_Megascale_SerializedAddresses* addresses;                       // out: keeps the lists alive
  void (*addresses_deleter)(PJRT_Megascale_SerializedAddresses* ptr);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_GetInterfaceAddressesHelper_Args, addresses_deleter);
typedef PJRT_Error* PJRT_Megascale_GetInterfaceAddressesHelper(PJRT_Megascale_GetInterfaceAddressesHelper_Args* args);

// Returns the error of a launch: the known one, or a new one.
struct PJRT_Megascale_GetOrCreateRuntimeError_Args {
  size_t struct_size;
  int32_t error_type;                                          // in
  int64_t start_time_nanos;                                    // in
  int32_t status_code;                                         // in
  const char* status_message;                                  // in: borrowed for the call
  size_t status_message_size;                                  // in
  int32_t launch_id;                                           // in
  bool has_unrecoverable_error_type;                           // in
  int32_t unrecoverable_error_type;                            // in
  const char* serialized_error;                                // out
  size_t serialized_error_size;                                // out
  bool is_new_error;                                           // out
  PJRT_Megascale_SerializedError* error;                       // out: keeps the bytes alive
  void (*error_deleter)(PJRT_Megascale_SerializedError* ptr);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_GetOrCreateRuntimeError_Args, error_deleter);
typedef PJRT_Error* PJRT_Megascale_GetOrCreateRuntimeError(PJRT_Megascale_GetOrCreateRuntimeError_Args* args);

// The extension. The five pointers without a type are no longer in use; extension 22 took their place.
struct PJRT_Megascale_Extension {
  PJRT_Extension_Base base;
  PJRT_Megascale_CreateClientContextFromPjRtClient* create_client_context_from_pjrt_client;
  PJRT_Megascale_CreateDefaultClientContext* create_default_client_context;
  PJRT_Megascale_DeleteClientContext* delete_client_context;
  PJRT_Megascale_CreateAoTConfig* create_aot_config;
  PJRT_Megascale_CreateMultiSliceConfig* create_multi_slice_config;
  void* delete_multi_slice_config;
  void* multi_slice_config_num_slices;
  void* multi_slice_config_slice_id;
  void* multi_slice_config_get_num_devices_per_slice;
  void* multi_slice_config_serialize;
  PJRT_Megascale_ClientContext_Initialize* client_context_initialize;
  PJRT_Megascale_ClientContext_UnblockPendingWork* client_context_unblock_pending_work;
  PJRT_Megascale_ClientContext_MegascalePort* client_context_megascale_port;
  PJRT_Megascale_CreateMegascaleCollectives* create_megascale_collectives;
  PJRT_Megascale_DeviceId_To_MegascaleId* device_id_to_megascale_id;
  PJRT_Megascale_MegascaleId_To_DeviceId* megascale_id_to_device_id;
  PJRT_Megascale_RegisterErrorHandler* register_megascale_error_handler;
  PJRT_Megascale_UnregisterErrorHandler* unregister_megascale_error_handler;
  PJRT_Megascale_ErrorAggregator_Create* error_aggregator_create;
  PJRT_Megascale_ErrorAggregator_Delete* error_aggregator_delete;
  PJRT_Megascale_ErrorDigest_Delete* error_digest_delete;
  PJRT_Megascale_ErrorAggregator_AddError* error_aggregator_add_error;
  PJRT_Megascale_ErrorAggregator_ProcessAndShutdown* error_aggregator_process_and_shutdown;
  PJRT_Megascale_ErrorAggregator_LogErrorDigest* error_aggregator_log_error_digest;
  PJRT_Megascale_ErrorAggregator_Size* error_aggregator_size;
  PJRT_Megascale_ErrorAggregator_Active* error_aggregator_active;
  PJRT_Megascale_GetInterfaceAddressesHelper* get_interface_addresses_helper;
  PJRT_Megascale_GetOrCreateRuntimeError* get_or_create_runtime_error;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Megascale_Extension, get_or_create_runtime_error);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_MEGASCALE_H_
