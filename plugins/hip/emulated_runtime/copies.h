// Copies and fills.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_COPIES_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_COPIES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "plugins/hip/emulated_runtime/module.h"
#include "plugins/hip/emulated_runtime/runtime.h"

namespace backplane::hip::emulated {

// Which memory a side of a copy may be in.
enum class CopySide { kHost, kDevice, kAny };

struct CopyRequest {
  absl::string_view name;  // of the call
  uint64_t to = 0, from = 0, bytes = 0;
  CopySide to_side = CopySide::kAny, from_side = CopySide::kAny;
  bool needs_peer_access = true;        // false: between any two devices, as hipMemcpyPeerAsync does
  std::shared_ptr<std::string> staged;  // holds the bytes of `from` if set
};
// Checks a copy by device `by` and returns the operation that does it.
Prepared PrepareCopy(Device& by, const CopyRequest& request);

struct FillRequest {
  absl::string_view name;
  uint64_t to = 0;
  uint32_t value = 0, element_bytes = 1;
  uint64_t elements = 0, rows = 1, pitch = 0;  // pitch in bytes, where there are several rows
};
Prepared PrepareFill(Device& by, const FillRequest& request);

// Called when an operation accesses memory. Checks that the memory is still allocated, and the order between streams.
// `by` is the device that runs the operation. Reports and returns the error that poisons the device.
hipError_t CheckAccess(Device& by, const OperationPtr& operation, uint64_t address, uint64_t bytes, bool write);

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_COPIES_H_
