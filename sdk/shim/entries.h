// One function for each slot of the table, grouped by file. The guard has checked the arguments: not null, large
// enough.
#ifndef BACKPLANE_SDK_SHIM_ENTRIES_H_
#define BACKPLANE_SDK_SHIM_ENTRIES_H_

#include "absl/status/status.h"
#include "api/pjrt_c_api.h"

// X(slot without the PJRT_ prefix): implemented as absl::Status fn(PJRT_fn_Args&). A macro has the slots of one file.
#define BACKPLANE_PLUGIN_SLOTS(X) \
  X(Plugin_Initialize)            \
  X(Plugin_Attributes)
#define BACKPLANE_EVENT_SLOTS(X) \
  X(Event_Destroy)               \
  X(Event_IsReady)               \
  X(Event_Error)                 \
  X(Event_Await)                 \
  X(Event_OnReady)               \
  X(Event_Create)                \
  X(Event_Set)
#define BACKPLANE_ERROR_SLOTS(X) \
  X(Error_GetCode)               \
  X(Error_ForEachPayload)
#define BACKPLANE_CLIENT_SLOTS(X)   \
  X(Client_Create)                  \
  X(Client_Destroy)                 \
  X(Client_PlatformName)            \
  X(Client_ProcessIndex)            \
  X(Client_PlatformVersion)         \
  X(Client_TopologyDescription)     \
  X(Client_Devices)                 \
  X(Client_AddressableDevices)      \
  X(Client_LookupDevice)            \
  X(Client_LookupAddressableDevice) \
  X(Client_AddressableMemories)     \
  X(Client_DefaultDeviceAssignment) \
  X(Client_DmaMap)                  \
  X(Client_DmaUnmap)                \
  X(Client_UpdateGlobalProcessInfo)
#define BACKPLANE_DEVICE_SLOTS(X)    \
  X(DeviceDescription_Id)            \
  X(DeviceDescription_ProcessIndex)  \
  X(DeviceDescription_Attributes)    \
  X(DeviceDescription_Kind)          \
  X(DeviceDescription_DebugString)   \
  X(DeviceDescription_ToString)      \
  X(Device_GetDescription)           \
  X(Device_IsAddressable)            \
  X(Device_LocalHardwareId)          \
  X(Device_AddressableMemories)      \
  X(Device_DefaultMemory)            \
  X(Device_MemoryStats)              \
  X(Device_ClearMemoryStats)         \
  X(Device_GetAttributes)            \
  X(Device_CreateAsyncTrackingEvent) \
  X(AsyncTrackingEvent_Destroy)
#define BACKPLANE_MEMORY_SLOTS(X) \
  X(Memory_Id)                    \
  X(Memory_Kind)                  \
  X(Memory_Kind_Id)               \
  X(Memory_DebugString)           \
  X(Memory_ToString)              \
  X(Memory_AddressableByDevices)
#define BACKPLANE_BUFFER_SLOTS(X)          \
  X(Buffer_Destroy)                        \
  X(Buffer_ElementType)                    \
  X(Buffer_Dimensions)                     \
  X(Buffer_UnpaddedDimensions)             \
  X(Buffer_DynamicDimensionIndices)        \
  X(Buffer_GetMemoryLayout)                \
  X(Buffer_OnDeviceSizeInBytes)            \
  X(Buffer_Device)                         \
  X(Buffer_Memory)                         \
  X(Buffer_Delete)                         \
  X(Buffer_IsDeleted)                      \
  X(Buffer_IsOnCpu)                        \
  X(Buffer_ReadyEvent)                     \
  X(Buffer_UnsafePointer)                  \
  X(Buffer_IncreaseExternalReferenceCount) \
  X(Buffer_DecreaseExternalReferenceCount) \
  X(Buffer_OpaqueDeviceMemoryDataPointer)  \
  X(Buffer_DonateWithControlDependency)    \
  X(Buffer_Bitcast)
#define BACKPLANE_BUFFER_CREATE_SLOTS(X) \
  X(Client_BufferFromHostBuffer)         \
  X(Client_CreateViewOfDeviceBuffer)     \
  X(Client_CreateUninitializedBuffer)    \
  X(Client_CreateErrorBuffer)            \
  X(Client_CreateAliasBuffer)            \
  X(Client_FulfillAliasBuffer)
#define BACKPLANE_BUFFER_COPY_SLOTS(X) \
  X(Buffer_ToHostBuffer)               \
  X(Buffer_CopyRawToHost)              \
  X(Buffer_CopyRawToHostFuture)        \
  X(Buffer_CopyToDevice)               \
  X(Buffer_CopyToMemory)
#define BACKPLANE_COPY_STREAM_SLOTS(X) \
  X(CopyToDeviceStream_Destroy)        \
  X(CopyToDeviceStream_AddChunk)       \
  X(CopyToDeviceStream_TotalBytes)     \
  X(CopyToDeviceStream_GranuleSize)    \
  X(CopyToDeviceStream_CurrentBytes)
