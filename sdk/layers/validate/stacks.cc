#include "sdk/layers/validate/stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/layers/layer.h"

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

Stacks::Stacks(int64_t percent) : percent_(percent), start_ns_(MonotonicNanos()) {}

uint32_t Stacks::Capture(const void* from, int depth) {
  constexpr int kOwn = 6;  // frames between the host's call and here, at most
  void* frames[kOwn + kLargestDepth];
  const int taken = backtrace(frames, kOwn + std::min(depth, kLargestDepth));
  int own = static_cast<int>(std::find(frames, frames + taken, from) - frames);
  if (own == taken) own = 0;
  return Intern(frames + own, std::min(taken - own, depth));
}

uint32_t Stacks::Remember(const void* from, int depth) {
  constexpr int64_t kFree = 100000000;
  const int64_t now = MonotonicNanos();
  if (spent_ns_.load(std::memory_order_relaxed) > kFree + (now - start_ns_) / 100 * percent_) {
    void* only = const_cast<void*>(from);
    return Intern(&only, 1);
  }
  const uint32_t stack = Capture(from, depth);
  spent_ns_.fetch_add(MonotonicNanos() - now, std::memory_order_relaxed);
  return stack;
}

uint32_t Stacks::Intern(void* const* frames, int count) {
  if (count <= 0) return 0;
  uint64_t hash = 0xcbf29ce484222325;
  for (int i = 0; i < count; ++i) hash = (hash ^ reinterpret_cast<uint64_t>(frames[i])) * 0x100000001b3 ^ (hash >> 29);
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
