// Extension 13, ExecutableMetadata, version 1: metadata of the platform for an executable, as a serialized
// ExecutableMetadata. The argument structs have no struct_size.
#ifndef BACKPLANE_API_EXTENSIONS_EXECUTABLE_METADATA_H_
#define BACKPLANE_API_EXTENSIONS_EXECUTABLE_METADATA_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_EXECUTABLE_METADATA_EXTENSION_VERSION 1

typedef struct PJRT_ExecutableMetadata {
  const char* serialized_metadata;
  size_t serialized_metadata_size;
} PJRT_ExecutableMetadata;

// Returns the metadata of an executable.
struct PJRT_ExecutableMetadata_GetExecutableMetadata_Args {
  PJRT_Executable* executable;        // in
  PJRT_ExecutableMetadata* metadata;  // out: freed by the function below
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecutableMetadata_GetExecutableMetadata_Args, metadata);
typedef PJRT_Error* (*PJRT_ExecutableMetadata_GetExecutableMetadata)(
    PJRT_ExecutableMetadata_GetExecutableMetadata_Args* args);

// Frees metadata.
struct PJRT_ExecutableMetadata_DestroySerializedMetadata_Args {
  PJRT_ExecutableMetadata* metadata;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecutableMetadata_DestroySerializedMetadata_Args, metadata);
typedef void (*PJRT_ExecutableMetadata_DestroySerializedMetadata)(
    PJRT_ExecutableMetadata_DestroySerializedMetadata_Args* args);

// The extension.
struct PJRT_ExecutableMetadata_Extension {
  PJRT_Extension_Base base;
  PJRT_ExecutableMetadata_GetExecutableMetadata get_executable_metadata;
  PJRT_ExecutableMetadata_DestroySerializedMetadata destroy_serialized_metadata;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecutableMetadata_Extension, destroy_serialized_metadata);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_EXECUTABLE_METADATA_H_
