// What a kernel accesses while it runs.
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

// For one launch and one thread. The blocks that may be accessed are taken at its construction: nothing is freed while
// a kernel runs, as hipFree waits for the device.
class LaunchGuard : public isa::MemoryGuard {
 public:
  // `records`: whether IsAccessible will be called for all accesses and remembers them for the check of the order.
  LaunchGuard(Device& device, bool records);

  bool IsAccessible(uint64_t address, uint64_t bytes, bool write) const override;

  // For kernels whose accesses cannot be seen: checks the pointers among the arguments and the order of the lines that
  // they point to. Reports and returns an error.
  hipError_t BeginByArguments(const OperationPtr& operation, absl::Span<const uint8_t> arguments);
  // After the kernel: checks the order of what it accessed.
  hipError_t End(const OperationPtr& operation);
  // What was wrong with the access that was refused.
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
  // The interface is const, as it serves several threads elsewhere; a launch has one.
  mutable std::vector<Access> accesses_;
  mutable size_t last_read_ = 0,
                 last_write_ = 0;  // where the next access may continue; an index into accesses_, plus 1
  mutable const AddressRange* last_block_ = nullptr;
  mutable std::string problem_;
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_LAUNCH_GUARD_H_
