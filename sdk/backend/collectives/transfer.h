// Point-to-point transfers: send and recv between devices of a launch, and transfers to and from the host.
//
// A send between devices posts its bytes and does not block; a recv-done blocks until they arrive (Launch::PostMessage,
// Launch::FetchMessage). Programs that receive before they send therefore do not deadlock. The attribute
// source_target_pairs lists partitions if the program has several partitions, else replicas.
//
// Infeed and outfeed are host transfers on the reserved channel kFeedChannel. The n-th array that the program receives
// or sends on it is the n-th array of the host. Tuples are transferred leaf by leaf.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_TRANSFER_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_TRANSFER_H_

#include <memory>
#include <string>
#include <vector>

#include "core/ir/instruction.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/custom_call.h"

namespace backplane {

// The channel of infeed and outfeed. No send or recv of a program uses it. Plugins publish it as their attribute
// `feed_channel`; a host registers its callbacks for it like for any other channel.
inline constexpr int64_t kFeedChannel = -1;

// A compiled transfer. Made once per executable, run by every device in every launch. Thread-safe.
class Transfer {
 public:
  // `op` is a send, recv-done, infeed or outfeed. Returns InvalidArgument if the source-target pairs do not fit the
  // number of devices. Returns Unimplemented for a recv-done whose operand is no recv, for data that contains tokens,
  // and for a tuple that a send or recv exchanges with the host.
  static absl::StatusOr<std::unique_ptr<Transfer>> Make(const Instruction& op, int64_t replicas, int64_t partitions);

  bool to_or_from_host() const { return host_; }
  bool sends() const { return sends_; }
  int64_t bytes() const { return bytes_; }
  // Each entry of `leaves` is the address of a dense row-major array. `member` must be set for a transfer between
  // devices, `context` for a transfer to or from the host. A device that is in no pair sends nothing and receives
  // zeros.
  absl::Status Send(LaunchMember* member, const ExecuteContext* context, absl::Span<const void* const> leaves) const;
  absl::Status Receive(LaunchMember* member, const ExecuteContext* context, absl::Span<void* const> leaves) const;

 private:
  Transfer() = default;
  std::string name_;
  bool host_ = false, sends_ = false;
  int64_t channel_ = 0, bytes_ = 0;
  std::vector<Shape> leaves_;
  std::vector<int64_t> peer_;  // by process: the process it sends to or receives from, or -1
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_TRANSFER_H_
