#include "plugins/hip/backend/product_comparison.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::hip {
namespace {

constexpr size_t kComparedBytes = size_t{1} << 20;
constexpr size_t kMostChunks = 64;  // of a result that are compared; of a larger one, as many at equal distances
// Times of single calls are short and vary, so each measurement takes at least this, and the least of several counts.
constexpr double kMeasuredSeconds = 3e-4, kLongSeconds = 2e-2;
constexpr int kRounds = 5, kRoundsOfLong = 2;
constexpr int64_t kMostCalls = 32;
constexpr double kHopeless = 4;  // a call that takes so many times as long as the kernel is not measured again

size_t CountBytes(PrimitiveType type, int64_t elements) {
  return static_cast<size_t>(elements) * static_cast<size_t>(ByteWidth(type));
}

}  // namespace

absl::Status ProductComparison::Allocate() {
  const size_t lhs = CountBytes(p_.type, p_.lhs_elements), rhs = CountBytes(p_.type, p_.rhs_elements),
               out = CountBytes(p_.out_type, p_.out_elements) + kGuardBytes;
  const size_t all = lhs + rhs + 2 * out;
  const int64_t most = std::min(kMaxTestBytes, devices_.Capacity(device_).value_or(0) / 4);
  if (all > static_cast<size_t>(most)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("test operands and results take ", all, " bytes, and may take ", most));
  }
  ASSIGN_OR_RETURN(memory_.lhs, devices_.TryTakeMemory(device_, lhs));
  ASSIGN_OR_RETURN(memory_.rhs, devices_.TryTakeMemory(device_, rhs));
  ASSIGN_OR_RETURN(memory_.ours, devices_.TryTakeMemory(device_, out));
  ASSIGN_OR_RETURN(memory_.theirs, devices_.TryTakeMemory(device_, out));
  return absl::OkStatus();
}

absl::Status ProductComparison::FillOperand(Storage& to, int64_t elements, TestRole role, uint64_t seed) {
  const std::string first = MakeTestOperand(p_, elements, role, seed);
  const size_t bytes = CountBytes(p_.type, elements);
  RETURN_IF_ERROR(queue_->CopyIn(first.data(), to.data(), first.size()));
  auto* const begin = static_cast<std::byte*>(to.data());
  for (size_t done = first.size(); done < bytes; done *= 2)
    RETURN_IF_ERROR(queue_->CopyWithin(begin, begin + done, std::min(done, bytes - done)));
  return absl::OkStatus();
}

absl::Status ProductComparison::FillOperands(TestRole lhs) {
  const TestRole rhs = lhs == TestRole::kUniform ? lhs : lhs == TestRole::kWide ? TestRole::kNarrow : TestRole::kWide;
  RETURN_IF_ERROR(FillOperand(*memory_.lhs, p_.lhs_elements, lhs, 1));
  return FillOperand(*memory_.rhs, p_.rhs_elements, rhs, 2);
}

absl::Status ProductComparison::FillResult(Storage& result) {
  queue_->MarkBusy();
  return ToStatus(devices_.api().hipMemsetD8Async(result.data(), 0xFF, result.size(), queue_->stream()),
                  "filling a test result");
}

absl::Status ProductComparison::RunKernel() {
  void* const arguments[] = {memory_.lhs->data(), memory_.rhs->data(), memory_.ours->data()};
  return queue_->Launch(what_.kernel, what_.blocks, what_.threads, arguments);
}

absl::Status ProductComparison::RunCall(const Candidate& candidate) {
  ASSIGN_OR_RETURN(LibraryHandle * handle,
                   devices_.library_handles(device_).Find(*candidate.library, queue_->stream()));
  queue_->MarkBusy();
  return candidate.call->Enqueue(*handle, memory_.lhs->data(), memory_.rhs->data(), memory_.theirs->data());
}

