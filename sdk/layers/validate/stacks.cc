#include "sdk/layers/validate/stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "sdk/layers/clock.h"

namespace backplane::layers {
namespace {

constexpr size_t kMaxStackTraces = size_t{1} << 16;

std::string FrameText(void* address) {
  // The address is the return address; the call is before it.
  Dl_info info;
  void* call = static_cast<char*>(address) - 1;
  if (dladdr(call, &info) == 0 || info.dli_fname == nullptr) return absl::StrFormat("%p", address);
  absl::string_view library = info.dli_fname;
  if (const size_t slash = library.rfind('/'); slash != absl::string_view::npos) library.remove_prefix(slash + 1);
  const size_t offset = static_cast<size_t>(static_cast<char*>(address) - static_cast<char*>(info.dli_fbase));
  std::string name;
  if (info.dli_sname != nullptr) {
    int status = 0;
    char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    name = status == 0 ? plain : info.dli_sname;
    free(plain);
    constexpr size_t kLongest = 160;  // names of templates may be very long
    if (name.size() > kLongest) name = absl::StrCat(name.substr(0, kLongest), "..");
    absl::StrAppend(&name, " ");
  }
  return absl::StrFormat("%s(%s+0x%x)", name, library, offset);
}

}  // namespace

// The result of unwinding: return addresses and their positions on the stack (null: unknown).
struct Stacks::Frames {
  static constexpr int kInternalFrames = 8;  // the largest number of frames between the host's call and the unwinder
  void* address[kInternalFrames + kLargestDepth];
  void** position[kInternalFrames + kLargestDepth];
  int count = 0, most = 0;

  // Returns at most `depth` frames from the frame that returns to `from`; all frames if there is no such frame.
  static Frames Take(const void* from, int depth) {
    Frames f;
    f.most = kInternalFrames + std::min(depth, kLargestDepth);
    _Unwind_Backtrace(Add, &f);
    int own = static_cast<int>(std::find(f.address, f.address + f.count, from) - f.address);
    if (own == f.count) own = 0;
    f.count = std::min({f.count - own, depth, kLargestDepth});
    std::copy_n(f.address + own, f.count, f.address);
    std::copy_n(f.position + own, f.count, f.position);
    return f;
  }

