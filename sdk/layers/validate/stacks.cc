#include "sdk/layers/validate/stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/layers/clock.h"

namespace backplane::layers {
namespace {

constexpr size_t kMostStacks = size_t{1} << 16;

std::string FrameText(void* address) {
  // The address is where the call returns to; the call itself is before it.
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
    constexpr size_t kLongest = 160;  // templates go on for ever
    if (name.size() > kLongest) name = absl::StrCat(name.substr(0, kLongest), "..");
    absl::StrAppend(&name, " ");
  }
  return absl::StrFormat("%s(%s+0x%x)", name, library, offset);
}

}  // namespace

// What unwinding finds: return addresses, and where on the stack each lies (null: not known).
struct Stacks::Frames {
  static constexpr int kOwn = 8;  // frames between the host's call and the unwinder, at most
  void* address[kOwn + kLargestDepth];
  void** place[kOwn + kLargestDepth];
  int count = 0, most = 0;

  // From the frame that returns to `from`, at most `depth` frames; all of them when there is none such.
  static Frames Take(const void* from, int depth) {
    Frames f;
    f.most = kOwn + std::min(depth, kLargestDepth);
    _Unwind_Backtrace(Add, &f);
    int own = static_cast<int>(std::find(f.address, f.address + f.count, from) - f.address);
    if (own == f.count) own = 0;
    f.count = std::min({f.count - own, depth, kLargestDepth});
    std::copy_n(f.address + own, f.count, f.address);
    std::copy_n(f.place + own, f.count, f.place);
    return f;
  }

 private:
  static _Unwind_Reason_Code Add(_Unwind_Context* context, void* arg) {
    auto& f = *static_cast<Frames*>(arg);
    if (f.count == f.most) return _URC_END_OF_STACK;
    auto* address = reinterpret_cast<void*>(_Unwind_GetIP(context));
    if (address == nullptr) return _URC_END_OF_STACK;
    void** place = nullptr;
#if defined(__x86_64__)
    // A call pushes the address it returns to just below the caller's frame. Not so for a frame that a signal made.
    place = reinterpret_cast<void**>(_Unwind_GetCFA(context)) - 1;
    if (*place != address) place = nullptr;
#endif
    f.address[f.count] = address;
    f.place[f.count++] = place;
    return _URC_NO_REASON;
  }
};

