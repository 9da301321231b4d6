// The types and numbers of the HIP runtime's C interface, declared here so that neither a build nor a run needs HIP or
// CUDA headers. Names, values and layouts are HIP's own, of the public header hip/hip_runtime_api.h, and have been the
// same in 5.x, 6.x and 7.x where no remark says otherwise. Constants that HIP defines as macros are called k... here.
#ifndef BACKPLANE_PLUGINS_HIP_RUNTIME_HIP_TYPES_H_
#define BACKPLANE_PLUGINS_HIP_RUNTIME_HIP_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace backplane::hip {

// Handles. They belong to the library that made them; a null stream is the null stream of the current device.
using hipStream_t = struct ihipStream_t*;
using hipEvent_t = struct ihipEvent_t*;
using hipModule_t = struct ihipModule_t*;
using hipFunction_t = struct ihipModuleSymbol_t*;
using hipGraph_t = struct ihipGraph*;
using hipGraphNode_t = struct hipGraphNode*;
using hipGraphExec_t = struct hipGraphExec*;
using hipDevice_t = int;       // an ordinal from 0 on
using hipDeviceptr_t = void*;  // an address of device memory

// X(name, number, text): all results of HIP's functions. The texts are ours.
#define BACKPLANE_HIP_ERRORS(X)                                                                                      \
  X(hipSuccess, 0, "success")                                                                                        \
  X(hipErrorInvalidValue, 1, "an argument is invalid")                                                               \
  X(hipErrorOutOfMemory, 2, "out of memory")                                                                         \
  X(hipErrorNotInitialized, 3, "the runtime is not initialized")                                                     \
  X(hipErrorDeinitialized, 4, "the runtime is shutting down")                                                        \
  X(hipErrorProfilerDisabled, 5, "the profiler is disabled")                                                         \
  X(hipErrorProfilerNotInitialized, 6, "the profiler is not initialized")                                            \
  X(hipErrorProfilerAlreadyStarted, 7, "the profiler runs already")                                                  \
  X(hipErrorProfilerAlreadyStopped, 8, "the profiler is stopped already")                                            \
  X(hipErrorInvalidConfiguration, 9, "the launch has more threads, blocks or shared memory than the device allows")  \
  X(hipErrorInvalidPitchValue, 12, "the pitch is invalid")                                                           \
  X(hipErrorInvalidSymbol, 13, "the symbol is unknown")                                                              \
  X(hipErrorInvalidDevicePointer, 17, "the address is not one of device memory")                                     \
  X(hipErrorInvalidMemcpyDirection, 21, "the direction of the copy is invalid")                                      \
  X(hipErrorInsufficientDriver, 35, "the driver is older than the runtime requires")                                 \
  X(hipErrorMissingConfiguration, 52, "the launch was not configured")                                               \
  X(hipErrorPriorLaunchFailure, 53, "an earlier launch failed")                                                      \
  X(hipErrorInvalidDeviceFunction, 98, "the function is not one of the device")                                      \
  X(hipErrorNoDevice, 100, "there is no GPU that the runtime can use")                                               \
  X(hipErrorInvalidDevice, 101, "there is no device of this number")                                                 \
  X(hipErrorInvalidImage, 200, "the image is not a kernel image that the runtime knows")                             \
  X(hipErrorInvalidContext, 201, "the context is invalid")                                                           \
  X(hipErrorContextAlreadyCurrent, 202, "the context is current already")                                            \
  X(hipErrorMapFailed, 205, "memory could not be mapped")                                                            \
  X(hipErrorUnmapFailed, 206, "memory could not be unmapped")                                                        \
  X(hipErrorArrayIsMapped, 207, "the array is mapped")                                                               \
  X(hipErrorAlreadyMapped, 208, "the resource is mapped already")                                                    \
  X(hipErrorNoBinaryForGpu, 209, "the image has no code for this GPU")                                               \
  X(hipErrorAlreadyAcquired, 210, "the resource is acquired already")                                                \
  X(hipErrorNotMapped, 211, "the resource is not mapped")                                                            \
  X(hipErrorNotMappedAsArray, 212, "the resource is not mapped as an array")                                         \
  X(hipErrorNotMappedAsPointer, 213, "the resource is not mapped as a pointer")                                      \
  X(hipErrorECCNotCorrectable, 214, "memory has an error that ECC cannot correct")                                   \
  X(hipErrorUnsupportedLimit, 215, "the limit is not supported")                                                     \
  X(hipErrorContextAlreadyInUse, 216, "the context is in use by another thread")                                     \
  X(hipErrorPeerAccessUnsupported, 217, "the devices cannot access each other's memory")                             \
  X(hipErrorInvalidKernelFile, 218, "the kernel source could not be compiled")                                       \
  X(hipErrorInvalidGraphicsContext, 219, "the graphics context is invalid")                                          \
  X(hipErrorInvalidSource, 300, "the source of the kernel is invalid")                                               \
  X(hipErrorFileNotFound, 301, "a file was not found")                                                               \
  X(hipErrorSharedObjectSymbolNotFound, 302, "a symbol of a shared object was not found")                            \
  X(hipErrorSharedObjectInitFailed, 303, "a shared object could not be initialized")                                 \
  X(hipErrorOperatingSystem, 304, "a call of the operating system failed")                                           \
  X(hipErrorInvalidHandle, 400, "a handle is not valid, or its object was destroyed")                                \
  X(hipErrorIllegalState, 401, "the object is not in a state for this call")                                         \
  X(hipErrorNotFound, 500, "the name was not found")                                                                 \
  X(hipErrorNotReady, 600, "the work has not finished yet")                                                          \
  X(hipErrorIllegalAddress, 700, "a kernel or copy accessed memory that is not allocated")                           \
  X(hipErrorLaunchOutOfResources, 701, "the launch needs more registers or memory than a block can have")            \
  X(hipErrorLaunchTimeOut, 702, "a kernel ran for too long")                                                         \
  X(hipErrorPeerAccessAlreadyEnabled, 704, "access to the peer is enabled already")                                  \
  X(hipErrorPeerAccessNotEnabled, 705, "access to the peer is not enabled")                                          \
  X(hipErrorSetOnActiveProcess, 708, "the device is in use, so that its settings cannot change")                     \
  X(hipErrorContextIsDestroyed, 709, "the context was destroyed")                                                    \
  X(hipErrorAssert, 710, "an assertion in a kernel failed")                                                          \
  X(hipErrorHostMemoryAlreadyRegistered, 712, "the host memory is registered already")                               \
  X(hipErrorHostMemoryNotRegistered, 713, "the host memory is not registered")                                       \
  X(hipErrorLaunchFailure, 719, "a kernel failed")                                                                   \
  X(hipErrorCooperativeLaunchTooLarge, 720, "a cooperative launch has more blocks than the device runs at once")     \
  X(hipErrorNotSupported, 801, "the call is not supported")                                                          \
  X(hipErrorStreamCaptureUnsupported, 900, "the call is not permitted while a stream captures")                      \
  X(hipErrorStreamCaptureInvalidated, 901, "an earlier error made the capture invalid")                              \
  X(hipErrorStreamCaptureMerge, 902, "the call would merge two captures")                                            \
  X(hipErrorStreamCaptureUnmatched, 903, "the stream did not begin this capture")                                    \
  X(hipErrorStreamCaptureUnjoined, 904, "the capture has work on a stream that did not join the first stream again") \
  X(hipErrorStreamCaptureIsolation, 905, "the capture would depend on work outside of it")                           \
  X(hipErrorStreamCaptureImplicit, 906, "the call would make a capture depend on the null stream")                   \
  X(hipErrorCapturedEvent, 907, "the event was recorded in a capture")                                               \
  X(hipErrorStreamCaptureWrongThread, 908, "the capture was begun by another thread")                                \
  X(hipErrorGraphExecUpdateFailure, 910, "the executable graph could not be updated")                                \
  X(hipErrorUnknown, 999, "unknown error")                                                                           \
  X(hipErrorRuntimeMemory, 1052, "a call of the runtime below failed for memory")                                    \
  X(hipErrorRuntimeOther, 1053, "a call of the runtime below failed")

