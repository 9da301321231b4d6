// Exported functions: graphs and capture.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/api.h"

namespace backplane::hip::emulated {
namespace {

uint64_t NodeAddress(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Adds a node behind the given handles and returns its handle.
hipError_t AddNode(Runtime& runtime, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                   size_t count, NodeKind kind, Prepared prepared) {
  if (prepared.error != hipSuccess) return prepared.error;
  if (node == nullptr || (dependencies == nullptr && count > 0)) return hipErrorInvalidValue;
  const std::shared_ptr<Graph> found = runtime.graphs().Find(graph);
  if (found == nullptr) return hipErrorInvalidHandle;
  std::vector<GraphNode*> before;
  for (size_t i = 0; i < count; ++i) {
    const std::shared_ptr<GraphNode> dependency = runtime.nodes().Find(dependencies[i]);
    if (dependency == nullptr) return hipErrorInvalidHandle;
    if (!found->Contains(dependency.get())) {
      Report().Add(absl::StrCat("dependency ", i, " of a node is a node of another graph"));
      return hipErrorInvalidValue;
    }
    before.push_back(dependency.get());
  }
  *node = runtime.nodes().Add(found->Add(kind, &GetCurrentDevice(runtime), std::move(prepared), std::move(before)));
  found->AddHandle(*node);
  return hipSuccess;
}

Prepared PrepareNode(Runtime& runtime, const hipKernelNodeParams* parameters) {
  Prepared refused;
  refused.error = hipErrorInvalidValue;
  if (parameters == nullptr) return refused;
  const std::shared_ptr<Function> function = runtime.functions().Find(static_cast<hipFunction_t>(parameters->func));
  if (function == nullptr) {
    refused.error = hipErrorInvalidDeviceFunction;
    return refused;
  }
  return PrepareLaunch(function, {parameters->gridDim, parameters->blockDim, parameters->sharedMemBytes,
                                  parameters->kernelParams, parameters->extra});
}

Prepared PrepareNode(Runtime& runtime, void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  CopyRequest request;
  request.name = "copy node";
  request.to = NodeAddress(to);
  request.from = NodeAddress(from);
  request.bytes = bytes;
  switch (kind) {
    case hipMemcpyHostToHost:
      request.to_side = request.from_side = CopySide::kHost;
      break;
    case hipMemcpyHostToDevice:
      request.to_side = CopySide::kDevice;
      request.from_side = CopySide::kHost;
      break;
    case hipMemcpyDeviceToHost:
      request.to_side = CopySide::kHost;
      request.from_side = CopySide::kDevice;
      break;
    case hipMemcpyDeviceToDevice:
      request.to_side = request.from_side = CopySide::kDevice;
      break;
    case hipMemcpyDefault:
      break;
  }
  return PrepareCopy(GetCurrentDevice(runtime), request);
}

Prepared PrepareNode(Runtime& runtime, const hipMemsetParams* parameters) {
  if (parameters == nullptr) {
    Prepared refused;
    refused.error = hipErrorInvalidValue;
    return refused;
  }
  FillRequest request;
  request.name = "fill node";
  request.to = NodeAddress(parameters->dst);
  request.value = parameters->value;
  request.element_bytes = parameters->elementSize;
  request.elements = parameters->width;
  request.rows = parameters->height;
  request.pitch = parameters->pitch;
  return PrepareFill(GetCurrentDevice(runtime), request);
}

hipError_t ReplaceNode(Runtime& runtime, hipGraphExec_t executable, hipGraphNode_t node, NodeKind kind,
                       Prepared prepared) {
  if (prepared.error != hipSuccess) return prepared.error;
  const std::shared_ptr<GraphExecutable> found = runtime.executables().Find(executable);
  const std::shared_ptr<GraphNode> original = runtime.nodes().Find(node);
  if (found == nullptr || original == nullptr) return hipErrorInvalidHandle;
  return found->Replace(original.get(), kind, std::move(prepared)) ? hipSuccess : hipErrorInvalidValue;
}

}  // namespace
}  // namespace backplane::hip::emulated

namespace backplane::hip {
using namespace emulated;  // NOLINT: the exported functions are thin

HIPEMU_EXPORT hipError_t hipGraphCreate(hipGraph_t* graph, unsigned flags) noexcept {
  return Call("hipGraphCreate", kPlain, [&](Runtime& runtime) {
    if (graph == nullptr || flags != 0) return hipErrorInvalidValue;
    *graph = runtime.graphs().Add(std::make_shared<Graph>());
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipGraphDestroy(hipGraph_t graph) noexcept {
  return Call("hipGraphDestroy", kRunsOnFailedDevice, [&](Runtime& runtime) {
    const std::shared_ptr<Graph> found = runtime.graphs().Remove(graph);
    if (found == nullptr) return hipErrorInvalidHandle;
    for (hipGraphNode_t node : found->Handles()) runtime.nodes().Remove(node);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipGraphAddKernelNode(hipGraphNode_t* node, hipGraph_t graph,
                                               const hipGraphNode_t* dependencies, size_t dependency_count,
                                               const hipKernelNodeParams* parameters) noexcept {
  return Call("hipGraphAddKernelNode", kPlain, [&](Runtime& runtime) {
    return AddNode(runtime, node, graph, dependencies, dependency_count, NodeKind::kKernel,
                   PrepareNode(runtime, parameters));
  });
}

HIPEMU_EXPORT hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* node, hipGraph_t graph,
                                                 const hipGraphNode_t* dependencies, size_t dependency_count, void* to,
                                                 const void* from, size_t bytes, hipMemcpyKind kind) noexcept {
  return Call("hipGraphAddMemcpyNode1D", kPlain, [&](Runtime& runtime) {
    return AddNode(runtime, node, graph, dependencies, dependency_count, NodeKind::kCopy,
                   PrepareNode(runtime, to, from, bytes, kind));
  });
}

HIPEMU_EXPORT hipError_t hipGraphAddMemsetNode(hipGraphNode_t* node, hipGraph_t graph,
                                               const hipGraphNode_t* dependencies, size_t dependency_count,
                                               const hipMemsetParams* parameters) noexcept {
  return Call("hipGraphAddMemsetNode", kPlain, [&](Runtime& runtime) {
    return AddNode(runtime, node, graph, dependencies, dependency_count, NodeKind::kFill,
                   PrepareNode(runtime, parameters));
  });
}

HIPEMU_EXPORT hipError_t hipGraphAddEmptyNode(hipGraphNode_t* node, hipGraph_t graph,
                                              const hipGraphNode_t* dependencies, size_t dependency_count) noexcept {
  return Call("hipGraphAddEmptyNode", kPlain, [&](Runtime& runtime) {
    Prepared nothing;
    nothing.text = "empty node";
    return AddNode(runtime, node, graph, dependencies, dependency_count, NodeKind::kEmpty, std::move(nothing));
  });
}

HIPEMU_EXPORT hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) noexcept {
  return Call("hipGraphGetNodes", kPlain, [&](Runtime& runtime) {
    if (count == nullptr) return hipErrorInvalidValue;
    const std::shared_ptr<Graph> found = runtime.graphs().Find(graph);
    if (found == nullptr) return hipErrorInvalidHandle;
    const std::vector<hipGraphNode_t> handles = found->Handles();
    if (nodes == nullptr) {
      *count = handles.size();
      return hipSuccess;
    }
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < handles.size() ? handles[i] : nullptr;
    *count = std::min(*count, handles.size());
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t* executable, hipGraph_t graph, hipGraphNode_t* error_node,
                                             char* log, size_t log_bytes) noexcept {
  return Call("hipGraphInstantiate", kPlain, [&](Runtime& runtime) {
    if (executable == nullptr) return hipErrorInvalidValue;
    if (error_node != nullptr) *error_node = nullptr;
    if (log != nullptr && log_bytes > 0) log[0] = '\0';
    const std::shared_ptr<Graph> found = runtime.graphs().Find(graph);
    if (found == nullptr) return hipErrorInvalidHandle;
    *executable = runtime.executables().Add(std::make_shared<GraphExecutable>(*found));
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream) noexcept {
  return Call("hipGraphLaunch", kDefersSickness, [&](Runtime& runtime) {
    const std::shared_ptr<GraphExecutable> found = runtime.executables().Find(executable);
    if (found == nullptr) return hipErrorInvalidHandle;
    std::shared_ptr<Stream> on;
    if (hipError_t error = FindStream(runtime, stream, &on); error != hipSuccess) return error;
    if (on->capture() != nullptr) return RefuseInCapture(on);  // graphs within graphs are not supported
    return Dispatch(runtime, on, NodeKind::kKernel, found->PrepareLaunch());
  });
}

HIPEMU_EXPORT hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                         const hipKernelNodeParams* parameters) noexcept {
  return Call("hipGraphExecKernelNodeSetParams", kPlain, [&](Runtime& runtime) {
    return ReplaceNode(runtime, executable, node, NodeKind::kKernel, PrepareNode(runtime, parameters));
  });
}

HIPEMU_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t executable, hipGraphNode_t node, void* to,
                                                           const void* from, size_t bytes,
                                                           hipMemcpyKind kind) noexcept {
  return Call("hipGraphExecMemcpyNodeSetParams1D", kPlain, [&](Runtime& runtime) {
    return ReplaceNode(runtime, executable, node, NodeKind::kCopy, PrepareNode(runtime, to, from, bytes, kind));
  });
}

HIPEMU_EXPORT hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                         const hipMemsetParams* parameters) noexcept {
  return Call("hipGraphExecMemsetNodeSetParams", kPlain, [&](Runtime& runtime) {
    return ReplaceNode(runtime, executable, node, NodeKind::kFill, PrepareNode(runtime, parameters));
  });
}

HIPEMU_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t executable) noexcept {
  return Call("hipGraphExecDestroy", kRunsOnFailedDevice, [&](Runtime& runtime) {
    return runtime.executables().Remove(executable) == nullptr ? hipErrorInvalidHandle : hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) noexcept {
  return Call("hipStreamBeginCapture", kPlain, [&](Runtime& runtime) {
    if (mode != hipStreamCaptureModeGlobal && mode != hipStreamCaptureModeThreadLocal &&
        mode != hipStreamCaptureModeRelaxed) {
      return hipErrorInvalidValue;
    }
    if (stream == nullptr) return hipErrorStreamCaptureUnsupported;  // the null stream cannot capture
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    if (found->capture() != nullptr) return hipErrorIllegalState;
    found->set_capture(std::make_shared<Capture>(found.get(), mode));
    runtime.captures().Begin(mode);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) noexcept {
  return Call("hipStreamEndCapture", kPlain, [&](Runtime& runtime) {
    if (graph == nullptr) return hipErrorInvalidValue;
    *graph = nullptr;
    if (stream == nullptr) return hipErrorIllegalState;
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    const std::shared_ptr<Capture> capture = found->capture();
    if (capture == nullptr) return hipErrorIllegalState;
    if (capture->origin() != found.get()) {
      capture->Invalidate();
      return hipErrorStreamCaptureUnmatched;
    }
    if (capture->mode() != hipStreamCaptureModeRelaxed && !capture->is_of_this_thread()) {
      return hipErrorStreamCaptureWrongThread;
    }
    found->set_capture(nullptr);
    runtime.captures().End(capture->mode());
    const std::shared_ptr<Graph> made = capture->Finish();
    if (!capture->is_valid()) return hipErrorStreamCaptureInvalidated;
    capture->Invalidate();  // events that were recorded in it cannot be waited for any more
    if (!capture->IsJoined()) return hipErrorStreamCaptureUnjoined;
    for (const std::shared_ptr<GraphNode>& node : made->Nodes()) made->AddHandle(runtime.nodes().Add(node));
    *graph = runtime.graphs().Add(made);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) noexcept {
  return Call("hipStreamIsCapturing", kPlain, [&](Runtime& runtime) {
    if (status == nullptr) return hipErrorInvalidValue;
    *status = hipStreamCaptureStatusNone;
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    if (const std::shared_ptr<Capture> capture = found->capture(); capture != nullptr) {
      *status = capture->is_valid() ? hipStreamCaptureStatusActive : hipStreamCaptureStatusInvalidated;
    }
    return hipSuccess;
  });
}

}  // namespace backplane::hip
