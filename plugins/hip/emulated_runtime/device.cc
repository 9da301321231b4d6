#include "plugins/hip/emulated_runtime/device.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/report.h"
#include "plugins/hip/emulated_runtime/runtime.h"
#include "plugins/hip/runtime/hip_api.h"

namespace backplane::hip::emulated {

Device::Device(Runtime& runtime, int ordinal, std::unique_ptr<DeviceHeap> heap)
    : runtime_(runtime), ordinal_(ordinal), heap_(std::move(heap)) {
  null_stream_ = std::make_shared<Stream>(*this, 0, kStreamDefault, 0);
}

void Device::Poison(hipError_t error, absl::string_view why) {
  int none = hipSuccess;
  error_.compare_exchange_strong(none, error, std::memory_order_acq_rel);
  Report().Add(absl::StrCat("device ", ordinal_, " failed with ", GetErrorName(error), ": ", why));
}

std::shared_ptr<Stream> Device::AddStream(unsigned flags, int priority) {
  MutexLock lock(mu_);
  auto stream = std::make_shared<Stream>(*this, ++last_stream_, flags, priority);
  streams_.push_back(stream);
  return stream;
}

void Device::RemoveStream(const Stream* stream) {
  runtime_.order().RemoveStream(stream->index());
  MutexLock lock(mu_);
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(),
                                [&](const std::shared_ptr<Stream>& other) { return other.get() == stream; }),
                 streams_.end());
}

std::vector<std::shared_ptr<Stream>> Device::Streams() const {
  MutexLock lock(mu_);
  std::vector<std::shared_ptr<Stream>> all = {null_stream_};
  all.insert(all.end(), streams_.begin(), streams_.end());
  return all;
}

void Device::Await(bool only_blocking) {
  for (const std::shared_ptr<Stream>& stream : Streams()) {
    if (only_blocking && !stream->is_blocking()) continue;
    const StreamPosition tail = stream->Tail();
    stream->Await(tail.sequence);
    runtime_.order().RecordHostWait(tail.clock);
  }
}

hipError_t Device::Synchronize() {
  Await(false);
  for (const std::string& problem : heap_->CheckGuards()) {
    Report().Add(absl::StrCat(problem, " (device ", ordinal_, ")"));
  }
  return error();
}

void Device::Reset() {
  Synchronize();
  for (const AddressRange& block : heap_->Blocks()) {
    accesses_.Forget(block.begin, block.end);
    heap_->Free(block.begin);
  }
  {
    MutexLock lock(mu_);
    peers_.clear();
  }
  error_.store(hipSuccess, std::memory_order_release);
}

bool Device::HasPeer(int ordinal) const {
  MutexLock lock(mu_);
  return peers_.count(ordinal) != 0;
}

bool Device::AddPeer(int ordinal) {
  MutexLock lock(mu_);
  return peers_.insert(ordinal).second;
}

bool Device::RemovePeer(int ordinal) {
  MutexLock lock(mu_);
  return peers_.erase(ordinal) != 0;
}

void Device::AddGlobal(AddressRange range) {
  MutexLock lock(mu_);
  globals_[range.begin] = range.end;
}

void Device::RemoveGlobals(const std::vector<AddressRange>& ranges) {
  MutexLock lock(mu_);
  for (const AddressRange& range : ranges) globals_.erase(range.begin);
}

bool Device::FindGlobal(uint64_t address, uint64_t bytes) const {
  MutexLock lock(mu_);
  const auto after = globals_.upper_bound(address);
  if (after == globals_.begin()) return false;
  const auto& [begin, end] = *std::prev(after);
  return AddressRange{begin, end}.Contains(address, bytes);
}

}  // namespace backplane::hip::emulated
