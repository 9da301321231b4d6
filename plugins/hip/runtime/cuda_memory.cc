// HIP's functions over CUDA's driver: memory, copies and fills.
#include "plugins/hip/runtime/cuda_driver.h"

namespace backplane::hip::cuda::thunks {

#define BACKPLANE_CUDA_ENTER_RETURN(call)                                                   \
  if (hipError_t error = EnterContext(); error != hipSuccess) return StoreLastError(error); \
  return StoreLastError(ToHipError(GetDriver().call))

namespace {

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
CUstream MemoryStream(hipStream_t stream) { return reinterpret_cast<CUstream>(stream); }
// HIP's further flags choose where coherent memory is; CUDA has no such choice.
constexpr unsigned kCommonHostFlags = kHostMallocPortable | kHostMallocMapped | kHostMallocWriteCombined;

}  // namespace

hipError_t hipMemGetInfo(size_t* free, size_t* total) { BACKPLANE_CUDA_ENTER_RETURN(cuMemGetInfo(free, total)); }

hipError_t hipMalloc(void** address, size_t bytes) {
  if (address == nullptr) return StoreLastError(hipErrorInvalidValue);
  *address = nullptr;
  if (bytes == 0) return hipSuccess;  // as HIP; an error in CUDA
  BACKPLANE_CUDA_ENTER_RETURN(cuMemAlloc(reinterpret_cast<CUdeviceptr*>(address), bytes));
}

hipError_t hipFree(void* address) {
  if (address == nullptr) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemFree(Address(address)));
}

hipError_t hipMallocAsync(void** address, size_t bytes, hipStream_t stream) {
  if (address == nullptr) return StoreLastError(hipErrorInvalidValue);
  *address = nullptr;
  if (bytes == 0) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(address), bytes, MemoryStream(stream)));
}

hipError_t hipFreeAsync(void* address, hipStream_t stream) {
  if (address == nullptr) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemFreeAsync(Address(address), MemoryStream(stream)));
}

hipError_t hipHostMalloc(void** address, size_t bytes, unsigned flags) {
  if (address == nullptr) return StoreLastError(hipErrorInvalidValue);
  *address = nullptr;
  if (bytes == 0) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemHostAlloc(address, bytes, flags & kCommonHostFlags));
}

hipError_t hipHostFree(void* address) {
  if (address == nullptr) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemFreeHost(address));
}

hipError_t hipHostRegister(void* address, size_t bytes, unsigned flags) {
  BACKPLANE_CUDA_ENTER_RETURN(cuMemHostRegister(address, bytes, flags & (kHostRegisterPortable | kHostRegisterMapped)));
}

hipError_t hipHostUnregister(void* address) { BACKPLANE_CUDA_ENTER_RETURN(cuMemHostUnregister(address)); }

hipError_t hipHostGetDevicePointer(void** device_address, void* host_address, unsigned flags) {
  BACKPLANE_CUDA_ENTER_RETURN(
      cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(device_address), host_address, flags));
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, void* from, size_t bytes, hipStream_t stream) {
  if (bytes == 0) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemcpyHtoDAsync(Address(to), from, bytes, MemoryStream(stream)));
}

hipError_t hipMemcpyDtoHAsync(void* to, hipDeviceptr_t from, size_t bytes, hipStream_t stream) {
  if (bytes == 0) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemcpyDtoHAsync(to, Address(from), bytes, MemoryStream(stream)));
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream) {
  if (bytes == 0) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemcpyDtoDAsync(Address(to), Address(from), bytes, MemoryStream(stream)));
}

hipError_t hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                              hipStream_t stream) {
  if (bytes == 0) return hipSuccess;
  CUcontext to_context = nullptr, from_context = nullptr;
  if (hipError_t error = RetainPrimaryContext(to_device, &to_context); error != hipSuccess)
    return StoreLastError(error);
  if (hipError_t error = RetainPrimaryContext(from_device, &from_context); error != hipSuccess)
    return StoreLastError(error);
  BACKPLANE_CUDA_ENTER_RETURN(
      cuMemcpyPeerAsync(Address(to), to_context, Address(from), from_context, bytes, MemoryStream(stream)));
}

hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t bytes, hipStream_t stream) {
  if (bytes == 0) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemsetD8Async(Address(to), value, bytes, MemoryStream(stream)));
}

hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t words, hipStream_t stream) {
  if (words == 0) return hipSuccess;
  BACKPLANE_CUDA_ENTER_RETURN(cuMemsetD32Async(Address(to), static_cast<unsigned>(value), words, MemoryStream(stream)));
}

#undef BACKPLANE_CUDA_ENTER_RETURN

}  // namespace backplane::hip::cuda::thunks
