// The frame of all exported functions: the state of the calling thread, checks before a call, and its end.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_API_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_API_H_

#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "plugins/hip/emulated_runtime/capture.h"
#include "plugins/hip/emulated_runtime/copies.h"
#include "plugins/hip/emulated_runtime/report.h"
#include "plugins/hip/emulated_runtime/runtime.h"
#include "plugins/hip/runtime/hip_api.h"

#define HIPEMU_EXPORT extern "C" __attribute__((visibility("default")))

namespace backplane::hip::emulated {

// The state of a thread that calls the runtime.
struct ThreadState {
  int device = 0;
  hipError_t last = hipSuccess;
  bool in_host_function = false;
  hipError_t injected = hipSuccess;  // the error with which the next operation of this call fails
};
ThreadState& GetThreadState();

enum CallFlags : unsigned {
  kPlain = 0,
  kUnsafeInCapture = 1,     // makes captures invalid, as it may wait for the device
  kRunsOnFailedDevice = 2,  // does not return the error of the current device
  kDefersSickness = 4,      // an injected sticky error is one of the operation, not of the call
  kKeepsLastError = 8,
};

// Stores the error for hipGetLastError.
hipError_t SetLastError(hipError_t error);
// Checks what must hold before a call. An error ends the call.
hipError_t EnterCall(const char* name, unsigned flags, Runtime** runtime);

// Runs the body of an exported function: body(runtime) -> hipError_t. Nothing leaves as an exception.
template <typename Body>
hipError_t Call(const char* name, unsigned flags, const Body& body) noexcept {
  try {
    GetThreadState().injected = hipSuccess;
    Runtime* runtime = nullptr;
    hipError_t error = EnterCall(name, flags, &runtime);
    if (error == hipSuccess) error = body(*runtime);
    return (flags & kKeepsLastError) != 0 ? error : SetLastError(error);
  } catch (const std::bad_alloc&) {
    return SetLastError(hipErrorOutOfMemory);
  } catch (...) {
    return SetLastError(hipErrorUnknown);
  }
}

// Returns the device that is current in this thread.
Device& GetCurrentDevice(Runtime& runtime);
// Finds the stream of a handle. For null it is the null stream of the current device.
hipError_t FindStream(Runtime& runtime, hipStream_t handle, std::shared_ptr<Stream>* stream);

// Enqueues an operation, or adds it to the capture that the stream is in. `position` may be null; it stays empty in a
// capture.
hipError_t Dispatch(Runtime& runtime, const std::shared_ptr<Stream>& stream, NodeKind kind, Prepared prepared,
                    StreamPosition* position = nullptr);

// Ends a call on a stream that must not capture: makes the capture invalid and returns its error.
hipError_t RefuseInCapture(const std::shared_ptr<Stream>& stream);

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_API_H_
