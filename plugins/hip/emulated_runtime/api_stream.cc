// Exported functions: streams, events, host functions.
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/api.h"

namespace backplane::hip::emulated {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

hipError_t MakeStream(Runtime& runtime, hipStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~kStreamNonBlocking) != 0) return hipErrorInvalidValue;
  *stream = runtime.streams().Add(GetCurrentDevice(runtime).AddStream(flags, priority));
  return hipSuccess;
}

// The event behind a handle and its record, which is null before the first.
hipError_t FindEvent(Runtime& runtime, hipEvent_t handle, std::shared_ptr<Event>* event,
                     std::shared_ptr<Event::Record>* record) {
  *event = runtime.events().Find(handle);
  if (*event == nullptr) return hipErrorInvalidHandle;
  *record = (*event)->record();
  return hipSuccess;
}

// A record in a capture stands for no time, so nobody can wait for it outside.
hipError_t RefuseCaptured(const std::shared_ptr<Event::Record>& record) {
  if (record == nullptr || record->capture == nullptr) return hipSuccess;
  record->capture->Invalidate();
  return hipErrorCapturedEvent;
}

hipError_t RecordEvent(Runtime& runtime, const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream) {
  auto record = std::make_shared<Event::Record>();
  if (const std::shared_ptr<Capture> capture = stream->capture(); capture != nullptr) {
    if (!capture->is_valid()) return hipErrorStreamCaptureInvalidated;
    record->capture = capture;
    record->captured = capture->FindLastNodes(*stream);
    event->set_record(std::move(record));
    return hipSuccess;
  }
  if (hipError_t error = RefuseInCapture(stream); error != hipSuccess) return error;
  Work work;
  work.text = "hipEventRecord";
  work.always = [record](const OperationPtr&, hipError_t) { record->time_ns.store(NowNs()); };
  record->position = runtime.Submit(stream, std::move(work));
  event->set_record(std::move(record));
  return hipSuccess;
}

hipError_t WaitForEvent(Runtime& runtime, const std::shared_ptr<Stream>& stream,
                        const std::shared_ptr<Event::Record>& record) {
  const std::shared_ptr<Capture> capture = stream->capture();
  const std::shared_ptr<Capture> other = record == nullptr ? nullptr : record->capture;
  if (other != nullptr) {
    if (capture != nullptr && capture != other) {
      capture->Invalidate();
      other->Invalidate();
      return hipErrorStreamCaptureMerge;
    }
    if (!other->is_valid()) return hipErrorStreamCaptureInvalidated;
    if (stream->is_null()) {
      other->Invalidate();
      return hipErrorStreamCaptureImplicit;
    }
    other->Order(stream, record->captured);
    if (capture == nullptr) stream->set_capture(other);
    return hipSuccess;
  }
  if (capture != nullptr) {  // on work outside of the capture
    capture->Invalidate();
    return hipErrorStreamCaptureIsolation;
  }
  if (record == nullptr) return hipSuccess;  // an event that was never recorded is complete
  if (hipError_t error = RefuseInCapture(stream); error != hipSuccess) return error;
  Work work;
  work.text = "hipStreamWaitEvent";
  runtime.Submit(stream, std::move(work), {record->position});
  return hipSuccess;
}

// Runs a function of the caller on the stream's thread.
template <typename Function>
void RunHostFunction(Runtime& runtime, const OperationPtr& operation, const Function& function) {
  // The host learns that everything before has finished.
  runtime.order().RecordHostWait(operation->clock);
  struct Scope {  // it may throw
    Scope() { GetThreadState().in_host_function = true; }
    ~Scope() { GetThreadState().in_host_function = false; }
  } scope;
  function();
}

}  // namespace
}  // namespace backplane::hip::emulated

