// The memory of the emulated devices. It is host memory, limited to the capacity of the machine.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_HBM_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_HBM_H_

#include <atomic>
#include <vector>

#include "base/mutex.h"
#include "plugins/tpu_emulator/plugin/options.h"
#include "sdk/backend/device_memory.h"

namespace backplane::tpu {

class Hbm : public DeviceMemory {
 public:
  // `capacity`: bytes per device.
  Hbm(int64_t devices, int64_t capacity, Poison poison);

  absl::StatusOr<void*> Allocate(int32_t device, size_t bytes) override;
  void Free(int32_t device, void* address, size_t bytes) override;
  absl::Status CopyIn(int32_t device, const void* host, void* address, size_t bytes) override;
  absl::Status CopyOut(int32_t device, const void* address, void* host, size_t bytes) override;
  absl::Status CopyWithin(int32_t device, const void* from, void* to, size_t bytes) override;
  std::optional<int64_t> Capacity(int32_t device) const override { return capacity_; }

 private:
  void Uncount(int32_t device, int64_t size);

  const int64_t capacity_;
  const Poison poison_;
  Mutex mu_;
  std::vector<int64_t> in_use_ ABSL_GUARDED_BY(mu_);  // bytes, by device
  std::atomic<uint64_t> seed_{0};                     // of the next random poison
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_HBM_H_
