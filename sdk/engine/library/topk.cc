// A buffer collects what beats the current k-th best; when it is full it is cut back to the best k, which raises the
// bar. After the first few hundred elements hardly anything passes, and the scan is one vector compare per register.
#include "sdk/engine/library/topk.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sdk/engine/library/parallel.h"
#include "sdk/engine/library/radix.h"
#include "sdk/engine/library/targets.h"

namespace backplane::engine {
namespace {

constexpr int64_t kStride = 32;  // elements looked at together

struct Candidate {
  uint64_t key;  // better is smaller
  uint32_t index;
  bool operator<(const Candidate& o) const { return key != o.key ? key < o.key : index < o.index; }
};

int64_t BufferLength(const TopKProblem& p) { return std::min(p.n, 2 * p.k + 64) + kStride; }
bool SortAll(const TopKProblem& p) { return p.n >= 512 && p.k > p.n / 8; }

// Does any of the next kStride elements at x come before the bar?
template <typename U, int kMode>
__attribute__((always_inline)) inline bool AnyBeforeOf(const U* x, U flip, U bar) {
  U hit = 0;
  for (int64_t i = 0; i < kStride; ++i) {
    U v = x[i];
    if constexpr (kMode != 0) {
      constexpr int kTop = 8 * sizeof(U) - 1;
      v = static_cast<U>(v ^ (static_cast<U>(-(v >> kTop)) | static_cast<U>(U{1} << kTop)));
    }
    hit |= static_cast<U>(static_cast<U>(v ^ flip) < bar ? ~U{0} : U{0});
  }
  return hit != 0;
}

// First step of kStride from `begin` whose elements hold one before the bar; otherwise the step at which fewer than
// kStride are left.
template <typename U, int kMode>
__attribute__((always_inline)) inline int64_t ScanOf(const U* x, int64_t begin, int64_t n, U flip, U bar) {
  while (begin + kStride <= n && !AnyBeforeOf<U, kMode>(x + begin, flip, bar)) begin += kStride;
  return begin;
}

#define BP_SCAN(Name, U, kMode)                                                                              \
  BP_TARGETS(int64_t, Name, (const U* x, int64_t begin, int64_t n, U flip, U bar), (x, begin, n, flip, bar), \
             { return ScanOf<U, kMode>(x, begin, n, flip, bar); })
BP_SCAN(ScanU8, uint8_t, 0)
BP_SCAN(ScanU16, uint16_t, 0)
BP_SCAN(ScanU32, uint32_t, 0)
BP_SCAN(ScanU64, uint64_t, 0)
BP_SCAN(ScanF16, uint16_t, 1)
BP_SCAN(ScanF32, uint32_t, 1)
BP_SCAN(ScanF64, uint64_t, 1)
#undef BP_SCAN

template <typename U, int kMode>
int64_t Scan(const U* x, int64_t begin, int64_t n, U flip, U bar) {
  if constexpr (sizeof(U) == 1)
    return ScanU8(x, begin, n, flip, bar);
  else if constexpr (sizeof(U) == 2)
    return kMode ? ScanF16(x, begin, n, flip, bar) : ScanU16(x, begin, n, flip, bar);
  else if constexpr (sizeof(U) == 4)
    return kMode ? ScanF32(x, begin, n, flip, bar) : ScanU32(x, begin, n, flip, bar);
  else
    return kMode ? ScanF64(x, begin, n, flip, bar) : ScanU64(x, begin, n, flip, bar);
}

template <typename U, int kMode>
const Candidate* SelectTopK(const TopKProblem& p, const U* x, std::byte* memory) {
  const KeyMasks<U> masks(p.format);
  Candidate* buffer = reinterpret_cast<Candidate*>(memory);
  auto candidate = [&](int64_t i) { return Candidate{masks.template Encode<kMode>(x[i]), static_cast<uint32_t>(i)}; };
  if (SortAll(p)) {
    Candidate* other = buffer + p.n;
    for (int64_t i = 0; i < p.n; ++i) buffer[i] = candidate(i);
    uint32_t* counts =
        reinterpret_cast<uint32_t*>(memory + AlignTo64(2 * p.n * static_cast<int64_t>(sizeof(Candidate))));
    return RadixSort(
        buffer, other, p.n, 0, 8 * sizeof(U), [](const Candidate& c) { return c.key; }, counts);
  }
  const int64_t room = BufferLength(p) - kStride;
  int64_t count = 0, i = 0;
  for (const int64_t fill = std::min(p.n, room); i < fill; ++i) buffer[count++] = candidate(i);
  auto cut = [&] {
    if (count > p.k) std::nth_element(buffer, buffer + p.k - 1, buffer + count);
    count = std::min(count, p.k);
    return static_cast<U>(buffer[p.k - 1].key);
  };
  if (i < p.n) {
    U bar = cut();
    while (i < p.n) {
      i = Scan<U, kMode>(x, i, p.n, masks.flip, bar);
      for (const int64_t end = std::min(p.n, i + kStride); i < end; ++i) {
        const Candidate c = candidate(i);
        if (c.key < bar) buffer[count++] = c;  // one that equals the bar comes after those that are in
      }
      if (count >= room) bar = cut();
    }
  }
  cut();
  std::sort(buffer, buffer + p.k);
  return buffer;
}

int64_t SlotBytes(const TopKProblem& p) {
  if (SortAll(p)) return AlignTo64(2 * p.n * static_cast<int64_t>(sizeof(Candidate))) + 4 * kCounts;
  return AlignTo64(BufferLength(p) * static_cast<int64_t>(sizeof(Candidate)));
}

}  // namespace

int64_t ComputeTopKWorkspaceBytes(const TopKProblem& problem, int num_threads) {
  return SlotBytes(problem) * (problem.rows == 1 ? 1 : num_threads);
}

void TopK(const TopKProblem& problem, const void* input, void* values, int32_t* indices, std::byte* workspace,
          ThreadPool* pool) {
  if (problem.k == 0) return;
  DispatchKey(problem.format, [&]<typename U, int kMode>() {
    const U* x = static_cast<const U*>(input);
    U* out = static_cast<U*>(values);
    ForRange(pool, problem.rows, std::max<int64_t>(1, 16384 / problem.n), [&](int64_t begin, int64_t end, int slot) {
      for (int64_t r = begin; r < end; ++r) {
        const U* row = x + r * problem.n;
        const Candidate* best = SelectTopK<U, kMode>(problem, row, workspace + slot * SlotBytes(problem));
        for (int64_t i = 0; i < problem.k; ++i) {
          out[r * problem.k + i] = row[best[i].index];
          indices[r * problem.k + i] = static_cast<int32_t>(best[i].index);
        }
      }
    });
  });
}

double EstimateTopKMicroseconds(const TopKProblem& problem) {
  const double n = static_cast<double>(problem.n), k = static_cast<double>(problem.k);
  const double row =
      SortAll(problem) ? 0.012 * n : 0.5 + 0.00004 * problem.format.bytes * n + 0.02 * k * std::log2(k + 1);
  return static_cast<double>(problem.rows) * row;
}

}  // namespace backplane::engine
