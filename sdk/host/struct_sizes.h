// The `struct_size` that a plugin of a given minor knows for an argument struct.
//
// Structs grow at their end. A plugin must accept sizes larger than its own, but not every one in the field does, so a
// host says the size that the plugin's own header has. Fields beyond it are not sent and come back as zero; a function
// that needs such a field looks at the minor first. Source of the minors: api/CHANGELOG.md.
#ifndef BACKPLANE_SDK_HOST_STRUCT_SIZES_H_
#define BACKPLANE_SDK_HOST_STRUCT_SIZES_H_

#include <cstddef>

#include "api/pjrt_c_api.h"

namespace backplane::host {

// The overloads for structs that have grown since 0.29.
size_t StructSizeAt(int minor, const PJRT_Client_Create_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Client_CreateViewOfDeviceBuffer_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Client_CreateErrorBuffer_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Device_MemoryStats_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Device_PoisonExecution_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Executable_DeserializeAndLoad_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Executable_GetCompiledMemoryStats_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_Plugin_Attributes_Args*, size_t newest);
size_t StructSizeAt(int minor, const PJRT_ExecuteOptions*, size_t newest);
// All others have one size.
inline size_t StructSizeAt(int minor, const void*, size_t newest) { return newest; }

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_STRUCT_SIZES_H_
