// Extension 22, MultiSlice, version 1: describes how a program is distributed over several groups of connected devices
// (slices).
#ifndef BACKPLANE_API_EXTENSIONS_MULTI_SLICE_H_
#define BACKPLANE_API_EXTENSIONS_MULTI_SLICE_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_MULTI_SLICE_EXTENSION_VERSION 1

typedef struct PJRT_MultiSlice_NumDevicesPerSlice PJRT_MultiSlice_NumDevicesPerSlice;
typedef struct PJRT_MultiSlice_SerializedConfig PJRT_MultiSlice_SerializedConfig;

// Frees a configuration.
struct PJRT_MultiSlice_Config_Destroy_Args {
  size_t struct_size;
  PJRT_MultiSlice_Config* config;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_MultiSlice_Config_Destroy_Args, config);
typedef PJRT_Error* PJRT_MultiSlice_Config_Destroy(PJRT_MultiSlice_Config_Destroy_Args* args);

// Returns the number of slices.
struct PJRT_MultiSlice_Config_NumSlices_Args {
  size_t struct_size;
  PJRT_MultiSlice_Config* config;  // in
  int32_t num_slices;              // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_MultiSlice_Config_NumSlices_Args, num_slices);
typedef PJRT_Error* PJRT_MultiSlice_Config_NumSlices(PJRT_MultiSlice_Config_NumSlices_Args* args);

// Returns the slice to which this process belongs.
struct PJRT_MultiSlice_Config_SliceId_Args {
  size_t struct_size;
  PJRT_MultiSlice_Config* config;  // in
  int32_t slice_id;                // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_MultiSlice_Config_SliceId_Args, slice_id);
typedef PJRT_Error* PJRT_MultiSlice_Config_SliceId(PJRT_MultiSlice_Config_SliceId_Args* args);

// Returns the number of devices of each slice.
struct PJRT_MultiSlice_Config_NumDevicesPerSlice_Args {
  size_t struct_size;
  PJRT_MultiSlice_Config* config;                             // in
  size_t num_devices_per_slice_map;                           // out: elements of the two lists
  const int32_t* slice_ids;                                   // out
  const int32_t* num_devices;                                 // out: of the slice with the same index
  PJRT_MultiSlice_NumDevicesPerSlice* devices_per_slice_map;  // out: keeps the lists alive
  // out: the caller calls it once
  void (*devices_per_slice_map_deleter)(PJRT_MultiSlice_NumDevicesPerSlice* ptr);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_MultiSlice_Config_NumDevicesPerSlice_Args, devices_per_slice_map_deleter);
typedef PJRT_Error* PJRT_MultiSlice_Config_NumDevicesPerSlice(PJRT_MultiSlice_Config_NumDevicesPerSlice_Args* args);

// Serializes the configuration.
struct PJRT_MultiSlice_Config_Serialize_Args {
  size_t struct_size;
  PJRT_MultiSlice_Config* config;                                            // in
  const char* serialized;                                                    // out
  size_t size;                                                               // out
  PJRT_MultiSlice_SerializedConfig* serialized_config;                       // out: keeps the bytes alive
  void (*serialized_config_deleter)(PJRT_MultiSlice_SerializedConfig* ptr);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_MultiSlice_Config_Serialize_Args, serialized_config_deleter);
typedef PJRT_Error* PJRT_MultiSlice_Config_Serialize(PJRT_MultiSlice_Config_Serialize_Args* args);

// The extension.
struct PJRT_MultiSlice_Extension {
  PJRT_Extension_Base base;
  PJRT_MultiSlice_Config_Destroy* config_destroy;
  PJRT_MultiSlice_Config_NumSlices* config_num_slices;
  PJRT_MultiSlice_Config_SliceId* config_slice_id;
  PJRT_MultiSlice_Config_NumDevicesPerSlice* config_num_devices_per_slice;
  PJRT_MultiSlice_Config_Serialize* config_serialize;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_MultiSlice_Extension, config_serialize);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_MULTI_SLICE_H_
