// Exported functions: memory, copies and fills.
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/api.h"

namespace backplane::hip::emulated {
namespace {

uint64_t ComputeAddress(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

hipError_t AllocateDevice(Runtime& runtime, void** address, size_t bytes) {
  if (address == nullptr) return hipErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return hipSuccess;
  const std::optional<uint64_t> place = GetCurrentDevice(runtime).heap().Allocate(bytes);
  if (!place.has_value()) return hipErrorOutOfMemory;
  *address = reinterpret_cast<void*>(*place);
  return hipSuccess;
}

// Frees and reports what is wrong.
hipError_t FreeDevice(Device& device, uint64_t address, absl::string_view name) {
  const DeviceHeap::FreeResult result = device.heap().Free(address);
  if (!result.problem.empty()) Report().Add(absl::StrCat(name, ": ", result.problem));
  if (!result.known) return hipErrorInvalidValue;
  device.accesses().Forget(result.block.begin, result.block.end);
  return hipSuccess;
}

hipError_t Copy(Runtime& runtime, CopyRequest request, hipStream_t handle) {
  std::shared_ptr<Stream> stream;
  if (hipError_t error = FindStream(runtime, handle, &stream); error != hipSuccess) return error;
  if (request.bytes == 0) return hipSuccess;
  // Pageable host memory is read before the call returns and written before it returns, as on a GPU, whose copy engines
  // need pinned memory. In a capture it must stay until the graph has run.
  const bool captures = stream->capture() != nullptr;
  const bool from_pageable =
      request.from_side != CopySide::kDevice && runtime.Locate(request.from).kind == MemoryPlace::kPageable;
  const bool to_pageable =
      request.to_side != CopySide::kDevice && runtime.Locate(request.to).kind == MemoryPlace::kPageable;
  if (from_pageable && !to_pageable && !captures && request.from != 0) {
    request.staged = std::make_shared<std::string>(reinterpret_cast<const char*>(request.from), request.bytes);
  }
  StreamPosition position;
  const hipError_t error =
      Dispatch(runtime, stream, NodeKind::kCopy, PrepareCopy(stream->device(), request), &position);
  if (error != hipSuccess || !to_pageable || captures) return error;
  position.stream->Await(position.sequence);
  runtime.order().RecordHostWait(position.clock);
  return stream->device().error();
}

hipError_t Fill(Runtime& runtime, const FillRequest& request, hipStream_t handle) {
  std::shared_ptr<Stream> stream;
  if (hipError_t error = FindStream(runtime, handle, &stream); error != hipSuccess) return error;
  if (request.elements == 0) return hipSuccess;
  return Dispatch(runtime, stream, NodeKind::kFill, PrepareFill(stream->device(), request));
}

std::optional<std::pair<CopySide, CopySide>> SidesOf(hipMemcpyKind kind) {  // to, from
  switch (kind) {
    case hipMemcpyHostToHost:
      return std::make_pair(CopySide::kHost, CopySide::kHost);
    case hipMemcpyHostToDevice:
      return std::make_pair(CopySide::kDevice, CopySide::kHost);
    case hipMemcpyDeviceToHost:
      return std::make_pair(CopySide::kHost, CopySide::kDevice);
    case hipMemcpyDeviceToDevice:
      return std::make_pair(CopySide::kDevice, CopySide::kDevice);
    case hipMemcpyDefault:
      return std::make_pair(CopySide::kAny, CopySide::kAny);
  }
  return std::nullopt;
}

}  // namespace
}  // namespace backplane::hip::emulated

namespace backplane::hip {
using namespace emulated;  // NOLINT: the exported functions are thin

HIPEMU_EXPORT hipError_t hipMemGetInfo(size_t* free, size_t* total) noexcept {
  return Call("hipMemGetInfo", kPlain, [&](Runtime& runtime) {
    if (free == nullptr || total == nullptr) return hipErrorInvalidValue;
    DeviceHeap& heap = GetCurrentDevice(runtime).heap();
    *total = heap.capacity();
    *free = heap.capacity() - heap.used();
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipMalloc(void** address, size_t bytes) noexcept {
  return Call("hipMalloc", kUnsafeInCapture, [&](Runtime& runtime) { return AllocateDevice(runtime, address, bytes); });
}

HIPEMU_EXPORT hipError_t hipFree(void* address) noexcept {
  return Call("hipFree", kUnsafeInCapture | kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (address == nullptr) return hipSuccess;
    const MemoryPlace place = runtime.Locate(ComputeAddress(address));
    if (place.kind != MemoryPlace::kDevice) {
      Report().Add(absl::StrCat("hipFree: 0x", absl::Hex(ComputeAddress(address)), " is no device memory"));
      return hipErrorInvalidValue;
    }
    place.device->Await(false);  // as HIP does: nothing that runs can use the memory
    return FreeDevice(*place.device, ComputeAddress(address), "hipFree");
  });
}

HIPEMU_EXPORT hipError_t hipMallocAsync(void** address, size_t bytes, hipStream_t stream) noexcept {
  return Call("hipMallocAsync", kPlain, [&](Runtime& runtime) {
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    if (hipError_t error = RefuseInCapture(found); error != hipSuccess) return error;
    if (address == nullptr) return hipErrorInvalidValue;
    *address = nullptr;
    if (bytes == 0) return hipSuccess;
    const std::optional<uint64_t> place = found->device().heap().Allocate(bytes);
    if (!place.has_value()) return hipErrorOutOfMemory;
    *address = reinterpret_cast<void*>(*place);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipFreeAsync(void* address, hipStream_t stream) noexcept {
  return Call("hipFreeAsync", kPlain, [&](Runtime& runtime) {
    if (address == nullptr) return hipSuccess;
    std::shared_ptr<Stream> found;
    if (hipError_t error = FindStream(runtime, stream, &found); error != hipSuccess) return error;
    if (hipError_t error = RefuseInCapture(found); error != hipSuccess) return error;
    const MemoryPlace place = runtime.Locate(ComputeAddress(address));
    if (place.kind != MemoryPlace::kDevice || !place.device->heap().Find(ComputeAddress(address), 0).has_value()) {
      Report().Add(absl::StrCat("hipFreeAsync: 0x", absl::Hex(ComputeAddress(address)), " is no device memory in use"));
      return hipErrorInvalidValue;
    }
    Work work;
    work.text = "hipFreeAsync";
    // Freeing is a write: what other streams do with the memory must be ordered before it.
    work.action = [device = place.device, at = ComputeAddress(address)](const OperationPtr& operation) {
      const std::optional<AddressRange> block = device->heap().Find(at, 0);
      if (block.has_value()) {
        const hipError_t error = CheckAccess(*device, operation, at, block->end - at, true);
        if (error != hipSuccess) return error;
      }
      return FreeDevice(*device, at, "hipFreeAsync") == hipSuccess ? hipSuccess : hipErrorIllegalAddress;
    };
    runtime.Submit(found, std::move(work));
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipHostMalloc(void** address, size_t bytes, unsigned flags) noexcept {
  return Call("hipHostMalloc", kUnsafeInCapture, [&](Runtime& runtime) {
    constexpr unsigned kKnown = kHostMallocPortable | kHostMallocMapped | kHostMallocWriteCombined |
                                kHostMallocNumaUser | kHostMallocCoherent | kHostMallocNonCoherent;
    if (address == nullptr || (flags & ~kKnown) != 0) return hipErrorInvalidValue;
    *address = nullptr;
    if (bytes == 0) return hipSuccess;
    constexpr size_t kPage = 4096;
    void* memory = bytes > SIZE_MAX - kPage ? nullptr : std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
    if (memory == nullptr) return hipErrorOutOfMemory;
    std::memset(memory, DeviceHeap::kPoison, std::min(bytes, runtime.settings().poison));
    if (!runtime.AddPinned(ComputeAddress(memory), bytes, true)) {  // a registered range that was freed
      std::free(memory);
      Report().Add(
          "hipHostMalloc: the system gave memory that is still registered: it was freed before it was "
          "unregistered");
      return hipErrorHostMemoryAlreadyRegistered;
    }
    *address = memory;
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipHostFree(void* address) noexcept {
  return Call("hipHostFree", kUnsafeInCapture | kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (address == nullptr) return hipSuccess;
    for (int i = 0; i < runtime.device_count(); ++i) runtime.device(i)->Await(false);
    if (runtime.RemovePinned(ComputeAddress(address), true) == 0) {
      Report().Add(
          absl::StrCat("hipHostFree: 0x", absl::Hex(ComputeAddress(address)), " is no memory of hipHostMalloc"));
      return hipErrorInvalidValue;
    }
    std::free(address);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipHostRegister(void* address, size_t bytes, unsigned flags) noexcept {
  return Call("hipHostRegister", kUnsafeInCapture, [&](Runtime& runtime) {
    if (address == nullptr || bytes == 0 || runtime.Locate(ComputeAddress(address)).kind == MemoryPlace::kDevice) {
      return hipErrorInvalidValue;
    }
    return runtime.AddPinned(ComputeAddress(address), bytes, false) ? hipSuccess : hipErrorHostMemoryAlreadyRegistered;
  });
}

HIPEMU_EXPORT hipError_t hipHostUnregister(void* address) noexcept {
  return Call("hipHostUnregister", kUnsafeInCapture | kRunsOnFailedDevice, [&](Runtime& runtime) {
    for (int i = 0; i < runtime.device_count(); ++i) runtime.device(i)->Await(false);
    return runtime.RemovePinned(ComputeAddress(address), false) == 0 ? hipErrorHostMemoryNotRegistered : hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipHostGetDevicePointer(void** device_address, void* host_address, unsigned flags) noexcept {
  return Call("hipHostGetDevicePointer", kPlain, [&](Runtime& runtime) {
    if (device_address == nullptr || flags != 0) return hipErrorInvalidValue;
    if (!runtime.IsPinned(ComputeAddress(host_address), 1)) return hipErrorInvalidValue;
    *device_address = host_address;
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, void* from, size_t bytes, hipStream_t stream) noexcept {
  return Call("hipMemcpyHtoDAsync", kDefersSickness, [&](Runtime& runtime) {
    return Copy(runtime,
                {.name = "hipMemcpyHtoDAsync",
                 .to = ComputeAddress(to),
                 .from = ComputeAddress(from),
                 .bytes = bytes,
                 .to_side = CopySide::kDevice,
                 .from_side = CopySide::kHost},
                stream);
  });
}

HIPEMU_EXPORT hipError_t hipMemcpyDtoHAsync(void* to, hipDeviceptr_t from, size_t bytes, hipStream_t stream) noexcept {
  return Call("hipMemcpyDtoHAsync", kDefersSickness, [&](Runtime& runtime) {
    return Copy(runtime,
                {.name = "hipMemcpyDtoHAsync",
                 .to = ComputeAddress(to),
                 .from = ComputeAddress(from),
                 .bytes = bytes,
                 .to_side = CopySide::kHost,
                 .from_side = CopySide::kDevice},
                stream);
  });
}

HIPEMU_EXPORT hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes,
                                            hipStream_t stream) noexcept {
  return Call("hipMemcpyDtoDAsync", kDefersSickness, [&](Runtime& runtime) {
    return Copy(runtime,
                {.name = "hipMemcpyDtoDAsync",
                 .to = ComputeAddress(to),
                 .from = ComputeAddress(from),
                 .bytes = bytes,
                 .to_side = CopySide::kDevice,
                 .from_side = CopySide::kDevice},
                stream);
  });
}

HIPEMU_EXPORT hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                                        hipStream_t stream) noexcept {
  return Call("hipMemcpyAsync", kDefersSickness, [&](Runtime& runtime) {
    const auto sides = SidesOf(kind);
    if (!sides.has_value()) return hipErrorInvalidMemcpyDirection;
    return Copy(runtime,
                {.name = "hipMemcpyAsync",
                 .to = ComputeAddress(to),
                 .from = ComputeAddress(from),
                 .bytes = bytes,
                 .to_side = sides->first,
                 .from_side = sides->second},
                stream);
  });
}

HIPEMU_EXPORT hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind kind) noexcept {
  return Call("hipMemcpy", kUnsafeInCapture, [&](Runtime& runtime) {
    const auto sides = SidesOf(kind);
    if (!sides.has_value()) return hipErrorInvalidMemcpyDirection;
    const hipError_t error = Copy(runtime,
                                  {.name = "hipMemcpy",
                                   .to = ComputeAddress(to),
                                   .from = ComputeAddress(from),
                                   .bytes = bytes,
                                   .to_side = sides->first,
                                   .from_side = sides->second},
                                  nullptr);
    if (error != hipSuccess) return error;
    const std::shared_ptr<Stream>& stream = GetCurrentDevice(runtime).null_stream();
    const StreamPosition tail = stream->Tail();
    stream->Await(tail.sequence);
    runtime.order().RecordHostWait(tail.clock);
    return GetCurrentDevice(runtime).error();
  });
}

HIPEMU_EXPORT hipError_t hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                            hipStream_t stream) noexcept {
  return Call("hipMemcpyPeerAsync", kDefersSickness, [&](Runtime& runtime) {
    if (runtime.device(to_device) == nullptr || runtime.device(from_device) == nullptr) return hipErrorInvalidDevice;
    if (bytes == 0) return hipSuccess;
    if (runtime.Locate(ComputeAddress(to)).device != runtime.device(to_device) ||
        runtime.Locate(ComputeAddress(from)).device != runtime.device(from_device)) {
      Report().Add(absl::StrCat("hipMemcpyPeerAsync: an address is not one of the device that is named, ", to_device,
                                " for the destination and ", from_device, " for the source"));
      return hipErrorInvalidValue;
    }
    return Copy(runtime,
                {.name = "hipMemcpyPeerAsync",
                 .to = ComputeAddress(to),
                 .from = ComputeAddress(from),
                 .bytes = bytes,
                 .to_side = CopySide::kDevice,
                 .from_side = CopySide::kDevice,
                 .needs_peer_access = false},
                stream);
  });
}

HIPEMU_EXPORT hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t bytes,
                                          hipStream_t stream) noexcept {
  return Call("hipMemsetD8Async", kDefersSickness, [&](Runtime& runtime) {
    return Fill(
        runtime,
        {.name = "hipMemsetD8Async", .to = ComputeAddress(to), .value = value, .element_bytes = 1, .elements = bytes},
        stream);
  });
}

HIPEMU_EXPORT hipError_t hipMemsetAsync(void* to, int value, size_t bytes, hipStream_t stream) noexcept {
  return Call("hipMemsetAsync", kDefersSickness, [&](Runtime& runtime) {
    return Fill(runtime,
                {.name = "hipMemsetAsync",
                 .to = ComputeAddress(to),
                 .value = static_cast<uint32_t>(value) & 0xff,
                 .element_bytes = 1,
                 .elements = bytes},
                stream);
  });
}

HIPEMU_EXPORT hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t words, hipStream_t stream) noexcept {
  return Call("hipMemsetD32Async", kDefersSickness, [&](Runtime& runtime) {
    return Fill(runtime,
                {.name = "hipMemsetD32Async",
                 .to = ComputeAddress(to),
                 .value = static_cast<uint32_t>(value),
                 .element_bytes = 4,
                 .elements = words},
                stream);
  });
}

}  // namespace backplane::hip
