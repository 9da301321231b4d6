#include "sdk/layers/trace/events.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/mutex.h"

namespace backplane::layers {
namespace {

// In events. Threads with few events need little memory.
constexpr size_t kFirstChunk = 64;
constexpr size_t kLargestChunk = 8192;

constexpr size_t kShortWords = 3, kLongWords = 6;
constexpr int kKindAt = 16, kErrorAt = 24;
constexpr uint64_t kLong = 1 << 20;

uint64_t NextLogSerial() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1);
}

// Populates new memory with all its pages at once, before it is written. Page faults on each page would take three
// times as long and displace more of the host's data from the caches. If the system does not support it, the pages are
// populated by the first write.
void PopulatePages(void* memory, size_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  constexpr uintptr_t kPage = 4096;
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) & ~(kPage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) & ~(kPage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#endif
}

}  // namespace

// Events as words. The first has the function, the kind, the error and the low half of the duration, the second the
// start, the third the object. The flag kLong says that three more words follow with the rest. Nothing reads this
// memory soon, so it should be small, to keep the host's data in the caches.
struct EventLog::Chunk {
  explicit Chunk(size_t n) : size(n), words(new uint64_t[n]) { PopulatePages(words.get(), n * sizeof(uint64_t)); }
  const size_t size;
  std::unique_ptr<uint64_t[]> words;
  std::atomic<size_t> used{0};  // written by the thread, read by the thread that writes the file
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

EventLog::EventLog(size_t limit) : serial_(NextLogSerial()), limit_(limit) {}
EventLog::~EventLog() = default;

EventLog::Buffer* EventLog::OwnBuffer() {
  if (t_cached.serial == serial_) return static_cast<Buffer*>(t_cached.buffer);
  Buffer* buffer = NewBuffer();
  t_cached = {serial_, buffer};
  return buffer;
}

// Returns the thread's buffer. It may exist already, because the thread may have written to another log in between.
EventLog::Buffer* EventLog::NewBuffer() {
  const int64_t id = syscall(SYS_gettid);
  MutexLock lock(mutex_);
  // Searches from the end: the id of a thread that has ended may have been given to this thread. Either buffer will do
  // then.
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

size_t EventLog::ReserveEvents(size_t events) {
  size_t taken = events_reserved_.load(std::memory_order_relaxed);
  while (taken < limit_) {
    const size_t more = std::min(events, limit_ - taken);
    if (events_reserved_.compare_exchange_weak(taken, taken + more, std::memory_order_relaxed)) return more;
  }
  return 0;
}

void EventLog::Add(const Event& event) {
  const uint64_t duration = event.end > event.start ? static_cast<uint64_t>(event.end - event.start) : 0;
  const bool is_long = (event.bytes | event.name | event.count | duration >> 32) != 0 || event.device != -1;
  const size_t need = is_long ? kLongWords : kShortWords;
  Buffer& b = *OwnBuffer();
  Chunk* c = b.last;
  size_t used = c == nullptr ? 0 : c->used.load(std::memory_order_relaxed);
  if (c == nullptr || used + need > c->size) {
    const size_t want = c == nullptr ? kFirstChunk : std::min(c->size / kShortWords * 4, kLargestChunk);
    const size_t granted = ReserveEvents(want);
    if (granted * kShortWords < need) {
      events_reserved_.fetch_sub(granted, std::memory_order_relaxed);
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    auto* next = new Chunk(granted * kShortWords);
    if (c == nullptr) {
      MutexLock lock(mutex_);  // the reader may access `first`
      b.first = next;
    } else {
      c->next.store(next, std::memory_order_release);
    }
    b.last = c = next;
    used = 0;
  }
  uint64_t* w = c->words.get() + used;
  w[0] = Index(event.fn) | uint64_t{static_cast<uint8_t>(event.kind)} << kKindAt | (is_long ? kLong : 0) |
         uint64_t{event.error} << kErrorAt | duration << 32;
  w[1] = static_cast<uint64_t>(event.start);
  w[2] = event.object;
  if (is_long) {
    w[3] = event.bytes;
    w[4] = uint64_t{event.name} << 32 | event.count;
    w[5] = duration >> 32 << 16 | static_cast<uint16_t>(event.device);
  }
  c->used.store(used + need, std::memory_order_release);
}

Event EventLog::Unpack(const uint64_t* w, size_t* words) {
  Event e;
  e.fn = static_cast<Fn>(w[0] & 0xffff);
  e.kind = static_cast<EventKind>(w[0] >> kKindAt & 0xf);
  e.error = static_cast<uint8_t>(w[0] >> kErrorAt);
  uint64_t duration = w[0] >> 32;
  e.start = static_cast<Ticks>(w[1]);
  e.object = w[2];
  *words = kShortWords;
  if ((w[0] & kLong) != 0) {
    e.bytes = w[3];
    e.name = static_cast<uint32_t>(w[4] >> 32);
    e.count = static_cast<uint32_t>(w[4]);
    e.device = static_cast<int16_t>(w[5]);
    duration |= w[5] >> 16 << 32;
    *words = kLongWords;
  }
  e.end = e.start + static_cast<Ticks>(duration);
  return e;
}

uint32_t EventLog::Intern(absl::string_view text) {
  MutexLock lock(mutex_);
  auto [it, added] = names_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
  if (added) texts_.emplace_back(text);
  return it->second;
}

std::string EventLog::Text(uint32_t name) const {
  MutexLock lock(mutex_);
  return name < texts_.size() ? texts_[name] : "";
}

std::vector<std::string> EventLog::Texts() const {
  MutexLock lock(mutex_);
  return texts_;
}

void EventLog::ForEachThread(const std::function<void(const Thread&)>& begin,
                             const std::function<void(const Event&)>& event) const {
  std::vector<std::pair<Thread, const Chunk*>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& b : buffers_) all.emplace_back(b->thread, b->first);
  }
  for (const auto& [thread, first] : all) {
    begin(thread);
    for (const Chunk* c = first; c != nullptr; c = c->next.load(std::memory_order_acquire)) {
      const size_t used = c->used.load(std::memory_order_acquire);
      for (size_t i = 0, words = 0; i < used; i += words) event(Unpack(c->words.get() + i, &words));
    }
  }
}

}  // namespace backplane::layers
