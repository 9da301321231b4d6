// A value of a running program: an array in host memory, in device memory or in both, or a tuple of values.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_VALUE_H_
#define BACKPLANE_SDK_BACKEND_MIXED_VALUE_H_

#include <memory>
#include <vector>

#include "core/types/literal.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/device_memory.h"

namespace backplane::mixed {

// The memory of one device. Without a DeviceMemory, the addresses of storages are host addresses.
class Placement {
 public:
  Placement(int32_t device, DeviceMemory* memory) : device_(device), memory_(memory) {}
  virtual ~Placement() = default;

  int32_t device() const { return device_; }
  bool on_host() const { return memory_ == nullptr; }
  // Allocates device memory. Must not be called if on_host().
  virtual absl::StatusOr<std::shared_ptr<Storage>> Allocate(size_t bytes) = 0;
  DeviceMemory* memory() const { return memory_; }

 private:
  const int32_t device_;
  DeviceMemory* const memory_;
};

// Copying a Value is cheap, because copies share the data. Shared data is never written.
class Value {
 public:
  Value() = default;
  static Value OfLiteral(Literal literal);  // a tuple becomes a tuple of values
  static Value OfStorage(const Shape& shape, std::shared_ptr<Storage> storage);
  static Value Tuple(std::vector<Value> elements);

  bool is_tuple() const { return is_tuple_; }
  std::vector<Value>& elements() { return elements_; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  const Shape& shape() const { return shape_; }  // of arrays and tokens; without layout

  // Returns the value in host memory. If a copy had to be made, the value keeps it. MoveToHost may move the data out.
  absl::StatusOr<Literal> OnHost(Placement& placement);
  absl::StatusOr<Literal> MoveToHost(Placement& placement) &&;
  // Returns the address in device memory (in host memory if on_host()). If a copy had to be made, the value keeps it.
  absl::StatusOr<const void*> OnDevice(Placement& placement);
  // Moves the value to host memory, into data that no other value shares, and drops its device storage.
  absl::Status Detach(Placement& placement);

 private:
  bool is_tuple_ = false;
  Shape shape_;
  Literal host_;                      // invalid: not in host memory
  std::shared_ptr<Storage> storage_;  // null: not in device memory
  std::vector<Value> elements_;
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_VALUE_H_
