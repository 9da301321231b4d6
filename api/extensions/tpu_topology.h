// Extension 16, TpuTopology, version 1: the geometry of a TPU topology. "Devices" are logical devices of the default
// type. Coordinates are those of chips, with the first dimension first. A function that returns a list takes an array
// and its capacity from the caller; a capacity that is too small is an error.
#ifndef BACKPLANE_API_EXTENSIONS_TPU_TOPOLOGY_H_
#define BACKPLANE_API_EXTENSIONS_TPU_TOPOLOGY_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_TPU_TOPOLOGY_EXTENSION_VERSION 1

// Creates the subslice of a topology with the given bounds.
struct PJRT_TpuTopology_Subslice_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;     // in
  const int32_t* chips_per_host_bounds;         // in: borrowed for the call
  size_t chips_per_host_bounds_num_dims;        // in
  const int32_t* host_bounds;                   // in: borrowed for the call
  size_t host_bounds_num_dims;                  // in
  PJRT_TopologyDescription* subslice_topology;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_Subslice_Args, subslice_topology);
typedef PJRT_Error* PJRT_TpuTopology_Subslice(PJRT_TpuTopology_Subslice_Args* args);

// Returns whether a topology is a subslice.
struct PJRT_TpuTopology_IsSubsliceTopology_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  bool is_subslice_topology;                 // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_IsSubsliceTopology_Args, is_subslice_topology);
typedef PJRT_Error* PJRT_TpuTopology_IsSubsliceTopology(PJRT_TpuTopology_IsSubsliceTopology_Args* args);

// Converts the id of a device to its id within a subslice.
struct PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* client_topology;    // in: the whole
  const PJRT_TopologyDescription* subslice_topology;  // in: the part
  const int32_t* subslice_origin;                     // in: coordinates of its first chip
  size_t subslice_origin_dim_num;                     // in
  int32_t full_device_id;                             // in
  int32_t subslice_device_id;                         // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId_Args, subslice_device_id);
typedef PJRT_Error* PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId(
    PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId_Args* args);

// Creates the same topology with other host bounds.
struct PJRT_TpuTopology_ReplaceHostBounds_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  const int32_t* host_bounds;                // in: borrowed for the call
  size_t host_bounds_dim_num;                // in
  PJRT_TopologyDescription* new_topology;    // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ReplaceHostBounds_Args, new_topology);
typedef PJRT_Error* PJRT_TpuTopology_ReplaceHostBounds(PJRT_TpuTopology_ReplaceHostBounds_Args* args);

// Returns whether the enhanced barrier is enabled.
struct PJRT_TpuTopology_IsEnhancedBarrierEnabled_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  bool is_enhanced_barrier_enabled;          // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_IsEnhancedBarrierEnabled_Args, is_enhanced_barrier_enabled);
typedef PJRT_Error* PJRT_TpuTopology_IsEnhancedBarrierEnabled(PJRT_TpuTopology_IsEnhancedBarrierEnabled_Args* args);

// Returns whether some chips cannot reach each other over the chip network.
struct PJRT_TpuTopology_HasLimitedIciConnectivity_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  bool has_limited_ici_connectivity;         // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_HasLimitedIciConnectivity_Args, has_limited_ici_connectivity);
typedef PJRT_Error* PJRT_TpuTopology_HasLimitedIciConnectivity(PJRT_TpuTopology_HasLimitedIciConnectivity_Args* args);

// Returns whether one chip can reach another one in such a network.
struct PJRT_TpuTopology_IsReachableOverLimitedIci_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t source_chip_id;                    // in
  int32_t dest_chip_id;                      // in
  bool is_reachable_over_limited_ici;        // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_IsReachableOverLimitedIci_Args, is_reachable_over_limited_ici);
typedef PJRT_Error* PJRT_TpuTopology_IsReachableOverLimitedIci(PJRT_TpuTopology_IsReachableOverLimitedIci_Args* args);

// Counts processes.
struct PJRT_TpuTopology_ProcessCount_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t process_count;                     // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ProcessCount_Args, process_count);
typedef PJRT_Error* PJRT_TpuTopology_ProcessCount(PJRT_TpuTopology_ProcessCount_Args* args);

// Counts chips of a process.
struct PJRT_TpuTopology_ChipsPerProcess_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t chips_per_process;                 // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ChipsPerProcess_Args, chips_per_process);
typedef PJRT_Error* PJRT_TpuTopology_ChipsPerProcess(PJRT_TpuTopology_ChipsPerProcess_Args* args);

