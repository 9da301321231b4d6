#include "plugins/hip/backend/library_collectives.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/collective_operands.h"
#include "sdk/backend/exceptions.h"

namespace backplane::hip {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kCollectiveGuardBytes = 256;  // behind a result
constexpr int64_t kMaxCollectiveTestBytes = int64_t{1} << 30;
constexpr int kTimedRounds = 4;

size_t OperandBytes(const ArrayCollective& c) { return static_cast<size_t>(c.block_bytes() * c.operand_blocks()); }
size_t ResultBytes(const ArrayCollective& c) { return static_cast<size_t>(c.block_bytes() * c.result_blocks()); }

}  // namespace

void Connections::Abort() {
  if (!aborted_.exchange(true)) communicators_->Abort();
}

absl::Status Connections::FindError() {
  if (aborted_) return absl::AbortedError("the collectives of the devices were ended, because one of them failed");
  return communicators_->FindError();
}

LibraryCollectives::LibraryCollectives(std::shared_ptr<Devices> devices, Options options)
    : devices_(std::move(devices)),
      opened_(std::move(options.opened)),
      time_limit_(options.time_limit),
      clearly_faster_(options.clearly_faster) {
  MutexLock lock(mu_);
  last_.resize(static_cast<size_t>(devices_->count()), nullptr);
}

std::unique_ptr<LibraryCollectives> LibraryCollectives::Open(std::shared_ptr<Devices> devices,
                                                             const std::string& name) {
  Options options;
  options.opened = OpenCollectiveLibrary(devices->api(), name);
  if (options.opened.library == nullptr && options.opened.note.empty()) return nullptr;
  return std::make_unique<LibraryCollectives>(std::move(devices), std::move(options));
}

LibraryCollectives::~LibraryCollectives() {
  MutexLock lock(mu_);
  lists_.clear();
  for (size_t d = 0; d < last_.size(); ++d) {
    if (last_[d] != nullptr) devices_->events(static_cast<int>(d)).Return(last_[d]);
  }
}

absl::StatusOr<std::shared_ptr<Connections>> LibraryCollectives::Connect(const std::vector<int>& devices,
                                                                         DeviceList& list) {
  if (list.connections != nullptr && !list.connections->is_aborted()) return list.connections;
  if (list.connections != nullptr) {
    list.connections.reset();
    if (++list.failures == 1) list.last_failure = absl::AbortedError("its work was ended before");
  }
  if (list.failures >= kMaxFailures) return list.last_failure;
  const ScopedDevice current(devices_->api(), devices.front());
  absl::StatusOr<std::unique_ptr<Communicators>> made = opened_.library->Connect(devices);
  if (!made.ok()) {
    ++list.failures;
    list.last_failure = made.status();
    return made.status();
  }
  list.connections = std::make_shared<Connections>(*std::move(made));
  return list.connections;
}

absl::Status LibraryCollectives::EnqueueInOrder(Connections& connections, absl::Span<const ArrayCollective> arrays,
                                                absl::Span<const CollectiveMember> members,
                                                absl::Span<const CollectivePart> parts) {
  const HipApi& api = devices_->api();
  const ScopedDevice before(api, members[0].device);
  RETURN_IF_ERROR(before.status());
  for (const CollectiveMember& m : members) {
    hipEvent_t& last = last_[static_cast<size_t>(m.device)];
    const ScopedDevice current(api, m.device);
    RETURN_IF_ERROR(current.status());
    if (last != nullptr) RETURN_IF_ERROR(ToStatus(api.hipStreamWaitEvent(m.stream, last, 0), "waiting for a stream"));
    if (last == nullptr) {
      ASSIGN_OR_RETURN(last, devices_->events(m.device).Take());
    }
  }
  for (const CollectiveMember& m : members) m.queue->MarkBusy();
  absl::Status status = CatchExceptions([&] { return connections.communicators().Enqueue(arrays, parts); });
  for (const CollectiveMember& m : members) {
    if (!status.ok()) break;
    const ScopedDevice current(api, m.device);
    status = current.status();
    if (status.ok()) {
      status = ToStatus(api.hipEventRecord(last_[static_cast<size_t>(m.device)], m.stream), "recording an event");
    }
  }
  // Some devices may have begun and would wait for the others.
  if (!status.ok()) connections.Abort();
  return status;
}

absl::Status LibraryCollectives::Await(Connections& connections, int device, hipStream_t stream,
                                       std::chrono::milliseconds limit) const {
  return Poll(
      connections, device, limit, [&] { return devices_->api().hipStreamQuery(stream); }, [] { return true; });
}

