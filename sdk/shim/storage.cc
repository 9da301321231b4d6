// Storages that the shim makes itself, and copies run now or later.
#include <atomic>
#include <memory>
#include <utility>

#include "sdk/backend/faults.h"
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

namespace {

absl::Status RunNow(const std::function<absl::Status()>& copy) {
  RETURN_IF_ERROR(Fault(FaultSite::kCopy));
  return Caught(copy);
}

// A copy that waits for its source, then perhaps for a thread. Let go before it has run, it breaks its promise.
struct CopyTask {
  std::shared_ptr<ClientState> client;
  int64_t bytes;
  std::function<absl::Status()> copy;
  Promise done;
  std::atomic<bool> taken{false};  // somebody runs it or has ended it

  CopyTask(std::shared_ptr<ClientState> state, int64_t size, std::function<absl::Status()> work, Promise promise)
      : client(std::move(state)), bytes(size), copy(std::move(work)), done(std::move(promise)) {}
  bool Take() { return !taken.exchange(true); }
  void Run() {
    if (Take()) Finish(RunNow(copy));
  }
  // What the copy held goes before anyone hears of its end.
  void Finish(absl::Status status) {
    copy = nullptr;
    const std::shared_ptr<ClientState> last = std::move(client);
    done.Set(std::move(status));
  }
};

}  // namespace

void RunCopy(const std::shared_ptr<ClientState>& client, const Event& after, int64_t bytes,
             std::function<absl::Status()> copy, Promise done) {
  auto task = std::make_shared<CopyTask>(client, bytes, std::move(copy), std::move(done));
  after.OnReady([task = std::move(task)](const absl::Status& status) mutable {
    std::shared_ptr<CopyTask> own = std::move(task);
    if (!status.ok()) {
      if (own->Take()) own->Finish(status);
      return;
    }
    if (own->bytes <= kInlineCopyBytes) return own->Run();
    const std::shared_ptr<ClientState> state = own->client;
    const absl::Status scheduled = Caught([&] {
      state->client->Schedule([own]() mutable {
        const TaskScope scope;
        std::exchange(own, nullptr)->Run();
      });
    });
    if (!scheduled.ok() && own->Take()) own->Finish(scheduled);
  });
}

Event RunCopy(const std::shared_ptr<ClientState>& client, const Event& after, int64_t bytes,
              std::function<absl::Status()> copy) {
  if (after.IsReady()) {
    if (absl::Status status = after.status(); !status.ok()) return Event::Ready(std::move(status));
    if (bytes <= kInlineCopyBytes) {
      absl::Status status = RunNow(copy);
      copy = nullptr;
      return Event::Ready(std::move(status));
    }
  }
  absl::StatusOr<Event> done = Caught([&]() -> absl::StatusOr<Event> {
    Promise promise("copy");
    Event event = promise.event();
    RunCopy(client, after, bytes, std::move(copy), std::move(promise));
    return event;
  });
  return done.ok() ? *std::move(done) : Event::Ready(done.status());
}

}  // namespace backplane::shim
