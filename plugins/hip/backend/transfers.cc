// Copies between the host and the devices, on the streams of the devices.
//
// Memory of the host is pageable as a rule, and a device cannot access it, so its bytes pass through pinned staging
// memory. A small array is packed into it in the call, or unpacked when it has arrived. A large one is copied in pieces
// by a thread of the workers, while earlier pieces are on their way. A copy that has staging memory waits only for the
// devices before it releases the memory; a copy that waits for the host takes its staging memory afterwards.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/client.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/host_storage.h"
#include "sdk/backend/strided_copy.h"

namespace backplane::hip {
namespace {

constexpr size_t kPieceBytes = PinnedMemory::kPieceBytes;

bool IsPadded(const Shape& shape) {
  return shape.has_layout() && (!shape.layout().tiles.empty() || shape.layout().element_size_in_bits != 0);
}

// Whether the host's array has the same bytes as the device's array.
bool HasDeviceLayout(const HostArray& host, const Shape& shape) {
  if (IsSubByte(shape.element_type())) return false;  // a copy sets the unused bits to zero
  const absl::StatusOr<DimVector> strides = DenseByteStrides(shape);
  if (!strides.ok()) return false;
  for (size_t d = 0; d < host.dims.size(); ++d) {
    if (host.dims[d] != 1 && host.byte_strides[d] != (*strides)[d]) return false;
  }
  return true;
}

// Makes work that copies bytes by one of the runtime's functions.
StreamWork CopyWork(const HipApi& api, hipError_t (*HipApi::*function)(void*, void*, size_t, hipStream_t), void* to,
                    const void* from, size_t bytes, const char* what) {
  StreamWork work;
  work.start = [&api, function, to, from, bytes, what](hipStream_t stream) {
    return ToStatus((api.*function)(to, const_cast<void*>(from), bytes, stream), what);
  };
  return work;
}

StreamWork WorkFromHost(const HipApi& api, void* to, const void* from, size_t bytes) {
  return CopyWork(api, &HipApi::hipMemcpyHtoDAsync, to, from, bytes, "a copy to the device");
}

StreamWork WorkToHost(const HipApi& api, void* to, const void* from, size_t bytes) {
  return CopyWork(api, &HipApi::hipMemcpyDtoHAsync, to, from, bytes, "a copy from the device");
}

std::byte* At(void* data, size_t offset) { return static_cast<std::byte*>(data) + offset; }

}  // namespace

// A copy by a thread of the workers, which waits for the events of its arrays without holding them. Whoever holds it
// when it ends must drop its storages before its events are set.
struct HipClient::LargeCopy {
  std::shared_ptr<Runtime> runtime;
  DeviceArray array;  // on the device
  size_t bytes = 0;   // of the array
  // The host's side: its array, or the memory and layout that receive the value.
  const void* from = nullptr;
  PrimitiveType type = PrimitiveType::kInvalid;
  DimVector dims, byte_strides;
  std::shared_ptr<Storage> packed;  // the bytes in the order of the device, if they differ from the host's or are lent
  Shape host_shape;
  void* to = nullptr;
  Promise done, released;

  HostArray host() const { return {from, type, dims, byte_strides}; }
  Devices& devices() const { return *runtime->devices; }
  int32_t device() const { return runtime->memories->GetDevice(array.memory); }

