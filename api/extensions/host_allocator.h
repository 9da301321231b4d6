// Extension 15, HostAllocator, version 0: allocates host memory that the platform can access efficiently. Superseded by
// extension 23.
#ifndef BACKPLANE_API_EXTENSIONS_HOST_ALLOCATOR_H_
#define BACKPLANE_API_EXTENSIONS_HOST_ALLOCATOR_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_HOST_ALLOCATOR_EXTENSION_VERSION 0

// Returns the alignment that the platform prefers.
struct PJRT_HostAllocator_GetPreferredAlignment_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;         // in
  size_t preferred_alignment;  // out: in bytes
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_HostAllocator_GetPreferredAlignment_Args, preferred_alignment);
typedef PJRT_Error* (*PJRT_HostAllocator_GetPreferredAlignment)(PJRT_HostAllocator_GetPreferredAlignment_Args* args);

// Allocates.
struct PJRT_HostAllocator_Allocate_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;  // in
  size_t size;          // in: in bytes
  size_t alignment;     // in: in bytes
  void* ptr;            // out: freed by PJRT_HostAllocator_Free
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_HostAllocator_Allocate_Args, ptr);
typedef PJRT_Error* (*PJRT_HostAllocator_Allocate)(PJRT_HostAllocator_Allocate_Args* args);

// Frees.
struct PJRT_HostAllocator_Free_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;  // in
  void* ptr;            // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_HostAllocator_Free_Args, ptr);
typedef PJRT_Error* (*PJRT_HostAllocator_Free)(PJRT_HostAllocator_Free_Args* args);

// The extension.
struct PJRT_HostAllocator_Extension {
  PJRT_Extension_Base base;
  PJRT_HostAllocator_GetPreferredAlignment get_preferred_alignment;
  PJRT_HostAllocator_Allocate allocate;
  PJRT_HostAllocator_Free free;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_HostAllocator_Extension, free);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_HOST_ALLOCATOR_H_
