#include "sdk/layers/trace/events.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace backplane::layers {
namespace {

// Threads of little use get little memory.
constexpr size_t kFirstChunk = 64;
constexpr size_t kLargestChunk = 8192;

uint64_t NextSerial() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1);
}

}  // namespace

struct EventLog::Chunk {
  explicit Chunk(size_t n) : size(n), events(new Event[n]) {}
  const size_t size;
  std::unique_ptr<Event[]> events;
  std::atomic<size_t> used{0};  // written by the thread, read by whoever writes the file
  std::atomic<Chunk*> next{nullptr};
};

struct EventLog::Buffer {
  Thread thread;
  Chunk* first = nullptr;
  Chunk* last = nullptr;
  ~Buffer() {
    for (Chunk* c = first; c != nullptr;) {
      Chunk* next = c->next.load();
      delete c;
      c = next;
    }
  }
};

namespace {
struct Cached {
  uint64_t serial = 0;
  void* buffer = nullptr;
};
thread_local Cached t_cached;
}  // namespace

EventLog::EventLog(size_t limit) : serial_(NextSerial()), limit_(limit) {}
EventLog::~EventLog() = default;

EventLog::Buffer* EventLog::OwnBuffer() {
  if (t_cached.serial == serial_) return static_cast<Buffer*>(t_cached.buffer);
  Buffer* buffer = NewBuffer();
  t_cached = {serial_, buffer};
  return buffer;
}

// The thread's buffer, which may be there already: the thread writes to another log in between.
EventLog::Buffer* EventLog::NewBuffer() {
  const int64_t id = syscall(SYS_gettid);
  std::lock_guard<std::mutex> lock(mutex_);
  // From the end: a number of a thread that has ended may have been given to this one, and then either will do.
  for (auto it = buffers_.rbegin(); it != buffers_.rend(); ++it) {
    if ((*it)->thread.id == id) return it->get();
  }
  auto buffer = std::make_unique<Buffer>();
  buffer->thread.id = id;
  char name[32] = "";
  if (pthread_getname_np(pthread_self(), name, sizeof(name)) == 0) buffer->thread.name = name;
  buffers_.push_back(std::move(buffer));
  return buffers_.back().get();
}

void EventLog::Add(const Event& event) {
  Buffer& b = *OwnBuffer();
  Chunk* c = b.last;
  size_t used = c == nullptr ? 0 : c->used.load(std::memory_order_relaxed);
  if (c == nullptr || used == c->size) {
    const size_t size = c == nullptr ? kFirstChunk : std::min(c->size * 4, kLargestChunk);
    if (room_taken_.fetch_add(size, std::memory_order_relaxed) + size > limit_) {
      room_taken_.fetch_sub(size, std::memory_order_relaxed);
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    auto* next = new Chunk(size);
    if (c == nullptr) {
      std::lock_guard<std::mutex> lock(mutex_);  // the reader may be looking at `first`
      b.first = next;
    } else {
      c->next.store(next, std::memory_order_release);
    }
    b.last = c = next;
    used = 0;
  }
  c->events[used] = event;
  c->used.store(used + 1, std::memory_order_release);
}

uint32_t EventLog::Intern(absl::string_view text) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto [it, added] = names_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
  if (added) texts_.emplace_back(text);
  return it->second;
}

std::string EventLog::Text(uint32_t name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return name < texts_.size() ? texts_[name] : "";
}

std::vector<std::string> EventLog::Texts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return texts_;
}

void EventLog::ForEachThread(const std::function<void(const Thread&)>& begin,
                             const std::function<void(const Event&)>& event) const {
  std::vector<std::pair<Thread, const Chunk*>> all;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& b : buffers_) all.emplace_back(b->thread, b->first);
  }
  for (const auto& [thread, first] : all) {
    begin(thread);
    for (const Chunk* c = first; c != nullptr; c = c->next.load(std::memory_order_acquire)) {
      const size_t used = c->used.load(std::memory_order_acquire);
      for (size_t i = 0; i < used; ++i) event(c->events[i]);
    }
  }
}

}  // namespace backplane::layers
