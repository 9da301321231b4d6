#include "plugins/hip/backend/exchange.h"

#include <algorithm>
#include <utility>

#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"

namespace backplane::hip {
namespace {

// The collectives of the same program that the host runs are numbered from 0.
constexpr int64_t kFirstDeviceCollective = int64_t{1} << 40;

}  // namespace

absl::StatusOr<std::vector<Peer>> DeviceExchange::Synchronize(const Instruction& collective,
                                                              absl::Span<const int64_t> group, size_t position,
                                                              std::vector<void*> operands, CollectiveOffer* offer) {
  Entry entry;
  entry.own.peer = {device_, std::move(operands)};
  if (group.size() == 1) return std::vector<Peer>{std::move(entry.own.peer)};
  RETURN_IF_ERROR(queue_.Flush());
  const HipApi& api = devices_.api();
  const ScopedDevice current(api, device_);
  RETURN_IF_ERROR(current.status());
  EventPool& events = devices_.events(device_);
  ASSIGN_OR_RETURN(hipEvent_t event, events.Take());
  // The event is used again when no member can wait for it any more.
  entry.own.recorded = std::shared_ptr<const void>(event, [&events, event](const void*) { events.Return(event); });
  entry.own.event = event;
  entry.own.stream = stream_;
  entry.own.queue = &queue_;
  entry.own.offer = library_ == nullptr ? nullptr : offer;
  entry.own.memory = memory_;
  RETURN_IF_ERROR(ToStatus(api.hipEventRecord(event, stream_), "recording an event"));
  Running running;
  if (entry.own.offer != nullptr) {
    ASSIGN_OR_RETURN(const hipEvent_t behind, events.Take());
    running.events.emplace_back(behind, [&events, behind](const void*) { events.Return(behind); });
    running.enqueued.behind = behind;
  }
  const int64_t id = kFirstDeviceCollective + collective.id();
  RETURN_IF_ERROR(
      member_.launch().EnterRendezvous({id, member_.NextIteration(id), group.front()}, collective.name(), group,
                                       position, &entry, [this](absl::Span<void* const> entries) -> absl::Status {
                                         std::vector<Contribution> all;
                                         for (void* e : entries) all.push_back(static_cast<Entry*>(e)->own);
                                         RETURN_IF_ERROR(CatchExceptions([&] { return EnqueueByLibrary(all); }));
                                         for (void* e : entries) static_cast<Entry*>(e)->all = all;
                                         return absl::OkStatus();
                                       }));
  const std::shared_ptr<Connections>& connections = entry.all[position].connections;
  if (connections != nullptr) {
    offer->is_done = true;
    while (!running_.empty() && api.hipEventQuery(running_.front().enqueued.behind) == hipSuccess) running_.pop_front();
    const absl::Status noted = CatchExceptions([&] {
      running.connections = connections;
      for (const Contribution& c : entry.all) {
        running.enqueued.in_front.push_back(c.event);
        running.events.push_back(c.recorded);
      }
      RETURN_IF_ERROR(ToStatus(api.hipEventRecord(running.enqueued.behind, stream_), "recording an event"));
      running_.push_back(std::move(running));
      return absl::OkStatus();
    });
    // The library has begun, and nobody could tell when it ends.
    if (!noted.ok()) connections->Abort();
    RETURN_IF_ERROR(noted);
  }
  std::vector<Peer> peers;
  for (size_t m = 0; m < entry.all.size(); ++m) {
    Contribution& other = entry.all[m];
    peers.push_back(std::move(other.peer));
    if (m == position) continue;
    if (std::find(held_.begin(), held_.end(), other.memory) == held_.end()) held_.push_back(other.memory);
    if (connections != nullptr) continue;  // the library has made the stream wait
    RETURN_IF_ERROR(ToStatus(api.hipStreamWaitEvent(stream_, other.event, 0), "waiting for a device"));
  }
  return peers;
}

absl::Status DeviceExchange::EnqueueByLibrary(std::vector<Contribution>& all) {
  std::vector<CollectiveMember> members;
  for (const Contribution& c : all) {
    if (c.offer == nullptr) return absl::OkStatus();
    members.push_back({c.peer.device, c.stream, c.queue, c.peer.operands, c.offer});
  }
  std::vector<std::string> notes;
  absl::StatusOr<std::shared_ptr<Connections>> connections = library_->Enqueue(members, &notes);
  if (!notes.empty()) log_(notes);
  RETURN_IF_ERROR(connections.status());
  for (Contribution& c : all) c.connections = *connections;
  return absl::OkStatus();
}

absl::Status DeviceExchange::AwaitLibrary(std::chrono::milliseconds limit) {
  absl::Status status;
  for (const Running& running : running_) {
    absl::Status ended = library_->Await(*running.connections, device_, running.enqueued, limit);
    if (status.ok()) status = std::move(ended);
  }
  return status;
}

}  // namespace backplane::hip