enum hipError_t : int {
#define BACKPLANE_HIP_ERROR(name, number, text) name = number,
  BACKPLANE_HIP_ERRORS(BACKPLANE_HIP_ERROR)
#undef BACKPLANE_HIP_ERROR
};

// X(name, number): what hipDeviceGetAttribute takes. The numbers are those of 5.0 and later (4.x had others).
#define BACKPLANE_HIP_ATTRIBUTES(X)                                                             \
  X(hipDeviceAttributeEccEnabled, 0)                                                            \
  X(hipDeviceAttributeAsyncEngineCount, 2)                                                      \
  X(hipDeviceAttributeCanMapHostMemory, 3)                                                      \
  X(hipDeviceAttributeClockRate, 5) /* kHz */                                                   \
  X(hipDeviceAttributeConcurrentKernels, 8)                                                     \
  X(hipDeviceAttributeCooperativeLaunch, 10)                                                    \
  X(hipDeviceAttributeIntegrated, 16)                                                           \
  X(hipDeviceAttributeL2CacheSize, 19) /* bytes */                                              \
  X(hipDeviceAttributeComputeCapabilityMajor, 23)                                               \
  X(hipDeviceAttributeManagedMemory, 24)                                                        \
  X(hipDeviceAttributeMaxBlocksPerMultiProcessor, 25)                                           \
  X(hipDeviceAttributeMaxBlockDimX, 26)                                                         \
  X(hipDeviceAttributeMaxBlockDimY, 27)                                                         \
  X(hipDeviceAttributeMaxBlockDimZ, 28)                                                         \
  X(hipDeviceAttributeMaxGridDimX, 29)                                                          \
  X(hipDeviceAttributeMaxGridDimY, 30)                                                          \
  X(hipDeviceAttributeMaxGridDimZ, 31)                                                          \
  X(hipDeviceAttributeMaxThreadsPerBlock, 56)                                                   \
  X(hipDeviceAttributeMaxThreadsPerMultiProcessor, 57)                                          \
  X(hipDeviceAttributeMemoryBusWidth, 59)  /* bits */                                           \
  X(hipDeviceAttributeMemoryClockRate, 60) /* kHz */                                            \
  X(hipDeviceAttributeComputeCapabilityMinor, 61)                                               \
  X(hipDeviceAttributeMultiprocessorCount, 63) /* compute units */                              \
  X(hipDeviceAttributePageableMemoryAccess, 65)                                                 \
  X(hipDeviceAttributePciBusId, 67)                                                             \
  X(hipDeviceAttributePciDeviceId, 68)                                                          \
  X(hipDeviceAttributePciDomainID, 69)                                                          \
  X(hipDeviceAttributeMaxRegistersPerBlock, 71)                                                 \
  X(hipDeviceAttributeMaxRegistersPerMultiprocessor, 72)                                        \
  X(hipDeviceAttributeMaxSharedMemoryPerBlock, 74)    /* bytes; without opting in (NVIDIA) */   \
  X(hipDeviceAttributeSharedMemPerBlockOptin, 75)     /* bytes; 0 in some versions for AMD */   \
  X(hipDeviceAttributeSharedMemPerMultiprocessor, 76) /* bytes; 0 in some versions for AMD */   \
  X(hipDeviceAttributeStreamPrioritiesSupported, 78)                                            \
  X(hipDeviceAttributeTotalConstantMemory, 83)                                                  \
  X(hipDeviceAttributeTotalGlobalMem, 84) /* too narrow for large devices: hipDeviceTotalMem */ \
  X(hipDeviceAttributeUnifiedAddressing, 85)                                                    \
  X(hipDeviceAttributeWarpSize, 87) /* lanes of a wave: 64 or 32 */                             \
  X(hipDeviceAttributeMemoryPoolsSupported, 88)                                                 \
  X(hipDeviceAttributeHostRegisterSupported, 90)               /* since 6.0 */                  \
  X(hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, 10002) /* bytes; AMD */                 \
  X(hipDeviceAttributeCanUseStreamWaitValue, 10013)                                             \
  X(hipDeviceAttributePhysicalMultiProcessorCount, 10015)                                       \
  X(hipDeviceAttributeFineGrainSupport, 10016)                                                  \
  X(hipDeviceAttributeWallClockRate, 10017) /* kHz; since 5.4 */