  absl::Status Pack() {
    ASSIGN_OR_RETURN(packed, AllocateHostStorage(bytes, nullptr));
    return CopyHostArray(host(), {array.shape, array.memory, packed, Event()});
  }
  void End(absl::Status status) {
    array.storage.reset();
    packed.reset();
    runtime.reset();
    const Promise last = std::move(done), first = std::move(released);
    first.Set(status);
    last.Set(std::move(status));
  }
};

absl::StatusOr<std::shared_ptr<Storage>> HipClient::Allocate(int32_t memory, size_t bytes) {
  if (!memories().IsHost(memory)) return memories().Allocate(memory, bytes);
  RETURN_IF_ERROR(Fault(FaultSite::kStorage));
  return runtime_->devices->pinned().Allocate(bytes);
}

void HipClient::RunOnWorker(const std::shared_ptr<LargeCopy>& copy, const Event& after,
                            void (*run)(const std::shared_ptr<LargeCopy>& copy)) {
  after.OnReady([copy, run](const absl::Status& ready) {
    absl::Status status = ready;
    if (status.ok()) {
      status = CatchExceptions([&] {
        copy->runtime->workers.Schedule(
            [copy, run] {
              const absl::Status ran = CatchExceptions([&] { run(copy); });
              if (!ran.ok()) copy->End(ran);
            },
            Workers::Kind::kFirst);
      });
    }
    if (!status.ok()) copy->End(std::move(status));
  });
}

// ---- From the host.

CopyFromHostEvents HipClient::StartCopyFromHost(const HostArray& src, const DeviceArray& dst, HostUse use) {
  const size_t bytes = StorageBytes(dst.shape);
  if (IsHostMemory(dst.memory) || IsPadded(dst.shape) || bytes == 0) return Client::StartCopyFromHost(src, dst, use);
  absl::StatusOr<CopyFromHostEvents> events = CatchExceptions([&]() -> absl::StatusOr<CopyFromHostEvents> {
    RETURN_IF_ERROR(Fault(FaultSite::kCopy));
    RETURN_IF_ERROR(CheckStorageFits(dst, "copy from host"));
    Devices& devices = *runtime_->devices;
    DeviceStream& stream = devices.from_host(memories().GetDevice(dst.memory));
    const bool same_layout = HasDeviceLayout(src, dst.shape);
    if (same_layout && use == HostUse::kUntilReleased && devices.pinned().IsPinned(src.data, bytes)) {
      StreamWork work = WorkFromHost(devices.api(), dst.storage->data(), src.data, bytes);
      work.inputs = {dst.ready};
      work.holds = {dst.storage};
      const Event done = stream.Submit(std::move(work));
      return CopyFromHostEvents{done, done};
    }
    if (bytes <= kPieceBytes && DeviceStream::CanWaitFor(dst.ready)) {
      ASSIGN_OR_RETURN(std::shared_ptr<Storage> staging, devices.pinned().TryStage(bytes));
      if (staging != nullptr) {
        RETURN_IF_ERROR(CopyHostArray(src, {dst.shape, dst.memory, staging, Event()}));
        StreamWork work = WorkFromHost(devices.api(), dst.storage->data(), staging->data(), bytes);
        work.inputs = {dst.ready};
        work.holds = {dst.storage, std::move(staging)};
        return CopyFromHostEvents{stream.Submit(std::move(work)), Event()};
      }
    }
    auto copy = std::make_shared<LargeCopy>();
    copy->runtime = runtime_;
    copy->array = {dst.shape, dst.memory, dst.storage, Event()};
    copy->bytes = bytes;
    copy->from = src.data;
    copy->type = src.type;
    copy->dims.assign(src.dims.begin(), src.dims.end());
    copy->byte_strides.assign(src.byte_strides.begin(), src.byte_strides.end());
    copy->done = Promise("copy");
    CopyFromHostEvents result{copy->done.event(), Event()};
    if (use == HostUse::kDuringCall) {
      RETURN_IF_ERROR(copy->Pack());
    } else {
      copy->released = Promise("copy");
      result.host_released = copy->released.event();
    }
    RunOnWorker(copy, dst.ready, &CopyInPieces);
    return result;
  });
  if (events.ok()) return *std::move(events);
  return {Event::Ready(events.status()), Event()};
}

void HipClient::CopyInPieces(const std::shared_ptr<LargeCopy>& copy) {
  if (copy->packed == nullptr && !HasDeviceLayout(copy->host(), copy->array.shape)) {
    if (absl::Status packed = copy->Pack(); !packed.ok()) return copy->End(std::move(packed));
    copy->released.Set();
  }
  Devices& devices = copy->devices();
  DeviceStream& stream = devices.from_host(copy->device());
  const void* from = copy->packed == nullptr ? copy->from : copy->packed->data();
  std::vector<Event> pieces;
  for (size_t offset = 0; offset < copy->bytes; offset += kPieceBytes) {
    const size_t n = std::min(kPieceBytes, copy->bytes - offset);
    absl::StatusOr<std::shared_ptr<Storage>> staging = devices.pinned().Stage(n);
    if (!staging.ok()) {
      pieces.push_back(Event::Ready(staging.status()));
      break;
    }
    std::memcpy((*staging)->data(), static_cast<const std::byte*>(from) + offset, n);
    StreamWork work = WorkFromHost(devices.api(), At(copy->array.storage->data(), offset), (*staging)->data(), n);
    work.holds = {copy->array.storage, *std::move(staging)};
    pieces.push_back(stream.Submit(std::move(work)));
    if (pieces.back().IsReady() && !pieces.back().status().ok()) break;
  }
  copy->released.Set();
  const Event all = Event::All(pieces);
  copy->array.storage.reset();
  all.OnReady([copy](const absl::Status& status) { copy->End(status); });
}

// ---- To the host.

Event HipClient::StartCopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) {
  const size_t bytes = StorageBytes(src.shape);
  if (IsHostMemory(src.memory) || IsPadded(src.shape) || bytes == 0)
    return Client::StartCopyToHost(src, host_shape_with_layout, dst);
  absl::StatusOr<Event> done = CatchExceptions([&]() -> absl::StatusOr<Event> {
    RETURN_IF_ERROR(Fault(FaultSite::kCopy));
    RETURN_IF_ERROR(CheckStorageFits(src, "copy to host"));
    Devices& devices = *runtime_->devices;
    DeviceStream& stream = devices.to_host(memories().GetDevice(src.memory));
    const bool same_layout = src.shape.Identical(host_shape_with_layout) && !IsSubByte(src.shape.element_type());
    if (same_layout && devices.pinned().IsPinned(dst, bytes)) {
      StreamWork work = WorkToHost(devices.api(), dst, src.storage->data(), bytes);
      work.inputs = {src.ready};
      work.holds = {src.storage};
      return stream.Submit(std::move(work));
    }
    if (bytes <= kPieceBytes && DeviceStream::CanWaitFor(src.ready)) {
      ASSIGN_OR_RETURN(std::shared_ptr<Storage> staging, devices.pinned().TryStage(bytes));
      if (staging != nullptr) {
        StreamWork work = WorkToHost(devices.api(), staging->data(), src.storage->data(), bytes);
        work.inputs = {src.ready};
        work.holds = {src.storage};
        work.finish = [staged = DeviceArray{src.shape, src.memory, std::move(staging), Event()},
                       host = host_shape_with_layout, dst] { return CopyArrayToHost(staged, host, dst); };
        return stream.Submit(std::move(work));
      }
    }
    auto copy = std::make_shared<LargeCopy>();
    copy->runtime = runtime_;
    copy->array = {src.shape, src.memory, src.storage, Event()};
    copy->bytes = bytes;
    copy->host_shape = host_shape_with_layout;
    copy->to = dst;
    if (!same_layout) {
      ASSIGN_OR_RETURN(copy->packed, AllocateHostStorage(bytes, nullptr));
    }
    copy->done = Promise("copy");
    Event event = copy->done.event();
    RunOnWorker(copy, src.ready, &CopyOutInPieces);
    return event;
  });
  return done.ok() ? *done : Event::Ready(done.status());
}

