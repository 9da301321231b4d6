// Extension 6, MemoryDescriptions, version 1: describes the memories of a described device, without a client.
#ifndef BACKPLANE_API_EXTENSIONS_MEMORY_DESCRIPTIONS_H_
#define BACKPLANE_API_EXTENSIONS_MEMORY_DESCRIPTIONS_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_MEMORY_DESCRIPTIONS_EXTENSION_VERSION 1

typedef struct PJRT_MemoryDescription PJRT_MemoryDescription;

// Returns the memories of a device.
struct PJRT_DeviceDescription_MemoryDescriptions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;                // in
  const PJRT_MemoryDescription* const* memory_descriptions;  // out: live as long as the device description
  size_t num_memory_descriptions;                            // out
  size_t default_memory_index;                               // out: size_t(-1) when there is no default
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceDescription_MemoryDescriptions_Args, default_memory_index);
typedef PJRT_Error* PJRT_DeviceDescription_MemoryDescriptions(PJRT_DeviceDescription_MemoryDescriptions_Args* args);

// Returns the kind of a memory.
struct PJRT_MemoryDescription_Kind_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_MemoryDescription* memory_description;  // in
  const char* kind;                                  // out: lives as long as the description
  size_t kind_size;                                  // out
  int kind_id;                                       // out: as of PJRT_Memory_Kind_Id
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_MemoryDescription_Kind_Args, kind_id);
typedef PJRT_Error* PJRT_MemoryDescription_Kind(PJRT_MemoryDescription_Kind_Args* args);

// The extension.
struct PJRT_MemoryDescriptions_Extension {
  PJRT_Extension_Base base;
  PJRT_API_FIELD(PJRT_DeviceDescription_MemoryDescriptions);
  PJRT_API_FIELD(PJRT_MemoryDescription_Kind);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_MemoryDescriptions_Extension, PJRT_MemoryDescription_Kind);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_MEMORY_DESCRIPTIONS_H_
