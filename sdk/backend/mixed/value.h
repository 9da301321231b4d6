// A value of a running program: in host memory, in the device's, or in both; or a tuple of values.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_VALUE_H_
#define BACKPLANE_SDK_BACKEND_MIXED_VALUE_H_

#include <memory>
#include <vector>

#include "core/types/literal.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/device_memory.h"

namespace backplane::mixed {

// A shape without a layout is row-major.
inline bool IsRowMajor(const Shape& shape) { return !shape.has_layout() || shape.layout().IsRowMajor(); }

// Where arrays of one device are kept. The address of a storage is the host's own where there is no DeviceMemory.
class Placement {
 public:
  Placement(int32_t device, DeviceMemory* memory) : device_(device), memory_(memory) {}
  virtual ~Placement() = default;

  int32_t device() const { return device_; }
  bool on_host() const { return memory_ == nullptr; }
  // Room in the device's memory. Only where that is not the host's.
  virtual absl::StatusOr<std::shared_ptr<Storage>> Allocate(size_t bytes) = 0;
  DeviceMemory* memory() const { return memory_; }

 private:
  const int32_t device_;
  DeviceMemory* const memory_;
};

// Copying is cheap: data is shared, and nobody writes into a value that another one holds.
class Value {
 public:
  Value() = default;
  static Value OfLiteral(Literal literal);  // a tuple is taken apart
  static Value OfStorage(const Shape& shape, std::shared_ptr<Storage> storage);
  static Value Tuple(std::vector<Value> elements);

  bool is_tuple() const { return is_tuple_; }
  std::vector<Value>& elements() { return elements_; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  const Shape& shape() const { return shape_; }  // of arrays and tokens; without layout

  // The value in host memory; the copy made for it is kept. The second form may give its data away.
  absl::StatusOr<Literal> OnHost(Placement& placement);
  absl::StatusOr<Literal> TakeOnHost(Placement& placement) &&;
  // Its address in the device's memory, where the copy made for it is kept; in the host's where that is the same.
  absl::StatusOr<const void*> OnDevice(Placement& placement);
  // From now on it is only in host memory, in data that is nobody else's.
  absl::Status Detach(Placement& placement);

 private:
  bool is_tuple_ = false;
  Shape shape_;
  Literal host_;                      // invalid: not there
  std::shared_ptr<Storage> storage_;  // null: not there
  std::vector<Value> elements_;
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_VALUE_H_
