#include "plugins/hip/emulated_runtime/runtime.h"

#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/emulated_runtime/report.h"

namespace backplane::hip::emulated {
namespace {

struct ProcessRuntime {
  Mutex mu;
  std::unique_ptr<Runtime> runtime ABSL_GUARDED_BY(mu);
  bool failed ABSL_GUARDED_BY(mu) = false;
};

ProcessRuntime& TheProcess() {
  static ProcessRuntime* process = new ProcessRuntime;  // threads may use it until the process ends
  return *process;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Create(Settings settings) {
  std::unique_ptr<Runtime> runtime(new Runtime(std::move(settings)));
  RETURN_IF_ERROR(runtime->faults_.Parse(runtime->settings_.faults));
  for (int i = 0; i < runtime->settings_.devices; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<DeviceHeap> heap,
                     DeviceHeap::Create(runtime->settings_.memory, runtime->settings_.poison));
    runtime->devices_.push_back(std::make_unique<Device>(*runtime, i, std::move(heap)));
  }
  return runtime;
}

Runtime::~Runtime() {
  // Work that was not awaited is dropped: what it would touch may be gone.
  for (const auto& device : devices_) {
    for (const std::shared_ptr<Stream>& stream : device->Streams()) {
      stream->set_capture(nullptr);
      stream->Close(true);
    }
  }
  executables_.Clear();
  nodes_.Clear();
  graphs_.Clear();
  functions_.Clear();
  modules_.Clear();
  events_.Clear();
  streams_.Clear();
  MutexLock lock(host_mu_);
  for (const auto& [begin, range] : pinned_) {
    if (range.is_owned) std::free(reinterpret_cast<void*>(begin));
  }
}

Runtime* Runtime::Get() {
  ProcessRuntime& process = TheProcess();
  MutexLock lock(process.mu);
  if (process.runtime != nullptr) return process.runtime.get();
  if (process.failed) return nullptr;
  absl::StatusOr<Settings> settings = ReadSettings();
  absl::Status status = settings.status();
  if (settings.ok()) {
    absl::StatusOr<std::unique_ptr<Runtime>> runtime = Create(*std::move(settings));
    if (runtime.ok()) {
      process.runtime = *std::move(runtime);
      return process.runtime.get();
    }
    status = runtime.status();
  }
  process.failed = true;
  Report().Add(std::string(status.message()));
  return nullptr;
}

Runtime* Runtime::GetExisting() {
  ProcessRuntime& process = TheProcess();
  MutexLock lock(process.mu);
  return process.runtime.get();
}

void Runtime::Shutdown() {
  ProcessRuntime& process = TheProcess();
  std::unique_ptr<Runtime> runtime;  // ends without the lock, as its work may call Get
  MutexLock lock(process.mu);
  runtime.swap(process.runtime);
  process.failed = false;
  lock.Unlock();
  runtime.reset();
}

Device* Runtime::device(int ordinal) const {
  return ordinal >= 0 && ordinal < device_count() ? devices_[static_cast<size_t>(ordinal)].get() : nullptr;
}

StreamPosition Runtime::Submit(const std::shared_ptr<Stream>& stream, Work work, std::vector<StreamPosition> after) {
  Device& device = stream->device();
  if (stream->is_null()) {
    for (const std::shared_ptr<Stream>& other : device.Streams()) {
      if (other->is_blocking() && !other->is_null()) after.push_back(other->Tail());
    }
  } else if (stream->is_blocking()) {
    after.push_back(device.null_stream()->Tail());
  }
  return stream->Enqueue(std::move(work), std::move(after));
}

MemoryPlace Runtime::Locate(uint64_t address) const {
  for (const auto& device : devices_) {
    if (device->heap().Owns(address)) return {MemoryPlace::kDevice, device.get()};
    if (device->FindGlobal(address, 1)) return {MemoryPlace::kGlobal, device.get()};
  }
  return {IsPinned(address, 1) ? MemoryPlace::kPinned : MemoryPlace::kPageable, nullptr};
}

hipError_t Runtime::CheckAccessible(Device& by, uint64_t address, uint64_t bytes, absl::string_view what) const {
  const auto refuse = [&](hipError_t error, absl::string_view why) {
    Report().Add(absl::StrCat(what, ": memory of ", bytes, " bytes at 0x", absl::Hex(address), " ", why));
    return error;
  };
  const MemoryPlace place = Locate(address);
  switch (place.kind) {
    case MemoryPlace::kPageable:
      return refuse(hipErrorInvalidValue, "is pageable host memory, no device memory");
    case MemoryPlace::kPinned:
      return IsPinned(address, bytes) ? hipSuccess : refuse(hipErrorInvalidValue, "ends behind the pinned host memory");
    case MemoryPlace::kGlobal:
      if (!place.device->FindGlobal(address, bytes)) return refuse(hipErrorInvalidValue, "ends behind a variable");
      break;
    case MemoryPlace::kDevice:
      if (!place.device->heap().Find(address, bytes).has_value()) {
        return refuse(hipErrorInvalidValue, place.device->heap().Explain(address, bytes));
      }
      break;
  }
  if (place.device != &by && !by.HasPeer(place.device->ordinal())) {
    return refuse(hipErrorPeerAccessNotEnabled, absl::StrCat("belongs to device ", place.device->ordinal(),
                                                             ", to which device ", by.ordinal(), " has no access"));
  }
  return hipSuccess;
}

bool Runtime::AddPinned(uint64_t address, uint64_t bytes, bool is_owned) {
  MutexLock lock(host_mu_);
  const auto after = pinned_.lower_bound(address);
  if (after != pinned_.end() && after->first < address + bytes) return false;
  if (after != pinned_.begin() && std::prev(after)->second.end > address) return false;
  pinned_.emplace(address, PinnedRange{address + bytes, is_owned});
  return true;
}

uint64_t Runtime::RemovePinned(uint64_t address, bool is_owned) {
  MutexLock lock(host_mu_);
  const auto found = pinned_.find(address);
  if (found == pinned_.end() || found->second.is_owned != is_owned) return 0;
  const uint64_t bytes = found->second.end - address;
  pinned_.erase(found);
  return bytes;
}

bool Runtime::IsPinned(uint64_t address, uint64_t bytes) const {
  MutexLock lock(host_mu_);
  const auto after = pinned_.upper_bound(address);
  if (after == pinned_.begin()) return false;
  const auto& [begin, range] = *std::prev(after);
  return AddressRange{begin, range.end}.Contains(address, bytes);
}

std::string Runtime::DescribeLeaks() const {
  std::string text;
  for (const auto& device : devices_) {
    const std::vector<AddressRange> blocks = device->heap().Blocks();
    if (blocks.empty()) continue;
    uint64_t bytes = 0;
    for (const AddressRange& block : blocks) bytes += block.end - block.begin;
    absl::StrAppend(&text, "not freed: ", blocks.size(), " allocations with ", bytes, " bytes of device ",
                    device->ordinal(), "\n");
  }
  {
    MutexLock lock(host_mu_);
    uint64_t count = 0, bytes = 0;
    for (const auto& [begin, range] : pinned_) {
      if (!range.is_owned) continue;
      ++count;
      bytes += range.end - begin;
    }
    if (count > 0) absl::StrAppend(&text, "not freed: ", count, " allocations with ", bytes, " bytes of host memory\n");
  }
  const auto count = [&](size_t number, absl::string_view kind) {
    if (number > 0) absl::StrAppend(&text, "not destroyed: ", number, " ", kind, "\n");
  };
  count(streams_.size(), "streams");
  count(events_.size(), "events");
  count(modules_.size(), "modules");
  count(graphs_.size(), "graphs");
  count(executables_.size(), "executable graphs");
  return text;
}

}  // namespace backplane::hip::emulated
