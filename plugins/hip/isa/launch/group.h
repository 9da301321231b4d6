// Runs one work group after another, with the same memory for registers and LDS.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_GROUP_H_
#define BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/hip/isa/code/loaded_code.h"
#include "plugins/hip/isa/machine/wave.h"

namespace backplane::hip::isa {

class GroupRunner {
 public:
  // Returns Unimplemented if the kernel descriptor asks for something that the interpreter does not set up.
  static absl::StatusOr<std::unique_ptr<GroupRunner>> Create(LaunchState* state, size_t kernel, const Launch& launch);
  absl::Status Run(uint32_t x, uint32_t y, uint32_t z);

 private:
  GroupRunner(LaunchState* state, const KernelDescriptor& descriptor, const Launch& launch)
      : state_(state), descriptor_(descriptor), launch_(launch) {}
  void Begin(Wave& wave, uint32_t number);
  // Runs the wave until it ends, fails, reaches a barrier or has run for a while.
  void RunWave(Wave& wave);
  absl::Status PassBarrier();
  absl::Status Describe(const Wave& wave) const;

  LaunchState* state_;
  KernelDescriptor descriptor_;
  const Launch& launch_;
  const Function* entry_ = nullptr;
  GroupState group_;
  uint32_t threads_ = 0, lanes_ = 64, scratch_bytes_ = 0, lds_bytes_ = 0;
  std::vector<Wave> waves_;
  std::vector<uint32_t> registers_;
  std::vector<uint64_t> scratch_;
  std::vector<uint32_t> repeated_;
};

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_GROUP_H_