enum hipDeviceAttribute_t : int {
#define BACKPLANE_HIP_ATTRIBUTE(name, number) name = number,
  BACKPLANE_HIP_ATTRIBUTES(BACKPLANE_HIP_ATTRIBUTE)
#undef BACKPLANE_HIP_ATTRIBUTE
};

// What hipFuncGetAttribute tells about a kernel.
enum hipFunction_attribute : int {
  HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,  // static
  HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,  // scratch of a lane
  HIP_FUNC_ATTRIBUTE_NUM_REGS = 4,
  HIP_FUNC_ATTRIBUTE_PTX_VERSION = 5,
  HIP_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
  HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
  HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

// What hipFuncSetAttribute sets.
enum hipFuncAttribute : int {
  hipFuncAttributeMaxDynamicSharedMemorySize = 8,
  hipFuncAttributePreferredSharedMemoryCarveout = 9,
};

enum hipMemcpyKind : int {
  hipMemcpyHostToHost = 0,
  hipMemcpyHostToDevice = 1,
  hipMemcpyDeviceToHost = 2,
  hipMemcpyDeviceToDevice = 3,
  hipMemcpyDefault = 4,  // by the addresses
};

enum hipStreamCaptureMode : int {
  hipStreamCaptureModeGlobal = 0,
  hipStreamCaptureModeThreadLocal = 1,
  hipStreamCaptureModeRelaxed = 2,
};

enum hipStreamCaptureStatus : int {
  hipStreamCaptureStatusNone = 0,
  hipStreamCaptureStatusActive = 1,
  hipStreamCaptureStatusInvalidated = 2,
};

// Flags of hipStreamCreateWithFlags: whether the stream waits for the null stream and the null stream for it.
inline constexpr unsigned kStreamDefault = 0, kStreamNonBlocking = 1;
// Flags of hipEventCreateWithFlags.
inline constexpr unsigned kEventDefault = 0, kEventBlockingSync = 1, kEventDisableTiming = 2;
// Flags of hipHostMalloc; those from kHostMallocCoherent on only AMD has.
inline constexpr unsigned kHostMallocDefault = 0, kHostMallocPortable = 1, kHostMallocMapped = 2,
                          kHostMallocWriteCombined = 4, kHostMallocNumaUser = 0x20000000,
                          kHostMallocCoherent = 0x40000000, kHostMallocNonCoherent = 0x80000000;
// Flags of hipHostRegister.
inline constexpr unsigned kHostRegisterDefault = 0, kHostRegisterPortable = 1, kHostRegisterMapped = 2;

// The `extra` form of a launch, {kLaunchParamBufferPointer, buffer, kLaunchParamBufferSize, &bytes, kLaunchParamEnd}:
// the arguments lie in a buffer, each at its natural alignment. bytes is a size_t.
inline void* const kLaunchParamBufferPointer = reinterpret_cast<void*>(uintptr_t{1});
inline void* const kLaunchParamBufferSize = reinterpret_cast<void*>(uintptr_t{2});
inline void* const kLaunchParamEnd = reinterpret_cast<void*>(uintptr_t{3});

// A grid or block. (HIP calls it dim3.)
struct hipDim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct hipKernelNodeParams {
  hipDim3 blockDim;
  void** extra = nullptr;
  void* func = nullptr;  // a hipFunction_t
  hipDim3 gridDim;
  void** kernelParams = nullptr;
  unsigned sharedMemBytes = 0;
};

struct hipMemsetParams {
  void* dst = nullptr;
  unsigned elementSize = 1;  // 1, 2 or 4 bytes
  size_t height = 1;         // rows
  size_t pitch = 0;          // bytes from row to row, where height is not 1
  unsigned value = 0;
  size_t width = 0;  // elements of a row
};

// The functions that a runtime calls in the order of a stream. They must not call the runtime.
using hipHostFn_t = void (*)(void* user_data);
using hipStreamCallback_t = void (*)(hipStream_t stream, hipError_t status, void* user_data);

// hipGetDeviceProperties fills one of two layouts: R0000 of 5.x (also called hipGetDevicePropertiesR0000 since 6.0) or
// R0600 of 6.0 and later (hipGetDevicePropertiesR0600). Only this member is needed of them: the name of the machine
// with its features, "gfx90a:sramecc+:xnack-". Everything else is an attribute.
inline constexpr size_t kArchitectureNameBytes = 256;
struct hipDevicePropR0000 {
  unsigned char before[396];
  char gcnArchName[kArchitectureNameBytes];
  unsigned char after[140];
  unsigned char margin[1024];  // for versions that appended members
};
struct hipDevicePropR0600 {
  unsigned char before[1160];
  char gcnArchName[kArchitectureNameBytes];
  unsigned char after[56];
  unsigned char margin[1024];
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_RUNTIME_HIP_TYPES_H_