absl::Status LibraryCollectives::Await(Connections& connections, int device, const Enqueued& collective,
                                       std::chrono::milliseconds limit) const {
  const HipApi& api = devices_->api();
  size_t come = 0;  // devices
  return Poll(
      connections, device, limit, [&] { return api.hipEventQuery(collective.behind); },
      [&] {
        while (come < collective.in_front.size() && api.hipEventQuery(collective.in_front[come]) == hipSuccess) ++come;
        return come == collective.in_front.size();
      });
}

absl::Status LibraryCollectives::Poll(Connections& connections, int device, std::chrono::milliseconds limit,
                                      absl::FunctionRef<hipError_t()> query, absl::FunctionRef<bool()> begins) const {
  const HipApi& api = devices_->api();
  const ScopedDevice current(api, device);
  std::optional<Clock::time_point> begin;
  absl::Status status = current.status();
  std::chrono::microseconds pause{0};
  int64_t polls = 0;
  while (status.ok()) {
    const hipError_t state = query();
    if (state == hipSuccess) return connections.FindError();
    if (state != hipErrorNotReady) {
      status = ToStatus(state, "waiting for the device");
    } else if (++polls % 16 == 0) {
      status = connections.FindError();
    }
    if (!begin.has_value() && begins()) begin = Clock::now();
    if (status.ok() && begin.has_value() && Clock::now() - *begin > limit)
      status = absl::DeadlineExceededError(absl::StrCat("a collective took longer than ", limit.count(), " ms"));
    // A short collective is awaited without sleeping, a long one at the cost of up to half a millisecond.
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    if (polls % 64 == 63) pause = std::min(pause * 2 + std::chrono::microseconds(5), std::chrono::microseconds(500));
  }
  connections.Abort();
  return status;
}

// Runs a collective on test operands by copies and by the library.
class LibraryCollectives::Comparison {
 public:
  Comparison(LibraryCollectives& all, Connections& connections, absl::Span<const CollectiveMember> members)
      : all_(all), connections_(connections), members_(members), arrays_(*members[0].offer->arrays) {}
  ~Comparison() {
    for (const CollectiveMember& m : members_) (void)m.queue->Synchronize();
    memory_.clear();
    for (const CollectiveMember& m : members_) all_.devices_->ReleaseEmptySlabs(m.device);
  }

  // Returns why the library is not used; an empty text: it is right, and the times are known.
  absl::StatusOr<std::string> Run() ABSL_EXCLUSIVE_LOCKS_REQUIRED(all_.mu_) {
    RETURN_IF_ERROR(Allocate());
    RETURN_IF_ERROR(FillOperands(CollectiveTest::kExact));
    RETURN_IF_ERROR(FillResults());
    RETURN_IF_ERROR(RunCopies());
    RETURN_IF_ERROR(RunLibrary());
    for (size_t m = 0; m < members_.size(); ++m) {
      for (size_t k = 0; k < arrays_.size(); ++k) {
        ASSIGN_OR_RETURN(const std::string ours, Read(m, memory_[m][k].ours));
        ASSIGN_OR_RETURN(const std::string theirs, Read(m, memory_[m][k].theirs));
        const size_t bytes = ResultBytes(arrays_[k]);
        const int64_t at = FindMismatch(arrays_[k].type, absl::string_view(ours).substr(0, bytes),
                                        absl::string_view(theirs).substr(0, bytes));
        const bool keeps = arrays_[k].kind == ArrayCollective::Kind::kPermute && arrays_[k].source[m] < 0;
        if (keeps ? theirs != std::string(theirs.size(), '\xFF') : at >= 0)
          return absl::StrCat("its result for device ", members_[m].device, " differs in element ",
                              std::max<int64_t>(at, 0));
        if (theirs.substr(bytes) != std::string(kCollectiveGuardBytes, '\xFF')) return "it writes beyond the result";
      }
    }
    ASSIGN_OR_RETURN(const bool same, GivesTheSameTwice());
    if (!same) return "two runs differ";
    RETURN_IF_ERROR(Measure());
    return "";
  }
  double copies_seconds() const { return copies_seconds_; }
  double library_seconds() const { return library_seconds_; }

 private:
  struct Arrays {
    std::shared_ptr<Storage> operand, ours, theirs;
  };

