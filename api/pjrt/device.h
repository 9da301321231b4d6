// Devices and their descriptions. Both belong to the client, or to the topology that contains them, and live as long as
// it. A description may also be of a device that does not exist here, so that programs can be compiled for it.
#ifndef BACKPLANE_API_PJRT_DEVICE_H_
#define BACKPLANE_API_PJRT_DEVICE_H_

#include "api/pjrt/error.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the id of a device, which is unique among all devices of the platform, in all processes.
struct PJRT_DeviceDescription_Id_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;  // in
  int id;                                      // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceDescription_Id_Args, id);
typedef PJRT_Error* PJRT_DeviceDescription_Id(PJRT_DeviceDescription_Id_Args* args);

// Returns the index of the process that can use the device.
struct PJRT_DeviceDescription_ProcessIndex_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;  // in
  int process_index;                           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceDescription_ProcessIndex_Args, process_index);
typedef PJRT_Error* PJRT_DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args* args);

// Returns platform-specific attributes, such as coordinates. (In this struct the count precedes the list.)
struct PJRT_DeviceDescription_Attributes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;  // in
  size_t num_attributes;                       // out
  const PJRT_NamedValue* attributes;           // out: live as long as the description
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceDescription_Attributes_Args, attributes);
typedef PJRT_Error* PJRT_DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args* args);

// Returns the model of the device. Devices of the same model have equal texts.
struct PJRT_DeviceDescription_Kind_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;  // in
  const char* device_kind;                     // out: lives as long as the description
  size_t device_kind_size;                     // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceDescription_Kind_Args, device_kind_size);
typedef PJRT_Error* PJRT_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args* args);

// Returns a long description, for logs.
struct PJRT_DeviceDescription_DebugString_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;  // in
  const char* debug_string;                    // out: lives as long as the description
  size_t debug_string_size;                    // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceDescription_DebugString_Args, debug_string_size);
typedef PJRT_Error* PJRT_DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args* args);

// Returns a short description, for users.
struct PJRT_DeviceDescription_ToString_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;  // in
  const char* to_string;                       // out: lives as long as the description
  size_t to_string_size;                       // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceDescription_ToString_Args, to_string_size);
typedef PJRT_Error* PJRT_DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args* args);

// Returns the description of a device.
struct PJRT_Device_GetDescription_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;                         // in
  PJRT_DeviceDescription* device_description;  // out: lives as long as the device
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_GetDescription_Args, device_description);
typedef PJRT_Error* PJRT_Device_GetDescription(PJRT_Device_GetDescription_Args* args);

// Returns whether this process can use the device.
struct PJRT_Device_IsAddressable_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;  // in
  bool is_addressable;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_IsAddressable_Args, is_addressable);
typedef PJRT_Error* PJRT_Device_IsAddressable(PJRT_Device_IsAddressable_Args* args);

// Returns the number by which the hardware or its driver identifies the device.
struct PJRT_Device_LocalHardwareId_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;    // in
  int local_hardware_id;  // out: -1 when there is none; numbers may have gaps
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_LocalHardwareId_Args, local_hardware_id);
typedef PJRT_Error* PJRT_Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args* args);

// Returns the memories that the device can use.
struct PJRT_Device_AddressableMemories_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;           // in
  PJRT_Memory* const* memories;  // out: list and memories live as long as the device
  size_t num_memories;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_AddressableMemories_Args, num_memories);
typedef PJRT_Error* PJRT_Device_AddressableMemories(PJRT_Device_AddressableMemories_Args* args);

// Returns the memory that is used by default.
struct PJRT_Device_DefaultMemory_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;  // in
  PJRT_Memory* memory;  // out: lives as long as the device
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_DefaultMemory_Args, memory);
typedef PJRT_Error* PJRT_Device_DefaultMemory(PJRT_Device_DefaultMemory_Args* args);

