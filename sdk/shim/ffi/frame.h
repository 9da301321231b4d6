// The part of the FFI that handlers see: the function table, and the objects behind its opaque pointers.
#ifndef BACKPLANE_SDK_SHIM_FFI_FRAME_H_
#define BACKPLANE_SDK_SHIM_FFI_FRAME_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/ffi_c_api.h"
#include "base/mutex.h"
#include "core/ops/attribute_values.h"
#include "sdk/backend/event.h"
#include "sdk/shim/ffi/registry.h"
#include "sdk/shim/objects.h"

struct XLA_FFI_Error {
  // The value that an absl::Status of the host would contain for this code without a message. A host that mistakes this
  // object for one of its own thus reads a valid status.
  uintptr_t inlined_code;
  absl::Status status;
  std::string message;
};

// Has two references: the handler holds one until it has set the future, and the plugin holds one until it has read the
// frame of the call.
struct XLA_FFI_Future {
  backplane::Event event = backplane::Event::Create();
  std::atomic<int> references{2};
  void Release() {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

namespace backplane::shim::ffi {

// A state that a handler keeps for a stage. It is destroyed with the deleter of its type.
class StateSlot {
 public:
  StateSlot() = default;
  StateSlot(const StateSlot&) = delete;
  StateSlot& operator=(const StateSlot&) = delete;
  ~StateSlot() {
    if (state_ != nullptr && deleter_ != nullptr) deleter_(state_);
  }
  absl::Status Set(Registry& registry, int64_t type_id, void* state);
  absl::StatusOr<void*> Get(int64_t type_id) const;

 private:
  mutable Mutex mu_;
  int64_t type_id_ ABSL_GUARDED_BY(mu_) = 0;
  void* state_ ABSL_GUARDED_BY(mu_) = nullptr;
  Deleter deleter_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace backplane::shim::ffi

// One call: the data that the handler may query while it runs.
struct XLA_FFI_InvokeContext {
  backplane::shim::ffi::Registry* registry = nullptr;
  const backplane::shim::ContextData* user_data = nullptr;  // may be null
  backplane::shim::ffi::StateSlot* instantiated = nullptr;
  backplane::shim::ffi::StateSlot prepared, initialized;
  XLA_FFI_ExecutionStage stage = XLA_FFI_ExecutionStage_EXECUTE;
  int64_t run_id = 0;
  int32_t device_ordinal = 0;
  void* stream = nullptr;                       // null: the handler works in the calling thread
  backplane::ScratchMemory* scratch = nullptr;  // null: scratch buffers are host memory
};

namespace backplane::shim::ffi {

// The table. After its published end there are functions that return Unimplemented (api.cc).
const XLA_FFI_Api* Api();

// Returns a new error; null for OK.
XLA_FFI_Error* MakeFfiError(absl::Status status);
// Returns the status of an error that a handler returned, and frees the error.
absl::Status TakeFfiError(XLA_FFI_Error* error);

// A dictionary in the form that handlers read. It refers to the original dictionary, which must outlive it.
class AttributeTable {
 public:
  explicit AttributeTable(const FfiDictionary& dictionary) { root_ = Encode(dictionary); }
  AttributeTable(const AttributeTable&) = delete;
  AttributeTable& operator=(const AttributeTable&) = delete;
  const XLA_FFI_Attrs& attrs() const { return root_; }

 private:
  XLA_FFI_Attrs Encode(const FfiDictionary& dictionary);
  struct Level {
    std::vector<XLA_FFI_AttrType> types;
    std::vector<XLA_FFI_ByteSpan> name_spans;
    std::vector<XLA_FFI_ByteSpan*> names;
    std::vector<void*> values;
  };
  // In a deque the addresses of elements are stable.
  std::deque<Level> levels_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::deque<XLA_FFI_ByteSpan> strings_;
  std::deque<XLA_FFI_Attrs> dictionaries_;
  std::deque<std::string> aligned_;  // copies of scalar and array bytes
  XLA_FFI_Attrs root_;
};

}  // namespace backplane::shim::ffi

#endif  // BACKPLANE_SDK_SHIM_FFI_FRAME_H_
