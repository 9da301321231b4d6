#include "samples/queue_backend/client.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/host_storage.h"
#include "sdk/backend/strided_copy.h"

namespace queue_backend {

using backplane::CopyFromHostEvents;
using backplane::HostArray;
using backplane::HostUse;
using backplane::Shape;

namespace {

// A block of a chip's memory.
class ChipStorage : public Storage {
 public:
  ChipStorage(std::shared_ptr<chip::Memory> memory, void* address, size_t size)
      : memory_(std::move(memory)), address_(address), size_(size) {}
  ~ChipStorage() override { memory_->Free(address_, size_); }  // does not wait: no command uses the memory any more
  void* data() const override { return address_; }
  size_t size() const override { return size_; }

 private:
  const std::shared_ptr<chip::Memory> memory_;
  void* const address_;
  const size_t size_;
};

// Host memory that the chips can access.
class PinnedStorage : public Storage {
 public:
  explicit PinnedStorage(std::shared_ptr<Storage> inner) : inner_(std::move(inner)) {
    chip::Pin(inner_->data(), inner_->size());
  }
  ~PinnedStorage() override { chip::Unpin(inner_->data()); }
  void* data() const override { return inner_->data(); }
  size_t size() const override { return inner_->size(); }

 private:
  const std::shared_ptr<Storage> inner_;
};

// A storage with the address at which a chip accesses it.
class StorageOnChip : public Storage {
 public:
  explicit StorageOnChip(const Storage& of) : data_(chip::Reach(of.data(), of.size())), size_(of.size()) {}
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  void* const data_;
  const size_t size_;
};

absl::StatusOr<std::shared_ptr<Storage>> AllocatePinned(size_t bytes) {
  ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, backplane::AllocateHostStorage(bytes, nullptr));
  return std::make_shared<PinnedStorage>(std::move(storage));
}

// Copies bytes with the DMA engine, between addresses that the device can access.
absl::Status Move(const void* from, void* to, size_t bytes) {
  const void* source = chip::Reach(from, bytes);
  void* target = chip::Reach(to, bytes);
  if (source == nullptr || target == nullptr) return absl::InternalError("dma: host memory that is not pinned");
  std::memcpy(target, source, bytes);
  return absl::OkStatus();
}

bool IsPlain(const Shape& shape) {
  return !backplane::IsSubByte(shape.element_type()) && (!shape.has_layout() || shape.layout().tiles.empty());
}

// Whether the host's array has the layout of the device's array and the DMA engine can access it, so that it need not
// be packed.
bool HasDeviceLayout(const HostArray& host, const Shape& shape, size_t bytes) {
  if (!IsPlain(shape) || chip::Reach(host.data, bytes) == nullptr) return false;
  absl::StatusOr<backplane::DimVector> strides = backplane::DenseByteStrides(shape);
  if (!strides.ok()) return false;
  for (size_t d = 0; d < host.dims.size(); ++d) {
    if (host.dims[d] != 1 && host.byte_strides[d] != (*strides)[d]) return false;
  }
  return true;
}

}  // namespace

DeviceArray OnChip(const DeviceArray& array) {
  if (array.storage == nullptr) return array;
  return {array.shape, array.memory, std::make_shared<StorageOnChip>(*array.storage), Event()};
}

QueueClient::QueueClient(backplane::Topology topology, size_t bytes, std::chrono::milliseconds collective_time_limit)
    : runtime_(std::make_shared<backplane::mixed::Runtime>(std::move(topology), nullptr, collective_time_limit)),
      driver_(std::make_unique<chip::Thread>()) {
  for (const backplane::DeviceInfo& device : this->topology().devices)
    chips_.push_back(std::make_unique<Chip>(device.id, bytes, driver_.get()));
}

// All work has ended by now, so this only waits for the threads to finish.
QueueClient::~QueueClient() { chips_.clear(); }

absl::StatusOr<std::shared_ptr<Storage>> QueueClient::Allocate(int32_t memory, size_t bytes) {
  if (IsPinned(memory)) return AllocatePinned(bytes);
  const std::shared_ptr<chip::Memory>& chip_memory = chip(GetDevice(memory)).memory;
  ASSIGN_OR_RETURN(void* address, chip_memory->Allocate(bytes));
  return std::make_shared<ChipStorage>(chip_memory, address, bytes);
}

absl::StatusOr<std::shared_ptr<Storage>> QueueClient::AllocateStaging(int32_t, size_t bytes) {
  return AllocatePinned(bytes);
}

absl::Status QueueClient::RegisterHostMemory(void* data, size_t size) {
  chip::Pin(data, size);
  return absl::OkStatus();
}

absl::Status QueueClient::UnregisterHostMemory(void* data) {
  if (chip::Unpin(data)) return absl::OkStatus();
  return absl::InvalidArgumentError("unregister host memory: this address was never registered");
}

