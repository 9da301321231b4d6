#include "plugins/hip/runtime/cuda_driver.h"

#include <dlfcn.h>

#include <atomic>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"

namespace backplane::hip::cuda {
namespace {

// Set once, before the first thunk can be called, and constant from then on.
std::atomic<const Driver*> installed_driver{nullptr};

struct DriverState {
  Mutex mu;
  void* handle ABSL_GUARDED_BY(mu) = nullptr;
  std::vector<CUcontext> contexts ABSL_GUARDED_BY(mu);  // by device; null until retained
};
DriverState& State() {
  static DriverState* state = new DriverState;  // threads may use it until the process ends
  return *state;
}

struct ThreadState {
  int device = 0;
  hipError_t last = hipSuccess;
};
thread_local ThreadState this_thread;

}  // namespace

const Driver& GetDriver() { return *installed_driver.load(std::memory_order_acquire); }

hipError_t StoreLastError(hipError_t error) {
  if (error != hipSuccess && error != hipErrorNotReady) this_thread.last = error;
  return error;
}

int GetCurrentDevice() { return this_thread.device; }

hipError_t ToHipError(CUresult result) {
  // Results of CUDA for which HIP has no number, or whose number means something else in HIP.
  static constexpr struct {
    CUresult cuda;
    hipError_t hip;
  } kOthers[] = {
      {34, hipErrorInsufficientDriver},       // libcuda is only the library for linking
      {46, hipErrorNoDevice},                 // the device is in use or in a bad state
      {102, hipErrorNotSupported},            // no licence for the device
      {220, hipErrorECCNotCorrectable},       // NVLink
      {221, hipErrorSharedObjectInitFailed},  // the compiler of PTX is missing
      {222, hipErrorNoBinaryForGpu},          // PTX newer than the driver
      {223, hipErrorNoBinaryForGpu},          // compiling PTX is disabled
      {703, hipErrorLaunchFailure},           // textures
      {711, hipErrorPeerAccessUnsupported},   // too many peers
      {714, hipErrorLaunchFailure},           // the hardware stack
      {715, hipErrorLaunchFailure},           // an illegal instruction
      {716, hipErrorIllegalAddress},          // a misaligned address
      {717, hipErrorIllegalAddress},          // an address of the wrong space
      {718, hipErrorLaunchFailure},           // the program counter
      {800, hipErrorNotSupported},            // not permitted
      {802, hipErrorNotInitialized},          // the fabric is not ready
      {803, hipErrorInsufficientDriver},      // user and kernel mode differ
      {804, hipErrorInsufficientDriver},      // forward compatibility
      {909, hipErrorLaunchTimeOut},
      {911, hipErrorUnknown},               // an external device
      {912, hipErrorInvalidConfiguration},  // the size of a cluster
  };
  for (const auto& other : kOthers) {
    if (other.cuda == result) return other.hip;
  }
  switch (static_cast<hipError_t>(result)) {
#define BACKPLANE_CUDA_SAME(name, number, text) case name:
    BACKPLANE_HIP_ERRORS(BACKPLANE_CUDA_SAME)
#undef BACKPLANE_CUDA_SAME
    return static_cast<hipError_t>(result);
  }
  return hipErrorUnknown;
}

int FindAttributeNumber(hipDeviceAttribute_t attribute) {
  switch (attribute) {
    case hipDeviceAttributeMaxThreadsPerBlock:
      return 1;
    case hipDeviceAttributeMaxBlockDimX:
      return 2;
    case hipDeviceAttributeMaxBlockDimY:
      return 3;
    case hipDeviceAttributeMaxBlockDimZ:
      return 4;
    case hipDeviceAttributeMaxGridDimX:
      return 5;
    case hipDeviceAttributeMaxGridDimY:
      return 6;
    case hipDeviceAttributeMaxGridDimZ:
      return 7;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      return 8;
    case hipDeviceAttributeTotalConstantMemory:
      return 9;
    case hipDeviceAttributeWarpSize:
      return 10;
    case hipDeviceAttributeMaxRegistersPerBlock:
      return 12;
    case hipDeviceAttributeClockRate:
      return 13;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount:
      return 16;
    case hipDeviceAttributeIntegrated:
      return 18;
    case hipDeviceAttributeCanMapHostMemory:
      return 19;
    case hipDeviceAttributeConcurrentKernels:
      return 31;
    case hipDeviceAttributeEccEnabled:
      return 32;
    case hipDeviceAttributePciBusId:
      return 33;
    case hipDeviceAttributePciDeviceId:
      return 34;
    case hipDeviceAttributeMemoryClockRate:
      return 36;
    case hipDeviceAttributeMemoryBusWidth:
      return 37;
    case hipDeviceAttributeL2CacheSize:
      return 38;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      return 39;
    case hipDeviceAttributeAsyncEngineCount:
      return 40;
    case hipDeviceAttributeUnifiedAddressing:
      return 41;
    case hipDeviceAttributePciDomainID:
      return 50;
    case hipDeviceAttributeComputeCapabilityMajor:
      return 75;
    case hipDeviceAttributeComputeCapabilityMinor:
      return 76;
    case hipDeviceAttributeStreamPrioritiesSupported:
      return 78;
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      return 81;
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
      return 82;
    case hipDeviceAttributeManagedMemory:
      return 83;
    case hipDeviceAttributePageableMemoryAccess:
      return 88;
    case hipDeviceAttributeCooperativeLaunch:
      return 95;
    case hipDeviceAttributeSharedMemPerBlockOptin:
      return 97;
    case hipDeviceAttributeHostRegisterSupported:
      return 99;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
      return 106;
    case hipDeviceAttributeMemoryPoolsSupported:
      return 115;
    case hipDeviceAttributeTotalGlobalMem:
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeFineGrainSupport:
    case hipDeviceAttributeWallClockRate:
      return -1;
  }
  return -1;
}

hipError_t RetainPrimaryContext(int device, CUcontext* context) {
  const Driver& driver = GetDriver();
  DriverState& state = State();
  MutexLock lock(state.mu);
  if (state.contexts.empty()) {
    int count = 0;
    if (CUresult result = driver.cuDeviceGetCount(&count); result != 0) return ToHipError(result);
    state.contexts.resize(static_cast<size_t>(count), nullptr);
  }
  if (device < 0 || static_cast<size_t>(device) >= state.contexts.size()) return hipErrorInvalidDevice;
  CUcontext& known = state.contexts[static_cast<size_t>(device)];
  if (known == nullptr) {
    CUdevice number = 0;
    if (CUresult result = driver.cuDeviceGet(&number, device); result != 0) return ToHipError(result);
    if (CUresult result = driver.cuDevicePrimaryCtxRetain(&known, number); result != 0) {
      known = nullptr;
      return ToHipError(result);
    }
  }
  *context = known;
  return hipSuccess;
}

hipError_t EnterContext() {
  CUcontext wanted = nullptr, current = nullptr;
  if (hipError_t error = RetainPrimaryContext(this_thread.device, &wanted); error != hipSuccess) return error;
  // Other code of the process may have made another context current in this thread.
  if (GetDriver().cuCtxGetCurrent(&current) == 0 && current == wanted) return hipSuccess;
  return ToHipError(GetDriver().cuCtxSetCurrent(wanted));
}

namespace thunks {

hipError_t hipSetDevice(int device) {
  CUcontext context = nullptr;
  if (hipError_t error = RetainPrimaryContext(device, &context); error != hipSuccess) return StoreLastError(error);
  this_thread.device = device;
  return StoreLastError(ToHipError(GetDriver().cuCtxSetCurrent(context)));
}

hipError_t hipGetLastError() {
  const hipError_t last = this_thread.last;
  this_thread.last = hipSuccess;
  return last;
}

hipError_t hipPeekAtLastError() { return this_thread.last; }

}  // namespace thunks

absl::Status FillByCuda(void* handle, const std::string& library, HipApi& api) {
  Driver driver;
  std::vector<absl::string_view> missing;
#define BACKPLANE_CUDA_RESOLVE(member, symbol, parameters)                          \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(handle, symbol)); \
  if (driver.member == nullptr) missing.push_back(symbol);
  BACKPLANE_CUDA_REQUIRED(BACKPLANE_CUDA_RESOLVE)
#undef BACKPLANE_CUDA_RESOLVE
#define BACKPLANE_CUDA_RESOLVE(member, symbol, parameters) \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(handle, symbol));
  BACKPLANE_CUDA_OPTIONAL(BACKPLANE_CUDA_RESOLVE)
#undef BACKPLANE_CUDA_RESOLVE
  if (!missing.empty()) {
    return absl::UnimplementedError(absl::StrCat(library, " lacks ", absl::StrJoin(missing, ", "),
                                                 ", which the driver of CUDA 11.4 and later has"));
  }
  {
    DriverState& state = State();
    MutexLock lock(state.mu);
    if (state.handle != nullptr && state.handle != handle) {
      return absl::FailedPreconditionError(
          absl::StrCat("another driver than ", library, " is in use in this process already"));
    }
    if (state.handle == nullptr) {
      state.handle = handle;
      installed_driver.store(new Driver(driver), std::memory_order_release);  // used until the process ends
    }
  }
#define BACKPLANE_CUDA_FILL(name, result, parameters) api.name = &thunks::name;
  BACKPLANE_HIP_REQUIRED(BACKPLANE_CUDA_FILL)
#undef BACKPLANE_CUDA_FILL
  api.hipLaunchHostFunc = &thunks::hipLaunchHostFunc;
  if (driver.cuMemAllocAsync != nullptr && driver.cuMemFreeAsync != nullptr) {
    api.hipMallocAsync = &thunks::hipMallocAsync;
    api.hipFreeAsync = &thunks::hipFreeAsync;
  }
  api.hipFuncSetAttribute = &thunks::hipFuncSetAttribute;
  api.hipGraphExecMemcpyNodeSetParams1D = &thunks::hipGraphExecMemcpyNodeSetParams1D;
  api.hipGraphExecMemsetNodeSetParams = &thunks::hipGraphExecMemsetNodeSetParams;
  if (driver.cuDevicePrimaryCtxReset != nullptr) api.hipDeviceReset = &thunks::hipDeviceReset;
  return absl::OkStatus();
}

}  // namespace backplane::hip::cuda
