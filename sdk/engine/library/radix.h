// Least-significant-digit radix sort of elements by bits [first_bit, last_bit) of an unsigned key. Stable.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_RADIX_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_RADIX_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "sdk/engine/library/parallel.h"

namespace backplane::engine {

// Digits have 11 bits for small elements and 8 bits for larger ones, for which 2048 write positions would not stay in
// the caches.
constexpr int kMaxDigitBits = 11;
template <typename E>
constexpr int kDigitBitsFor = sizeof(E) <= 4 ? kMaxDigitBits : 8;
constexpr int kMaxDigits = 8;
constexpr int64_t kCounts = int64_t{kMaxDigits} << kMaxDigitBits;  // counters that a sort on one thread needs

// Sorts the n elements of `a`. `b` has room for as many elements. Returns `a` or `b`, whichever holds the result. n
// must be at least 1 and less than 2^32. `counts` has room for kCounts counters.
template <int kDigitBits, typename E, typename KeyOf>
E* RadixSortDigits(E* a, E* b, int64_t n, int first_bit, int last_bit, KeyOf key_of, uint32_t* counts) {
  constexpr uint32_t kBuckets = 1u << kDigitBits;
  const int digits = (last_bit - first_bit + kDigitBits - 1) / kDigitBits;
  std::memset(counts, 0, sizeof(uint32_t) * kBuckets * static_cast<size_t>(digits));
  for (int64_t i = 0; i < n; ++i) {
    uint64_t k = static_cast<uint64_t>(key_of(a[i])) >> first_bit;
    for (int d = 0; d < digits; ++d, k >>= kDigitBits) ++counts[d * kBuckets + (k & (kBuckets - 1))];
  }
  for (int d = 0; d < digits; ++d) {
    uint32_t* count = counts + d * kBuckets;
    const int shift = first_bit + d * kDigitBits;
    if (count[(static_cast<uint64_t>(key_of(a[0])) >> shift) & (kBuckets - 1)] == static_cast<uint64_t>(n)) continue;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < kBuckets; ++i) sum += std::exchange(count[i], sum);
    for (int64_t i = 0; i < n; ++i) {
      const E e = a[i];
      b[count[(static_cast<uint64_t>(key_of(e)) >> shift) & (kBuckets - 1)]++] = e;
    }
    std::swap(a, b);
  }
  return a;
}

template <typename E, typename KeyOf>
E* RadixSort(E* a, E* b, int64_t n, int first_bit, int last_bit, KeyOf key_of, uint32_t* counts) {
  if (n < 8192 || last_bit - first_bit <= 16) return RadixSortDigits<8>(a, b, n, first_bit, last_bit, key_of, counts);
  return RadixSortDigits<kDigitBitsFor<E>>(a, b, n, first_bit, last_bit, key_of, counts);
}

// Like RadixSort, on all threads of the pool. `counts` has room for 2048 counters per thread.
template <typename E, typename KeyOf>
E* ParallelRadixSort(ThreadPool* pool, E* a, E* b, int64_t n, int first_bit, int last_bit, KeyOf key_of,
                     uint32_t* counts) {
  constexpr int kDigitBits = kDigitBitsFor<E>;
  constexpr uint32_t kBuckets = 1u << kDigitBits;
  const int parts = PoolThreads(pool);
  const int64_t share = (n + parts - 1) / parts;
  for (int shift = first_bit; shift < last_bit; shift += kDigitBits) {
    const uint64_t mask = (uint64_t{1} << std::min(kDigitBits, last_bit - shift)) - 1;
    ForChunks(pool, parts, [&](int64_t p, int) {
      uint32_t* count = counts + p * kBuckets;
      std::memset(count, 0, sizeof(uint32_t) * kBuckets);
      for (int64_t i = p * share, end = std::min(n, i + share); i < end; ++i)
        ++count[(static_cast<uint64_t>(key_of(a[i])) >> shift) & mask];
    });
    uint32_t sum = 0, largest = 0;
    for (uint32_t i = 0; i < kBuckets; ++i) {
      const uint32_t before = sum;
      for (int p = 0; p < parts; ++p) sum += std::exchange(counts[p * kBuckets + i], sum);
      largest = std::max(largest, sum - before);
    }
    if (largest == static_cast<uint64_t>(n)) continue;
    ForChunks(pool, parts, [&](int64_t p, int) {
      uint32_t* count = counts + p * kBuckets;
      for (int64_t i = p * share, end = std::min(n, i + share); i < end; ++i) {
        const E e = a[i];
        b[count[(static_cast<uint64_t>(key_of(e)) >> shift) & mask]++] = e;
      }
    });
    std::swap(a, b);
  }
  return a;
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_RADIX_H_
