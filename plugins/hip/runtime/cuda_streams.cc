// HIP's functions over CUDA's driver: streams and events.
#include <memory>
#include <new>

#include "plugins/hip/runtime/cuda_driver.h"

namespace backplane::hip::cuda::thunks {

#define BACKPLANE_CUDA_ENTER_RETURN(call)                                                   \
  if (hipError_t error = EnterContext(); error != hipSuccess) return StoreLastError(error); \
  return StoreLastError(ToHipError(GetDriver().call))

namespace {

CUstream AsStream(hipStream_t stream) { return reinterpret_cast<CUstream>(stream); }
CUevent AsEvent(hipEvent_t event) { return reinterpret_cast<CUevent>(event); }

struct StreamCallback {
  hipStreamCallback_t function;
  void* user_data;
};

void CallStreamCallback(CUstream stream, CUresult result, void* data) {
  const std::unique_ptr<StreamCallback> callback(static_cast<StreamCallback*>(data));
  callback->function(reinterpret_cast<hipStream_t>(stream), ToHipError(result), callback->user_data);
}

}  // namespace

hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  BACKPLANE_CUDA_ENTER_RETURN(cuCtxGetStreamPriorityRange(least, greatest));
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return hipStreamCreateWithPriority(stream, flags, 0);
}

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
  BACKPLANE_CUDA_ENTER_RETURN(cuStreamCreateWithPriority(reinterpret_cast<CUstream*>(stream), flags, priority));
}

hipError_t hipStreamDestroy(hipStream_t stream) { BACKPLANE_CUDA_ENTER_RETURN(cuStreamDestroy(AsStream(stream))); }

hipError_t hipStreamQuery(hipStream_t stream) { BACKPLANE_CUDA_ENTER_RETURN(cuStreamQuery(AsStream(stream))); }

hipError_t hipStreamSynchronize(hipStream_t stream) {
  BACKPLANE_CUDA_ENTER_RETURN(cuStreamSynchronize(AsStream(stream)));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  BACKPLANE_CUDA_ENTER_RETURN(cuStreamWaitEvent(AsStream(stream), AsEvent(event), flags));
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* user_data, unsigned flags) {
  if (callback == nullptr) return StoreLastError(hipErrorInvalidValue);
  if (hipError_t error = EnterContext(); error != hipSuccess) return StoreLastError(error);
  std::unique_ptr<StreamCallback> call(new (std::nothrow) StreamCallback{callback, user_data});
  if (call == nullptr) return StoreLastError(hipErrorOutOfMemory);
  const hipError_t error =
      ToHipError(GetDriver().cuStreamAddCallback(AsStream(stream), &CallStreamCallback, call.get(), flags));
  if (error == hipSuccess) (void)call.release();  // CallStreamCallback deletes it
  return StoreLastError(error);
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data) {
  BACKPLANE_CUDA_ENTER_RETURN(cuLaunchHostFunc(AsStream(stream), function, user_data));
}

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  BACKPLANE_CUDA_ENTER_RETURN(
      cuEventCreate(reinterpret_cast<CUevent*>(event), flags & (kEventBlockingSync | kEventDisableTiming)));
}

hipError_t hipEventDestroy(hipEvent_t event) { BACKPLANE_CUDA_ENTER_RETURN(cuEventDestroy(AsEvent(event))); }

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  BACKPLANE_CUDA_ENTER_RETURN(cuEventRecord(AsEvent(event), AsStream(stream)));
}

hipError_t hipEventQuery(hipEvent_t event) { BACKPLANE_CUDA_ENTER_RETURN(cuEventQuery(AsEvent(event))); }

hipError_t hipEventSynchronize(hipEvent_t event) { BACKPLANE_CUDA_ENTER_RETURN(cuEventSynchronize(AsEvent(event))); }

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  BACKPLANE_CUDA_ENTER_RETURN(cuEventElapsedTime(milliseconds, AsEvent(start), AsEvent(stop)));
}

#undef BACKPLANE_CUDA_ENTER_RETURN

}  // namespace backplane::hip::cuda::thunks