Event QueueClient::Submit(chip::Queue& queue, Work work) {
  std::vector<std::shared_ptr<chip::Signal>> signals;
  std::vector<Event> on_host;
  for (const Event& input : work.inputs) {
    if (auto signal = FindSignal<chip::Signal>(input)) {
      signals.push_back(std::move(signal));
    } else if (!input.IsReady()) {
      on_host.push_back(input);
    } else if (!input.status().ok()) {
      return input;
    }
  }
  auto own_signal = std::make_shared<chip::Signal>();
  const Promise done(work.program.empty() ? "copy" : "program", on_host.empty() ? own_signal : nullptr);
  auto push = [&queue, signals = std::move(signals), own_signal, work = std::move(work), done]() mutable {
    chip::Command command{work.name, work.program, std::move(signals), {}, std::move(work.on_device), own_signal, {}};
    for (const std::shared_ptr<Storage>& storage : work.holds) command.addresses.push_back(storage->data());
    auto rest = std::make_shared<Work>(std::move(work));
    command.ended = [rest, done](absl::Status status) {
      // The events of the inputs are already set, because the driver reports them first. The first failure is reported.
      for (const Event& input : rest->inputs) {
        if (absl::Status failed = input.Await(); !failed.ok()) status = failed;
      }
      if (status.ok() && rest->on_host) status = rest->on_host();
      *rest = Work();  // releases its storages before the event is set
      done.Set(std::move(status));
    };
    queue.Push(std::move(command));
  };
  if (on_host.empty()) {
    push();
  } else {
    Event::All(on_host).OnReady([push = std::move(push), done](const absl::Status& status) mutable {
      if (status.ok()) return push();
      { auto dropped = std::move(push); }
      done.Set(status);
    });
  }
  return done.event();
}

CopyFromHostEvents QueueClient::StartCopyFromHost(const HostArray& src, const DeviceArray& dst, HostUse use) {
  if (IsPinned(dst.memory)) return Client::StartCopyFromHost(src, dst, use);
  Work work{"copy from host", "", {dst.ready}, {dst.storage}, {}, {}, {}};
  const absl::StatusOr<size_t> bytes = StorageSize(dst.shape, dst.memory);
  if (!bytes.ok()) return {Event::Ready(bytes.status()), Event()};
  const void* from = src.data;
  const bool direct = HasDeviceLayout(src, dst.shape, *bytes);
  if (!direct) {
    // Packs the data into pinned memory in the caller's thread, so that the host may reuse its memory afterwards.
    absl::StatusOr<std::shared_ptr<Storage>> staging = AllocatePinned(*bytes);
    if (!staging.ok()) return {Event::Ready(staging.status()), Event()};
    const absl::Status packed = CopyFromHost(src, {dst.shape, dst.memory, *staging, Event()});
    if (!packed.ok()) return {Event::Ready(packed), Event()};
    from = (*staging)->data();
    work.staging.push_back(*std::move(staging));
  }
  work.on_device = [from, to = dst.storage->data(), size = *bytes] { return Move(from, to, size); };
  const Event done = Submit(chip(GetDevice(dst.memory)).copies, std::move(work));
  if (!direct) return {done, Event()};
  if (use == HostUse::kDuringCall) (void)done.Await();
  return {done, done};
}

Event QueueClient::StartCopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) {
  if (IsPinned(src.memory)) return Client::StartCopyToHost(src, host_shape_with_layout, dst);
  const absl::StatusOr<size_t> bytes = StorageSize(src.shape, src.memory);
  if (!bytes.ok()) return Event::Ready(bytes.status());
  Work work{"copy to host", "", {src.ready}, {src.storage}, {}, {}, {}};
  void* to = dst;
  const bool direct = IsPlain(src.shape) && src.shape.Identical(host_shape_with_layout) && chip::Reach(dst, *bytes);
  if (!direct) {
    absl::StatusOr<std::shared_ptr<Storage>> staging = AllocatePinned(*bytes);
    if (!staging.ok()) return Event::Ready(staging.status());
    to = (*staging)->data();
    DeviceArray staged{src.shape, src.memory, *staging, Event()};
    work.on_host = [this, staged, host_shape_with_layout, dst] {
      return CopyToHost(staged, host_shape_with_layout, dst);
    };
    work.staging.push_back(*std::move(staging));
  }
  work.on_device = [from = src.storage->data(), to, size = *bytes] { return Move(from, to, size); };
  return Submit(chip(GetDevice(src.memory)).copies, std::move(work));
}

Event QueueClient::StartCopyDevice(const DeviceArray& src, const DeviceArray& dst) {
  if (IsPinned(src.memory) && IsPinned(dst.memory)) return Client::StartCopyDevice(src, dst);
  const absl::StatusOr<size_t> bytes = StorageSize(dst.shape, dst.memory);
  if (!bytes.ok()) return Event::Ready(bytes.status());
  Work work{"copy", "", {src.ready, dst.ready}, {src.storage, dst.storage}, {}, {}, {}};
  Chip& at = chip(GetDevice(IsPinned(src.memory) ? dst.memory : src.memory));
  if (src.shape.Identical(dst.shape)) {
    work.on_device = [from = src.storage->data(), to = dst.storage->data(), size = *bytes] {
      return Move(from, to, size);
    };
    return Submit(at.copies, std::move(work));
  }
  // Converting the layout needs a program.
  work.on_device = [this, from = OnChip(src), to = OnChip(dst)] {
    return CopyToHost(from, to.shape, to.storage->data());
  };
  return Submit(at.programs, std::move(work));
}

absl::StatusOr<std::unique_ptr<backplane::LoadedExecutable>> QueueClient::Load(
    std::shared_ptr<const backplane::Executable> executable, const backplane::LoadOptions&) {
  return LoadOnQueue(this, std::move(executable));
}

absl::StatusOr<backplane::MemoryStats> QueueClient::GetMemoryStats(int32_t device) const {
  const chip::Memory::Use use = chips_[static_cast<size_t>(device)]->memory->use();
  backplane::MemoryStats stats;
  stats.bytes_in_use = static_cast<int64_t>(use.in_use);
  stats.peak_bytes_in_use = static_cast<int64_t>(use.peak);
  stats.bytes_limit = static_cast<int64_t>(use.capacity);
  return stats;
}

}  // namespace queue_backend
