#include "plugins/hip/emulated_runtime/copies.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/report.h"

namespace backplane::hip::emulated {
namespace {

hipError_t CheckSide(Device& by, const CopyRequest& request, uint64_t address, CopySide side) {
  const MemoryPlace place = by.runtime().Locate(address);
  const bool is_device = place.kind == MemoryPlace::kDevice || place.kind == MemoryPlace::kGlobal;
  if (side == CopySide::kHost && is_device) {
    Report().Add(absl::StrCat(request.name, ": the host's side 0x", absl::Hex(address), " is memory of device ",
                              place.device->ordinal()));
    return hipErrorInvalidValue;
  }
  if (side == CopySide::kHost || (side == CopySide::kAny && !is_device)) {
    if (address == 0) {
      Report().Add(absl::StrCat(request.name, ": the host's side is null"));
      return hipErrorInvalidValue;
    }
    return hipSuccess;
  }
  Device& judge = request.needs_peer_access || place.device == nullptr ? by : *place.device;
  return by.runtime().CheckAccessible(judge, address, request.bytes, request.name);
}

}  // namespace

hipError_t CheckAccess(Device& by, const OperationPtr& operation, uint64_t address, uint64_t bytes, bool write) {
  const MemoryPlace place = by.runtime().Locate(address);
  if (place.kind != MemoryPlace::kDevice || bytes == 0) return hipSuccess;
  DeviceHeap& heap = place.device->heap();
  if (!heap.Find(address, bytes).has_value()) {
    Report().Add(absl::StrCat(operation->text, ": memory of ", bytes, " bytes at 0x", absl::Hex(address), " ",
                              heap.Explain(address, bytes)));
    return hipErrorIllegalAddress;
  }
  if (!by.runtime().settings().strict_order) return hipSuccess;
  const std::optional<std::string> conflict =
      place.device->accesses().Record(operation, address, address + bytes, write);
  if (!conflict.has_value()) return hipSuccess;
  Report().Add(*conflict);
  return hipErrorLaunchFailure;
}

Prepared PrepareCopy(Device& by, const CopyRequest& request) {
  Prepared prepared;
  prepared.error = CheckSide(by, request, request.to, request.to_side);
  if (prepared.error == hipSuccess && request.staged == nullptr) {
    prepared.error = CheckSide(by, request, request.from, request.from_side);
  }
  if (prepared.error != hipSuccess) return prepared;
  prepared.text = absl::StrCat(request.name, " of ", request.bytes, " bytes");
  prepared.action = [&by, to = request.to, from = request.from, bytes = request.bytes,
                     staged = request.staged](const OperationPtr& operation) {
    if (staged == nullptr) {
      if (hipError_t error = CheckAccess(by, operation, from, bytes, false); error != hipSuccess) return error;
    }
    if (hipError_t error = CheckAccess(by, operation, to, bytes, true); error != hipSuccess) return error;
    const void* source = staged == nullptr ? reinterpret_cast<const void*>(from) : staged->data();
    std::memmove(reinterpret_cast<void*>(to), source, bytes);
    return hipSuccess;
  };
  return prepared;
}

Prepared PrepareFill(Device& by, const FillRequest& request) {
  Prepared prepared;
  const uint64_t row_bytes = request.elements * request.element_bytes;
  if ((request.element_bytes != 1 && request.element_bytes != 2 && request.element_bytes != 4) ||
      request.to % request.element_bytes != 0 || (request.rows > 1 && request.pitch < row_bytes)) {
    Report().Add(absl::StrCat(request.name, ": elements of ", request.element_bytes, " bytes at 0x",
                              absl::Hex(request.to), " in ", request.rows, " rows with a pitch of ", request.pitch,
                              " bytes cannot be filled"));
    prepared.error = hipErrorInvalidValue;
    return prepared;
  }
  const uint64_t span = request.rows == 0 ? 0 : (request.rows - 1) * request.pitch + row_bytes;
  prepared.error = by.runtime().CheckAccessible(by, request.to, span, request.name);
  if (prepared.error != hipSuccess) return prepared;
  prepared.text = absl::StrCat(request.name, " of ", request.rows * row_bytes, " bytes");
  prepared.action = [&by, to = request.to, rows = request.rows, pitch = request.pitch, row_bytes, value = request.value,
                     element_bytes = request.element_bytes](const OperationPtr& operation) {
    unsigned char pattern[4];
    std::memcpy(pattern, &value, sizeof pattern);
    for (uint64_t row = 0; row < rows; ++row) {
      const uint64_t begin = to + row * pitch;
      if (hipError_t error = CheckAccess(by, operation, begin, row_bytes, true); error != hipSuccess) return error;
      unsigned char* bytes = reinterpret_cast<unsigned char*>(begin);
      if (element_bytes == 1) {
        std::memset(bytes, pattern[0], row_bytes);
      } else {
        for (uint64_t i = 0; i < row_bytes; i += element_bytes) std::memcpy(bytes + i, pattern, element_bytes);
      }
    }
    return hipSuccess;
  };
  return prepared;
}

}  // namespace backplane::hip::emulated
