// The rendezvous of the devices of a launch for a collective that they run themselves.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_EXCHANGE_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_EXCHANGE_H_

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/hip/backend/device.h"
#include "plugins/hip/backend/library_collectives.h"
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
  struct Parts {
    Devices& devices;
    int device;
    hipStream_t stream;
    Queue& queue;  // the program's, on the stream
    LaunchMember& member;
    std::shared_ptr<const void> memory;  // holds what the others read
    LibraryCollectives* library;         // null: there is none
    std::function<void(absl::Span<const std::string>)> log;
  };
  explicit DeviceExchange(Parts parts)
      : devices_(parts.devices),
        device_(parts.device),
        stream_(parts.stream),
        queue_(parts.queue),
        member_(parts.member),
        memory_(std::move(parts.memory)),
        library_(parts.library),
        log_(std::move(parts.log)) {}

  int64_t process() const override { return member_.process(); }
  absl::StatusOr<std::vector<Peer>> Synchronize(const Instruction& collective, absl::Span<const int64_t> group,
                                                size_t position, std::vector<void*> operands,
                                                CollectiveOffer* offer) override;

  // Waits for the collectives that a library was given. They end with an error if a device fails, or if one takes
  // longer than the limit.
  absl::Status AwaitLibrary(std::chrono::milliseconds limit);

 private:
  // A member brings its contribution to a rendezvous and gets the contributions of all members.
  struct Contribution {
    std::shared_ptr<const void> recorded, memory;
    hipEvent_t event = nullptr;
    Peer peer;
    hipStream_t stream = nullptr;
    Queue* queue = nullptr;
    CollectiveOffer* offer = nullptr;
    std::shared_ptr<Connections> connections;  // that the library uses; null: copies do the collective
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
  LibraryCollectives* const library_;
  const std::function<void(absl::Span<const std::string>)> log_;
  // Lets the library do the collective if it is chosen.
  absl::Status EnqueueByLibrary(std::vector<Contribution>& all);

  std::vector<std::shared_ptr<const void>> held_;  // the memory of the others
  // Collectives of the library that may not have ended, in their order on the stream.
  struct Running {
    std::shared_ptr<Connections> connections;
    LibraryCollectives::Enqueued enqueued;
    std::vector<std::shared_ptr<const void>> events;  // hold those of `enqueued`
  };
  std::deque<Running> running_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_EXCHANGE_H_
