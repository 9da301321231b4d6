// Custom calls as a backend sees them: it looks a target up in the CustomCallRegistry that it was given, creates a call
// site, and calls it. Handlers are registered with the shim (FFI, host callbacks).
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

// One dense operand or result, in the layout of the instruction; `dims` are logical. `data` is a host address for
// sends, receives and call sites that return true from NeedsHostMemory. Otherwise it is an address in the memory of the
// device.
struct CustomCallBuffer {
  PrimitiveType type = PrimitiveType::kInvalid;  // kToken: no data
  void* data = nullptr;
  absl::Span<const int64_t> dims;
};

// For an operand that is aliased with a result: copies the operand's data to the result's buffer and makes `operand`
// refer to that buffer.
void CopyOperandToResult(const CustomCallBuffer& result, CustomCallBuffer* operand);

// What the host passes to one execution: user data of handlers (PJRT_ExecuteContext, copied by the shim and opaque
// here), and the callbacks for host sends and receives. Thread-safe.
class ExecuteContext {
 public:
  virtual ~ExecuteContext() = default;
  // Transfers one dense row-major array. Blocks until the host has received or supplied all of it. Returns
  // FailedPrecondition, with the channel, if the host has registered no callback for the channel.
  virtual absl::Status SendToHost(int64_t channel, const CustomCallBuffer& data) const;
  virtual absl::Status ReceiveFromHost(int64_t channel, const CustomCallBuffer& data) const;
};

// Allocates scratch buffers for one call, in the memory that handlers work in. Thread-safe.
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
  // The backend's stream to which the handler submits its work, such as a hipStream_t. Operands and results may only be
  // accessed in the order of the stream. Null: the handler works in the calling thread.
  void* stream = nullptr;
  ScratchMemory* scratch = nullptr;  // null: scratch buffers are host memory; outlives the call and its event
};

// One call site of one executable. It owns the state of its handler. Thread-safe; several devices may call it at once.
class CustomCallSite {
 public:
  virtual ~CustomCallSite() = default;
  // Whether the handler works on host memory in the calling thread on every platform, as a Python callback does. A
  // backend whose devices have their own memory must then copy the operands to the host and the results back.
  virtual bool NeedsHostMemory() const { return false; }
  // Returns an event that is set when the call is done. The buffers and the frame must live until then.
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
  // Creates a call site. Returns NotFound, with the target, the platform and similar known names, if no handler is
  // registered.
  virtual absl::StatusOr<std::unique_ptr<CustomCallSite>> Instantiate(const CustomCallSpec& spec) = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_CUSTOM_CALL_H_