  absl::Status Allocate() {
    size_t bytes = 0;
    for (const ArrayCollective& c : arrays_) bytes += OperandBytes(c) + 2 * (ResultBytes(c) + kCollectiveGuardBytes);
    for (const CollectiveMember& m : members_) {
      const int64_t most = std::min(kMaxCollectiveTestBytes, all_.devices_->Capacity(m.device).value_or(0) / 4);
      if (static_cast<int64_t>(bytes) > most)
        return absl::ResourceExhaustedError(
            absl::StrCat("test operands and results take ", bytes, " bytes, and may take ", most));
      memory_.emplace_back();
      for (const ArrayCollective& c : arrays_) {
        Arrays arrays;
        ASSIGN_OR_RETURN(arrays.operand, all_.devices_->TryTakeMemory(m.device, OperandBytes(c)));
        ASSIGN_OR_RETURN(arrays.ours, all_.devices_->TryTakeMemory(m.device, ResultBytes(c) + kCollectiveGuardBytes));
        ASSIGN_OR_RETURN(arrays.theirs, all_.devices_->TryTakeMemory(m.device, ResultBytes(c) + kCollectiveGuardBytes));
        memory_.back().push_back(std::move(arrays));
      }
    }
    return absl::OkStatus();
  }

  absl::Status FillOperands(CollectiveTest test) {
    for (size_t m = 0; m < members_.size(); ++m) {
      for (size_t k = 0; k < arrays_.size(); ++k) {
        const std::string operand = MakeCollectiveOperand(arrays_[k], static_cast<int64_t>(m), test);
        RETURN_IF_ERROR(members_[m].queue->CopyIn(operand.data(), memory_[m][k].operand->data(), operand.size()));
      }
    }
    return absl::OkStatus();
  }