#define BACKPLANE_ASYNC_TRANSFER_SLOTS(X)            \
  X(Client_CreateBuffersForAsyncHostToDevice)        \
  X(AsyncHostToDeviceTransferManager_Destroy)        \
  X(AsyncHostToDeviceTransferManager_TransferData)   \
  X(AsyncHostToDeviceTransferManager_RetrieveBuffer) \
  X(AsyncHostToDeviceTransferManager_Device)         \
  X(AsyncHostToDeviceTransferManager_BufferCount)    \
  X(AsyncHostToDeviceTransferManager_BufferSize)     \
  X(AsyncHostToDeviceTransferManager_SetBufferError) \
  X(AsyncHostToDeviceTransferManager_AddMetadata)    \
  X(AsyncHostToDeviceTransferManager_TransferLiteral)
#define BACKPLANE_COMPILE_SLOTS(X) \
  X(Client_Compile)                \
  X(Compile)                       \
  X(Client_Load)                   \
  X(Executable_DeserializeAndLoad) \
  X(Executable_Serialize)          \
  X(Executable_GetCompileOptions)  \
  X(Executable_OptimizedProgram)
#define BACKPLANE_EXECUTABLE_SLOTS(X)      \
  X(Executable_Destroy)                    \
  X(Executable_Name)                       \
  X(Executable_NumReplicas)                \
  X(Executable_NumPartitions)              \
  X(Executable_NumOutputs)                 \
  X(Executable_SizeOfGeneratedCodeInBytes) \
  X(Executable_GetCostAnalysis)            \
  X(Executable_OutputMemoryKinds)          \
  X(Executable_ParameterMemoryKinds)       \
  X(Executable_OutputElementTypes)         \
  X(Executable_OutputDimensions)           \
  X(Executable_Fingerprint)                \
  X(Executable_GetCompiledMemoryStats)
#define BACKPLANE_LOADED_EXECUTABLE_SLOTS(X)      \
  X(LoadedExecutable_Destroy)                     \
  X(LoadedExecutable_GetExecutable)               \
  X(LoadedExecutable_AddressableDevices)          \
  X(LoadedExecutable_AddressableDeviceLogicalIds) \
  X(LoadedExecutable_GetDeviceAssignment)         \
  X(LoadedExecutable_Delete)                      \
  X(LoadedExecutable_IsDeleted)                   \
  X(LoadedExecutable_Fingerprint)
#define BACKPLANE_EXECUTE_SLOTS(X) \
  X(LoadedExecutable_Execute)      \
  X(ExecuteContext_Create)         \
  X(ExecuteContext_Destroy)
#define BACKPLANE_TOPOLOGY_SLOTS(X)                       \
  X(TopologyDescription_Create)                           \
  X(TopologyDescription_Destroy)                          \
  X(TopologyDescription_PlatformName)                     \
  X(TopologyDescription_PlatformVersion)                  \
  X(TopologyDescription_GetDeviceDescriptions)            \
  X(TopologyDescription_Serialize)                        \
  X(TopologyDescription_Deserialize)                      \
  X(TopologyDescription_Attributes)                       \
  X(TopologyDescription_Fingerprint)                      \
  X(TopologyDescription_MakeCanonicalShapeForMemorySpace) \
  X(TopologyDescription_GetMemorySpaceKindIds)
#define BACKPLANE_SLOTS(X)             \
  BACKPLANE_PLUGIN_SLOTS(X)            \
  BACKPLANE_EVENT_SLOTS(X)             \
  BACKPLANE_ERROR_SLOTS(X)             \
  BACKPLANE_CLIENT_SLOTS(X)            \
  BACKPLANE_DEVICE_SLOTS(X)            \
  BACKPLANE_MEMORY_SLOTS(X)            \
  BACKPLANE_BUFFER_SLOTS(X)            \
  BACKPLANE_BUFFER_CREATE_SLOTS(X)     \
  BACKPLANE_BUFFER_COPY_SLOTS(X)       \
  BACKPLANE_COPY_STREAM_SLOTS(X)       \
  BACKPLANE_ASYNC_TRANSFER_SLOTS(X)    \
  BACKPLANE_COMPILE_SLOTS(X)           \
  BACKPLANE_EXECUTABLE_SLOTS(X)        \
  BACKPLANE_LOADED_EXECUTABLE_SLOTS(X) \
  BACKPLANE_EXECUTE_SLOTS(X)           \
  BACKPLANE_TOPOLOGY_SLOTS(X)

// Functions that need a feature which no backend has: executions that the host makes fail.
#define BACKPLANE_UNSUPPORTED_SLOTS(X) X(Device_PoisonExecution)

namespace backplane::shim {

#define BACKPLANE_X(name) absl::Status name(PJRT_##name##_Args& a);
BACKPLANE_SLOTS(BACKPLANE_X)
#undef BACKPLANE_X
void Error_Destroy(PJRT_Error_Destroy_Args* args);
void Error_Message(PJRT_Error_Message_Args* args);

// Returns the table of this plugin, which GetPjrtApi returns.
const PJRT_Api* GetTable();
// Returns the first element of the chain of extensions.
PJRT_Extension_Base* GetExtensionChain();

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_ENTRIES_H_