void HipClient::CopyOutInPieces(const std::shared_ptr<LargeCopy>& copy) {
  Devices& devices = copy->devices();
  DeviceStream& stream = devices.to_host(copy->device());
  void* to = copy->packed == nullptr ? copy->to : copy->packed->data();
  std::vector<Event> pieces;
  pieces.reserve(copy->bytes / kPieceBytes + 1);
  absl::Status status = CatchExceptions([&]() -> absl::Status {
    for (size_t offset = 0; offset < copy->bytes; offset += kPieceBytes) {
      const size_t n = std::min(kPieceBytes, copy->bytes - offset);
      ASSIGN_OR_RETURN(std::shared_ptr<Storage> staging, devices.pinned().Stage(n));
      StreamWork work = WorkToHost(devices.api(), staging->data(), At(copy->array.storage->data(), offset), n);
      work.holds = {copy->array.storage};
      work.finish = [piece = std::move(staging), to = At(to, offset), n] {
        std::memcpy(to, piece->data(), n);
        return absl::OkStatus();
      };
      pieces.push_back(stream.Submit(std::move(work)));
      if (pieces.back().IsReady() && !pieces.back().status().ok()) break;
    }
    return absl::OkStatus();
  });
  copy->array.storage.reset();
  // Waits for each piece that was submitted, because its end writes to the host's memory. This thread changes the
  // layout: the thread of the stream has other copies to attend to.
  for (const Event& piece : pieces) {
    absl::Status ended = piece.Await();
    if (status.ok()) status = std::move(ended);
  }
  if (status.ok() && copy->packed != nullptr) {
    status =
        CopyArrayToHost({copy->array.shape, copy->array.memory, copy->packed, Event()}, copy->host_shape, copy->to);
  }
  copy->End(std::move(status));
}

