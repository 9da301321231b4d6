#include "sdk/backend/collectives/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/analysis/process_groups.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/workers.h"

namespace backplane {

std::string Launch::Name(int64_t process) const {
  std::string name = ProcessName(process, options_.replicas, options_.partitions);
  const size_t i = static_cast<size_t>(process);
  if (i < options_.devices.size()) absl::StrAppend(&name, " (device ", options_.devices[i], ")");
  return name;
}

std::string Launch::Missing(const Meeting& meeting) const {
  std::string text;
  for (size_t i = 0; i < meeting.group.size(); ++i) {
    if (!meeting.here[i]) absl::StrAppend(&text, text.empty() ? "" : ", ", Name(meeting.group[i]));
  }
  return text;
}

void Launch::FailLocked(const absl::Status& status) {
  if (status.ok() || !failure_.ok()) return;
  failure_ = status;
  for (auto& [key, meeting] : meetings_) meeting->cv.notify_all();
  posted_.notify_all();
}

void Launch::Fail(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  FailLocked(status);
}

absl::Status Launch::CheckAllMayCome(const Meeting& meeting) const {
  for (size_t i = 0; i < meeting.group.size(); ++i) {
    if (meeting.here[i] || !ended_[static_cast<size_t>(meeting.group[i])]) continue;
    return absl::InternalError(
        absl::StrCat(meeting.what, ": ", Name(meeting.group[i]), " has ended without coming to it"));
  }
  return absl::OkStatus();
}

absl::Status Launch::Meet(const Key& key, absl::string_view what, absl::Span<const int64_t> group, size_t position,
                          void* brought, Work work) {
  std::unique_lock<std::mutex> lock(mu_);
  if (!failure_.ok()) return failure_;
  auto at = meetings_.find(key);
  if (at == meetings_.end()) {
    // Whole before it is found by others: memory may run out in between.
    auto made = std::make_shared<Meeting>();
    made->what = std::string(what);
    made->group.assign(group.begin(), group.end());
    made->brought.resize(group.size());
    made->here.resize(group.size());
    at = meetings_.emplace(key, std::move(made)).first;
  }
  const std::shared_ptr<Meeting> meeting = at->second;
  if (meeting->group.size() != group.size() || meeting->here[position]) {
    absl::Status twice =
        absl::InternalError(absl::StrCat(what, ": ", Name(group[position]), " came to one meeting twice"));
    FailLocked(twice);
    return twice;
  }
  meeting->brought[position] = brought;
  meeting->here[position] = true;
  if (++meeting->arrived == group.size()) {
    lock.unlock();
    absl::Status result = Caught([&] { return work(meeting->brought); });  // the others wait for it, whatever happens
    lock.lock();
    meeting->result = std::move(result);
    meeting->done = true;
    meeting->cv.notify_all();
  } else {
    FailLocked(CheckAllMayCome(*meeting));
    const Workers::Waiting waiting(Workers::Waiting::For::kDevices);
    const auto limit = std::chrono::steady_clock::now() + options_.time_limit;
    // Once all have come the work is under way, and what this member brought must stay until it is done.
    auto over = [&] { return meeting->done || (!failure_.ok() && meeting->arrived < group.size()); };
    while (!over()) {
      if (meeting->arrived == group.size()) {
        meeting->cv.wait(lock);
      } else if (meeting->cv.wait_until(lock, limit) == std::cv_status::timeout && !over() &&
                 meeting->arrived < group.size()) {
        FailLocked(absl::DeadlineExceededError(
            absl::StrCat(what, ": ", meeting->arrived, " of ", group.size(), " came within ",
                         static_cast<double>(options_.time_limit.count()) / 1000, " s; missing: ", Missing(*meeting))));
      }
    }
  }
  if (!meeting->done) {
    // Whoever comes now finds the launch failed before it looks for the meeting.
    if (++meeting->left == meeting->arrived) meetings_.erase(key);
    return failure_;
  }
  if (++meeting->left == group.size()) meetings_.erase(key);
  return meeting->result;
}

absl::Status Launch::Post(int64_t channel, int64_t turn, int64_t from, int64_t to, std::string bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!failure_.ok()) return failure_;
  letters_[Letter(channel, turn, from, to)] = std::move(bytes);
  posted_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<std::string> Launch::Fetch(int64_t channel, int64_t turn, int64_t from, int64_t to,
                                          absl::string_view what) {
  std::unique_lock<std::mutex> lock(mu_);
  const Letter key(channel, turn, from, to);
  const auto limit = std::chrono::steady_clock::now() + options_.time_limit;
  const Workers::Waiting waiting(Workers::Waiting::For::kDevices);
  while (true) {
    auto at = letters_.find(key);
    if (at != letters_.end()) {
      std::string bytes = std::move(at->second);
      letters_.erase(at);
      return bytes;
    }
    if (!failure_.ok()) return failure_;
    if (ended_[static_cast<size_t>(from)]) {
      FailLocked(absl::InternalError(absl::StrCat(what, ": ", Name(from), " has ended without sending")));
    } else if (posted_.wait_until(lock, limit) == std::cv_status::timeout && letters_.count(key) == 0) {
      FailLocked(absl::DeadlineExceededError(absl::StrCat(what, ": nothing came within ",
                                                          static_cast<double>(options_.time_limit.count()) / 1000,
                                                          " s; missing: ", Name(from))));
    }
  }
}

void Launch::End(int64_t process, const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  if (process < 0 || process >= process_count()) return;
  ended_[static_cast<size_t>(process)] = true;
  if (!status.ok()) {
    FailLocked(absl::AbortedError(absl::StrCat(Name(process), " failed: ", status.message())));
    return;
  }
  for (auto& [key, meeting] : meetings_) {
    if (meeting->arrived < meeting->group.size()) FailLocked(CheckAllMayCome(*meeting));
  }
  posted_.notify_all();
}

size_t Launch::open_meetings() const {
  std::lock_guard<std::mutex> lock(mu_);
  return meetings_.size() + letters_.size();
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
  try {
    End(absl::CancelledError("it was dropped before its end"));
  } catch (...) {  // no memory for the words
    launch_->Fail(absl::Status(absl::StatusCode::kAborted, ""));
  }
}

void LaunchMember::End(const absl::Status& status) {
  if (!ended_) launch_->End(process_, status);
  ended_ = true;
}

std::shared_ptr<Launch> LaunchRegistry::Join(int64_t run_id, const LaunchOptions& options) {
  if (options.replicas * options.partitions == 1) return std::make_shared<Launch>(options);
  std::vector<std::shared_ptr<Launch>> late;  // let go after the lock
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard<std::mutex> lock(mu_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->first != run_id && at->second.limit < now) {
      late.push_back(std::move(at->second.launch));
      at = entries_.erase(at);
    } else {
      ++at;
    }
  }
  Entry& entry = entries_[run_id];
  if (entry.launch == nullptr) {
    entry.launch = std::make_shared<Launch>(options);
    entry.missing = entry.launch->process_count();
    entry.limit = now + options.time_limit;
  }
  std::shared_ptr<Launch> launch = entry.launch;
  if (--entry.missing == 0) entries_.erase(run_id);
  return launch;
}

void LaunchRegistry::Abandon(int64_t run_id, const absl::Status& why) {
  std::shared_ptr<Launch> launch;
  {
    std::lock_guard<std::mutex> lock(mu_);
    auto at = entries_.find(run_id);
    if (at == entries_.end()) return;
    launch = std::move(at->second.launch);
    entries_.erase(at);
  }
  if (launch == nullptr) return;  // memory ran out while it was made
  launch->Fail(absl::AbortedError(absl::StrCat("the launch was given up: ", why.message())));
}

size_t LaunchRegistry::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return entries_.size();
}

}  // namespace backplane
