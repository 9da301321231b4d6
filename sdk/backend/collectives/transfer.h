// Send and recv: to and from the host through the execution's context, and between devices of one process.
//
// A send between devices leaves its bytes and goes on; a recv-done waits for them (Launch::Post, Launch::Fetch), so
// that programs which receive before they send do not wait for one another. Which device sends to which is in
// source_target_pairs: partitions where there are several, else replicas.
//
// Infeed and outfeed are transfers from and to the host on a channel of their own: the n-th array that the program
// takes or gives there is the host's n-th. A tuple goes array by array.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_TRANSFER_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_TRANSFER_H_

#include <memory>
#include <string>
#include <vector>

#include "core/ir/instruction.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/custom_call.h"

namespace backplane {

// The channel of infeed and outfeed, which no send or recv of a program has. Plugins name it in their attribute
// `feed_channel`; a host registers its callbacks for it as for any other.
inline constexpr int64_t kFeedChannel = -1;

class Transfer {
 public:
  // Of a send, a recv-done, an infeed or an outfeed. InvalidArgument where the pairs do not fit, Unimplemented for
  // tuples sent to or received from the host.
  static absl::StatusOr<std::unique_ptr<Transfer>> Make(const Instruction& op, int64_t replicas, int64_t partitions);

  bool to_or_from_host() const { return host_; }
  bool sends() const { return sends_; }
  int64_t bytes() const { return bytes_; }
  // Dense row-major arrays, leaf by leaf. `member` is needed between devices, `context` for the host. A device that is
  // in no pair sends nothing and receives zeros.
  absl::Status Send(LaunchMember* member, const ExecuteContext* context, absl::Span<const void* const> leaves) const;
  absl::Status Receive(LaunchMember* member, const ExecuteContext* context, absl::Span<void* const> leaves) const;

 private:
  Transfer() = default;
  std::string name_;
  bool host_ = false, sends_ = false;
  int64_t channel_ = 0, bytes_ = 0;
  std::vector<Shape> leaves_;
  std::vector<int64_t> peer_;  // by process: where it sends to, or receives from; -1: nowhere
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_TRANSFER_H_
