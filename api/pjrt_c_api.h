// The PJRT C API: the one header a host or a plugin includes.
//
// A plugin is a shared library that exports GetPjrtApi. That function returns a table of functions, through which
// everything else is called. The headers below document the functions by object: who owns the memory to which a field
// points, how long it lives, and whether the plugin reads (in) or writes (out) a field.
//
// Rules for both sides
//   - The table and the structs grow at their end only. A side reads and writes only what is within the `struct_size`
//     of the other side. A smaller size means that the other side is older; it is not an error.
//   - The plugin does not have a function whose slot is NULL or beyond `PJRT_Api.struct_size`. A plugin should fill all
//     slots, with functions that return UNIMPLEMENTED if necessary.
//   - Functions are thread-safe unless said otherwise. Nothing throws, aborts, prints or exits across the boundary.
//   - Callbacks may run in any thread. The plugin holds no lock while it calls one.
//   - Strings have a size and need not be terminated by NUL.
//
// Names, numbers and layouts are those of the published API, minor PJRT_API_MINOR; the tests compare every struct.
#ifndef BACKPLANE_API_PJRT_C_API_H_
#define BACKPLANE_API_PJRT_C_API_H_

#include "api/pjrt/base.h"
#include "api/pjrt/buffer.h"
#include "api/pjrt/client.h"
#include "api/pjrt/device.h"
#include "api/pjrt/error.h"
#include "api/pjrt/event.h"
#include "api/pjrt/executable.h"
#include "api/pjrt/execute.h"
#include "api/pjrt/memory.h"
#include "api/pjrt/topology.h"
#include "api/pjrt/transfer.h"
#include "api/pjrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

// The table. It is static: valid from the return of GetPjrtApi to the end of the process.
struct PJRT_Api {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;  // the extensions of the plugin; NULL: none
  PJRT_Api_Version pjrt_api_version;     // of the plugin

  // Slots 0 to 89: there from the beginning.
  PJRT_API_FIELD(PJRT_Error_Destroy);
  PJRT_API_FIELD(PJRT_Error_Message);
  PJRT_API_FIELD(PJRT_Error_GetCode);

  PJRT_API_FIELD(PJRT_Plugin_Initialize);
  PJRT_API_FIELD(PJRT_Plugin_Attributes);

  PJRT_API_FIELD(PJRT_Event_Destroy);
  PJRT_API_FIELD(PJRT_Event_IsReady);
  PJRT_API_FIELD(PJRT_Event_Error);
  PJRT_API_FIELD(PJRT_Event_Await);
  PJRT_API_FIELD(PJRT_Event_OnReady);

  PJRT_API_FIELD(PJRT_Client_Create);
  PJRT_API_FIELD(PJRT_Client_Destroy);
  PJRT_API_FIELD(PJRT_Client_PlatformName);
  PJRT_API_FIELD(PJRT_Client_ProcessIndex);
  PJRT_API_FIELD(PJRT_Client_PlatformVersion);
  PJRT_API_FIELD(PJRT_Client_Devices);
  PJRT_API_FIELD(PJRT_Client_AddressableDevices);
  PJRT_API_FIELD(PJRT_Client_LookupDevice);
  PJRT_API_FIELD(PJRT_Client_LookupAddressableDevice);
  PJRT_API_FIELD(PJRT_Client_AddressableMemories);
  PJRT_API_FIELD(PJRT_Client_Compile);
  PJRT_API_FIELD(PJRT_Client_DefaultDeviceAssignment);
  PJRT_API_FIELD(PJRT_Client_BufferFromHostBuffer);

  PJRT_API_FIELD(PJRT_DeviceDescription_Id);
  PJRT_API_FIELD(PJRT_DeviceDescription_ProcessIndex);
  PJRT_API_FIELD(PJRT_DeviceDescription_Attributes);
  PJRT_API_FIELD(PJRT_DeviceDescription_Kind);
  PJRT_API_FIELD(PJRT_DeviceDescription_DebugString);
  PJRT_API_FIELD(PJRT_DeviceDescription_ToString);

  PJRT_API_FIELD(PJRT_Device_GetDescription);
  PJRT_API_FIELD(PJRT_Device_IsAddressable);
  PJRT_API_FIELD(PJRT_Device_LocalHardwareId);
  PJRT_API_FIELD(PJRT_Device_AddressableMemories);
  PJRT_API_FIELD(PJRT_Device_DefaultMemory);
  PJRT_API_FIELD(PJRT_Device_MemoryStats);

