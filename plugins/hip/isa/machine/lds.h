// LDS of a work group: its bytes, and who accessed each since the last barrier.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_LDS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_LDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace backplane::hip::isa {

enum class LdsAccess : uint8_t { kRead, kWrite, kAtomic };

// Between two barriers the waves of a group run in any order. Two waves may therefore not access one byte, unless both
// read or both access it atomically. An access that a wave has not waited for when it reaches a barrier goes on behind
// it.
class LdsState {
 public:
  // Begins a work group: `bytes` of LDS with a pattern that no program expects.
  void Reset(uint32_t bytes);
  uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  uint8_t* data() { return bytes_.data(); }

  // Records an access to a range, which must be within LDS. Returns an error if it is a race.
  absl::Status Record(uint32_t wave, uint32_t address, uint32_t bytes, LdsAccess access);
  void PassBarrier() { ++phase_; }
  // Begins to remember the ranges that Record gets, for an access of the wave that may go on behind a barrier. Returns
  // its number, which is valid for the wave's next kRemembered - 1 accesses.
  uint32_t BeginAccess(uint32_t wave);
  // Records the access again, in the phase behind a barrier.
  absl::Status Repeat(uint32_t wave, uint32_t access);

 private:
  // The waves that accessed a byte: 8 bits for each kind of access, and the phase in the upper half. Waves are numbered
  // from 1 on; kSeveral are at least two.
  using Shadow = uint64_t;
  struct Range {
    uint32_t address, bytes;
    LdsAccess access;
  };
  // Returns the shadow after an access; zero if it is a race.
  Shadow Advance(Shadow before, uint8_t me, LdsAccess access) const;
  static absl::Status DescribeRace(Shadow s, uint32_t address, uint8_t me, LdsAccess access);
  static constexpr uint8_t kSeveral = 255;
  static constexpr uint32_t kRemembered = 64;  // lgkmcnt counts no more

  std::vector<uint8_t> bytes_;
  std::vector<Shadow> shadow_;
  std::vector<std::vector<Range>> accesses_;
  std::vector<uint32_t> next_;  // for each wave
  uint32_t access_ = 0;
  uint32_t phase_ = 1;
};

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_LDS_H_
