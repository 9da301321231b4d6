// Checks the memory that a kernel accesses while it runs.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_LAUNCH_GUARD_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_LAUNCH_GUARD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "plugins/hip/emulated_runtime/device.h"
#include "plugins/hip/emulated_runtime/ordering.h"
#include "plugins/hip/isa/interpreter.h"

namespace backplane::hip::emulated {

// Serves one launch and is used by one thread. The constructor collects the blocks that may be accessed: nothing is
// freed while a kernel runs, because hipFree waits for the device.
class LaunchGuard : public isa::MemoryGuard {
 public:
  // With `records`, IsAccessible will be called for all accesses and records them for the check of the order.
  LaunchGuard(Device& device, bool records);

  bool IsAccessible(uint64_t address, uint64_t bytes, bool write) const override;

  // Called for kernels whose accesses cannot be seen. Checks the pointers among the arguments and the order of the
  // lines to which they point. Reports and returns an error.
  hipError_t BeginByArguments(const OperationPtr& operation, absl::Span<const uint8_t> arguments);
  // Called after the kernel. Checks the order of its accesses.
  hipError_t End(const OperationPtr& operation);
  // Describes the access that was refused.
  const std::string& problem() const { return problem_; }

 private:
  static constexpr uint64_t kLineBytes = 64;
  struct Access {
    uint64_t begin, end;
    bool write;
  };
  struct Line {
    uint64_t begin, end;
    std::vector<unsigned char> before;
  };
  void Record(uint64_t address, uint64_t bytes, bool write) const;
  const AddressRange* FindBlock(uint64_t address, uint64_t bytes) const;

  Device& device_;
  const bool records_;
  std::vector<AddressRange> blocks_;  // of the device and its peers, by address
  std::vector<Line> lines_;
  // Mutable because MemoryGuard's functions are const, as other guards serve several threads; a launch has one thread.
  mutable std::vector<Access> accesses_;
  // The accesses that the next one may continue, as an index into accesses_ plus 1; 0: none.
  mutable size_t last_read_ = 0, last_write_ = 0;
  mutable const AddressRange* last_block_ = nullptr;
  mutable std::string problem_;
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_LAUNCH_GUARD_H_
