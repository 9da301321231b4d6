// HIP's functions on top of the driver interface of CUDA, and the part of that interface that they call. The
// declarations follow the public documentation of cuda.h, so that a build needs nothing of CUDA.
#ifndef BACKPLANE_PLUGINS_HIP_RUNTIME_CUDA_DRIVER_H_
#define BACKPLANE_PLUGINS_HIP_RUNTIME_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "plugins/hip/runtime/hip_api.h"

namespace backplane::hip::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;

struct KernelNodeParams {  // CUDA_KERNEL_NODE_PARAMS_v1
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void** kernelParams;
  void** extra;
};

struct MemsetNodeParams {  // CUDA_MEMSET_NODE_PARAMS_v1
  CUdeviceptr dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
};

enum MemoryType : int { kMemoryHost = 1, kMemoryDevice = 2, kMemoryUnified = 4 };

struct Memcpy3D {  // CUDA_MEMCPY3D_v2
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  int srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  void* reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  int dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  void* reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
};

// X(member, symbol, (parameters)). The suffix _v2 of a symbol is what cuda.h gives the plain name today.
#define BACKPLANE_CUDA_REQUIRED(X)                                                                                \
  X(cuInit, "cuInit", (unsigned))                                                                                 \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int*))                                                             \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int*))                                                                 \
  X(cuDeviceGet, "cuDeviceGet", (CUdevice*, int))                                                                 \
  X(cuDeviceGetName, "cuDeviceGetName", (char*, int, CUdevice))                                                   \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t*, CUdevice))                                                 \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                                          \
  X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char*, int, CUdevice))                                           \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                                 \
  X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int*, CUdevice, CUdevice))                                   \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                              \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext*))                                                             \
  X(cuCtxSynchronize, "cuCtxSynchronize", ())                                                                     \
  X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int*, int*))                                     \
  X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUcontext, unsigned))                                        \
  X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", (CUcontext))                                                \
  X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t*, size_t*))                                                          \
  X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                                                          \
  X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                                     \
  X(cuMemHostAlloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                                 \
  X(cuMemFreeHost, "cuMemFreeHost", (void*))                                                                      \
  X(cuMemHostRegister, "cuMemHostRegister_v2", (void*, size_t, unsigned))                                         \
  X(cuMemHostUnregister, "cuMemHostUnregister", (void*))                                                          \
  X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr*, void*, unsigned))                   \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, size_t, CUstream))                      \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, size_t, CUstream))                            \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                      \
  X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))   \
  X(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))                           \
  X(cuMemsetD32Async, "cuMemsetD32Async", (CUdeviceptr, unsigned, size_t, CUstream))                              \
  X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream*, unsigned, int))                         \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                            \
  X(cuStreamQuery, "cuStreamQuery", (CUstream))                                                                   \
  X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                                       \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                        \
  X(cuStreamAddCallback, "cuStreamAddCallback", (CUstream, void (*)(CUstream, CUresult, void*), void*, unsigned)) \
  X(cuLaunchHostFunc, "cuLaunchHostFunc", (CUstream, void (*)(void*), void*))                                     \
  X(cuEventCreate, "cuEventCreate", (CUevent*, unsigned))                                                         \
  X(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                                                               \
  X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                                                          \
  X(cuEventQuery, "cuEventQuery", (CUevent))                                                                      \
  X(cuEventSynchronize, "cuEventSynchronize", (CUevent))                                                          \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float*, CUevent, CUevent))                                         \
  X(cuModuleLoadData, "cuModuleLoadData", (CUmodule*, const void*))                                               \
  X(cuModuleUnload, "cuModuleUnload", (CUmodule))                                                                 \
  X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                             \
  X(cuModuleGetGlobal, "cuModuleGetGlobal_v2", (CUdeviceptr*, size_t*, CUmodule, const char*))                    \
  X(cuLaunchKernel, "cuLaunchKernel",                                                                             \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**)) \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int*, int, CUfunction))                                            \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int))                                             \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                   \
    (int*, CUfunction, int, size_t))                                                                              \
  X(cuOccupancyMaxPotentialBlockSize, "cuOccupancyMaxPotentialBlockSize",                                         \
    (int*, int*, CUfunction, size_t (*)(int), size_t, int))                                                       \
  X(cuGraphCreate, "cuGraphCreate", (CUgraph*, unsigned))                                                         \
  X(cuGraphDestroy, "cuGraphDestroy", (CUgraph))                                                                  \
  X(cuGraphAddKernelNode, "cuGraphAddKernelNode",                                                                 \
    (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const KernelNodeParams*))                                 \
  X(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode",                                                                 \
    (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const Memcpy3D*, CUcontext))                              \
  X(cuGraphAddMemsetNode, "cuGraphAddMemsetNode",                                                                 \
    (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const MemsetNodeParams*, CUcontext))                      \
  X(cuGraphAddEmptyNode, "cuGraphAddEmptyNode", (CUgraphNode*, CUgraph, const CUgraphNode*, size_t))              \
  X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long))      \
  X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                      \
  X(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams",                                             \
    (CUgraphExec, CUgraphNode, const KernelNodeParams*))                                                          \
  X(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams",                                             \
    (CUgraphExec, CUgraphNode, const Memcpy3D*, CUcontext))                                                       \
  X(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams",                                             \
    (CUgraphExec, CUgraphNode, const MemsetNodeParams*, CUcontext))                                               \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                                      \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int))                                             \
  X(cuStreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph*))                                               \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream, int*))

#define BACKPLANE_CUDA_OPTIONAL(X)                                        \
  X(cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr*, size_t, CUstream)) \
  X(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))            \
  X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2", (CUdevice))