absl::StatusOr<int64_t> ProductComparison::CompareResults() {
  const size_t bytes = memory_.ours->size() - kGuardBytes;
  const size_t chunks = (bytes + kComparedBytes - 1) / kComparedBytes, compared = std::min(chunks, kMostChunks);
  std::vector<char> ours(std::min(bytes, kComparedBytes)), theirs(ours.size());
  for (size_t c = 0; c < compared; ++c) {
    const size_t chunk = compared > 1 ? c * (chunks - 1) / (compared - 1) : 0;
    const size_t begin = chunk * kComparedBytes, size = std::min(kComparedBytes, bytes - begin);
    RETURN_IF_ERROR(queue_->CopyOut(static_cast<const std::byte*>(memory_.ours->data()) + begin, ours.data(), size));
    RETURN_IF_ERROR(
        queue_->CopyOut(static_cast<const std::byte*>(memory_.theirs->data()) + begin, theirs.data(), size));
    const int64_t at = FindDifference(p_.out_type, {ours.data(), size}, {theirs.data(), size});
    if (at >= 0) return static_cast<int64_t>(begin) / ByteWidth(p_.out_type) + at;
  }
  return -1;
}

absl::StatusOr<bool> ProductComparison::IsGuardIntact() {
  std::string guard(kGuardBytes, '\0');
  const std::byte* end = static_cast<const std::byte*>(memory_.theirs->data()) + memory_.theirs->size();
  RETURN_IF_ERROR(queue_->CopyOut(end - kGuardBytes, guard.data(), kGuardBytes));
  return guard == std::string(kGuardBytes, '\xFF');
}

absl::StatusOr<std::string> ProductComparison::Check(const Candidate& candidate) {
  RETURN_IF_ERROR(FillResult(*memory_.theirs));
  if (const absl::Status status = RunCall(candidate); !status.ok()) return std::string(status.message());
  ASSIGN_OR_RETURN(const int64_t at, CompareResults());
  if (at >= 0) return absl::StrCat("its result differs in element ", at);
  ASSIGN_OR_RETURN(const bool intact, IsGuardIntact());
  return intact ? "" : "it writes beyond the result";
}

template <typename Start>
absl::StatusOr<double> ProductComparison::Measure(int64_t times, const Start& start) {
  const HipApi& api = devices_.api();
  queue_->MarkBusy();
  RETURN_IF_ERROR(ToStatus(api.hipEventRecord(start_, queue_->stream()), "recording an event"));
  for (int64_t i = 0; i < times; ++i) RETURN_IF_ERROR(start());
  RETURN_IF_ERROR(ToStatus(api.hipEventRecord(stop_, queue_->stream()), "recording an event"));
  RETURN_IF_ERROR(queue_->Synchronize());
  float milliseconds = 0;
  RETURN_IF_ERROR(ToStatus(api.hipEventElapsedTime(&milliseconds, start_, stop_), "asking for a time"));
  return static_cast<double>(milliseconds) * 1e-3 / static_cast<double>(times);
}

