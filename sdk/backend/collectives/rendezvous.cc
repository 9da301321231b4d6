#include "sdk/backend/collectives/rendezvous.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "core/analysis/process_groups.h"
#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/workers.h"

namespace backplane {

std::string Launch::FormatProcess(int64_t process) const {
  std::string name = FormatProcessName(process, options_.replicas, options_.partitions);
  const size_t i = static_cast<size_t>(process);
  if (i < options_.devices.size()) absl::StrAppend(&name, " (device ", options_.devices[i], ")");
  return name;
}

std::string Launch::FormatMissing(const Rendezvous& rendezvous) const {
  std::string text;
  for (size_t i = 0; i < rendezvous.group.size(); ++i) {
    if (!rendezvous.has_arrived[i])
      absl::StrAppend(&text, text.empty() ? "" : ", ", FormatProcess(rendezvous.group[i]));
  }
  return text;
}

int64_t Launch::local_process_count() const {
  int64_t count = 0;
  for (int64_t p = 0; p < process_count(); ++p) count += IsLocal(p) ? 1 : 0;
  return count;
}

void Launch::Connect(std::shared_ptr<LaunchExchange> exchange) {
  MutexLock lock(mu_);
  exchange_ = std::move(exchange);
  if (!failure_.ok()) exchange_->Fail(failure_);
}

std::shared_ptr<LaunchExchange> Launch::exchange() const {
  MutexLock lock(mu_);
  return exchange_;
}

void Launch::FailLocked(const absl::Status& status) {
  if (status.ok() || !failure_.ok()) return;
  failure_ = status;
  for (auto& [key, rendezvous] : rendezvous_) rendezvous->cv.NotifyAll();
  message_posted_.NotifyAll();
  if (exchange_ != nullptr) exchange_->Fail(status);  // has no effect if another node has failed first
}

void Launch::Fail(const absl::Status& status) {
  MutexLock lock(mu_);
  FailLocked(status);
}

absl::Status Launch::CheckMissingMembersStillRun(const Rendezvous& rendezvous) const {
  for (size_t i = 0; i < rendezvous.group.size(); ++i) {
    if (rendezvous.has_arrived[i] || !ended_[static_cast<size_t>(rendezvous.group[i])]) continue;
    return absl::InternalError(
        absl::StrCat(rendezvous.what, ": ", FormatProcess(rendezvous.group[i]), " has ended without joining it"));
  }
  return absl::OkStatus();
}

absl::Status Launch::EnterRendezvous(const Key& key, absl::string_view what, absl::Span<const int64_t> group,
                                     size_t position, void* contribution, Operation operation) {
  MutexLock lock(mu_);
  if (!failure_.ok()) return failure_;
  auto at = rendezvous_.find(key);
  if (at == rendezvous_.end()) {
    // Complete it before other members can find it: an allocation may throw.
    auto created = std::make_shared<Rendezvous>();
    created->what = std::string(what);
    created->group.assign(group.begin(), group.end());
    created->contributions.resize(group.size());
    created->has_arrived.resize(group.size());
    // The members in other nodes do not come here. The operation exchanges data with them.
    for (size_t i = 0; i < group.size(); ++i) {
      if (IsLocal(group[i])) continue;
      created->has_arrived[i] = true;
      ++created->arrived;
      ++created->left;
    }
    at = rendezvous_.emplace(key, std::move(created)).first;
  }
  const std::shared_ptr<Rendezvous> rendezvous = at->second;
  if (rendezvous->group.size() != group.size() || rendezvous->has_arrived[position]) {
    absl::Status duplicate =
        absl::InternalError(absl::StrCat(what, ": ", FormatProcess(group[position]), " entered one rendezvous twice"));
    FailLocked(duplicate);
    return duplicate;
  }
  // From here on other members may use the contribution, so this member must not leave by an exception.
  rendezvous->contributions[position] = contribution;
  rendezvous->has_arrived[position] = true;
  if (++rendezvous->arrived == group.size()) {
    lock.Unlock();
    // An exception must not escape: the other members wait for `done`.
    absl::Status result = CatchExceptions([&] { return operation(rendezvous->contributions); });
    lock.Lock();
    rendezvous->result = std::move(result);
    rendezvous->done = true;
    rendezvous->cv.NotifyAll();
  } else {
    FailLocked(CatchExceptions([&] {
      mu_.AssertHeld();
      return CheckMissingMembersStillRun(*rendezvous);
    }));
    const Workers::Waiting waiting(Workers::Waiting::For::kDevices);
    const auto limit = std::chrono::steady_clock::now() + options_.time_limit;
    // Once all have arrived the operation runs and reads the contribution of this member, so the member must stay.
    auto is_over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return rendezvous->done || (!failure_.ok() && rendezvous->arrived < group.size());
    };
    while (!is_over()) {
      if (rendezvous->arrived == group.size()) {
        rendezvous->cv.Wait(mu_);
      } else if (!rendezvous->cv.WaitUntil(mu_, limit) && !is_over() && rendezvous->arrived < group.size()) {
        FailLocked(CatchExceptions([&] {
          mu_.AssertHeld();
          return absl::DeadlineExceededError(absl::StrCat(
              what, ": ", rendezvous->arrived, " of ", group.size(), " arrived within ",
              static_cast<double>(options_.time_limit.count()) / 1000, " s; missing: ", FormatMissing(*rendezvous)));
        }));
      }
    }
  }
  if (!rendezvous->done) {
    // Erasing is safe: later members see the failure before they look up the rendezvous.
    if (++rendezvous->left == rendezvous->arrived) rendezvous_.erase(key);
    return failure_;
  }
  if (++rendezvous->left == group.size()) rendezvous_.erase(key);
  return rendezvous->result;
}

