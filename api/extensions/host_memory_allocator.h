// Extension 23, HostMemoryAllocator, version 0: allocates host memory that the platform can access efficiently.
#ifndef BACKPLANE_API_EXTENSIONS_HOST_MEMORY_ALLOCATOR_H_
#define BACKPLANE_API_EXTENSIONS_HOST_MEMORY_ALLOCATOR_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_HOST_MEMORY_ALLOCATOR_EXTENSION_VERSION 0

// Allocates.
struct PJRT_HostMemoryAllocator_Allocate_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                    // in
  size_t size;                            // in: in bytes
  int numa_node;                          // in: where the memory should be
  uint8_t* ptr;                           // out: owned by the caller
  void (*deleter)(void* ptr, void* arg);  // out: the caller calls it once with `ptr` and `deleter_arg`
  void* deleter_arg;                      // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_HostMemoryAllocator_Allocate_Args, deleter_arg);
typedef PJRT_Error* (*PJRT_HostMemoryAllocator_Allocate)(PJRT_HostMemoryAllocator_Allocate_Args* args);

// The extension.
struct PJRT_HostMemoryAllocator_Extension {
  PJRT_Extension_Base base;
  PJRT_HostMemoryAllocator_Allocate allocate;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_HostMemoryAllocator_Extension, allocate);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_HOST_MEMORY_ALLOCATOR_H_
