// The `struct_size` of argument structs in a given minor version.
//
// Structs grow at their end. A plugin must accept sizes larger than its own, but not every plugin does, so a host
// passes the size in the plugin's own version. Fields beyond that size are not sent, and stay zero in results. A
// function that needs such a field must check the minor version first. Source of the versions: api/CHANGELOG.md.
#ifndef BACKPLANE_SDK_HOST_STRUCT_SIZES_H_
#define BACKPLANE_SDK_HOST_STRUCT_SIZES_H_

#include <cstddef>

#include "api/pjrt_c_api.h"

namespace backplane::host {

// Overloads for the structs that have grown since 0.29.
size_t StructSizeAt(int minor, const PJRT_Client_Create_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Client_CreateViewOfDeviceBuffer_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Client_CreateErrorBuffer_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Device_MemoryStats_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Device_PoisonExecution_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Executable_DeserializeAndLoad_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Executable_GetCompiledMemoryStats_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Plugin_Attributes_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_ExecuteOptions*, size_t newest);
// All other structs have one size.
inline size_t StructSizeAt(int minor, const void*, size_t newest) { return newest; }

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_STRUCT_SIZES_H_