namespace {

// Messages to other nodes are named by the channel, whose number is negative here to tell them from collectives.
ExchangeKey MessageExchangeKey(int64_t channel, int64_t iteration, int64_t from, int64_t to) {
  return {-1 - channel, iteration, from, to};
}

}  // namespace

absl::Status Launch::PostMessage(int64_t channel, int64_t iteration, int64_t from, int64_t to, std::string bytes,
                                 absl::string_view what) {
  if (!IsLocal(to))
    return exchange()->Post(MessageExchangeKey(channel, iteration, from, to), what, GetNode(to), std::move(bytes));
  MutexLock lock(mu_);
  if (!failure_.ok()) return failure_;
  messages_[MessageKey(channel, iteration, from, to)] = std::move(bytes);
  message_posted_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<std::string> Launch::FetchMessage(int64_t channel, int64_t iteration, int64_t from, int64_t to,
                                                 int64_t expected_bytes, absl::string_view what) {
  if (!IsLocal(from)) {
    std::string bytes(static_cast<size_t>(expected_bytes), '\0');
    const IncomingPart part{GetNode(from), 0, bytes.data(), expected_bytes};
    const Workers::Waiting waiting(Workers::Waiting::For::kDevices);
    RETURN_IF_ERROR(exchange()->Exchange(MessageExchangeKey(channel, iteration, from, to), what, {}, {&part, 1}));
    return bytes;
  }
  MutexLock lock(mu_);
  const MessageKey key(channel, iteration, from, to);
  const auto limit = std::chrono::steady_clock::now() + options_.time_limit;
  const Workers::Waiting waiting(Workers::Waiting::For::kDevices);
  while (true) {
    auto at = messages_.find(key);
    if (at != messages_.end()) {
      std::string bytes = std::move(at->second);
      messages_.erase(at);
      return bytes;
    }
    if (!failure_.ok()) return failure_;
    if (ended_[static_cast<size_t>(from)]) {
      FailLocked(absl::InternalError(absl::StrCat(what, ": ", FormatProcess(from), " has ended without sending")));
    } else if (!message_posted_.WaitUntil(mu_, limit) && messages_.count(key) == 0) {
      FailLocked(absl::DeadlineExceededError(absl::StrCat(what, ": nothing arrived within ",
                                                          static_cast<double>(options_.time_limit.count()) / 1000,
                                                          " s; missing: ", FormatProcess(from))));
    }
  }
}

void Launch::End(int64_t process, const absl::Status& status) {
  MutexLock lock(mu_);
  if (process < 0 || process >= process_count()) return;
  ended_[static_cast<size_t>(process)] = true;
  if (!status.ok()) {
    FailLocked(absl::AbortedError(absl::StrCat(FormatProcess(process), " failed: ", status.message())));
    return;
  }
  for (auto& [key, rendezvous] : rendezvous_) {
    if (rendezvous->arrived < rendezvous->group.size()) FailLocked(CheckMissingMembersStillRun(*rendezvous));
  }
  message_posted_.NotifyAll();
}

size_t Launch::CountPending() const {
  MutexLock lock(mu_);
  return rendezvous_.size() + messages_.size();
}

LaunchMember::LaunchMember(std::shared_ptr<Launch> launch, int64_t replica, int64_t partition)
    : launch_(std::move(launch)), process_(replica * launch_->options().partitions + partition) {
  const LaunchOptions& options = launch_->options();
  if (replica < 0 || replica >= options.replicas || partition < 0 || partition >= options.partitions) {
    launch_->Fail(absl::InvalidArgumentError(absl::StrCat("launch: replica ", replica, " and partition ", partition,
                                                          " of ", options.replicas, " and ", options.partitions)));
  }
}

LaunchMember::~LaunchMember() {
  if (ended_) return;
  End(CatchExceptions([]() -> absl::Status { return absl::CancelledError("it was dropped before its end"); }));
}

void LaunchMember::End(const absl::Status& status) noexcept {
  if (ended_) return;
  ended_ = true;
  try {
    launch_->End(process_, status);
  } catch (...) {  // out of memory for the message
    launch_->Fail(absl::Status(absl::StatusCode::kAborted, ""));
  }
}

std::shared_ptr<Launch> LaunchRegistry::Join(int64_t run_id, const LaunchOptions& options,
                                             const ConnectNodes* connect) {
  if (options.replicas * options.partitions == 1) return std::make_shared<Launch>(options);
  std::vector<std::shared_ptr<Launch>> expired;  // destroyed after the lock is released
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mu_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->first != run_id && at->second.limit < now) {
      expired.push_back(std::move(at->second.launch));
      at = entries_.erase(at);
    } else {
      ++at;
    }
  }
  Entry& entry = entries_[run_id];
  if (entry.launch == nullptr) {
    entry.launch = std::make_shared<Launch>(options);
    entry.missing = entry.launch->local_process_count();
    entry.limit = now + options.time_limit;
    if (connect != nullptr && entry.missing < entry.launch->process_count())
      entry.launch->Connect((*connect)(entry.launch));
  }
  std::shared_ptr<Launch> launch = entry.launch;
  if (--entry.missing == 0) entries_.erase(run_id);
  return launch;
}

void LaunchRegistry::Abandon(int64_t run_id, const absl::Status& why) {
  std::shared_ptr<Launch> launch;
  {
    MutexLock lock(mu_);
    auto at = entries_.find(run_id);
    if (at == entries_.end()) return;
    launch = std::move(at->second.launch);
    entries_.erase(at);
  }
  if (launch == nullptr) return;  // out of memory while it was created
  launch->Fail(CatchExceptions(
      [&]() -> absl::Status { return absl::AbortedError(absl::StrCat("the launch was abandoned: ", why.message())); }));
}

size_t LaunchRegistry::size() const {
  MutexLock lock(mu_);
  return entries_.size();
}

}  // namespace backplane
