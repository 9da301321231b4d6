// HIP's functions over CUDA's driver: graphs and capture.
#include "plugins/hip/runtime/cuda_driver.h"

namespace backplane::hip::cuda::thunks {

#define BACKPLANE_CUDA_ENTER_RETURN(call)                                                   \
  if (hipError_t error = EnterContext(); error != hipSuccess) return StoreLastError(error); \
  return StoreLastError(ToHipError(GetDriver().call))

namespace {

CUgraph AsGraph(hipGraph_t graph) { return reinterpret_cast<CUgraph>(graph); }
CUgraphExec AsExecutable(hipGraphExec_t executable) { return reinterpret_cast<CUgraphExec>(executable); }
CUgraphNode AsNode(hipGraphNode_t node) { return reinterpret_cast<CUgraphNode>(node); }
CUgraphNode* AsNodes(hipGraphNode_t* nodes) { return reinterpret_cast<CUgraphNode*>(nodes); }
const CUgraphNode* AsNodes(const hipGraphNode_t* nodes) { return reinterpret_cast<const CUgraphNode*>(nodes); }
CUstream GraphStream(hipStream_t stream) { return reinterpret_cast<CUstream>(stream); }

// The parameters of a kernel node with the terminator of the extra form that CUDA expects. `extra` has five places.
KernelNodeParams Translate(const hipKernelNodeParams& from, void** extra) {
  KernelNodeParams to{};
  to.func = reinterpret_cast<CUfunction>(from.func);
  to.gridDimX = from.gridDim.x, to.gridDimY = from.gridDim.y, to.gridDimZ = from.gridDim.z;
  to.blockDimX = from.blockDim.x, to.blockDimY = from.blockDim.y, to.blockDimZ = from.blockDim.z;
  to.sharedMemBytes = from.sharedMemBytes;
  to.kernelParams = from.kernelParams;
  if (from.extra != nullptr) {
    for (int i = 0; i < 4 && from.extra[i] != kLaunchParamEnd; i += 2) {
      extra[i] = from.extra[i];
      extra[i + 1] = from.extra[i + 1];
    }
    to.extra = extra;
  }
  return to;
}

MemsetNodeParams Translate(const hipMemsetParams& from) {
  return {reinterpret_cast<uintptr_t>(from.dst), from.pitch, from.value, from.elementSize, from.width, from.height};
}

Memcpy3D CopyOf(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  Memcpy3D copy{};
  copy.srcMemoryType = kind == hipMemcpyDefault                                       ? kMemoryUnified
                       : kind == hipMemcpyHostToDevice || kind == hipMemcpyHostToHost ? kMemoryHost
                                                                                      : kMemoryDevice;
  copy.dstMemoryType = kind == hipMemcpyDefault                                       ? kMemoryUnified
                       : kind == hipMemcpyDeviceToHost || kind == hipMemcpyHostToHost ? kMemoryHost
                                                                                      : kMemoryDevice;
  copy.srcHost = from;
  copy.srcDevice = reinterpret_cast<uintptr_t>(from);
  copy.dstHost = to;
  copy.dstDevice = reinterpret_cast<uintptr_t>(to);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

}  // namespace

hipError_t hipGraphCreate(hipGraph_t* graph, unsigned flags) {
  BACKPLANE_CUDA_ENTER_RETURN(cuGraphCreate(reinterpret_cast<CUgraph*>(graph), flags));
}

hipError_t hipGraphDestroy(hipGraph_t graph) { BACKPLANE_CUDA_ENTER_RETURN(cuGraphDestroy(AsGraph(graph))); }

hipError_t hipGraphAddKernelNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                 size_t dependency_count, const hipKernelNodeParams* parameters) {
  if (parameters == nullptr) return StoreLastError(hipErrorInvalidValue);
  void* extra[5] = {};
  const KernelNodeParams translated = Translate(*parameters, extra);
  BACKPLANE_CUDA_ENTER_RETURN(
      cuGraphAddKernelNode(AsNodes(node), AsGraph(graph), AsNodes(dependencies), dependency_count, &translated));
}

hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                   size_t dependency_count, void* to, const void* from, size_t bytes,
                                   hipMemcpyKind kind) {
  CUcontext context = nullptr;
  if (hipError_t error = RetainPrimaryContext(GetCurrentDevice(), &context); error != hipSuccess)
    return StoreLastError(error);
  const Memcpy3D copy = CopyOf(to, from, bytes, kind);
  BACKPLANE_CUDA_ENTER_RETURN(
      cuGraphAddMemcpyNode(AsNodes(node), AsGraph(graph), AsNodes(dependencies), dependency_count, &copy, context));
}