  PJRT_API_FIELD(PJRT_Memory_Id);
  PJRT_API_FIELD(PJRT_Memory_Kind);
  PJRT_API_FIELD(PJRT_Memory_DebugString);
  PJRT_API_FIELD(PJRT_Memory_ToString);
  PJRT_API_FIELD(PJRT_Memory_AddressableByDevices);

  PJRT_API_FIELD(PJRT_Executable_Destroy);
  PJRT_API_FIELD(PJRT_Executable_Name);
  PJRT_API_FIELD(PJRT_Executable_NumReplicas);
  PJRT_API_FIELD(PJRT_Executable_NumPartitions);
  PJRT_API_FIELD(PJRT_Executable_NumOutputs);
  PJRT_API_FIELD(PJRT_Executable_SizeOfGeneratedCodeInBytes);
  PJRT_API_FIELD(PJRT_Executable_GetCostAnalysis);
  PJRT_API_FIELD(PJRT_Executable_OutputMemoryKinds);
  PJRT_API_FIELD(PJRT_Executable_OptimizedProgram);
  PJRT_API_FIELD(PJRT_Executable_Serialize);

  PJRT_API_FIELD(PJRT_LoadedExecutable_Destroy);
  PJRT_API_FIELD(PJRT_LoadedExecutable_GetExecutable);
  PJRT_API_FIELD(PJRT_LoadedExecutable_AddressableDevices);
  PJRT_API_FIELD(PJRT_LoadedExecutable_Delete);
  PJRT_API_FIELD(PJRT_LoadedExecutable_IsDeleted);
  PJRT_API_FIELD(PJRT_LoadedExecutable_Execute);

  PJRT_API_FIELD(PJRT_Executable_DeserializeAndLoad);

  PJRT_API_FIELD(PJRT_LoadedExecutable_Fingerprint);

  PJRT_API_FIELD(PJRT_Buffer_Destroy);
  PJRT_API_FIELD(PJRT_Buffer_ElementType);
  PJRT_API_FIELD(PJRT_Buffer_Dimensions);
  PJRT_API_FIELD(PJRT_Buffer_UnpaddedDimensions);
  PJRT_API_FIELD(PJRT_Buffer_DynamicDimensionIndices);
  PJRT_API_FIELD(PJRT_Buffer_GetMemoryLayout);
  PJRT_API_FIELD(PJRT_Buffer_OnDeviceSizeInBytes);
  PJRT_API_FIELD(PJRT_Buffer_Device);
  PJRT_API_FIELD(PJRT_Buffer_Memory);
  PJRT_API_FIELD(PJRT_Buffer_Delete);
  PJRT_API_FIELD(PJRT_Buffer_IsDeleted);
  PJRT_API_FIELD(PJRT_Buffer_CopyToDevice);
  PJRT_API_FIELD(PJRT_Buffer_ToHostBuffer);
  PJRT_API_FIELD(PJRT_Buffer_IsOnCpu);
  PJRT_API_FIELD(PJRT_Buffer_ReadyEvent);
  PJRT_API_FIELD(PJRT_Buffer_UnsafePointer);
  PJRT_API_FIELD(PJRT_Buffer_IncreaseExternalReferenceCount);
  PJRT_API_FIELD(PJRT_Buffer_DecreaseExternalReferenceCount);
  PJRT_API_FIELD(PJRT_Buffer_OpaqueDeviceMemoryDataPointer);

  PJRT_API_FIELD(PJRT_CopyToDeviceStream_Destroy);
  PJRT_API_FIELD(PJRT_CopyToDeviceStream_AddChunk);
  PJRT_API_FIELD(PJRT_CopyToDeviceStream_TotalBytes);
  PJRT_API_FIELD(PJRT_CopyToDeviceStream_GranuleSize);
  PJRT_API_FIELD(PJRT_CopyToDeviceStream_CurrentBytes);

  PJRT_API_FIELD(PJRT_TopologyDescription_Create);
  PJRT_API_FIELD(PJRT_TopologyDescription_Destroy);
  PJRT_API_FIELD(PJRT_TopologyDescription_PlatformName);
  PJRT_API_FIELD(PJRT_TopologyDescription_PlatformVersion);
  PJRT_API_FIELD(PJRT_TopologyDescription_GetDeviceDescriptions);
  PJRT_API_FIELD(PJRT_TopologyDescription_Serialize);
  PJRT_API_FIELD(PJRT_TopologyDescription_Attributes);

