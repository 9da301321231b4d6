// The storages of the shim, and copies with the references that must live until their end.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/backend/strided_copy.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

class Slice : public Storage {
 public:
  Slice(std::shared_ptr<Storage> whole, size_t offset, size_t size)
      : whole_(std::move(whole)), offset_(offset), size_(size) {}
  void* data() const override { return static_cast<char*>(whole_->data()) + offset_; }
  size_t size() const override { return size_; }
  bool writable() const override { return whole_->writable(); }
  void BeginHostAccess() override { whole_->BeginHostAccess(); }
  void EndHostAccess() override { whole_->EndHostAccess(); }

 private:
  std::shared_ptr<Storage> whole_;
  size_t offset_, size_;
};

class Borrowed : public Storage {
 public:
  Borrowed(void* data, size_t size, bool writable, std::function<void()> release)
      : data_(data), size_(size), writable_(writable), release_(std::move(release)) {}
  ~Borrowed() override {
    if (release_) release_();
  }
  void* data() const override { return data_; }
  size_t size() const override { return size_; }
  bool writable() const override { return writable_; }

 private:
  void* data_;
  size_t size_;
  bool writable_;
  std::function<void()> release_;
};

}  // namespace

std::shared_ptr<Storage> SliceStorage(std::shared_ptr<Storage> whole, size_t offset, size_t size) {
  return std::make_shared<Slice>(std::move(whole), offset, size);
}

std::shared_ptr<Storage> BorrowStorage(void* data, size_t size, bool writable, std::function<void()> release) {
  return std::make_shared<Borrowed>(data, size, writable, std::move(release));
}

void KeepClient(const std::shared_ptr<ClientState>& client, const Event& done) {
  if (done.IsReady()) return;
  const absl::Status kept = CatchExceptions([&] { done.OnReady([client](const absl::Status&) {}); });
  if (!kept.ok()) (void)done.Await();  // no memory for a callback
}

DeviceArray AttachMark(HeldArray array) {
  struct MarkedStorage {
    std::shared_ptr<Storage> storage;
    UseMark use;
  };
  Storage* const storage = array.storage.get();
  auto marked = std::make_shared<const MarkedStorage>(MarkedStorage{std::move(array.storage), std::move(array.use)});
  array.storage = std::shared_ptr<Storage>(std::move(marked), storage);
  return static_cast<DeviceArray&&>(array);
}

namespace {

// Returns the event of an array without memory: its own error, if it has one.
Event WithoutMemory(const HeldArray& array) {
  if (array.ready.IsReady() && !array.ready.status().ok()) return array.ready;
  return Event::Ready(
      absl::FailedPreconditionError(absl::StrCat("copy: the buffer ", array.shape.ToString(), " has no memory")));
}

// Copies data that the host lends to memory that the device can read. Returns false if there is no such memory.
bool Stage(const std::shared_ptr<ClientState>& client, const HostArray& src, const DeviceArray& dst,
           CopyFromHostEvents* events) {
  const MemoryObject* memory = client->FindMemory(dst.memory);
  if (memory->host || memory->devices.empty()) return false;
  Shape dense(src.type, src.dims);
  dense.set_row_major();
  absl::StatusOr<DimVector> strides = DenseByteStrides(dense);
  if (!strides.ok()) return false;
  const int32_t device = memory->devices.front()->info().id;
  const size_t width = static_cast<size_t>(ByteWidth(src.type));
  absl::StatusOr<std::shared_ptr<Storage>> staging =
      client->client->AllocateStaging(device, static_cast<size_t>(dense.num_elements()) * width);
  if (!staging.ok()) return false;
  StridedCopy(src.dims, width, src.data, src.byte_strides, (*staging)->data(), *strides);
  *events = client->client->StartCopyFromHost({(*staging)->data(), src.type, src.dims, *strides}, dst,
                                              HostUse::kUntilReleased);
  const Event released = events->host_released;
  if (!released.IsReady()) {
    const absl::Status kept = CatchExceptions([&] { released.OnReady([room = *staging](const absl::Status&) {}); });
    if (!kept.ok()) (void)released.Await();
  }
  events->host_released = Event();
  return true;
}

}  // namespace

Event CopyOut(const std::shared_ptr<ClientState>& client, HeldArray array, const Shape& host_shape, void* dst) {
  if (host_shape.num_elements() == 0) return array.ready;
  if (array.storage == nullptr) return WithoutMemory(array);
  const Event done = client->client->StartCopyToHost(AttachMark(std::move(array)), host_shape, dst);
  KeepClient(client, done);
  return done;
}

Event CopyToArray(const std::shared_ptr<ClientState>& client, HeldArray array, const DeviceArray& dst) {
  if (!dst.shape.IsArray() || dst.shape.num_elements() == 0) return array.ready;
  if (array.storage == nullptr) return WithoutMemory(array);
  const Event done = client->client->StartCopyDevice(AttachMark(std::move(array)), dst);
  KeepClient(client, done);
  return done;
}

CopyFromHostEvents CopyIn(const std::shared_ptr<ClientState>& client, const HostArray& src, const DeviceArray& dst,
                          HostUse use) {
  CopyFromHostEvents events;
  if (dst.shape.num_elements() == 0) return events;
  if (use == HostUse::kUntilReleased || !Stage(client, src, dst, &events)) {
    events = client->client->StartCopyFromHost(src, dst, use);
    if (use == HostUse::kDuringCall && !events.host_released.IsReady()) (void)events.host_released.Await();
  }
  KeepClient(client, events.done);
  return events;
}

}  // namespace backplane::shim