namespace {

constexpr uint64_t kHashStart = 0xcbf29ce484222325;
uint64_t AddToHash(uint64_t hash, const void* frame) {
  return (hash ^ reinterpret_cast<uint64_t>(frame)) * 0x100000001b3 ^ (hash >> 29);
}
uint64_t HashOf(void* const* frames, int count) {
  uint64_t hash = kHashStart;
  for (int i = 0; i < count; ++i) hash = AddToHash(hash, frames[i]);
  return hash;
}

uint32_t NextStacksSerial() {
  static std::atomic<uint32_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// One stack that a thread has met, and how it knows it again: a call from the same place at the same height of the
// stack, above which the return addresses that the unwinder found then still lie where they lay. Two lines of the
// cache, one of them for stacks of the default depth.
struct alignas(64) Stacks::Met {
  uint64_t hash = 0;
  uint32_t serial = 0, stack = 0;
  uint8_t depth = 0, count = 0;
  uint16_t words[kLargestDepth - 1];  // from cfa to the place of each further return address
};

// A host calls from some dozens of places again and again, and a stack that another pushes out costs microseconds each
// time: so many ways that this is rare.
struct Stacks::ThreadsMet {
  static constexpr size_t kSets = 128, kWays = 4;
  struct alignas(64) Tags {
    const void* from[kWays] = {};
    const void* cfa[kWays] = {};
  };
  const std::unique_ptr<Tags[]> tags{new Tags[kSets]};
  const std::unique_ptr<Met[]> all{new Met[kSets * kWays]};
  uint32_t turn = 0;

  static size_t SetOf(const void* from, const void* cfa) {
    const uint64_t mixed =
        (reinterpret_cast<uint64_t>(from) ^ reinterpret_cast<uint64_t>(cfa) << 20) * 0x9e3779b97f4a7c15;
    return (mixed >> 32) % kSets;
  }
};

Stacks::ThreadsMet& Stacks::MetByThread() {
  thread_local ThreadsMet met;
  return met;
}

Stacks::Stacks(int64_t percent) : serial_(NextStacksSerial()), percent_(percent), start_ns_(MonotonicNanos()) {}

uint32_t Stacks::Capture(const void* from, int depth) {
  const Frames f = Frames::Take(from, depth);
  return Intern(HashOf(f.address, f.count), f.address, f.count);
}

uint32_t Stacks::Remember(const void* from, const void* cfa, int depth) {
  ThreadsMet& met = MetByThread();
  const size_t set = ThreadsMet::SetOf(from, cfa);
  ThreadsMet::Tags& tags = met.tags[set];
  for (size_t i = 0; cfa != nullptr && i < ThreadsMet::kWays; ++i) {
    if (tags.from[i] != from || tags.cfa[i] != cfa) continue;
    const Met& m = met.all[set * ThreadsMet::kWays + i];
    if (m.serial != serial_ || m.depth != depth) continue;
    uint64_t hash = AddToHash(kHashStart, from);
    const auto* base = static_cast<void* const*>(cfa);
    for (int k = 1; k < m.count; ++k) hash = AddToHash(hash, base[m.words[k - 1]]);
    if (hash == m.hash) return m.stack;
  }
  constexpr int64_t kFree = 100000000;
  const int64_t now = MonotonicNanos();
  if (spent_ns_.load(std::memory_order_relaxed) > kFree + (now - start_ns_) / 100 * percent_) {
    void* only = const_cast<void*>(from);
    return Intern(HashOf(&only, 1), &only, 1);
  }
  const Frames f = Frames::Take(from, depth);
  const uint64_t hash = HashOf(f.address, f.count);
  const uint32_t stack = Intern(hash, f.address, f.count);
  unwound_.fetch_add(1, std::memory_order_relaxed);
  spent_ns_.fetch_add(MonotonicNanos() - now, std::memory_order_relaxed);

  auto* const* base = static_cast<void* const*>(cfa);
  if (base == nullptr || f.count == 0 || f.place[0] != base - 1) return stack;
  Met m;
  for (int k = 1; k < f.count; ++k) {
    // The stack grows downwards: what was called earlier lies above.
    if (f.place[k] == nullptr || f.place[k] < base || f.place[k] - base > UINT16_MAX) return stack;
    m.words[k - 1] = static_cast<uint16_t>(f.place[k] - base);
  }
  m.hash = hash;
  m.serial = serial_;
  m.stack = stack;
  m.depth = static_cast<uint8_t>(depth);
  m.count = static_cast<uint8_t>(f.count);
  const size_t way = met.turn++ % ThreadsMet::kWays;
  tags.from[way] = from;
  tags.cfa[way] = cfa;
  met.all[set * ThreadsMet::kWays + way] = m;
  return stack;
}

uint32_t Stacks::Intern(uint64_t hash, void* const* frames, int count) {
  if (count <= 0) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = by_hash_.find(hash);
  if (it != by_hash_.end()) return it->second;
  if (stacks_.size() >= kMostStacks) return 0;
  const auto number = static_cast<uint32_t>(stacks_.size());
  stacks_.emplace_back(frames, frames + count);
  by_hash_.emplace(hash, number);
  return number;
}

std::string Stacks::Text(uint32_t stack) const {
  std::vector<void*> frames;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stack < stacks_.size()) frames = stacks_[stack];
  }
  std::string out;
  for (size_t i = 0; i < frames.size(); ++i) absl::StrAppend(&out, "      #", i, " ", FrameText(frames[i]), "\n");
  if (out.empty()) out = "      (no stack was taken)\n";
  return out;
}

}  // namespace backplane::layers