// ---- Between devices, and between a device and pinned memory.

Event HipClient::StartCopyDevice(const DeviceArray& src, const DeviceArray& dst) {
  const size_t bytes = StorageBytes(dst.shape);
  Devices& devices = *runtime_->devices;
  const bool from_host = IsHostMemory(src.memory), to_host = IsHostMemory(dst.memory);
  const auto is_reachable = [&](bool host, const DeviceArray& array) {
    return !host || (array.storage != nullptr && devices.pinned().IsPinned(array.storage->data(), bytes));
  };
  if (bytes == 0 || (from_host && to_host) || !src.shape.Identical(dst.shape) || !is_reachable(from_host, src) ||
      !is_reachable(to_host, dst))
    return Client::StartCopyDevice(src, dst);
  const absl::StatusOr<Event> done = CatchExceptions([&]() -> absl::StatusOr<Event> {
    RETURN_IF_ERROR(Fault(FaultSite::kCopy));
    ASSIGN_OR_RETURN(const size_t needed, StorageSize(dst.shape, dst.memory));
    for (const DeviceArray* array : {&src, &dst}) {
      if (array->storage == nullptr || array->storage->size() < needed)
        return absl::InvalidArgumentError(absl::StrCat("copy device: no memory for ", needed, " bytes"));
    }
    const HipApi& api = devices.api();
    void* const from = src.storage->data();
    void* const to = dst.storage->data();
    const int32_t source = memories().GetDevice(src.memory), target = memories().GetDevice(dst.memory);
    StreamWork work;
    DeviceStream* stream = nullptr;
    if (from_host) {
      work = WorkFromHost(api, to, from, needed);
      stream = &devices.from_host(target);
    } else if (to_host) {
      work = WorkToHost(api, to, from, needed);
      stream = &devices.to_host(source);
    } else if (source == target) {
      work = CopyWork(api, &HipApi::hipMemcpyDtoDAsync, to, from, needed, "a copy on the device");
      stream = &devices.between(source);
    } else {
      work.start = [&api, to, target, from, source, needed](hipStream_t on) {
        return ToStatus(api.hipMemcpyPeerAsync(to, target, from, source, needed, on), "a copy between devices");
      };
      stream = &devices.between(source);
    }
    work.inputs = {src.ready, dst.ready};
    work.holds = {src.storage, dst.storage};
    return stream->Submit(std::move(work));
  });
  return done.ok() ? *done : Event::Ready(done.status());
}

}  // namespace backplane::hip