  PJRT_API_FIELD(PJRT_Compile);
  // Slot 90: since 0.29.
  PJRT_API_FIELD(PJRT_Executable_OutputElementTypes);
  PJRT_API_FIELD(PJRT_Executable_OutputDimensions);
  // Slot 92: since 0.32.
  PJRT_API_FIELD(PJRT_Buffer_CopyToMemory);
  // Slot 93: since 0.33.
  PJRT_API_FIELD(PJRT_Client_CreateViewOfDeviceBuffer);
  // Slot 94: since 0.35.
  PJRT_API_FIELD(PJRT_Executable_Fingerprint);
  // Slot 95: since 0.36.
  PJRT_API_FIELD(PJRT_Client_TopologyDescription);
  // Slot 96: since 0.40.
  PJRT_API_FIELD(PJRT_Executable_GetCompiledMemoryStats);
  // Slot 97: since 0.48.
  PJRT_API_FIELD(PJRT_Memory_Kind_Id);
  // Slot 98: since 0.52.
  PJRT_API_FIELD(PJRT_ExecuteContext_Create);
  PJRT_API_FIELD(PJRT_ExecuteContext_Destroy);
  // Slot 100: since 0.56.
  PJRT_API_FIELD(PJRT_Buffer_CopyRawToHost);
  // Slot 101: since 0.60.
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_Destroy);
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_TransferData);
  PJRT_API_FIELD(PJRT_Client_CreateBuffersForAsyncHostToDevice);
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer);
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_Device);
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_BufferCount);
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_BufferSize);
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_SetBufferError);
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_AddMetadata);
  // Slot 110: since 0.67.
  PJRT_API_FIELD(PJRT_Client_DmaMap);
  PJRT_API_FIELD(PJRT_Client_DmaUnmap);
  // Slot 112: since 0.69.
  PJRT_API_FIELD(PJRT_Client_CreateUninitializedBuffer);
  // Slot 113: since 0.73.
  PJRT_API_FIELD(PJRT_Client_UpdateGlobalProcessInfo);
  // Slot 114: since 0.75.
  PJRT_API_FIELD(PJRT_TopologyDescription_Deserialize);
  // Slot 115: since 0.77.
  PJRT_API_FIELD(PJRT_Client_CreateAliasBuffer);
  PJRT_API_FIELD(PJRT_Client_FulfillAliasBuffer);
  // Slot 117: since 0.79.
  PJRT_API_FIELD(PJRT_LoadedExecutable_GetDeviceAssignment);
  // Slot 118: since 0.82.
  PJRT_API_FIELD(PJRT_Client_CreateErrorBuffer);
  // Slot 119: since 0.83.
  PJRT_API_FIELD(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral);
  // Slot 120: since 0.84.
  PJRT_API_FIELD(PJRT_Buffer_CopyRawToHostFuture);
  // Slot 121: since 0.85.
  PJRT_API_FIELD(PJRT_Device_PoisonExecution);
  // Slot 122: since 0.86.
  PJRT_API_FIELD(PJRT_Device_CreateAsyncTrackingEvent);
  PJRT_API_FIELD(PJRT_AsyncTrackingEvent_Destroy);
  // Slot 124: since 0.87.
  PJRT_API_FIELD(PJRT_Executable_GetCompileOptions);
  // Slot 125: since 0.88.
  PJRT_API_FIELD(PJRT_Buffer_DonateWithControlDependency);
  // Slot 126: since 0.89.
  PJRT_API_FIELD(PJRT_Event_Create);
  PJRT_API_FIELD(PJRT_Event_Set);
  // Slot 128: since 0.92.
  PJRT_API_FIELD(PJRT_Device_GetAttributes);
  // Slot 129: since 0.95.
  PJRT_API_FIELD(PJRT_Client_Load);
  // Slot 130: since 0.96.
  PJRT_API_FIELD(PJRT_LoadedExecutable_AddressableDeviceLogicalIds);
  // Slot 131: since 0.98.
  PJRT_API_FIELD(PJRT_Buffer_Bitcast);
  // Slot 132: since 0.99.
  PJRT_API_FIELD(PJRT_Error_ForEachPayload);
  // Slot 133: since 0.101.
  PJRT_API_FIELD(PJRT_TopologyDescription_Fingerprint);
  // Slot 134: since 0.102.
  PJRT_API_FIELD(PJRT_Executable_ParameterMemoryKinds);
  // Slot 135: since 0.106.
  PJRT_API_FIELD(PJRT_Device_ClearMemoryStats);
  // Slot 136: since 0.109.
  PJRT_API_FIELD(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace);
  // Slot 137: since 0.110.
  PJRT_API_FIELD(PJRT_TopologyDescription_GetMemorySpaceKindIds);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Api, PJRT_TopologyDescription_GetMemorySpaceKindIds);

// The only symbol that a plugin exports. Never fails, is fast and thread-safe, and returns the same table each time.
PJRT_CAPI_EXPORT const PJRT_Api* GetPjrtApi(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_C_API_H_