// Returns statistics of the allocator of the device, in bytes unless stated otherwise. Only the first value is always
// present; each of the others has a flag. A platform without statistics returns UNIMPLEMENTED.
struct PJRT_Device_MemoryStats_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;                   // in
  int64_t bytes_in_use;                  // out: allocated now
  int64_t peak_bytes_in_use;             // out: highest so far
  bool peak_bytes_in_use_is_set;         // out
  int64_t num_allocs;                    // out: a count
  bool num_allocs_is_set;                // out
  int64_t largest_alloc_size;            // out: largest single allocation so far
  bool largest_alloc_size_is_set;        // out
  int64_t bytes_limit;                   // out: what can be allocated in all
  bool bytes_limit_is_set;               // out
  int64_t bytes_reserved;                // out
  bool bytes_reserved_is_set;            // out
  int64_t peak_bytes_reserved;           // out
  bool peak_bytes_reserved_is_set;       // out
  int64_t bytes_reservable_limit;        // out
  bool bytes_reservable_limit_is_set;    // out
  int64_t largest_free_block_bytes;      // out
  bool largest_free_block_bytes_is_set;  // out
  int64_t pool_bytes;                    // out: what the allocator holds, in use or not
  bool pool_bytes_is_set;                // out
  int64_t peak_pool_bytes;               // out
  bool peak_pool_bytes_is_set;           // out
  int64_t peak_allocated_bytes;          // out: since 0.113
  bool peak_allocated_bytes_is_set;      // out: since 0.113
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_MemoryStats_Args, peak_allocated_bytes_is_set);
typedef PJRT_Error* PJRT_Device_MemoryStats(PJRT_Device_MemoryStats_Args* args);

// Resets the peaks to the current values. Since 0.106.
struct PJRT_Device_ClearMemoryStats_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_ClearMemoryStats_Args, device);
typedef PJRT_Error* PJRT_Device_ClearMemoryStats(PJRT_Device_ClearMemoryStats_Args* args);

// Makes the outputs of the oldest unfinished execution with this launch id fail with the given error. Since 0.85.
struct PJRT_Device_PoisonExecution_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;             // in
  int32_t launch_id;               // in: as in PJRT_ExecuteOptions
  PJRT_Error_Code error_code;      // in
  const char* error_message;       // in: copied
  size_t error_message_size;       // in
  bool poisoned;                   // out: false when there was no such execution
  const PJRT_NamedValue* payload;  // in: copied; since 0.100
  size_t num_payload;              // in: since 0.100
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_PoisonExecution_Args, num_payload);
typedef PJRT_Error* PJRT_Device_PoisonExecution(PJRT_Device_PoisonExecution_Args* args);

// Returns attributes of the device itself, besides those of its description. Hosts call this function during their
// setup if the table contains it. Since 0.92.
struct PJRT_Device_GetAttributes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;                                                    // in
  const PJRT_NamedValue* attributes;                                      // out: live until the deleter is called
  size_t num_attributes;                                                  // out
  PJRT_Device_Attributes* device_attributes;                              // out: keeps `attributes` alive
  void (*attributes_deleter)(PJRT_Device_Attributes* device_attributes);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_GetAttributes_Args, attributes_deleter);
typedef PJRT_Error* PJRT_Device_GetAttributes(PJRT_Device_GetAttributes_Args* args);

// Informs the device of work that is invisible to it, for diagnostics. Since 0.86.
struct PJRT_Device_CreateAsyncTrackingEvent_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;             // in
  const char* description;         // in: copied
  size_t description_size;         // in
  PJRT_AsyncTrackingEvent* event;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Device_CreateAsyncTrackingEvent_Args, event);
typedef PJRT_Error* PJRT_Device_CreateAsyncTrackingEvent(PJRT_Device_CreateAsyncTrackingEvent_Args* args);

// Reports that this work has ended, and frees the event.
struct PJRT_AsyncTrackingEvent_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_AsyncTrackingEvent* event;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AsyncTrackingEvent_Destroy_Args, event);
typedef PJRT_Error* PJRT_AsyncTrackingEvent_Destroy(PJRT_AsyncTrackingEvent_Destroy_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_DEVICE_H_
