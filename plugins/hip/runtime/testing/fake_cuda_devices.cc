// The functions of the fake driver that have effects: two devices, memory of the host, and a log of the calls, which
// fakeCudaLog returns. They replace the weak ones of fake_cuda.cc.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "plugins/hip/runtime/cuda_driver.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace backplane::hip::cuda {
namespace {

std::string* log_of_calls = new std::string;
thread_local CUcontext current_context = nullptr;
int next_result = 0;

CUcontext ContextOf(int device) { return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(0x100 + device)); }

int GetDevice(CUcontext context) { return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 0x100; }

template <typename... Values>
void Log(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  *log_of_calls += std::string(line) + "\n";
}

}  // namespace

FAKE_EXPORT const char* fakeCudaLog() { return log_of_calls->c_str(); }
FAKE_EXPORT void fakeCudaClearLog() { log_of_calls->clear(); }
// The next copy returns this.
FAKE_EXPORT void fakeCudaFail(int result) { next_result = result; }

FAKE_EXPORT CUresult cuInit(unsigned) { return 0; }
FAKE_EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}
FAKE_EXPORT CUresult cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
FAKE_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal > 1) return 101;
  *device = ordinal;
  return 0;
}
FAKE_EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 10 ? 32 : 1000 + attribute;
  return 0;
}
FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Log("retain %d", device);
  *context = ContextOf(device);
  return 0;
}
FAKE_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  Log("current %d", GetDevice(context));
  current_context = context;
  return 0;
}
FAKE_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current_context;
  return 0;
}
FAKE_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  if (bytes > size_t{1} << 30) return 2;
  *address = reinterpret_cast<uintptr_t>(std::malloc(bytes));
  Log("allocate %zu on %d", bytes, GetDevice(current_context));
  return 0;
}
FAKE_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
FAKE_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
  if (const int result = next_result; result != 0) {
    next_result = 0;
    return result;
  }
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
FAKE_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr, CUcontext to, CUdeviceptr, CUcontext from, size_t bytes, CUstream) {
  Log("peer %d to %d, %zu bytes", GetDevice(from), GetDevice(to), bytes);
  return 0;
}
FAKE_EXPORT CUresult cuLaunchKernel(CUfunction, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                                    unsigned threads_x, unsigned, unsigned, unsigned shared, CUstream,
                                    void** parameters, void** extra) {
  // As the driver reads it: 1 is the buffer, 2 its size, null the end.
  size_t bytes = 0;
  const int* buffer = nullptr;
  for (void** item = extra; item != nullptr && *item != nullptr; item += 2) {
    if (item[0] == reinterpret_cast<void*>(1)) buffer = static_cast<const int*>(item[1]);
    if (item[0] == reinterpret_cast<void*>(2)) bytes = *static_cast<const size_t*>(item[1]);
  }
  Log("launch %u %u %u, %u threads, %u shared, %zu bytes, first %d, %s", blocks_x, blocks_y, blocks_z, threads_x,
      shared, bytes, buffer == nullptr ? -1 : *buffer, parameters == nullptr ? "no parameters" : "parameters");
  return 0;
}
FAKE_EXPORT CUresult cuStreamAddCallback(CUstream stream, void (*callback)(CUstream, CUresult, void*), void* data,
                                         unsigned) {
  callback(stream, 716, data);  // a misaligned address
  return 0;
}
FAKE_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const Memcpy3D* copy,
                                          CUcontext context) {
  Log("copy node from %d to %d, %zu x %zu x %zu, device %d", copy->srcMemoryType, copy->dstMemoryType,
      copy->WidthInBytes, copy->Height, copy->Depth, GetDevice(context));
  return 0;
}
FAKE_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t count,
                                          const KernelNodeParams* parameters) {
  Log("kernel node %u x %u, %zu before, end %d", parameters->gridDimX, parameters->blockDimX, count,
      parameters->extra == nullptr ? -1 : static_cast<int>(reinterpret_cast<uintptr_t>(parameters->extra[4])));
  return 0;
}

}  // namespace backplane::hip::cuda
