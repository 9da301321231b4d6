// HipApi: the GPU runtime as a table of functions that OpenRuntime (open_runtime.h) fills at run time.
//
// The functions have HIP's names and meaning, whichever platform fills the table:
//   amd       libamdhip64, 5.2 or later
//   nvidia    libcuda's driver interface; modules are PTX or cubins, a wave has 32 lanes
//   emulated  libhipemu; modules are code objects of AMD GPUs or host images (plugins/hip/lowering/host_image.h)
//
// All functions may be called from several threads at once. The current device is a state of the calling thread
// (hipSetDevice), 0 in a new thread; streams, events, modules and allocations belong to the device that was current
// when they were made. A function returns hipSuccess or an error that ToStatus explains; an error may come from earlier
// work of the device.
#ifndef BACKPLANE_PLUGINS_HIP_RUNTIME_HIP_API_H_
#define BACKPLANE_PLUGINS_HIP_RUNTIME_HIP_API_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip {

// X(name, result, (parameters)): the functions without which a runtime is refused. All are in HIP 5.2.
#define BACKPLANE_HIP_REQUIRED(X)                                                                                     \
  X(hipInit, hipError_t, (unsigned flags))                                                                            \
  X(hipRuntimeGetVersion, hipError_t, (int* version))                                                                 \
  X(hipDriverGetVersion, hipError_t, (int* version))                                                                  \
  X(hipGetErrorName, const char*, (hipError_t error))                                                                 \
  X(hipGetLastError, hipError_t, ())                                                                                  \
  X(hipPeekAtLastError, hipError_t, ())                                                                               \
  X(hipGetDeviceCount, hipError_t, (int* count))                                                                      \
  X(hipSetDevice, hipError_t, (int device))                                                                           \
  X(hipGetDevice, hipError_t, (int* device))                                                                          \
  X(hipDeviceGetAttribute, hipError_t, (int* value, hipDeviceAttribute_t attribute, int device))                      \
  X(hipDeviceGetName, hipError_t, (char* name, int bytes, hipDevice_t device))                                        \
  X(hipDeviceTotalMem, hipError_t, (size_t * bytes, hipDevice_t device))                                              \
  X(hipDeviceGetPCIBusId, hipError_t, (char* id, int bytes, int device))                                              \
  X(hipDeviceSynchronize, hipError_t, ())                                                                             \
  X(hipDeviceCanAccessPeer, hipError_t, (int* can_access, int device, int peer))                                      \
  X(hipDeviceEnablePeerAccess, hipError_t, (int peer, unsigned flags))                                                \
  X(hipDeviceDisablePeerAccess, hipError_t, (int peer))                                                               \
  X(hipMemGetInfo, hipError_t, (size_t * free, size_t * total))                                                       \
  X(hipMalloc, hipError_t, (void** address, size_t bytes))                                                            \
  X(hipFree, hipError_t, (void* address))                                                                             \
  X(hipHostMalloc, hipError_t, (void** address, size_t bytes, unsigned flags))                                        \
  X(hipHostFree, hipError_t, (void* address))                                                                         \
  X(hipHostRegister, hipError_t, (void* address, size_t bytes, unsigned flags))                                       \
  X(hipHostUnregister, hipError_t, (void* address))                                                                   \
  X(hipHostGetDevicePointer, hipError_t, (void** device_address, void* host_address, unsigned flags))                 \
  X(hipMemcpyHtoDAsync, hipError_t, (hipDeviceptr_t to, void* from, size_t bytes, hipStream_t stream))                \
  X(hipMemcpyDtoHAsync, hipError_t, (void* to, hipDeviceptr_t from, size_t bytes, hipStream_t stream))                \
  X(hipMemcpyDtoDAsync, hipError_t, (hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream))       \
  X(hipMemcpyPeerAsync, hipError_t,                                                                                   \
    (void* to, int to_device, const void* from, int from_device, size_t bytes, hipStream_t stream))                   \
  X(hipMemsetD8Async, hipError_t, (hipDeviceptr_t to, unsigned char value, size_t bytes, hipStream_t stream))         \
  X(hipMemsetD32Async, hipError_t, (hipDeviceptr_t to, int value, size_t words, hipStream_t stream))                  \
  X(hipDeviceGetStreamPriorityRange, hipError_t, (int* least, int* greatest))                                         \
  X(hipStreamCreateWithFlags, hipError_t, (hipStream_t * stream, unsigned flags))                                     \
  X(hipStreamCreateWithPriority, hipError_t, (hipStream_t * stream, unsigned flags, int priority))                    \
  X(hipStreamDestroy, hipError_t, (hipStream_t stream))                                                               \
  X(hipStreamQuery, hipError_t, (hipStream_t stream))                                                                 \
  X(hipStreamSynchronize, hipError_t, (hipStream_t stream))                                                           \
  X(hipStreamWaitEvent, hipError_t, (hipStream_t stream, hipEvent_t event, unsigned flags))                           \
  X(hipStreamAddCallback, hipError_t,                                                                                 \
    (hipStream_t stream, hipStreamCallback_t callback, void* user_data, unsigned flags))                              \
  X(hipEventCreateWithFlags, hipError_t, (hipEvent_t * event, unsigned flags))                                        \
  X(hipEventDestroy, hipError_t, (hipEvent_t event))                                                                  \
  X(hipEventRecord, hipError_t, (hipEvent_t event, hipStream_t stream))                                               \
  X(hipEventQuery, hipError_t, (hipEvent_t event))                                                                    \
  X(hipEventSynchronize, hipError_t, (hipEvent_t event))                                                              \
  X(hipEventElapsedTime, hipError_t, (float* milliseconds, hipEvent_t start, hipEvent_t stop))                        \
  X(hipModuleLoadData, hipError_t, (hipModule_t * module, const void* image))                                         \
  X(hipModuleUnload, hipError_t, (hipModule_t module))                                                                \
  X(hipModuleGetFunction, hipError_t, (hipFunction_t * function, hipModule_t module, const char* name))               \
  X(hipModuleGetGlobal, hipError_t, (hipDeviceptr_t * address, size_t * bytes, hipModule_t module, const char* name)) \
  X(hipModuleLaunchKernel, hipError_t,                                                                                \
    (hipFunction_t function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,             \
     unsigned threads_y, unsigned threads_z, unsigned dynamic_shared_bytes, hipStream_t stream, void** parameters,    \
     void** extra))                                                                                                   \
  X(hipFuncGetAttribute, hipError_t, (int* value, hipFunction_attribute attribute, hipFunction_t function))           \
  X(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, hipError_t,                                                   \
    (int* blocks, hipFunction_t function, int threads, size_t dynamic_shared_bytes))                                  \
  X(hipModuleOccupancyMaxPotentialBlockSize, hipError_t,                                                              \
    (int* blocks, int* threads, hipFunction_t function, size_t dynamic_shared_bytes, int max_threads))                \
  X(hipGraphCreate, hipError_t, (hipGraph_t * graph, unsigned flags))                                                 \
  X(hipGraphDestroy, hipError_t, (hipGraph_t graph))                                                                  \
  X(hipGraphAddKernelNode, hipError_t,                                                                                \
    (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t* dependencies, size_t dependency_count,            \
     const hipKernelNodeParams* parameters))                                                                          \
  X(hipGraphAddMemcpyNode1D, hipError_t,                                                                              \
    (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t* dependencies, size_t dependency_count, void* to,  \
     const void* from, size_t bytes, hipMemcpyKind kind))                                                             \
  X(hipGraphAddMemsetNode, hipError_t,                                                                                \
    (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t* dependencies, size_t dependency_count,            \
     const hipMemsetParams* parameters))                                                                              \
  X(hipGraphAddEmptyNode, hipError_t,                                                                                 \
    (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t* dependencies, size_t dependency_count))           \
  X(hipGraphInstantiate, hipError_t,                                                                                  \
    (hipGraphExec_t * executable, hipGraph_t graph, hipGraphNode_t * error_node, char* log, size_t log_bytes))        \
  X(hipGraphLaunch, hipError_t, (hipGraphExec_t executable, hipStream_t stream))                                      \
  X(hipGraphExecKernelNodeSetParams, hipError_t,                                                                      \
    (hipGraphExec_t executable, hipGraphNode_t node, const hipKernelNodeParams* parameters))                          \
  X(hipGraphExecDestroy, hipError_t, (hipGraphExec_t executable))                                                     \
  X(hipStreamBeginCapture, hipError_t, (hipStream_t stream, hipStreamCaptureMode mode))                               \
  X(hipStreamEndCapture, hipError_t, (hipStream_t stream, hipGraph_t * graph))                                        \
  X(hipStreamIsCapturing, hipError_t, (hipStream_t stream, hipStreamCaptureStatus * status))

