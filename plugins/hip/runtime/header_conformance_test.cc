// Compares hip_types.h and hip_api.h with the headers of an installed HIP, if there is one: numbers, layouts and the
// shape of each function.
#include <cstddef>
#include <type_traits>

#include "gtest/gtest.h"
#include "plugins/hip/runtime/hip_api.h"
#include "plugins/hip/runtime/testing/same_shape.h"

// Behind ours, as HIP's has macros with names of its functions.
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

namespace {

namespace ours = backplane::hip;
using ours::SameShape;

TEST(HeaderConformance, Errors) {
#define COMPARE(name, number, text) EXPECT_EQ(static_cast<int>(::name), static_cast<int>(ours::name)) << #name;
  BACKPLANE_HIP_ERRORS(COMPARE)
#undef COMPARE
}

TEST(HeaderConformance, Attributes) {
#define COMPARE(name) EXPECT_EQ(static_cast<int>(::name), static_cast<int>(ours::name)) << #name;
  COMPARE(hipDeviceAttributeEccEnabled)
  COMPARE(hipDeviceAttributeAsyncEngineCount)
  COMPARE(hipDeviceAttributeCanMapHostMemory)
  COMPARE(hipDeviceAttributeClockRate)
  COMPARE(hipDeviceAttributeConcurrentKernels)
  COMPARE(hipDeviceAttributeCooperativeLaunch)
  COMPARE(hipDeviceAttributeIntegrated)
  COMPARE(hipDeviceAttributeL2CacheSize)
  COMPARE(hipDeviceAttributeComputeCapabilityMajor)
  COMPARE(hipDeviceAttributeManagedMemory)
  COMPARE(hipDeviceAttributeMaxBlocksPerMultiProcessor)
  COMPARE(hipDeviceAttributeMaxBlockDimX)
  COMPARE(hipDeviceAttributeMaxBlockDimZ)
  COMPARE(hipDeviceAttributeMaxGridDimX)
  COMPARE(hipDeviceAttributeMaxGridDimZ)
  COMPARE(hipDeviceAttributeMaxThreadsPerBlock)
  COMPARE(hipDeviceAttributeMaxThreadsPerMultiProcessor)
  COMPARE(hipDeviceAttributeMemoryBusWidth)
  COMPARE(hipDeviceAttributeMemoryClockRate)
  COMPARE(hipDeviceAttributeComputeCapabilityMinor)
  COMPARE(hipDeviceAttributeMultiprocessorCount)
  COMPARE(hipDeviceAttributePageableMemoryAccess)
  COMPARE(hipDeviceAttributePciBusId)
  COMPARE(hipDeviceAttributePciDeviceId)
  COMPARE(hipDeviceAttributePciDomainID)
  COMPARE(hipDeviceAttributeMaxRegistersPerBlock)
  COMPARE(hipDeviceAttributeMaxRegistersPerMultiprocessor)
  COMPARE(hipDeviceAttributeMaxSharedMemoryPerBlock)
  COMPARE(hipDeviceAttributeSharedMemPerBlockOptin)
  COMPARE(hipDeviceAttributeSharedMemPerMultiprocessor)
  COMPARE(hipDeviceAttributeStreamPrioritiesSupported)
  COMPARE(hipDeviceAttributeTotalConstantMemory)
  COMPARE(hipDeviceAttributeTotalGlobalMem)
  COMPARE(hipDeviceAttributeUnifiedAddressing)
  COMPARE(hipDeviceAttributeWarpSize)
  COMPARE(hipDeviceAttributeMemoryPoolsSupported)
  COMPARE(hipDeviceAttributeMaxSharedMemoryPerMultiprocessor)
  COMPARE(hipDeviceAttributeCanUseStreamWaitValue)
  COMPARE(hipDeviceAttributePhysicalMultiProcessorCount)
  COMPARE(hipDeviceAttributeFineGrainSupport)
#undef COMPARE
}

TEST(HeaderConformance, OtherNumbers) {
#define COMPARE(name) EXPECT_EQ(static_cast<int>(::name), static_cast<int>(ours::name)) << #name;
  COMPARE(hipMemcpyHostToDevice)
  COMPARE(hipMemcpyDeviceToHost)
  COMPARE(hipMemcpyDeviceToDevice)
  COMPARE(hipMemcpyDefault)
  COMPARE(hipStreamCaptureModeGlobal)
  COMPARE(hipStreamCaptureModeThreadLocal)
  COMPARE(hipStreamCaptureModeRelaxed)
  COMPARE(hipStreamCaptureStatusActive)
  COMPARE(hipStreamCaptureStatusInvalidated)
  COMPARE(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
  COMPARE(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
  COMPARE(HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
  COMPARE(HIP_FUNC_ATTRIBUTE_NUM_REGS)
  COMPARE(HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
  COMPARE(hipFuncAttributeMaxDynamicSharedMemorySize)
#undef COMPARE
  EXPECT_EQ(hipStreamNonBlocking, ours::kStreamNonBlocking);
  EXPECT_EQ(hipEventBlockingSync, ours::kEventBlockingSync);
  EXPECT_EQ(hipEventDisableTiming, ours::kEventDisableTiming);
  EXPECT_EQ(hipHostMallocPortable, ours::kHostMallocPortable);
  EXPECT_EQ(hipHostMallocMapped, ours::kHostMallocMapped);
  EXPECT_EQ(hipHostMallocWriteCombined, ours::kHostMallocWriteCombined);
  EXPECT_EQ(hipHostMallocNumaUser, ours::kHostMallocNumaUser);
  EXPECT_EQ(hipHostMallocCoherent, ours::kHostMallocCoherent);
  EXPECT_EQ(hipHostMallocNonCoherent, ours::kHostMallocNonCoherent);
  EXPECT_EQ(hipHostRegisterPortable, ours::kHostRegisterPortable);
  EXPECT_EQ(hipHostRegisterMapped, ours::kHostRegisterMapped);
  EXPECT_EQ(HIP_LAUNCH_PARAM_BUFFER_POINTER, ours::kLaunchParamBufferPointer);
  EXPECT_EQ(HIP_LAUNCH_PARAM_BUFFER_SIZE, ours::kLaunchParamBufferSize);
  EXPECT_EQ(HIP_LAUNCH_PARAM_END, ours::kLaunchParamEnd);
}

TEST(HeaderConformance, Layouts) {
  EXPECT_EQ(sizeof(::dim3), sizeof(ours::hipDim3));
  EXPECT_EQ(sizeof(::hipKernelNodeParams), sizeof(ours::hipKernelNodeParams));
  EXPECT_EQ(offsetof(::hipKernelNodeParams, blockDim), offsetof(ours::hipKernelNodeParams, blockDim));
  EXPECT_EQ(offsetof(::hipKernelNodeParams, extra), offsetof(ours::hipKernelNodeParams, extra));
  EXPECT_EQ(offsetof(::hipKernelNodeParams, func), offsetof(ours::hipKernelNodeParams, func));
  EXPECT_EQ(offsetof(::hipKernelNodeParams, gridDim), offsetof(ours::hipKernelNodeParams, gridDim));
  EXPECT_EQ(offsetof(::hipKernelNodeParams, kernelParams), offsetof(ours::hipKernelNodeParams, kernelParams));
  EXPECT_EQ(offsetof(::hipKernelNodeParams, sharedMemBytes), offsetof(ours::hipKernelNodeParams, sharedMemBytes));
  EXPECT_EQ(sizeof(::hipMemsetParams), sizeof(ours::hipMemsetParams));
  EXPECT_EQ(offsetof(::hipMemsetParams, elementSize), offsetof(ours::hipMemsetParams, elementSize));
  EXPECT_EQ(offsetof(::hipMemsetParams, height), offsetof(ours::hipMemsetParams, height));
  EXPECT_EQ(offsetof(::hipMemsetParams, pitch), offsetof(ours::hipMemsetParams, pitch));
  EXPECT_EQ(offsetof(::hipMemsetParams, value), offsetof(ours::hipMemsetParams, value));
  EXPECT_EQ(offsetof(::hipMemsetParams, width), offsetof(ours::hipMemsetParams, width));
#if HIP_VERSION_MAJOR >= 6
  using OurProperties = ours::hipDevicePropR0600;
#else
  using OurProperties = ours::hipDevicePropR0000;
#endif
  EXPECT_EQ(offsetof(::hipDeviceProp_t, gcnArchName), offsetof(OurProperties, gcnArchName));
  EXPECT_EQ(sizeof(::hipDeviceProp_t), offsetof(OurProperties, margin));
}

TEST(HeaderConformance, Functions) {
  // hipEventRecord is overloaded in C++: take the plain one.
  using EventRecord = hipError_t (*)(hipEvent_t, hipStream_t);
  EXPECT_TRUE((SameShape<EventRecord, decltype(ours::HipApi::hipEventRecord)>::value));
#define COMPARE(name) EXPECT_TRUE((SameShape<decltype(&::name), decltype(ours::HipApi::name)>::value)) << #name;
  COMPARE(hipInit)
  COMPARE(hipRuntimeGetVersion)
  COMPARE(hipGetErrorName)
  COMPARE(hipGetLastError)
  COMPARE(hipGetDeviceCount)
  COMPARE(hipSetDevice)
  COMPARE(hipGetDevice)
  COMPARE(hipDeviceGetAttribute)
  COMPARE(hipDeviceGetName)
  COMPARE(hipDeviceTotalMem)
  COMPARE(hipDeviceGetPCIBusId)
  COMPARE(hipDeviceSynchronize)
  COMPARE(hipDeviceCanAccessPeer)
  COMPARE(hipDeviceEnablePeerAccess)
  COMPARE(hipDeviceDisablePeerAccess)
  COMPARE(hipMemGetInfo)
  COMPARE(hipFree)
  COMPARE(hipHostFree)
  COMPARE(hipHostRegister)
  COMPARE(hipHostUnregister)
  COMPARE(hipHostGetDevicePointer)
  COMPARE(hipMemcpyHtoDAsync)
  COMPARE(hipMemcpyDtoHAsync)
  COMPARE(hipMemcpyDtoDAsync)
  COMPARE(hipMemcpyPeerAsync)
  COMPARE(hipMemsetD8Async)
  COMPARE(hipMemsetD32Async)
  COMPARE(hipDeviceGetStreamPriorityRange)
  COMPARE(hipStreamCreateWithFlags)
  COMPARE(hipStreamCreateWithPriority)
  COMPARE(hipStreamDestroy)
  COMPARE(hipStreamQuery)
  COMPARE(hipStreamSynchronize)
  COMPARE(hipStreamWaitEvent)
  COMPARE(hipStreamAddCallback)
  COMPARE(hipEventCreateWithFlags)
  COMPARE(hipEventDestroy)
  COMPARE(hipEventQuery)
  COMPARE(hipEventSynchronize)
  COMPARE(hipEventElapsedTime)
  COMPARE(hipModuleLoadData)
  COMPARE(hipModuleUnload)
  COMPARE(hipModuleGetFunction)
  COMPARE(hipModuleGetGlobal)
  COMPARE(hipModuleLaunchKernel)
  COMPARE(hipFuncGetAttribute)
  COMPARE(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)
  COMPARE(hipModuleOccupancyMaxPotentialBlockSize)
  COMPARE(hipGraphCreate)
  COMPARE(hipGraphDestroy)
  COMPARE(hipGraphAddKernelNode)
  COMPARE(hipGraphAddMemcpyNode1D)
  COMPARE(hipGraphAddMemsetNode)
  COMPARE(hipGraphAddEmptyNode)
  COMPARE(hipGraphInstantiate)
  COMPARE(hipGraphLaunch)
  COMPARE(hipGraphExecKernelNodeSetParams)
  COMPARE(hipGraphExecDestroy)
  COMPARE(hipStreamBeginCapture)
  COMPARE(hipStreamEndCapture)
  COMPARE(hipStreamIsCapturing)
#ifdef hipGetDeviceProperties  // 6.0 and later: the name of the function with the new layout
  COMPARE(hipGetDevicePropertiesR0600)
#else
  COMPARE(hipGetDeviceProperties)
#endif
  COMPARE(hipLaunchHostFunc)
  COMPARE(hipFreeAsync)
  COMPARE(hipGraphExecMemcpyNodeSetParams1D)
  COMPARE(hipGraphExecMemsetNodeSetParams)
  COMPARE(hipDeviceReset)
#undef COMPARE
}

}  // namespace
