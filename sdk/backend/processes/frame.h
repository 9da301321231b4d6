// The messages between the processes of a job, as they are on the connection. Used by MessageMesh only.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_FRAME_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "sdk/backend/processes/launch_exchange.h"
#include "sdk/backend/processes/shared_memory.h"

namespace backplane {

// All frames have slot 0. Larger blocks have a slot of their own, which the receiver chooses.
inline constexpr uint64_t kFrameSlot = 0;
inline constexpr uint32_t kFrameMagic = 0x42504d36;  // "BPM6"; other bytes: another version or order of bytes
inline constexpr int64_t kMaxPayloadBytes = LaunchExchange::kMaxPostedBytes;
inline constexpr int64_t kMaxTextBytes = 4096;

enum class FrameKind : uint8_t {
  kHello,    // the first frame of a connection; the payload is the token of the job
  kData,     // the payload is a part
  kOffer,    // a part of `total_bytes` can be sent
  kReady,    // the receiver of an offered or kept part expects it in `slot`
  kAbort,    // the launch has failed; the payload is a text
  kGoodbye,  // the process closes its client; with a payload: it has given up the receiver, and says why
  kPing,     // asks whether the process is alive; `sequence` counts the pings
  kPong,     // the answer; `sequence` is that of the ping
  kMemory,   // while connecting: describes the sender's shared memory, or 0 bytes; then whether it reaches the
             // receiver's
  kChunk,    // a chunk of a part is in the sender's shared memory; `total_bytes` is the size of the part
  kKept,     // like kOffer, for a part that the sender keeps, after its launch has ended, until it gets kTaken
  kTaken,    // the receiver has taken or refused a kept part
  kRoom,     // the receiver has used messages that cost `total_bytes` (FrameCost), expected or not
};
inline constexpr uint8_t kFrameKinds = 13;

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::kHello;
  uint8_t status_code = 0;         // of an abort
  uint16_t process = 0;            // the sender's index
  uint64_t set = 0, sequence = 0;  // the launch
  ExchangeKey key;
  int64_t part = 0;
  uint64_t digest = 0;
  uint64_t payload_bytes = 0, total_bytes = 0, slot = 0;
  uint64_t arrays = 0, operations = 0;
  int64_t num_instructions = 0;
  SharedChunk chunk;
  char program[72] = {}, parameters[71] = {};  // texts, cut off; they end with a null byte
  // The first message of the launch to the receiver, which needs memory for the launch until it starts it, too. Another
  // message may arrive before it.
  bool opens_launch = false;

  void SetProgram(const LaunchProgram& p) {
    digest = p.digest;
    arrays = p.arrays;
    operations = p.operations;
    num_instructions = p.num_instructions;
    SetText(p.name, program);
    SetText(p.parameters, parameters);
  }
  LaunchProgram GetProgram() const { return {program, digest, parameters, arrays, num_instructions, operations}; }
  // Checks everything that is the same for all kinds.
  bool IsValid() const {
    return magic == kFrameMagic && static_cast<uint8_t>(kind) < kFrameKinds && program[sizeof program - 1] == '\0' &&
           parameters[sizeof parameters - 1] == '\0' && payload_bytes <= static_cast<uint64_t>(kMaxPayloadBytes) &&
           total_bytes <= uint64_t{INT64_MAX};
  }

 private:
  template <size_t N>
  static void SetText(absl::string_view text, char (&to)[N]) {
    const size_t n = text.size() < N - 1 ? text.size() : N - 1;
    std::memcpy(to, text.data(), n);
    std::memset(to + n, 0, N - n);
  }
};
static_assert(std::is_trivially_copyable_v<FrameHeader> && sizeof(FrameHeader) == 288);

inline constexpr size_t kFrameBytes = sizeof(FrameHeader) + static_cast<size_t>(kMaxPayloadBytes);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_FRAME_H_
