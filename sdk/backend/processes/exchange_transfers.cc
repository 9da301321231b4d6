#include "sdk/backend/processes/exchange_transfers.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "base/mutex.h"
#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/strided_copy.h"
#include "sdk/backend/workers.h"

namespace backplane {

struct ExchangeTransfers::Pending {
  bool sends = false;
  int32_t peer = 0;
  DeviceArray array;
  std::shared_ptr<LaunchExchange> exchange;
  Promise done;
};

struct ExchangeTransfers::State {
  Client* const client;
  const std::shared_ptr<LaunchExchangeService> service;
  const std::chrono::milliseconds time_limit;

  Mutex mu;
  struct Queue {
    std::deque<Pending> waiting;
    bool running = false;  // a task takes from `waiting`
  };
  std::map<std::pair<int32_t, bool>, Queue> queues ABSL_GUARDED_BY(mu);  // by peer and whether it is sent to

  State(Client* c, std::shared_ptr<LaunchExchangeService> s, std::chrono::milliseconds limit)
      : client(c), service(std::move(s)), time_limit(limit) {}
  void RunAll(std::pair<int32_t, bool> which);
  absl::Status Run(Pending& p);
  absl::Status Exchange(Pending& p, void* data, int64_t bytes);
};

namespace {

Shape DenseShape(const Shape& shape) {
  Shape dense(shape.element_type(), shape.dimensions());
  dense.set_row_major();
  return dense;
}

}  // namespace

absl::Status ExchangeTransfers::State::Exchange(Pending& p, void* data, int64_t bytes) {
  if (p.sends) return p.exchange->Exchange({}, "send", {{p.peer, 0, data, bytes}}, {});
  return p.exchange->Exchange({}, "receive", {}, {{p.peer, 0, data, bytes}});
}

absl::Status ExchangeTransfers::State::Run(Pending& p) {
  RETURN_IF_ERROR(p.array.ready.Await());
  const Shape dense = DenseShape(p.array.shape);
  const int64_t bytes = dense.byte_size();
  if (bytes == 0) return absl::OkStatus();
  if (p.array.storage == nullptr) return absl::FailedPreconditionError("the buffer has no memory");
  const bool in_place = client->IsHostMemory(p.array.memory) && !IsSubByte(dense.element_type()) &&
                        p.array.shape.Identical(dense) && p.array.storage->size() >= static_cast<size_t>(bytes);
  if (in_place) return Exchange(p, p.array.storage->data(), bytes);
  const std::unique_ptr<char[]> copy(new char[static_cast<size_t>(bytes)]);
  if (p.sends) {
    RETURN_IF_ERROR(client->StartCopyToHost(p.array, dense, copy.get()).Await());
    return Exchange(p, copy.get(), bytes);
  }
  RETURN_IF_ERROR(Exchange(p, copy.get(), bytes));
  ASSIGN_OR_RETURN(const DimVector strides, DenseByteStrides(dense));
  const CopyFromHostEvents events = client->StartCopyFromHost(
      {copy.get(), dense.element_type(), dense.dimensions(), strides}, p.array, HostUse::kUntilReleased);
  const absl::Status released = events.host_released.Await(), done = events.done.Await();
  return done.ok() ? released : done;
}

void ExchangeTransfers::State::RunAll(std::pair<int32_t, bool> which) {
  const Workers::Waiting waits(Workers::Waiting::For::kDevices);
  absl::Status late;  // the transfers that waited behind one that was late have waited long enough
  size_t behind = 0;  // their number
  while (true) {
    Pending p;
    {
      MutexLock lock(mu);
      Queue& queue = queues[which];
      if (queue.waiting.empty()) {
        queue.running = false;
        return;
      }
      p = std::move(queue.waiting.front());
      queue.waiting.pop_front();
    }
    const absl::Status status = late.ok() ? CatchExceptions([&] { return Run(p); }) : late;
    if (late.ok() && absl::IsDeadlineExceeded(status)) {
      MutexLock lock(mu);
      behind = queues[which].waiting.size();
      if (behind > 0) late = status;
    } else if (!late.ok() && --behind == 0) {
      late = absl::OkStatus();
    }
    if (!status.ok()) p.exchange->Fail(status);  // unless the exchange has failed already
    p.exchange.reset();
    p.array = DeviceArray();
    p.done.Set(status);
  }
}

ExchangeTransfers::ExchangeTransfers(Client* client, std::shared_ptr<LaunchExchangeService> service,
                                     std::chrono::milliseconds time_limit)
    : state_(std::make_shared<State>(client, std::move(service), time_limit)) {}

ExchangeTransfers::~ExchangeTransfers() = default;

Event ExchangeTransfers::StartSend(DeviceArray src, const ArrayTransfer& transfer) {
  return Start(true, std::move(src), transfer);
}

Event ExchangeTransfers::StartReceive(DeviceArray dst, const ArrayTransfer& transfer) {
  return Start(false, std::move(dst), transfer);
}

Event ExchangeTransfers::Start(bool sends, DeviceArray array, const ArrayTransfer& transfer) {
  State& s = *state_;
  const auto devices = static_cast<int32_t>(s.client->topology().devices.size());
  LaunchProgram program;
  program.name = absl::StrCat("transfer ", transfer.key, " of ", array.shape.WithoutLayout().ToString(),
                              " from device ", transfer.source, " to device ", transfer.target);
  program.digest = Fnv1a64(program.name);
  const auto exists = [&](int32_t device) { return device >= 0 && device < devices; };
  const int32_t mine = sends ? transfer.source : transfer.target, other = sends ? transfer.target : transfer.source;
  if (s.service == nullptr || !exists(mine) || !exists(other) || s.service->GetProcess(mine) != s.service->process() ||
      s.service->GetProcess(other) == s.service->process()) {
    return Event::Ready(absl::InvalidArgumentError(
        absl::StrCat(program.name, ": one of the devices must be of this process, the other one of another")));
  }
  Pending p;
  p.sends = sends;
  p.peer = s.service->GetProcess(other);
  p.array = std::move(array);
  p.done = Promise("transfer");
  Event done = p.done.event();
  std::vector<int32_t> processes = {s.service->process(), p.peer};
  std::sort(processes.begin(), processes.end());
  // Joined here, so that the number of the transfer follows the order of the calls, and under the lock, so that the
  // tasks of both sides take the transfers in that order.
  MutexLock lock(s.mu);
  p.exchange = s.service->JoinLaunch(std::move(processes), program, s.time_limit, nullptr);
  const std::pair<int32_t, bool> which(p.peer, sends);
  State::Queue& queue = s.queues[which];
  queue.waiting.push_back(std::move(p));
  if (queue.running) return done;
  const absl::Status started =
      CatchExceptions([&] { s.client->Schedule([state = state_, which] { state->RunAll(which); }); });
  queue.running = started.ok();
  if (started.ok()) return done;
  queue.waiting.back().exchange->Fail(started);
  queue.waiting.pop_back();
  return Event::Ready(started);
}

}  // namespace backplane