struct Driver {
#define BACKPLANE_CUDA_MEMBER(member, symbol, parameters) CUresult(*member) parameters = nullptr;
  BACKPLANE_CUDA_REQUIRED(BACKPLANE_CUDA_MEMBER)
  BACKPLANE_CUDA_OPTIONAL(BACKPLANE_CUDA_MEMBER)
#undef BACKPLANE_CUDA_MEMBER
};

// Returns the HIP error for a result of the driver. Most numbers are equal; a table has the others.
hipError_t ToHipError(CUresult result);

// Returns the number of the CUDA attribute for one of HIP's, or -1 if there is none.
int FindAttributeNumber(hipDeviceAttribute_t attribute);

// Makes the process use the driver behind `handle`, which dlopen returned, and fills the functions of `api`. HIP's
// functions take no argument that could hold the driver, so a process can use only one: returns FailedPrecondition for
// another.
absl::Status FillByCuda(void* handle, const std::string& library, HipApi& api);

// Makes the context of the thread's current device current in CUDA. Functions that need a context call it first.
hipError_t EnterContext();
const Driver& GetDriver();
// Sets *context to the primary context of a device and retains it until the process ends.
hipError_t RetainPrimaryContext(int device, CUcontext* context);
int GetCurrentDevice();
// Keeps an error for this thread's hipGetLastError and returns it.
hipError_t StoreLastError(hipError_t error);

// HIP's functions over the driver, by topic in cuda_device.cc, cuda_memory.cc, cuda_streams.cc and cuda_graphs.cc.
namespace thunks {
#define BACKPLANE_CUDA_THUNK(name, result, parameters) result name parameters;
BACKPLANE_HIP_REQUIRED(BACKPLANE_CUDA_THUNK)
#undef BACKPLANE_CUDA_THUNK
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data);
hipError_t hipMallocAsync(void** address, size_t bytes, hipStream_t stream);
hipError_t hipFreeAsync(void* address, hipStream_t stream);
hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute attribute, int value);
hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t executable, hipGraphNode_t node, void* to, const void* from,
                                             size_t bytes, hipMemcpyKind kind);
hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                           const hipMemsetParams* parameters);
hipError_t hipDeviceReset();
}  // namespace thunks

}  // namespace backplane::hip::cuda

#endif  // BACKPLANE_PLUGINS_HIP_RUNTIME_CUDA_DRIVER_H_