// X(name, version, result, (parameters)): functions that may be missing: the pointer is null then. `version` is the
// HIP version that brought the function, times 100 (503: 5.3), for messages and pages; what counts is the symbol.
#define BACKPLANE_HIP_OPTIONAL(X)                                                                                   \
  X(hipGetDeviceProperties, 402, hipError_t, (hipDevicePropR0000 * properties, int device))                         \
  X(hipGetDevicePropertiesR0600, 600, hipError_t, (hipDevicePropR0600 * properties, int device))                    \
  X(hipLaunchHostFunc, 503, hipError_t, (hipStream_t stream, hipHostFn_t function, void* user_data))                \
  X(hipMallocAsync, 502, hipError_t, (void** address, size_t bytes, hipStream_t stream))                            \
  X(hipFreeAsync, 502, hipError_t, (void* address, hipStream_t stream))                                             \
  X(hipFuncSetAttribute, 402, hipError_t, (const void* function, hipFuncAttribute attribute, int value))            \
  X(hipGraphExecMemcpyNodeSetParams1D, 501, hipError_t,                                                             \
    (hipGraphExec_t executable, hipGraphNode_t node, void* to, const void* from, size_t bytes, hipMemcpyKind kind)) \
  X(hipGraphExecMemsetNodeSetParams, 501, hipError_t,                                                               \
    (hipGraphExec_t executable, hipGraphNode_t node, const hipMemsetParams* parameters))                            \
  X(hipDeviceReset, 402, hipError_t, ())