// Counts cores of a chip.
struct PJRT_TpuTopology_CoreCountPerChip_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;     // in
  int32_t core_count_of_default_type_per_chip;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_CoreCountPerChip_Args, core_count_of_default_type_per_chip);
typedef PJRT_Error* PJRT_TpuTopology_CoreCountPerChip(PJRT_TpuTopology_CoreCountPerChip_Args* args);

// Counts chips.
struct PJRT_TpuTopology_ChipCount_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t chip_count;                        // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ChipCount_Args, chip_count);
typedef PJRT_Error* PJRT_TpuTopology_ChipCount(PJRT_TpuTopology_ChipCount_Args* args);

// Counts cores.
struct PJRT_TpuTopology_CoreCount_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t core_count_of_default_type;        // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_CoreCount_Args, core_count_of_default_type);
typedef PJRT_Error* PJRT_TpuTopology_CoreCount(PJRT_TpuTopology_CoreCount_Args* args);

// Counts devices.
struct PJRT_TpuTopology_LogiDeviceCount_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;      // in
  int32_t logical_device_count_of_default_type;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_LogiDeviceCount_Args, logical_device_count_of_default_type);
typedef PJRT_Error* PJRT_TpuTopology_LogiDeviceCount(PJRT_TpuTopology_LogiDeviceCount_Args* args);

// Counts devices of a process.
struct PJRT_TpuTopology_LogiDeviceCountPerProcess_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;                  // in
  int32_t logical_device_count_of_default_type_per_process;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_LogiDeviceCountPerProcess_Args,
                          logical_device_count_of_default_type_per_process);
typedef PJRT_Error* PJRT_TpuTopology_LogiDeviceCountPerProcess(PJRT_TpuTopology_LogiDeviceCountPerProcess_Args* args);

// Counts devices of a chip.
struct PJRT_TpuTopology_LogiDeviceCountPerChip_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;               // in
  int32_t logical_device_count_of_default_type_per_chip;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_LogiDeviceCountPerChip_Args, logical_device_count_of_default_type_per_chip);
typedef PJRT_Error* PJRT_TpuTopology_LogiDeviceCountPerChip(PJRT_TpuTopology_LogiDeviceCountPerChip_Args* args);

// Counts cores of a process.
struct PJRT_TpuTopology_CoreCountPerProcess_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;        // in
  int32_t core_count_of_default_type_per_process;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_CoreCountPerProcess_Args, core_count_of_default_type_per_process);
typedef PJRT_Error* PJRT_TpuTopology_CoreCountPerProcess(PJRT_TpuTopology_CoreCountPerProcess_Args* args);

// Returns the ids of all processes.
struct PJRT_TpuTopology_ProcessIds_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t max_process_ids;                   // in: capacity of the array
  int32_t* process_ids;                      // in: array of the caller; out: ids in it
  size_t num_process_ids;                    // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ProcessIds_Args, num_process_ids);
typedef PJRT_Error* PJRT_TpuTopology_ProcessIds(PJRT_TpuTopology_ProcessIds_Args* args);

// Returns the ids of the devices of a process.
struct PJRT_TpuTopology_LogiDeviceIdsOnProcess_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;     // in
  int32_t process_id;                           // in
  int32_t max_logical_device_ids;               // in: capacity of the array
  int32_t* logical_device_of_default_type_ids;  // in: array of the caller; out: ids in it
  size_t num_logical_device_ids;                // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_LogiDeviceIdsOnProcess_Args, num_logical_device_ids);
typedef PJRT_Error* PJRT_TpuTopology_LogiDeviceIdsOnProcess(PJRT_TpuTopology_LogiDeviceIdsOnProcess_Args* args);

// Returns the process of a chip and the index of the chip on that process.
struct PJRT_TpuTopology_ProcIdAndIdxOnProcForChip_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t chip_id;                           // in
  int32_t process_id;                        // out
  int32_t index_on_process;                  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ProcIdAndIdxOnProcForChip_Args, index_on_process);
typedef PJRT_Error* PJRT_TpuTopology_ProcIdAndIdxOnProcForChip(PJRT_TpuTopology_ProcIdAndIdxOnProcForChip_Args* args);

// Returns the process of a device and the index of the device on that process.
struct PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t device_id;                         // in
  int32_t process_id;                        // out
  int32_t index_on_process;                  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice_Args, index_on_process);
typedef PJRT_Error* PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice(
    PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice_Args* args);

