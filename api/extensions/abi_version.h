// Extension 20, AbiVersion, version 1: tells whether a runtime can load an executable that another one compiled,
// without trying to load it.
#ifndef BACKPLANE_API_EXTENSIONS_ABI_VERSION_H_
#define BACKPLANE_API_EXTENSIONS_ABI_VERSION_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_ABI_VERSION_EXTENSION_VERSION 1

typedef struct PJRT_RuntimeAbiVersion PJRT_RuntimeAbiVersion;
typedef struct PJRT_ExecutableAbiVersion PJRT_ExecutableAbiVersion;
typedef struct PJRT_SerializedProto PJRT_SerializedProto;

// Returns the ABI version of a client's runtime.
struct PJRT_Client_RuntimeAbiVersion_Args {
  size_t struct_size;
  PJRT_Client* client;                  // in
  PJRT_RuntimeAbiVersion* abi_version;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Client_RuntimeAbiVersion_Args, abi_version);
typedef PJRT_Error* PJRT_Client_RuntimeAbiVersion(PJRT_Client_RuntimeAbiVersion_Args* args);

// Returns the ABI version that an executable requires.
struct PJRT_Executable_GetAbiVersion_Args {
  size_t struct_size;
  PJRT_Executable* executable;             // in
  PJRT_ExecutableAbiVersion* abi_version;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Executable_GetAbiVersion_Args, abi_version);
typedef PJRT_Error* PJRT_Executable_GetAbiVersion(PJRT_Executable_GetAbiVersion_Args* args);

// Frees a runtime version.
struct PJRT_RuntimeAbiVersion_Destroy_Args {
  size_t struct_size;
  PJRT_RuntimeAbiVersion* abi_version;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RuntimeAbiVersion_Destroy_Args, abi_version);
typedef PJRT_Error* PJRT_RuntimeAbiVersion_Destroy(PJRT_RuntimeAbiVersion_Destroy_Args* args);

// Returns NULL if one runtime can replace the other, else an error with the reason.
struct PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args {
  size_t struct_size;
  const PJRT_RuntimeAbiVersion* abi_version;        // in
  const PJRT_RuntimeAbiVersion* other_abi_version;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args, other_abi_version);
typedef PJRT_Error* PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime(
    PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args* args);

// Returns NULL if the runtime can load the executable, else an error with the reason.
struct PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args {
  size_t struct_size;
  const PJRT_RuntimeAbiVersion* abi_version;                // in
  const PJRT_ExecutableAbiVersion* executable_abi_version;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args, executable_abi_version);
typedef PJRT_Error* PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable(
    PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args* args);

// Serializes a runtime version.
struct PJRT_RuntimeAbiVersion_ToProto_Args {
  size_t struct_size;
  const PJRT_RuntimeAbiVersion* abi_version;                       // in
  const char* serialized_proto;                                    // out: live until the deleter is called
  size_t serialized_proto_size;                                    // out
  PJRT_SerializedProto* serialized_proto_holder;                   // out: keeps the bytes alive
  void (*serialized_proto_deleter)(PJRT_SerializedProto* holder);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RuntimeAbiVersion_ToProto_Args, serialized_proto_deleter);
typedef PJRT_Error* PJRT_RuntimeAbiVersion_ToProto(PJRT_RuntimeAbiVersion_ToProto_Args* args);

// A number for the platform.
struct PJRT_RuntimeAbiVersion_PlatformId_Args {
  size_t struct_size;
  const PJRT_RuntimeAbiVersion* abi_version;  // in
  uint64_t platform_id;                       // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RuntimeAbiVersion_PlatformId_Args, platform_id);
typedef PJRT_Error* PJRT_RuntimeAbiVersion_PlatformId(PJRT_RuntimeAbiVersion_PlatformId_Args* args);

// Frees an executable version.
struct PJRT_ExecutableAbiVersion_Destroy_Args {
  size_t struct_size;
  PJRT_ExecutableAbiVersion* abi_version;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecutableAbiVersion_Destroy_Args, abi_version);
typedef PJRT_Error* PJRT_ExecutableAbiVersion_Destroy(PJRT_ExecutableAbiVersion_Destroy_Args* args);

// Serializes an executable version.
struct PJRT_ExecutableAbiVersion_ToProto_Args {
  size_t struct_size;
  const PJRT_ExecutableAbiVersion* abi_version;                    // in
  const char* serialized_proto;                                    // out: live until the deleter is called
  size_t serialized_proto_size;                                    // out
  PJRT_SerializedProto* serialized_proto_holder;                   // out: keeps the bytes alive
  void (*serialized_proto_deleter)(PJRT_SerializedProto* holder);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecutableAbiVersion_ToProto_Args, serialized_proto_deleter);
typedef PJRT_Error* PJRT_ExecutableAbiVersion_ToProto(PJRT_ExecutableAbiVersion_ToProto_Args* args);

// A number for the platform.
struct PJRT_ExecutableAbiVersion_PlatformId_Args {
  size_t struct_size;
  const PJRT_ExecutableAbiVersion* abi_version;  // in
  uint64_t platform_id;                          // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecutableAbiVersion_PlatformId_Args, platform_id);
typedef PJRT_Error* PJRT_ExecutableAbiVersion_PlatformId(PJRT_ExecutableAbiVersion_PlatformId_Args* args);

// Deserializes a runtime version.
struct PJRT_RuntimeAbiVersion_FromProto_Args {
  size_t struct_size;
  const char* serialized_proto;         // in: borrowed for the call
  size_t serialized_proto_size;         // in
  PJRT_RuntimeAbiVersion* abi_version;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_RuntimeAbiVersion_FromProto_Args, abi_version);
typedef PJRT_Error* PJRT_RuntimeAbiVersion_FromProto(PJRT_RuntimeAbiVersion_FromProto_Args* args);

// Deserializes an executable version.
struct PJRT_ExecutableAbiVersion_FromProto_Args {
  size_t struct_size;
  const char* serialized_proto;            // in: borrowed for the call
  size_t serialized_proto_size;            // in
  PJRT_ExecutableAbiVersion* abi_version;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ExecutableAbiVersion_FromProto_Args, abi_version);
typedef PJRT_Error* PJRT_ExecutableAbiVersion_FromProto(PJRT_ExecutableAbiVersion_FromProto_Args* args);

// The extension.
struct PJRT_AbiVersion_Extension {
  PJRT_Extension_Base base;
  PJRT_Client_RuntimeAbiVersion* client_runtime_abi_version;
  PJRT_Executable_GetAbiVersion* executable_get_abi_version;
  PJRT_RuntimeAbiVersion_Destroy* runtime_abi_version_destroy;
  PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime* runtime_abi_version_is_compatible_with_runtime;
  PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable* runtime_abi_version_is_compatible_with_executable;
  PJRT_RuntimeAbiVersion_ToProto* runtime_abi_version_to_proto;
  PJRT_RuntimeAbiVersion_PlatformId* runtime_abi_version_platform_id;
  PJRT_ExecutableAbiVersion_Destroy* executable_abi_version_destroy;
  PJRT_ExecutableAbiVersion_ToProto* executable_abi_version_to_proto;
  PJRT_ExecutableAbiVersion_PlatformId* executable_abi_version_platform_id;
  PJRT_RuntimeAbiVersion_FromProto* runtime_abi_version_from_proto;
  PJRT_ExecutableAbiVersion_FromProto* executable_abi_version_from_proto;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_AbiVersion_Extension, executable_abi_version_from_proto);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_ABI_VERSION_H_