absl::Status ProductComparison::MeasureAll(std::vector<Candidate>& candidates) {
  const auto kernel = [&] { return RunKernel(); };
  ASSIGN_OR_RETURN(kernel_seconds_, Measure(1, kernel));
  const auto times = [](double once) {
    return std::clamp(static_cast<int64_t>(kMeasuredSeconds / std::max(once, 1e-9)), int64_t{1}, kMostCalls);
  };
  const int64_t of_kernel = times(kernel_seconds_);
  const int rounds = kernel_seconds_ > kLongSeconds ? kRoundsOfLong : kRounds;
  for (Candidate& c : candidates) {
    if (!c.dropped.empty()) continue;
    const auto call = [&] { return RunCall(c); };
    const absl::StatusOr<double> once = Measure(1, call);
    if (!once.ok()) {
      c.dropped = std::string(once.status().message());
      RETURN_IF_ERROR(queue_->Synchronize());
      continue;
    }
    c.seconds = *once;
  }
  for (int round = 0; round < rounds; ++round) {
    ASSIGN_OR_RETURN(const double ours, Measure(of_kernel, kernel));
    kernel_seconds_ = std::min(kernel_seconds_, ours);
    for (Candidate& c : candidates) {
      if (!c.dropped.empty() || c.seconds > kHopeless * kernel_seconds_) continue;
      const absl::StatusOr<double> theirs = Measure(times(c.seconds), [&] { return RunCall(c); });
      if (theirs.ok()) {
        c.seconds = std::min(c.seconds, *theirs);
      } else {
        c.dropped = std::string(theirs.status().message());
        RETURN_IF_ERROR(queue_->Synchronize());
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ProductComparison::Candidate>> ProductComparison::Run(
    const std::vector<std::shared_ptr<const ProductLibrary>>& libraries) {
  const HipApi& api = devices_.api();
  const ScopedDevice current(api, device_);
  RETURN_IF_ERROR(current.status());
  // Destroyed in this order: the library's handle, the events, the queue, which waits for the work, the memory.
  struct Slabs {
    ~Slabs() {
      self.memory_ = {};
      self.devices_.ReleaseEmptySlabs(self.device_);
    }
    ProductComparison& self;
  } const slabs{*this};
  RETURN_IF_ERROR(Allocate());
  ASSIGN_OR_RETURN(const std::unique_ptr<StreamQueue> queue, devices_.OpenQueue(device_));
  queue_ = queue.get();
  queue->set_kernels(&kernels_);
  struct Events {
    ~Events() {
      (void)self.queue_->Synchronize();
      self.devices_.library_handles(self.device_).Drop(self.queue_->stream());
      for (const hipEvent_t event : {self.start_, self.stop_}) {
        if (event != nullptr) (void)self.devices_.api().hipEventDestroy(event);
      }
    }
    ProductComparison& self;
  } const events{*this};
  for (hipEvent_t* event : {&start_, &stop_})
    RETURN_IF_ERROR(ToStatus(api.hipEventCreateWithFlags(event, kEventDefault), "making an event"));

  std::vector<Candidate> candidates;
  for (const std::shared_ptr<const ProductLibrary>& library : libraries) {
    const absl::StatusOr<LibraryHandle*> handle = devices_.library_handles(device_).Find(*library, queue->stream());
    absl::StatusOr<std::vector<std::shared_ptr<const ProductCall>>> calls =
        handle.ok() ? library->ListCalls(**handle, p_)
                    : absl::StatusOr<std::vector<std::shared_ptr<const ProductCall>>>(handle.status());
    if (!calls.ok()) {
      candidates.push_back({library, nullptr, std::string(calls.status().message())});
      continue;
    }
    for (std::shared_ptr<const ProductCall>& call : *calls) candidates.push_back({library, std::move(call), ""});
  }
  const auto all_dropped = [&] {
    return std::all_of(candidates.begin(), candidates.end(), [](const Candidate& c) { return !c.dropped.empty(); });
  };
  for (const TestRole lhs : {TestRole::kWide, TestRole::kNarrow}) {
    if (all_dropped()) return candidates;
    RETURN_IF_ERROR(FillOperands(lhs));
    RETURN_IF_ERROR(FillResult(*memory_.ours));
    RETURN_IF_ERROR(RunKernel());
    for (Candidate& c : candidates) {
      if (!c.dropped.empty()) continue;
      ASSIGN_OR_RETURN(c.dropped, Check(c));
    }
  }
  // With operands whose sums are rounded, two runs differ if the order of the terms does.
  RETURN_IF_ERROR(FillOperands(TestRole::kUniform));
  const size_t bytes = memory_.ours->size() - kGuardBytes;
  for (Candidate& c : candidates) {
    if (!c.dropped.empty()) continue;
    for (int run = 0; run < 2 && c.dropped.empty(); ++run) {
      if (const absl::Status status = RunCall(c); !status.ok()) c.dropped = std::string(status.message());
      if (run == 0) RETURN_IF_ERROR(queue->CopyWithin(memory_.theirs->data(), memory_.ours->data(), bytes));
    }
    if (!c.dropped.empty()) continue;
    ASSIGN_OR_RETURN(const int64_t at, CompareResults());
    if (at >= 0) c.dropped = absl::StrCat("two runs differ in element ", at);
  }
  if (!all_dropped()) RETURN_IF_ERROR(MeasureAll(candidates));
  return candidates;
}

}  // namespace backplane::hip
