// The state of a wave and of its work group while a launch is interpreted.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_WAVE_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_WAVE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "plugins/hip/isa/interpreter.h"
#include "plugins/hip/isa/machine/instruction.h"
#include "plugins/hip/isa/machine/lds.h"
#include "plugins/hip/isa/machine/outstanding.h"

namespace backplane::hip::isa {

inline constexpr int kMaxLanes = 64;
// The upper halves of flat addresses of LDS and of private memory. No address of the host begins with them.
inline constexpr uint64_t kSharedAperture = 0x0001000000000000ull, kPrivateAperture = 0x0002000000000000ull;
inline constexpr uint64_t kApertureMask = 0xffffffff00000000ull;

// A function of a code object, decoded (plugins/hip/isa/code/loaded_code.h).
struct Function;
class LoadedCode;

// What all waves of an Execute share.
struct LaunchState {
  const LoadedCode* code = nullptr;
  const KernelInfo* kernel = nullptr;
  const MemoryGuard* guard = nullptr;
  Machine machine = Machine::kGfx942;
  const uint8_t* kernarg = nullptr;
  uint64_t kernarg_bytes = 0;
  const uint8_t* dispatch_packet = nullptr;
  uint64_t dispatch_packet_bytes = 0;
  uint64_t instructions_left = ~0ull;
  std::map<const Function*, std::vector<int64_t>> counts;
  Statistics statistics;
};

struct GroupState {
  LdsState lds;
  uint32_t block[3] = {};
};

// The floating-point modes of a wave: the register MODE, bits 0 to 7, and the switches of the kernel descriptor.
struct FloatMode {
  uint8_t round = 0;  // 2 bits for f32, 2 for f16 and f64; 0: nearest even, the only one that is implemented
  bool keep_f32_sources = true, keep_f32_results = true;  // subnormals
  bool keep_f64_sources = true, keep_f64_results = true;  // of f16 and f64
  bool ieee = false;
  bool clamp_nan_to_zero = true;  // DX10_CLAMP

  // 4 bits of rounding, then for f32 and for f16 and f64 a bit each that keeps sources and results.
  uint32_t Bits() const {
    return round | keep_f32_sources << 4 | keep_f32_results << 5 | keep_f64_sources << 6 | keep_f64_results << 7;
  }
  void SetBits(uint32_t bits) {
    round = bits & 15;
    keep_f32_sources = (bits & 0x10) != 0;
    keep_f32_results = (bits & 0x20) != 0;
    keep_f64_sources = (bits & 0x40) != 0;
    keep_f64_results = (bits & 0x80) != 0;
  }
};

struct Wave {
  enum class State : uint8_t { kRunning, kAtBarrier, kEnded, kFailed };

  State state = State::kRunning;
  bool scc = false;
  Machine machine = Machine::kGfx942;
  int lanes = 64;
  uint32_t number = 0;  // in the work group
  const Function* function = nullptr;
  uint32_t index = 0;         // of the instruction that runs next
  int64_t* counts = nullptr;  // of executions, for each instruction of the function
  uint64_t executed = 0;
  const Instruction* last = nullptr;  // that ran or is running
  FloatMode mode;
  uint32_t scalars[kScalarRegisters] = {};
  Outstanding outstanding;
  LaunchState* launch = nullptr;
  GroupState* group = nullptr;
  uint8_t* scratch = nullptr;  // of lane 0; each lane has `scratch_bytes`
  uint32_t scratch_bytes = 0;
  uint32_t (*vectors)[kMaxLanes] = nullptr;  // rows of registers
  absl::Status status;
  int failed_lane = -1;

  uint64_t LaneMask() const { return lanes == 64 ? ~0ull : 0xffffffffull; }
  uint64_t Mask(int index) const {
    if (lanes == 32) return scalars[index];
    return scalars[index] | static_cast<uint64_t>(scalars[index + 1]) << 32;
  }
  uint64_t exec() const { return Mask(kExecLow); }
  uint64_t vcc() const { return Mask(kVccLow); }
  void SetMask(int index, uint64_t mask) {
    if (index == kNull) return;
    scalars[index] = static_cast<uint32_t>(mask);
    if (lanes == 64) scalars[index + 1] = static_cast<uint32_t>(mask >> 32);
  }

  // Continues in another function.
  void Enter(const Function* f, uint32_t at);
  // Ends the wave with an error. Execute adds the names of kernel, instruction and wave.
  void Fail(absl::Status s, int lane = -1) {
    if (state == State::kFailed) return;
    state = State::kFailed;
    status = std::move(s);
    failed_lane = lane;
  }

  uint32_t Scalar32(const Operand& o) const {
    return o.kind == Operand::Kind::kImmediate ? static_cast<uint32_t>(o.value) : scalars[o.index];
  }
  uint64_t Scalar64(const Operand& o) const {
    if (o.kind == Operand::Kind::kImmediate) return o.value;
    if (o.index == kNull) return 0;
    return scalars[o.index] | static_cast<uint64_t>(scalars[o.index + 1]) << 32;
  }
  void SetScalar32(const Operand& o, uint32_t v) {
    if (o.index != kNull) scalars[o.index] = v;
  }
  void SetScalar64(const Operand& o, uint64_t v) {
    if (o.index == kNull) return;
    scalars[o.index] = static_cast<uint32_t>(v);
    scalars[o.index + 1] = static_cast<uint32_t>(v >> 32);
  }
};

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_WAVE_H_