namespace backplane::hip {
using namespace emulated;  // NOLINT: the exported functions are thin

HIPEMU_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) noexcept {
  return Call("hipDeviceGetStreamPriorityRange", kPlain, [&](Runtime&) {
    if (least != nullptr) *least = 1;
    if (greatest != nullptr) *greatest = -1;
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipStreamCreate(hipStream_t* stream) noexcept {
  return Call("hipStreamCreate", kPlain,
              [&](Runtime& runtime) { return MakeStream(runtime, stream, kStreamDefault, 0); });
}

HIPEMU_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) noexcept {
  return Call("hipStreamCreateWithFlags", kPlain,
              [&](Runtime& runtime) { return MakeStream(runtime, stream, flags, 0); });
}

HIPEMU_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) noexcept {
  return Call("hipStreamCreateWithPriority", kPlain,
              [&](Runtime& runtime) { return MakeStream(runtime, stream, flags, priority); });
}

HIPEMU_EXPORT hipError_t hipStreamDestroy(hipStream_t stream) noexcept {
  return Call("hipStreamDestroy", kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (stream == nullptr) return hipErrorInvalidHandle;
    const std::shared_ptr<Stream> found = runtime.streams().Remove(stream);
    if (found == nullptr) return hipErrorInvalidHandle;
    if (const std::shared_ptr<Capture> capture = found->capture(); capture != nullptr) {
      capture->Invalidate();
      if (capture->origin() == found.get()) {
        runtime.captures().End(capture->mode());
        capture->Finish();
      }
      found->set_capture(nullptr);
    }
    found->Close(false);
    found->device().RemoveStream(found.get());
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipStreamQuery(hipStream_t stream) noexcept {
  return Call("hipStreamQuery", kPlain, [&](Runtime& runtime) {
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    if (hipError_t error = RefuseInCapture(found); error != hipSuccess) return error;
    const StreamPosition tail = found->Tail();
    if (!found->IsDone(tail.sequence)) return hipErrorNotReady;
    runtime.order().RecordHostWait(tail.clock);
    return found->device().error();
  });
}

HIPEMU_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream) noexcept {
  return Call("hipStreamSynchronize", kPlain, [&](Runtime& runtime) {
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    if (hipError_t error = RefuseInCapture(found); error != hipSuccess) return error;
    if (found->is_null()) {
      found->device().Await(true);
      return found->device().error();
    }
    const StreamPosition tail = found->Tail();
    found->Await(tail.sequence);
    runtime.order().RecordHostWait(tail.clock);
    return found->device().error();
  });
}

HIPEMU_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) noexcept {
  return Call("hipStreamWaitEvent", kPlain, [&](Runtime& runtime) {
    if (flags != 0) return hipErrorInvalidValue;
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    std::shared_ptr<Event> source;
    std::shared_ptr<Event::Record> record;
    if (hipError_t error = FindEvent(runtime, event, &source, &record); error != hipSuccess) return error;
    MutexLock lock(source->lock());
    return WaitForEvent(runtime, found, record);
  });
}

HIPEMU_EXPORT hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* user_data,
                                              unsigned flags) noexcept {
  return Call("hipStreamAddCallback", kPlain, [&](Runtime& runtime) {
    if (callback == nullptr || flags != 0) return hipErrorInvalidValue;
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    if (hipError_t error = RefuseInCapture(found); error != hipSuccess) return error;
    Work work;
    work.text = "hipStreamAddCallback";
    // A callback learns of errors, so it runs in any case.
    work.always = [&runtime, stream, callback, user_data](const OperationPtr& operation, hipError_t error) {
      RunHostFunction(runtime, operation, [&] { callback(stream, error, user_data); });
    };
    runtime.Submit(found, std::move(work));
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data) noexcept {
  return Call("hipLaunchHostFunc", kPlain, [&](Runtime& runtime) {
    if (function == nullptr) return hipErrorInvalidValue;
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    Prepared prepared;
    prepared.text = "hipLaunchHostFunc";
    prepared.action = [&runtime, function, user_data](const OperationPtr& operation) {
      RunHostFunction(runtime, operation, [&] { function(user_data); });
      return hipSuccess;
    };
    return Dispatch(runtime, found, NodeKind::kHost, std::move(prepared));
  });
}

HIPEMU_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) noexcept {
  return Call("hipEventCreateWithFlags", kPlain, [&](Runtime& runtime) {
    constexpr unsigned kReleaseFlags = 0xc0000000;  // hipEventReleaseToDevice and ...ToSystem
    if (event == nullptr || (flags & ~(kEventBlockingSync | kEventDisableTiming | kReleaseFlags)) != 0) {
      return hipErrorInvalidValue;
    }
    *event = runtime.events().Add(std::make_shared<Event>(GetCurrentDevice(runtime), flags));
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipEventCreate(hipEvent_t* event) noexcept {
  return hipEventCreateWithFlags(event, kEventDefault);
}

HIPEMU_EXPORT hipError_t hipEventDestroy(hipEvent_t event) noexcept {
  return Call("hipEventDestroy", kRunsOnFailedDevice, [&](Runtime& runtime) {
    return runtime.events().Remove(event) == nullptr ? hipErrorInvalidHandle : hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) noexcept {
  return Call("hipEventRecord", kPlain, [&](Runtime& runtime) {
    std::shared_ptr<Event> found;
    std::shared_ptr<Event::Record> record;
    if (hipError_t error = FindEvent(runtime, event, &found, &record); error != hipSuccess) return error;
    std::shared_ptr<Stream> on;
    if (hipError_t error = FindStream(runtime, stream, &on); error != hipSuccess) return error;
    if (&found->device() != &on->device()) {
      Report().Add(
          absl::StrCat("hipEventRecord: an event of device ", found->device().ordinal(), " on ", on->Describe()));
      return hipErrorInvalidHandle;
    }
    MutexLock lock(found->lock());
    return RecordEvent(runtime, found, on);
  });
}

HIPEMU_EXPORT hipError_t hipEventQuery(hipEvent_t event) noexcept {
  return Call("hipEventQuery", kPlain, [&](Runtime& runtime) {
    std::shared_ptr<Event> found;
    std::shared_ptr<Event::Record> record;
    if (hipError_t error = FindEvent(runtime, event, &found, &record); error != hipSuccess) return error;
    if (hipError_t error = RefuseCaptured(record); error != hipSuccess) return error;
    if (record == nullptr) return hipSuccess;
    MutexLock lock(found->lock());
    if (!record->position.stream->IsDone(record->position.sequence)) return hipErrorNotReady;
    runtime.order().RecordHostWait(record->position.clock);
    return found->device().error();
  });
}

HIPEMU_EXPORT hipError_t hipEventSynchronize(hipEvent_t event) noexcept {
  return Call("hipEventSynchronize", kPlain, [&](Runtime& runtime) {
    std::shared_ptr<Event> found;
    std::shared_ptr<Event::Record> record;
    if (hipError_t error = FindEvent(runtime, event, &found, &record); error != hipSuccess) return error;
    if (hipError_t error = RefuseCaptured(record); error != hipSuccess) return error;
    if (record == nullptr) return hipSuccess;
    MutexLock lock(found->lock());
    record->position.stream->Await(record->position.sequence);
    runtime.order().RecordHostWait(record->position.clock);
    return found->device().error();
  });
}

HIPEMU_EXPORT hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) noexcept {
  return Call("hipEventElapsedTime", kPlain, [&](Runtime& runtime) {
    if (milliseconds == nullptr) return hipErrorInvalidValue;
    std::shared_ptr<Event> first, second;
    std::shared_ptr<Event::Record> from, to;
    if (hipError_t error = FindEvent(runtime, start, &first, &from); error != hipSuccess) return error;
    if (hipError_t error = FindEvent(runtime, stop, &second, &to); error != hipSuccess) return error;
    if (hipError_t error = RefuseCaptured(from); error != hipSuccess) return error;
    if (hipError_t error = RefuseCaptured(to); error != hipSuccess) return error;
    if (from == nullptr || to == nullptr || !first->has_timing() || !second->has_timing()) {
      return hipErrorInvalidHandle;
    }
    const int64_t begin = from->time_ns.load(), end = to->time_ns.load();
    if (begin < 0 || end < 0) return hipErrorNotReady;
    *milliseconds = static_cast<float>(end - begin) * 1e-6f;
    return hipSuccess;
  });
}

}  // namespace backplane::hip