// Returns the coordinates of a process.
struct PJRT_TpuTopology_ProcessCoordFromId_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t process_id;                        // in
  size_t coords_max_dims;                    // in: capacity of the array
  int32_t* coords;                           // in: array of the caller; out: coordinates in it
  size_t coords_num_dims;                    // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ProcessCoordFromId_Args, coords_num_dims);
typedef PJRT_Error* PJRT_TpuTopology_ProcessCoordFromId(PJRT_TpuTopology_ProcessCoordFromId_Args* args);

// Returns the chip at the given coordinates.
struct PJRT_TpuTopology_ChipIdFromCoord_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  const int32_t* coords;                     // in: borrowed for the call
  size_t coords_num_dims;                    // in
  int32_t chip_id;                           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ChipIdFromCoord_Args, chip_id);
typedef PJRT_Error* PJRT_TpuTopology_ChipIdFromCoord(PJRT_TpuTopology_ChipIdFromCoord_Args* args);

// Returns a device of the chip at the given coordinates.
struct PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;   // in
  const int32_t* chip_coords;                 // in: borrowed for the call
  size_t chip_coords_num_dims;                // in
  int32_t logical_device_index_on_chip;       // in
  int32_t logical_device_of_default_type_id;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx_Args, logical_device_of_default_type_id);
typedef PJRT_Error* PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx(
    PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx_Args* args);

// Returns the chip of a device and the number of the device on that chip.
struct PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  int32_t device_id;                         // in
  size_t chip_coords_max_dims;               // in: capacity of the array
  int32_t* chip_coords;                      // in: array of the caller; out: coordinates in it
  size_t chip_coords_num_dims;               // out
  int32_t device_index_on_chip;              // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice_Args, device_index_on_chip);
typedef PJRT_Error* PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice(
    PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice_Args* args);

// Returns the extent of a process, in chips.
struct PJRT_TpuTopology_ChipsPerProcessBounds_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  size_t chip_per_process_bounds_max_dims;   // in: capacity of the array
  int32_t* chip_per_process_bounds;          // in: array of the caller; out: extents in it
  size_t chip_per_process_bounds_num_dims;   // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ChipsPerProcessBounds_Args, chip_per_process_bounds_num_dims);
typedef PJRT_Error* PJRT_TpuTopology_ChipsPerProcessBounds(PJRT_TpuTopology_ChipsPerProcessBounds_Args* args);

// Returns the extent of the whole topology, in chips.
struct PJRT_TpuTopology_ChipBounds_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  size_t chip_bounds_max_dims;               // in: capacity of the array
  int32_t* chip_bounds;                      // in: array of the caller; out: extents in it
  size_t chip_bounds_num_dims;               // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ChipBounds_Args, chip_bounds_num_dims);
typedef PJRT_Error* PJRT_TpuTopology_ChipBounds(PJRT_TpuTopology_ChipBounds_Args* args);

// Returns the extent of the whole topology, in processes.
struct PJRT_TpuTopology_ProcessBounds_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  size_t process_bounds_max_dims;            // in: capacity of the array
  int32_t* process_bounds;                   // in: array of the caller; out: extents in it
  size_t process_bounds_num_dims;            // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_ProcessBounds_Args, process_bounds_num_dims);
typedef PJRT_Error* PJRT_TpuTopology_ProcessBounds(PJRT_TpuTopology_ProcessBounds_Args* args);

// Returns the name of the routing strategy.
struct PJRT_TpuTopology_GetRoutingStrategy_Args {
  size_t struct_size;
  const PJRT_TopologyDescription* topology;  // in
  char* routing_strategy;                    // in: array of the caller; out: the name in it
  size_t routing_strategy_len;               // in: capacity of the array; out: length of the name
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_GetRoutingStrategy_Args, routing_strategy_len);
typedef PJRT_Error* PJRT_TpuTopology_GetRoutingStrategy(PJRT_TpuTopology_GetRoutingStrategy_Args* args);

// The shape of an available slice. Only the first `dim_size` entries are used.
struct PJRT_TpuTopology_SliceConfig {
  size_t dim_size;
  int32_t dimensions[4];
  bool wrap[4];  // whether the network closes to a ring in this dimension
  bool twist;    // whether it closes with an offset
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_SliceConfig, twist);