hipError_t hipGraphAddMemsetNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                 size_t dependency_count, const hipMemsetParams* parameters) {
  if (parameters == nullptr) return StoreLastError(hipErrorInvalidValue);
  CUcontext context = nullptr;
  if (hipError_t error = RetainPrimaryContext(GetCurrentDevice(), &context); error != hipSuccess)
    return StoreLastError(error);
  const MemsetNodeParams fill = Translate(*parameters);
  BACKPLANE_CUDA_ENTER_RETURN(
      cuGraphAddMemsetNode(AsNodes(node), AsGraph(graph), AsNodes(dependencies), dependency_count, &fill, context));
}

hipError_t hipGraphAddEmptyNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                size_t dependency_count) {
  BACKPLANE_CUDA_ENTER_RETURN(
      cuGraphAddEmptyNode(AsNodes(node), AsGraph(graph), AsNodes(dependencies), dependency_count));
}

hipError_t hipGraphInstantiate(hipGraphExec_t* executable, hipGraph_t graph, hipGraphNode_t* error_node, char* log,
                               size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes > 0) log[0] = '\0';
  BACKPLANE_CUDA_ENTER_RETURN(
      cuGraphInstantiateWithFlags(reinterpret_cast<CUgraphExec*>(executable), AsGraph(graph), 0));
}

hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream) {
  BACKPLANE_CUDA_ENTER_RETURN(cuGraphLaunch(AsExecutable(executable), GraphStream(stream)));
}

hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                           const hipKernelNodeParams* parameters) {
  if (parameters == nullptr) return StoreLastError(hipErrorInvalidValue);
  void* extra[5] = {};
  const KernelNodeParams translated = Translate(*parameters, extra);
  BACKPLANE_CUDA_ENTER_RETURN(cuGraphExecKernelNodeSetParams(AsExecutable(executable), AsNode(node), &translated));
}

hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t executable, hipGraphNode_t node, void* to, const void* from,
                                             size_t bytes, hipMemcpyKind kind) {
  CUcontext context = nullptr;
  if (hipError_t error = RetainPrimaryContext(GetCurrentDevice(), &context); error != hipSuccess)
    return StoreLastError(error);
  const Memcpy3D copy = CopyOf(to, from, bytes, kind);
  BACKPLANE_CUDA_ENTER_RETURN(cuGraphExecMemcpyNodeSetParams(AsExecutable(executable), AsNode(node), &copy, context));
}

hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                           const hipMemsetParams* parameters) {
  if (parameters == nullptr) return StoreLastError(hipErrorInvalidValue);
  CUcontext context = nullptr;
  if (hipError_t error = RetainPrimaryContext(GetCurrentDevice(), &context); error != hipSuccess)
    return StoreLastError(error);
  const MemsetNodeParams fill = Translate(*parameters);
  BACKPLANE_CUDA_ENTER_RETURN(cuGraphExecMemsetNodeSetParams(AsExecutable(executable), AsNode(node), &fill, context));
}

hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  BACKPLANE_CUDA_ENTER_RETURN(cuGraphExecDestroy(AsExecutable(executable)));
}

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  BACKPLANE_CUDA_ENTER_RETURN(cuStreamBeginCapture(GraphStream(stream), static_cast<int>(mode)));
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  BACKPLANE_CUDA_ENTER_RETURN(cuStreamEndCapture(GraphStream(stream), reinterpret_cast<CUgraph*>(graph)));
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  BACKPLANE_CUDA_ENTER_RETURN(cuStreamIsCapturing(GraphStream(stream), reinterpret_cast<int*>(status)));
}

#undef BACKPLANE_CUDA_ENTER_RETURN

}  // namespace backplane::hip::cuda::thunks
