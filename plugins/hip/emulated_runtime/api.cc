#include "plugins/hip/emulated_runtime/api.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace backplane::hip::emulated {
namespace {

// Makes the captures invalid that an unsafe call of this thread disturbs. Returns whether there was one.
bool DisturbCaptures(Runtime& runtime) {
  if (!runtime.captures().ForbidUnsafeCalls()) return false;
  for (int i = 0; i < runtime.device_count(); ++i) {
    for (const std::shared_ptr<Stream>& stream : runtime.device(i)->Streams()) {
      const std::shared_ptr<Capture> capture = stream->capture();
      if (capture == nullptr) continue;
      if (capture->mode() == hipStreamCaptureModeGlobal ||
          (capture->mode() == hipStreamCaptureModeThreadLocal && capture->is_of_this_thread())) {
        capture->Invalidate();
      }
    }
  }
  return true;
}

}  // namespace

ThreadState& GetThreadState() {
  static thread_local ThreadState state;
  return state;
}

hipError_t SetLastError(hipError_t error) {
  if (error != hipSuccess && error != hipErrorNotReady) GetThreadState().last = error;
  return error;
}

hipError_t EnterCall(const char* name, unsigned flags, Runtime** runtime) {
  *runtime = Runtime::Get();
  if (*runtime == nullptr) return hipErrorNotInitialized;
  ThreadState& thread = GetThreadState();
  if (thread.in_host_function) {
    Report().Add(absl::StrCat(name, " was called by a host function, which must not call the runtime"));
    return hipErrorNotSupported;
  }
  if ((*runtime)->device_count() == 0) return hipErrorNoDevice;
  if (thread.device >= (*runtime)->device_count()) thread.device = 0;
  if (const hipError_t fault = (*runtime)->faults().CountCall(name); fault != hipSuccess) {
    if (!IsSticky(fault)) return fault;
    if ((flags & kDefersSickness) == 0) {
      GetCurrentDevice(**runtime).Poison(fault, absl::StrCat(name, " was told to fail"));
      return fault;
    }
    thread.injected = fault;
  }
  if ((flags & kRunsOnFailedDevice) == 0) {
    if (const hipError_t error = GetCurrentDevice(**runtime).error(); error != hipSuccess) return error;
  }
  if ((flags & kUnsafeInCapture) != 0 && DisturbCaptures(**runtime)) {
    Report().Add(absl::StrCat(name, " was called while a stream captures, which makes the capture invalid"));
    return hipErrorStreamCaptureUnsupported;
  }
  return hipSuccess;
}

Device& GetCurrentDevice(Runtime& runtime) { return *runtime.device(GetThreadState().device); }

hipError_t FindStream(Runtime& runtime, hipStream_t handle, std::shared_ptr<Stream>* stream) {
  if (handle == nullptr) {
    *stream = GetCurrentDevice(runtime).null_stream();
    return hipSuccess;
  }
  *stream = runtime.streams().Find(handle);
  if (*stream == nullptr) return hipErrorInvalidHandle;
  return (*stream)->device().error();
}

hipError_t RefuseInCapture(const std::shared_ptr<Stream>& stream) {
  if (const std::shared_ptr<Capture> capture = stream->capture(); capture != nullptr) {
    capture->Invalidate();
    return hipErrorStreamCaptureUnsupported;
  }
  if (!stream->is_null()) return hipSuccess;
  // The null stream would wait for streams that capture.
  for (const std::shared_ptr<Stream>& other : stream->device().Streams()) {
    if (!other->is_blocking()) continue;
    if (const std::shared_ptr<Capture> capture = other->capture(); capture != nullptr) {
      capture->Invalidate();
      return hipErrorStreamCaptureImplicit;
    }
  }
  return hipSuccess;
}

hipError_t Dispatch(Runtime& runtime, const std::shared_ptr<Stream>& stream, NodeKind kind, Prepared prepared,
                    StreamPosition* position) {
  if (prepared.error != hipSuccess) return prepared.error;
  if (const std::shared_ptr<Capture> capture = stream->capture(); capture != nullptr) {
    return capture->Add(*stream, kind, std::move(prepared));
  }
  if (hipError_t error = RefuseInCapture(stream); error != hipSuccess) return error;
  Work work;
  work.text = std::move(prepared.text);
  work.action = std::move(prepared.action);
  work.has_latency = kind == NodeKind::kKernel || kind == NodeKind::kCopy || kind == NodeKind::kFill;
  if (const hipError_t injected = std::exchange(GetThreadState().injected, hipSuccess); injected != hipSuccess) {
    work.action = [injected](const OperationPtr&) { return injected; };
  }
  StreamPosition reached = runtime.Submit(stream, std::move(work));
  if (position != nullptr) *position = std::move(reached);
  return hipSuccess;
}

}  // namespace backplane::hip::emulated