  // Fills the results and their guards with bytes that are no number.
  absl::Status FillResults() {
    for (size_t m = 0; m < members_.size(); ++m) {
      for (const Arrays& arrays : memory_[m]) {
        const std::string none(arrays.ours->size(), '\xFF');
        for (const auto& result : {arrays.ours, arrays.theirs})
          RETURN_IF_ERROR(members_[m].queue->CopyIn(none.data(), result->data(), none.size()));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Read(size_t member, const std::shared_ptr<Storage>& from) {
    std::string bytes(from->size(), '\0');
    RETURN_IF_ERROR(members_[member].queue->CopyOut(from->data(), bytes.data(), bytes.size()));
    return bytes;
  }

  absl::Status RunCopies() {
    std::vector<Peer> peers;
    for (size_t m = 0; m < members_.size(); ++m) {
      peers.push_back({members_[m].device, {}});
      for (const Arrays& arrays : memory_[m]) peers.back().operands.push_back(arrays.operand->data());
    }
    for (size_t m = 0; m < members_.size(); ++m) {
      std::vector<void*> results;
      for (const Arrays& arrays : memory_[m]) results.push_back(arrays.ours->data());
      RETURN_IF_ERROR(members_[m].offer->run_copies(peers, results));
      RETURN_IF_ERROR(members_[m].queue->Flush());
    }
    for (const CollectiveMember& m : members_) RETURN_IF_ERROR(m.queue->Synchronize());
    return absl::OkStatus();
  }

  absl::Status RunLibrary() ABSL_EXCLUSIVE_LOCKS_REQUIRED(all_.mu_) {
    std::vector<CollectivePart> parts;
    for (size_t k = 0; k < arrays_.size(); ++k) {
      for (size_t m = 0; m < members_.size(); ++m) {
        const Arrays& arrays = memory_[m][k];
        parts.push_back({members_[m].stream, arrays.operand->data(), arrays.theirs->data()});
      }
    }
    RETURN_IF_ERROR(all_.EnqueueInOrder(connections_, arrays_, members_, parts));
    for (const CollectiveMember& m : members_)
      RETURN_IF_ERROR(all_.Await(connections_, m.device, m.stream, all_.time_limit_));
    return absl::OkStatus();
  }

  // With sums that are rounded, two runs differ if the order of the terms does, and members differ if they do not share
  // their result.
  absl::StatusOr<bool> GivesTheSameTwice() ABSL_EXCLUSIVE_LOCKS_REQUIRED(all_.mu_) {
    RETURN_IF_ERROR(FillOperands(CollectiveTest::kRounded));
    std::vector<std::string> first;
    for (int run = 0; run < 2; ++run) {
      RETURN_IF_ERROR(RunLibrary());
      size_t at = 0;
      for (size_t k = 0; k < arrays_.size(); ++k) {
        for (size_t m = 0; m < members_.size(); ++m, ++at) {
          ASSIGN_OR_RETURN(std::string result, Read(m, memory_[m][k].theirs));
          if (run == 1 && result != first[at]) return false;
          const bool shared = arrays_[k].kind == ArrayCollective::Kind::kAllReduce && m > 0;
          if (run == 0 && shared && result != first.back()) return false;
          if (run == 0) first.push_back(std::move(result));
        }
      }
    }
    return true;
  }

  absl::Status Measure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(all_.mu_) {
    const auto now = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
    for (int round = 0; round < kTimedRounds; ++round) {
      const double begin = now();
      RETURN_IF_ERROR(RunCopies());
      const double middle = now();
      RETURN_IF_ERROR(RunLibrary());
      const double end = now();
      copies_seconds_ = round == 0 ? middle - begin : std::min(copies_seconds_, middle - begin);
      library_seconds_ = round == 0 ? end - middle : std::min(library_seconds_, end - middle);
    }
    return absl::OkStatus();
  }

  LibraryCollectives& all_;
  Connections& connections_;
  const absl::Span<const CollectiveMember> members_;
  const std::vector<ArrayCollective>& arrays_;
  std::vector<std::vector<Arrays>> memory_;  // by member and array
  double copies_seconds_ = 0, library_seconds_ = 0;
};

LibraryCollectives::Compared LibraryCollectives::Compare(Connections& connections,
                                                         absl::Span<const CollectiveMember> members) {
  Compared compared;
  Comparison comparison(*this, connections, members);
  const absl::StatusOr<std::string> dropped = CatchExceptions([&] {
    mu_.AssertHeld();
    return comparison.Run();
  });
  if (!dropped.ok()) {
    compared.note = absl::StrCat(opened_.library->name(), " is dropped: ", dropped.status().message());
  } else if (!dropped->empty()) {
    compared.note = absl::StrCat(opened_.library->name(), " is dropped: ", *dropped);
  } else {
    compared.by_library = comparison.library_seconds() < comparison.copies_seconds() * clearly_faster_;
    compared.note = absl::StrFormat("%s takes %.1f us, copies take %.1f us", opened_.library->name(),
                                    comparison.library_seconds() * 1e6, comparison.copies_seconds() * 1e6);
  }
  absl::StrAppend(&compared.note, compared.by_library ? "; the library does it" : "; copies do it");
  return compared;
}

absl::StatusOr<std::shared_ptr<Connections>> LibraryCollectives::Enqueue(absl::Span<const CollectiveMember> members,
                                                                         std::vector<std::string>* notes) {
  const std::vector<ArrayCollective>& arrays = *members[0].offer->arrays;
  {
    MutexLock lock(mu_);
    if (!std::exchange(noted_, true)) notes->push_back(opened_.note);
  }
  if (opened_.library == nullptr) return nullptr;
  std::vector<int> devices;
  for (const CollectiveMember& m : members) devices.push_back(m.device);
  std::vector<int> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return nullptr;
  if (!std::all_of(arrays.begin(), arrays.end(),
                   [&](const ArrayCollective& c) { return opened_.library->Supports(c); }))
    return nullptr;
  const std::string what = absl::StrCat(
      "devices ", absl::StrJoin(devices, ","), ": ",
      absl::StrJoin(arrays, "; ", [](std::string* out, const ArrayCollective& c) { *out += c.ToString(); }));
  MutexLock lock(mu_);
  auto choice = choices_.find(what);
  if (choice != choices_.end() && !choice->second.by_library) return nullptr;
  if (choice == choices_.end() && choices_.size() >= kMaxChoices) return nullptr;
  const absl::StatusOr<std::shared_ptr<Connections>> connections = Connect(devices, lists_[devices]);
  if (!connections.ok()) {
    notes->push_back(
        absl::StrCat(what, ": ", opened_.library->name(), " is not used: ", connections.status().message()));
    return nullptr;
  }
  if (choice == choices_.end()) {
    choice = choices_.emplace(what, Compare(**connections, members)).first;
    notes->push_back(absl::StrCat(what, ": ", choice->second.note));
    if (!choice->second.by_library) return nullptr;
  }
  std::vector<CollectivePart> parts;
  for (size_t k = 0; k < arrays.size(); ++k) {
    for (const CollectiveMember& m : members) parts.push_back({m.stream, m.operands[k], m.offer->results[k]});
  }
  RETURN_IF_ERROR(EnqueueInOrder(**connections, arrays, members, parts));
  return *connections;
}

}  // namespace backplane::hip
