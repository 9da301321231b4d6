// Custom calls as a backend sees them: find a target, make a call site, run it. How handlers get registered (FFI, host
// callbacks) is the shim's business; a backend only holds a CustomCallRegistry that it was given.
#ifndef BACKPLANE_SDK_BACKEND_CUSTOM_CALL_H_
#define BACKPLANE_SDK_BACKEND_CUSTOM_CALL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attribute_values.h"
#include "sdk/backend/event.h"

namespace backplane {

// One dense operand or result in the memory order the instruction's layout names; dims are logical. `data` is an
// address of the host's wherever code of the host reads it: sends and receives, sites that say NeedsHostMemory.
// Handlers of a platform with memory of its own get addresses of the device.
struct CustomCallBuffer {
  PrimitiveType type = PrimitiveType::kInvalid;  // kToken: no data
  void* data = nullptr;
  absl::Span<const int64_t> dims;
};

// For an operand that the instruction wants to lie where its result lies: copies it there, and says so.
void LayInto(const CustomCallBuffer& result, CustomCallBuffer* operand);

// What the host gives to one execution: user data of handlers (PJRT_ExecuteContext, copied at Execute; opaque here),
// and its ends of the channels of host sends and receives.
class ExecuteContext {
 public:
  virtual ~ExecuteContext() = default;
  // One dense row-major array. Blocks until the host has taken it, or has given all of it. From any thread.
  // FailedPrecondition, naming the channel, where the host has no callback for it.
  virtual absl::Status SendToHost(int64_t channel, const CustomCallBuffer& data) const;
  virtual absl::Status ReceiveFromHost(int64_t channel, const CustomCallBuffer& data) const;
};

// Room in the memory that handlers work in, for the length of a call. From any thread.
class ScratchMemory {
 public:
  virtual ~ScratchMemory() = default;
  virtual absl::StatusOr<void*> Allocate(size_t bytes, size_t alignment) = 0;
  virtual void Free(void* data, size_t bytes) = 0;
};

struct CustomCallFrame {
  absl::Span<const CustomCallBuffer> operands, results;
  const ExecuteContext* context = nullptr;  // may be null; outlives the call and its event
  int64_t run_id = 0;
  int32_t device_ordinal = 0;
  // The backend's stream, on which the handler puts its work (hipStream_t). Operands and results belong to the work
  // that is on the stream. Null: the handler works in the calling thread.
  void* stream = nullptr;
  ScratchMemory* scratch = nullptr;  // null: the host's memory; outlives the call and its event
};

// One call site of one executable: holds the handler's state. Call may run from any thread, several at once for several
// devices. The event is the completion; buffers and frame must live until it is set.
class CustomCallSite {
 public:
  virtual ~CustomCallSite() = default;
  // Whether the handler reads and writes addresses of the host, in the calling thread, whatever the platform: a Python
  // callback does. A backend with memory of its own copies the operands out for it, and the results in.
  virtual bool NeedsHostMemory() const { return false; }
  virtual absl::StatusOr<Event> Call(const CustomCallFrame& frame) = 0;
};

struct CustomCallSpec {
  std::string target;
  CustomCallApiVersion api_version = CustomCallApiVersion::kOriginal;
  std::string opaque;
  FfiDictionary attributes;
};

class CustomCallRegistry {
 public:
  virtual ~CustomCallRegistry() = default;
  virtual bool Has(const std::string& target) const = 0;
  // NotFound with the target, the platform and the nearest known names.
  virtual absl::StatusOr<std::unique_ptr<CustomCallSite>> Instantiate(const CustomCallSpec& spec) = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_CUSTOM_CALL_H_
