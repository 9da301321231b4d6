// HIP's functions over CUDA's driver: devices, modules, kernels.
#include "plugins/hip/runtime/cuda_driver.h"

namespace backplane::hip::cuda::thunks {

// Returns the result of a driver call from a function that needs no context, or one that needs the thread's.
#define BACKPLANE_CUDA_RETURN(call) return StoreLastError(ToHipError(GetDriver().call))
#define BACKPLANE_CUDA_ENTER_RETURN(call)                                                   \
  if (hipError_t error = EnterContext(); error != hipSuccess) return StoreLastError(error); \
  BACKPLANE_CUDA_RETURN(call)

namespace {

// The driver's number of a device by its ordinal.
hipError_t DeviceNumber(int ordinal, CUdevice* device) {
  if (GetDriver().cuDeviceGet(device, ordinal) == 0) return hipSuccess;
  return hipErrorInvalidDevice;
}

CUfunction AsFunction(hipFunction_t function) { return reinterpret_cast<CUfunction>(function); }
CUmodule AsModule(hipModule_t module) { return reinterpret_cast<CUmodule>(module); }

}  // namespace

hipError_t hipInit(unsigned flags) { BACKPLANE_CUDA_RETURN(cuInit(flags)); }

hipError_t hipRuntimeGetVersion(int* version) { BACKPLANE_CUDA_RETURN(cuDriverGetVersion(version)); }

hipError_t hipDriverGetVersion(int* version) { BACKPLANE_CUDA_RETURN(cuDriverGetVersion(version)); }

const char* hipGetErrorName(hipError_t error) { return GetErrorName(error); }

hipError_t hipGetDeviceCount(int* count) { BACKPLANE_CUDA_RETURN(cuDeviceGetCount(count)); }

hipError_t hipGetDevice(int* device) {
  if (device == nullptr) return StoreLastError(hipErrorInvalidValue);
  *device = GetCurrentDevice();
  return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  const int number = FindAttributeNumber(attribute);
  if (number < 0) return StoreLastError(hipErrorInvalidValue);
  CUdevice cuda = 0;
  if (hipError_t error = DeviceNumber(device, &cuda); error != hipSuccess) return StoreLastError(error);
  BACKPLANE_CUDA_RETURN(cuDeviceGetAttribute(value, number, cuda));
}

hipError_t hipDeviceGetName(char* name, int bytes, hipDevice_t device) {
  CUdevice cuda = 0;
  if (hipError_t error = DeviceNumber(device, &cuda); error != hipSuccess) return StoreLastError(error);
  BACKPLANE_CUDA_RETURN(cuDeviceGetName(name, bytes, cuda));
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  CUdevice cuda = 0;
  if (hipError_t error = DeviceNumber(device, &cuda); error != hipSuccess) return StoreLastError(error);
  BACKPLANE_CUDA_RETURN(cuDeviceTotalMem(bytes, cuda));
}

hipError_t hipDeviceGetPCIBusId(char* id, int bytes, int device) {
  CUdevice cuda = 0;
  if (hipError_t error = DeviceNumber(device, &cuda); error != hipSuccess) return StoreLastError(error);
  BACKPLANE_CUDA_RETURN(cuDeviceGetPCIBusId(id, bytes, cuda));
}

hipError_t hipDeviceSynchronize() { BACKPLANE_CUDA_ENTER_RETURN(cuCtxSynchronize()); }

hipError_t hipDeviceReset() {
  CUdevice cuda = 0;
  if (hipError_t error = DeviceNumber(GetCurrentDevice(), &cuda); error != hipSuccess) return StoreLastError(error);
  BACKPLANE_CUDA_RETURN(cuDevicePrimaryCtxReset(cuda));
}

hipError_t hipDeviceCanAccessPeer(int* can_access, int device, int peer) {
  CUdevice from = 0, to = 0;
  if (hipError_t error = DeviceNumber(device, &from); error != hipSuccess) return StoreLastError(error);
  if (hipError_t error = DeviceNumber(peer, &to); error != hipSuccess) return StoreLastError(error);
  BACKPLANE_CUDA_RETURN(cuDeviceCanAccessPeer(can_access, from, to));
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  CUcontext context = nullptr;
  if (hipError_t error = RetainPrimaryContext(peer, &context); error != hipSuccess) return StoreLastError(error);
  BACKPLANE_CUDA_ENTER_RETURN(cuCtxEnablePeerAccess(context, flags));
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  CUcontext context = nullptr;
  if (hipError_t error = RetainPrimaryContext(peer, &context); error != hipSuccess) return StoreLastError(error);
  BACKPLANE_CUDA_ENTER_RETURN(cuCtxDisablePeerAccess(context));
}

hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  BACKPLANE_CUDA_ENTER_RETURN(cuModuleLoadData(reinterpret_cast<CUmodule*>(module), image));
}

hipError_t hipModuleUnload(hipModule_t module) { BACKPLANE_CUDA_ENTER_RETURN(cuModuleUnload(AsModule(module))); }

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  BACKPLANE_CUDA_ENTER_RETURN(cuModuleGetFunction(reinterpret_cast<CUfunction*>(function), AsModule(module), name));
}

hipError_t hipModuleGetGlobal(hipDeviceptr_t* address, size_t* bytes, hipModule_t module, const char* name) {
  BACKPLANE_CUDA_ENTER_RETURN(
      cuModuleGetGlobal(reinterpret_cast<CUdeviceptr*>(address), bytes, AsModule(module), name));
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                                 unsigned threads_x, unsigned threads_y, unsigned threads_z,
                                 unsigned dynamic_shared_bytes, hipStream_t stream, void** parameters, void** extra) {
  // The numbers of the extra form are the same as CUDA's: end is null there, 3 here.
  void* translated[5] = {};
  if (extra != nullptr) {
    for (int i = 0; i < 4 && extra[i] != kLaunchParamEnd; i += 2) {
      translated[i] = extra[i];
      translated[i + 1] = extra[i + 1];
    }
  }
  BACKPLANE_CUDA_ENTER_RETURN(cuLaunchKernel(AsFunction(function), blocks_x, blocks_y, blocks_z, threads_x, threads_y,
                                             threads_z, dynamic_shared_bytes, reinterpret_cast<CUstream>(stream),
                                             parameters, extra == nullptr ? nullptr : translated));
}

hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t function) {
  BACKPLANE_CUDA_ENTER_RETURN(cuFuncGetAttribute(value, static_cast<int>(attribute), AsFunction(function)));
}

hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute attribute, int value) {
  BACKPLANE_CUDA_ENTER_RETURN(cuFuncSetAttribute(reinterpret_cast<CUfunction>(const_cast<void*>(function)),
                                                 static_cast<int>(attribute), value));
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t function, int threads,
                                                              size_t dynamic_shared_bytes) {
  BACKPLANE_CUDA_ENTER_RETURN(
      cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, AsFunction(function), threads, dynamic_shared_bytes));
}

hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* blocks, int* threads, hipFunction_t function,
                                                   size_t dynamic_shared_bytes, int max_threads) {
  BACKPLANE_CUDA_ENTER_RETURN(cuOccupancyMaxPotentialBlockSize(blocks, threads, AsFunction(function), nullptr,
                                                               dynamic_shared_bytes, max_threads));
}

#undef BACKPLANE_CUDA_RETURN
#undef BACKPLANE_CUDA_ENTER_RETURN

}  // namespace backplane::hip::cuda::thunks