enum class Platform { kAmd, kNvidia, kEmulated };

// What an optional function makes possible.
struct HipFeatures {
  bool launch_host_func = false;       // hipLaunchHostFunc; else hipStreamAddCallback
  bool stream_ordered_memory = false;  // hipMallocAsync and hipFreeAsync
  bool graph_copy_updates = false;     // hipGraphExecMemcpyNodeSetParams1D and ...MemsetNodeSetParams
  // hipFuncSetAttribute takes a hipFunction_t, and blocks with more dynamic shared memory than
  // hipDeviceAttributeMaxSharedMemoryPerBlock need it (up to ...SharedMemPerBlockOptin). Only NVIDIA's GPUs.
  bool shared_memory_opt_in = false;
};

// The library is never unloaded. A table is a value: copy it at will.
struct HipApi {
#define BACKPLANE_HIP_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  BACKPLANE_HIP_REQUIRED(BACKPLANE_HIP_MEMBER)
#undef BACKPLANE_HIP_MEMBER
#define BACKPLANE_HIP_MEMBER(name, version, result, parameters) result(*name) parameters = nullptr;
  BACKPLANE_HIP_OPTIONAL(BACKPLANE_HIP_MEMBER)
#undef BACKPLANE_HIP_MEMBER

  Platform platform = Platform::kAmd;
  std::string library;      // what was opened: "libamdhip64.so.6" or a path
  int runtime_version = 0;  // as hipRuntimeGetVersion states it: 60342131 is 6.3.42131. NVIDIA: 12040 is CUDA 12.4
  int device_count = 0;     // at least 1
  HipFeatures features;
};

// Returns the machine of a device as compilers name it: "gfx942:sramecc+:xnack-" (AMD, emulated), "sm_90" (NVIDIA).
absl::StatusOr<std::string> GetArchitecture(const HipApi& api, int device);

// Converts the result of a call. The message of an error is like "hipMalloc: out of memory [hipErrorOutOfMemory, 2]",
// where `what` names the call, or what it was for. The codes:
//   ResourceExhausted   out of memory
//   InvalidArgument     a bad argument or handle
//   NotFound            a missing device, name or file
//   Unimplemented       a call that the runtime does not support
//   FailedPrecondition  a call in the wrong order or state
//   Internal            a kernel or device that failed, and everything else
absl::Status ToStatus(hipError_t error, absl::string_view what);

// Return the name that HIP gives an error, and a text of ours. An unknown number has the name "hipError" and the text
// "unknown error".
const char* GetErrorName(hipError_t error);
const char* GetErrorText(hipError_t error);

// Whether the error makes the device unusable until the process ends (on AMD: until hipDeviceReset): an illegal
// address, a failed kernel, a failed assertion.
bool IsSticky(hipError_t error);

// Makes a device the current one until the end of a scope, and then restores the one before. status() tells whether the
// first change succeeded.
class ScopedDevice {
 public:
  ScopedDevice(const HipApi& api, int device);
  ~ScopedDevice();
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  const HipApi& api_;
  int before_ = -1;
  absl::Status status_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_RUNTIME_HIP_API_H_