 private:
  static _Unwind_Reason_Code Add(_Unwind_Context* context, void* arg) {
    auto& f = *static_cast<Frames*>(arg);
    if (f.count == f.most) return _URC_END_OF_STACK;
    auto* address = reinterpret_cast<void*>(_Unwind_GetIP(context));
    if (address == nullptr) return _URC_END_OF_STACK;
    void** position = nullptr;
#if defined(__x86_64__)
    // A call pushes the return address just below the caller's frame. This does not hold for the frame of a signal
    // handler.
    position = reinterpret_cast<void**>(_Unwind_GetCFA(context)) - 1;
    if (*position != address) position = nullptr;
#endif
    f.address[f.count] = address;
    f.position[f.count++] = position;
    return _URC_NO_REASON;
  }
};

namespace {

constexpr uint64_t kHashStart = 0xcbf29ce484222325;
uint64_t AddToHash(uint64_t hash, const void* frame) {
  return (hash ^ reinterpret_cast<uint64_t>(frame)) * 0x100000001b3 ^ (hash >> 29);
}
uint64_t ComputeHash(void* const* frames, int count) {
  uint64_t hash = kHashStart;
  for (int i = 0; i < count; ++i) hash = AddToHash(hash, frames[i]);
  return hash;
}

uint32_t NextStacksSerial() {
  static std::atomic<uint32_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// A stack of this thread and the data to recognize it: a call from the same address at the same height of the stack,
// above which the return addresses are still at the positions where the unwinder found them. It takes two cache lines,
// one of them for stacks of the default depth.
struct alignas(64) Stacks::KnownStack {
  uint64_t hash = 0;
  uint32_t serial = 0, stack = 0;
  uint8_t depth = 0, count = 0;
  uint16_t words[kLargestDepth - 1];  // offsets in words from cfa to each further return address
};

// A host makes calls from some dozens of sites repeatedly, and a stack that another one displaces costs microseconds
// each time. The associativity makes this rare.
struct Stacks::ThreadStacks {
  static constexpr size_t kSets = 128, kWays = 4;
  struct alignas(64) Tags {
    const void* from[kWays] = {};
    const void* cfa[kWays] = {};
  };
  const std::unique_ptr<Tags[]> tags{new Tags[kSets]};
  const std::unique_ptr<KnownStack[]> all{new KnownStack[kSets * kWays]};
  uint32_t next_victim = 0;

  static size_t SetOf(const void* from, const void* cfa) {
    const uint64_t mixed =
        (reinterpret_cast<uint64_t>(from) ^ reinterpret_cast<uint64_t>(cfa) << 20) * 0x9e3779b97f4a7c15;
    return (mixed >> 32) % kSets;
  }
};

Stacks::ThreadStacks& Stacks::GetThreadStacks() {
  thread_local ThreadStacks met;
  return met;
}

Stacks::Stacks(int64_t percent) : serial_(NextStacksSerial()), percent_(percent), start_ns_(ReadMonotonicNanos()) {}

uint32_t Stacks::Capture(const void* from, int depth) {
  const Frames f = Frames::Take(from, depth);
  return Intern(ComputeHash(f.address, f.count), f.address, f.count);
}

uint32_t Stacks::Remember(const void* from, const void* cfa, int depth) {
  ThreadStacks& met = GetThreadStacks();
  const size_t set = ThreadStacks::SetOf(from, cfa);
  ThreadStacks::Tags& tags = met.tags[set];
  for (size_t i = 0; cfa != nullptr && i < ThreadStacks::kWays; ++i) {
    if (tags.from[i] != from || tags.cfa[i] != cfa) continue;
    const KnownStack& m = met.all[set * ThreadStacks::kWays + i];
    if (m.serial != serial_ || m.depth != depth) continue;
    uint64_t hash = AddToHash(kHashStart, from);
    const auto* base = static_cast<void* const*>(cfa);
    for (int k = 1; k < m.count; ++k) hash = AddToHash(hash, base[m.words[k - 1]]);
    if (hash == m.hash) return m.stack;
  }
  constexpr int64_t kFree = 100000000;
  const int64_t now = ReadMonotonicNanos();
  if (spent_ns_.load(std::memory_order_relaxed) > kFree + (now - start_ns_) / 100 * percent_) {
    void* only = const_cast<void*>(from);
    return Intern(ComputeHash(&only, 1), &only, 1);
  }
  const Frames f = Frames::Take(from, depth);
  const uint64_t hash = ComputeHash(f.address, f.count);
  const uint32_t stack = Intern(hash, f.address, f.count);
  unwound_.fetch_add(1, std::memory_order_relaxed);
  spent_ns_.fetch_add(ReadMonotonicNanos() - now, std::memory_order_relaxed);

  auto* const* base = static_cast<void* const*>(cfa);
  if (base == nullptr || f.count == 0 || f.position[0] != base - 1) return stack;
  KnownStack m;
  for (int k = 1; k < f.count; ++k) {
    // The stack grows downwards, so the frames of callers are at higher addresses.
    if (f.position[k] == nullptr || f.position[k] < base || f.position[k] - base > UINT16_MAX) return stack;
    m.words[k - 1] = static_cast<uint16_t>(f.position[k] - base);
  }
  m.hash = hash;
  m.serial = serial_;
  m.stack = stack;
  m.depth = static_cast<uint8_t>(depth);
  m.count = static_cast<uint8_t>(f.count);
  const size_t way = met.next_victim++ % ThreadStacks::kWays;
  tags.from[way] = from;
  tags.cfa[way] = cfa;
  met.all[set * ThreadStacks::kWays + way] = m;
  return stack;
}

uint32_t Stacks::Intern(uint64_t hash, void* const* frames, int count) {
  if (count <= 0) return 0;
  MutexLock lock(mutex_);
  auto it = by_hash_.find(hash);
  if (it != by_hash_.end()) return it->second;
  if (stacks_.size() >= kMaxStackTraces) return 0;
  const auto number = static_cast<uint32_t>(stacks_.size());
  stacks_.emplace_back(frames, frames + count);
  by_hash_.emplace(hash, number);
  return number;
}

std::string Stacks::Text(uint32_t stack) const {
  std::vector<void*> frames;
  {
    MutexLock lock(mutex_);
    if (stack < stacks_.size()) frames = stacks_[stack];
  }
  std::string out;
  for (size_t i = 0; i < frames.size(); ++i) absl::StrAppend(&out, "      #", i, " ", FrameText(frames[i]), "\n");
  if (out.empty()) out = "      (no stack was taken)\n";
  return out;
}

}  // namespace backplane::layers