// Returns the shape of a slice by its name.
struct PJRT_TpuTopology_GetSliceConfig_Args {
  size_t struct_size;
  const char* platform_type_name;              // in: borrowed for the call
  size_t platform_type_name_len;               // in
  const char* slice_name;                      // in: borrowed for the call
  size_t slice_name_len;                       // in
  PJRT_TpuTopology_SliceConfig* slice_config;  // in: struct of the caller; out: filled in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_GetSliceConfig_Args, slice_config);
typedef PJRT_Error* PJRT_TpuTopology_GetSliceConfig(PJRT_TpuTopology_GetSliceConfig_Args* args);

// Returns all slice shapes of a platform.
struct PJRT_TpuTopology_GetSliceConfigs_Args {
  size_t struct_size;
  const char* platform_type_name;               // in: borrowed for the call
  size_t platform_type_name_len;                // in
  PJRT_TpuTopology_SliceConfig* slice_configs;  // in: array of the caller; out: filled in
  size_t max_slice_configs;                     // in: capacity of the array
  size_t num_slice_configs;                     // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_GetSliceConfigs_Args, num_slice_configs);
typedef PJRT_Error* PJRT_TpuTopology_GetSliceConfigs(PJRT_TpuTopology_GetSliceConfigs_Args* args);

// Returns how the chips of a platform are grouped.
struct PJRT_TpuTopology_GetDefaultPlatformConfig_Args {
  size_t struct_size;
  const char* platform_type_name;  // in: borrowed for the call
  size_t platform_type_name_len;   // in
  int64_t num_chips_per_tray;      // out
  int64_t num_trays;               // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_GetDefaultPlatformConfig_Args, num_trays);
typedef PJRT_Error* PJRT_TpuTopology_GetDefaultPlatformConfig(PJRT_TpuTopology_GetDefaultPlatformConfig_Args* args);

// The extension.
struct PJRT_TpuTopology_Extension {
  PJRT_Extension_Base base;
  PJRT_TpuTopology_Subslice* subslice;
  PJRT_TpuTopology_IsSubsliceTopology* is_subslice_topology;
  PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId* subslice_device_id_from_full_device_id;
  PJRT_TpuTopology_ReplaceHostBounds* replace_host_bounds;
  PJRT_TpuTopology_IsEnhancedBarrierEnabled* is_enhanced_barrier_enabled;
  PJRT_TpuTopology_HasLimitedIciConnectivity* has_limited_ici_connectivity;
  PJRT_TpuTopology_IsReachableOverLimitedIci* is_reachable_over_limited_ici;
  PJRT_TpuTopology_ProcessCount* process_count;
  PJRT_TpuTopology_ChipsPerProcess* chips_per_process;
  PJRT_TpuTopology_CoreCountPerChip* core_count_per_chip;
  PJRT_TpuTopology_ChipCount* chip_count;
  PJRT_TpuTopology_CoreCount* core_count;
  PJRT_TpuTopology_LogiDeviceCountPerProcess* logical_device_count_per_process;
  PJRT_TpuTopology_LogiDeviceCount* logical_device_count;
  PJRT_TpuTopology_LogiDeviceCountPerChip* logical_device_count_per_chip;
  PJRT_TpuTopology_CoreCountPerProcess* core_count_per_process;
  PJRT_TpuTopology_ProcessIds* process_ids;
  PJRT_TpuTopology_LogiDeviceIdsOnProcess* logical_device_ids_on_process;
  PJRT_TpuTopology_ProcIdAndIdxOnProcForChip* proc_id_and_idx_on_proc_for_chip;
  PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice* proc_id_and_idx_on_proc_for_logi_device;
  PJRT_TpuTopology_ProcessCoordFromId* process_coord_from_id;
  PJRT_TpuTopology_ChipIdFromCoord* chip_id_from_coord;
  PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx* logical_device_id_from_chip_coord_and_idx;
  PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice* chip_coord_and_idx_for_logi_device;
  PJRT_TpuTopology_ChipsPerProcessBounds* chips_per_process_bounds;
  PJRT_TpuTopology_ChipBounds* chip_bounds;
  PJRT_TpuTopology_ProcessBounds* process_bounds;
  PJRT_TpuTopology_GetRoutingStrategy* get_routing_strategy;
  PJRT_TpuTopology_GetSliceConfig* get_slice_config;
  PJRT_TpuTopology_GetSliceConfigs* get_slice_configs;
  PJRT_TpuTopology_GetDefaultPlatformConfig* get_default_platform_config;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuTopology_Extension, get_default_platform_config);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_TPU_TOPOLOGY_H_
