// The rendezvous of the devices of a launch for a collective that they run themselves.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_EXCHANGE_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_EXCHANGE_H_

#include <memory>
#include <vector>

#include "plugins/hip/backend/device.h"
#include "plugins/hip/program/collective.h"
#include "sdk/backend/collectives/rendezvous.h"

namespace backplane::hip {

// Serves one launch on one device and is used by one thread. When it is destroyed, all work of the stream must have
// ended.
//
// If a member fails, the others may still read its memory. So each member gives the others a reference to what holds
// its memory, and they keep it as long as they exist.
class DeviceExchange : public Exchange {
 public:
  // `queue` is the program's, on the stream.
  DeviceExchange(Devices& devices, int device, hipStream_t stream, Queue& queue, LaunchMember& member,
                 std::shared_ptr<const void> memory)
      : devices_(devices),
        device_(device),
        stream_(stream),
        queue_(queue),
        member_(member),
        memory_(std::move(memory)) {}

  int64_t process() const override { return member_.process(); }
  absl::StatusOr<std::vector<Peer>> Synchronize(const Instruction& collective, absl::Span<const int64_t> group,
                                                size_t position, std::vector<void*> operands) override;

 private:
  // A member brings its contribution to a rendezvous and gets the contributions of all members.
  struct Contribution {
    std::shared_ptr<const void> recorded, memory;
    hipEvent_t event = nullptr;
    Peer peer;
  };
  struct Entry {
    Contribution own;
    std::vector<Contribution> all;
  };

  Devices& devices_;
  const int device_;
  const hipStream_t stream_;
  Queue& queue_;
  LaunchMember& member_;
  const std::shared_ptr<const void> memory_;
  std::vector<std::shared_ptr<const void>> held_;  // the memory of the others
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_EXCHANGE_H_
