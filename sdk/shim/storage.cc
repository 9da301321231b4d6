// Storages that the shim makes itself, and copies run now or later.
#include <utility>

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

Event RunCopy(const std::shared_ptr<ClientState>& client, const Event& after, int64_t bytes,
              std::function<absl::Status()> copy) {
  if (after.IsReady()) {
    if (absl::Status status = after.status(); !status.ok()) return Event::Ready(std::move(status));
    if (bytes <= kInlineCopyBytes) {
      absl::Status status = copy();
      copy = nullptr;
      return Event::Ready(std::move(status));
    }
  }
  Event done = Event::Create();
  auto run = [done, copy = std::move(copy)]() mutable {
    absl::Status status = copy();
    copy = nullptr;
    done.Set(std::move(status));
  };
  after.OnReady([client, done, bytes, run = std::move(run)](const absl::Status& status) mutable {
    if (!status.ok()) {
      auto drop = std::move(run);  // what the copy held goes before anyone hears of the error
      { auto gone = std::move(drop); }
      done.Set(status);
    } else if (bytes <= kInlineCopyBytes) {
      run();
    } else {
      client->client->Schedule([client, run = std::move(run)]() mutable { run(); });
    }
  });
  return done;
}

}  // namespace backplane::shim
