// The inner loops of relayouts: runs, interleaving and deinterleaving of rows, packed elements. Private to relayout.cc.
//
// `stream`: the target is large and written with non-temporal stores where it is aligned; the caller must call
// EndStream at the end. Uses vectors of 16 bytes, which every x86-64 has; other machines use scalar loops.
#ifndef BACKPLANE_CORE_RELAYOUT_RELAYOUT_KERNELS_H_
#define BACKPLANE_CORE_RELAYOUT_RELAYOUT_KERNELS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace backplane::relayout {

struct Wide {  // c128
  uint64_t part[2];
};

constexpr int64_t kVectorBytes = 16;

inline bool IsAligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kVectorBytes == 0; }

inline void EndStream() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

#ifdef __SSE2__

using Vector = __m128i;
inline Vector Load(const void* p) { return _mm_loadu_si128(static_cast<const Vector*>(p)); }
template <bool kStream>
void Store(void* p, Vector v) {
  if constexpr (kStream) {
    _mm_stream_si128(static_cast<Vector*>(p), v);
  } else {
    _mm_storeu_si128(static_cast<Vector*>(p), v);
  }
}
// Return the elements of the lower or upper halves of `a` and `b`, interleaved: a0, b0, a1, b1, ...
template <typename T>
Vector InterleaveLow(Vector a, Vector b) {
  if constexpr (sizeof(T) == 1) return _mm_unpacklo_epi8(a, b);
  if constexpr (sizeof(T) == 2) return _mm_unpacklo_epi16(a, b);
  if constexpr (sizeof(T) == 4) return _mm_unpacklo_epi32(a, b);
  return _mm_unpacklo_epi64(a, b);
}
template <typename T>
Vector InterleaveHigh(Vector a, Vector b) {
  if constexpr (sizeof(T) == 1) return _mm_unpackhi_epi8(a, b);
  if constexpr (sizeof(T) == 2) return _mm_unpackhi_epi16(a, b);
  if constexpr (sizeof(T) == 4) return _mm_unpackhi_epi32(a, b);
  return _mm_unpackhi_epi64(a, b);
}

// The perfect shuffle of all elements of kCount vectors: rotates the bits of an element's index so that the highest
// becomes the lowest. Repeated once per bit of the row index it interleaves rows; once per bit of the column index it
// deinterleaves them; with as many vectors as a vector has elements it transposes.
template <typename T, int kCount>
void Shuffle(Vector (&v)[kCount], int times) {
  for (int s = 0; s < times; ++s) {
    Vector next[kCount];
    for (int k = 0; k < kCount / 2; ++k) {
      next[2 * k] = InterleaveLow<T>(v[k], v[k + kCount / 2]);
      next[2 * k + 1] = InterleaveHigh<T>(v[k], v[k + kCount / 2]);
    }
    for (int k = 0; k < kCount; ++k) v[k] = next[k];
  }
}

template <typename T>
constexpr int kLanes = static_cast<int>(kVectorBytes / sizeof(T));
constexpr int Log2(int n) { return std::countr_zero(static_cast<unsigned>(n)); }

#endif

// Copies a contiguous run.
inline void CopyRun(const void* source, void* target, size_t bytes, bool stream) {
#ifdef __SSE2__
  if (stream && bytes >= 128) {
    const std::byte* from = static_cast<const std::byte*>(source);
    std::byte* to = static_cast<std::byte*>(target);
    const size_t head = (kVectorBytes - reinterpret_cast<uintptr_t>(to) % kVectorBytes) % kVectorBytes;
    if (head > 0) std::memcpy(to, from, head);
    size_t at = head;
    for (; at + 64 <= bytes; at += 64) {
      const Vector v[4] = {Load(from + at), Load(from + at + 16), Load(from + at + 32), Load(from + at + 48)};
      for (int k = 0; k < 4; ++k) Store<true>(to + at + 16 * k, v[k]);
    }
    if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
    return;
  }
#endif
  std::memcpy(target, source, bytes);
}

#ifdef __SSE2__
// Interleaves the part that fills vectors; the last vectors may overlap the previous ones.
template <typename T, int kRows, bool kStream>
int64_t InterleaveVectors(const T* source, int64_t pitch, int64_t n, T* target) {
  auto at = [&]<bool kNonTemporal>(int64_t i) {
    Vector v[kRows];
    for (int k = 0; k < kRows; ++k) v[k] = Load(source + k * pitch + i);
    Shuffle<T>(v, Log2(kRows));
    for (int k = 0; k < kRows; ++k) Store<kNonTemporal>(target + i * kRows + k * kLanes<T>, v[k]);
  };
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) at.template operator()<kStream>(i);
  if (i == n || n < kLanes<T>) return i;
  at.template operator()<false>(n - kLanes<T>);
  return n;
}

template <typename T, int kRows, bool kStream>
int64_t DeinterleaveVectors(const T* source, int64_t n, T* target, int64_t pitch) {
  auto at = [&]<bool kNonTemporal>(int64_t i) {
    Vector v[kRows];
    for (int k = 0; k < kRows; ++k) v[k] = Load(source + i * kRows + k * kLanes<T>);
    Shuffle<T>(v, Log2(kLanes<T>));
    for (int k = 0; k < kRows; ++k) Store<kNonTemporal>(target + k * pitch + i, v[k]);
  };
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) at.template operator()<kStream>(i);
  if (i == n || n < kLanes<T>) return i;
  at.template operator()<false>(n - kLanes<T>);
  return n;
}
#endif

// target[i * kRows + k] = source[k * pitch + i]
template <typename T, int kRows>
void Interleave(const T* source, int64_t pitch, int64_t n, T* target, bool stream) {
  int64_t i = 0;
#ifdef __SSE2__
  if constexpr (sizeof(T) <= 8) {
    i = stream && IsAligned(target) ? InterleaveVectors<T, kRows, true>(source, pitch, n, target)
                                    : InterleaveVectors<T, kRows, false>(source, pitch, n, target);
  }
#endif
  for (; i < n; ++i) {
    for (int k = 0; k < kRows; ++k) target[i * kRows + k] = source[k * pitch + i];
  }
}

// target[k * pitch + i] = source[i * kRows + k]
template <typename T, int kRows>
void Deinterleave(const T* source, int64_t n, T* target, int64_t pitch, bool stream) {
  int64_t i = 0;
#ifdef __SSE2__
  if constexpr (sizeof(T) <= 8) {
    i = stream && IsAligned(target) && IsAligned(target + pitch)
            ? DeinterleaveVectors<T, kRows, true>(source, n, target, pitch)
            : DeinterleaveVectors<T, kRows, false>(source, n, target, pitch);
  }
#endif
  for (; i < n; ++i) {
    for (int k = 0; k < kRows; ++k) target[k * pitch + i] = source[i * kRows + k];
  }
}

// Unpacks elements of `bits` = 1, 2 or 4 to bytes, and packs them.
inline void Unpack(const std::byte* source, int64_t n, int bits, bool sign, std::byte* target, bool stream) {
  const int per_byte = 8 / bits;
  // Sign: v ^ top - top, which does nothing for top = 0.
  const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1), top = sign ? static_cast<uint8_t>(1 << (bits - 1)) : 0;
  int64_t i = 0;
#ifdef __SSE2__
  if (bits == 4) {
    const Vector low_half = _mm_set1_epi8(15), tops = _mm_set1_epi8(static_cast<char>(top));
    auto extended = [&](Vector v) { return _mm_sub_epi8(_mm_xor_si128(v, tops), tops); };
    auto one = [&]<bool kNonTemporal>(int64_t k) {
      const Vector v = Load(source + k / 2);
      const Vector low = _mm_and_si128(v, low_half), high = _mm_and_si128(_mm_srli_epi16(v, 4), low_half);
      Store<kNonTemporal>(target + k, extended(_mm_unpacklo_epi8(low, high)));
      Store<kNonTemporal>(target + k + 16, extended(_mm_unpackhi_epi8(low, high)));
    };
    auto all = [&](auto kind) {
      for (; i + 32 <= n; i += 32) one.template operator()<decltype(kind)::value>(i);
      if (i == n / 2 * 2 || n < 32) return;
      i = n / 2 * 2;
      one.template operator()<false>(i - 32);
    };
    if (stream && IsAligned(target)) {
      all(std::true_type());
    } else {
      all(std::false_type());
    }
  }
#endif
  for (; i < n; ++i) {
    const int v = (static_cast<int>(source[i / per_byte]) >> (bits * (i % per_byte))) & mask;
    target[i] = static_cast<std::byte>((v ^ top) - top);
  }
}

// Clears the remaining bits of the last byte.
inline void Pack(const std::byte* source, int64_t n, int bits, std::byte* target, bool stream) {
  const int per_byte = 8 / bits;
  const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1);
  const int64_t whole = n / per_byte;
  int64_t b = 0;
#ifdef __SSE2__
  if (bits == 4) {
    const Vector low_half = _mm_set1_epi16(0x000f), high_half = _mm_set1_epi16(0x00f0);
    auto joined = [&](Vector v) {  // merges each pair of bytes
      return _mm_or_si128(_mm_and_si128(v, low_half), _mm_and_si128(_mm_srli_epi16(v, 4), high_half));
    };
    auto one = [&]<bool kNonTemporal>(int64_t k) {
      Store<kNonTemporal>(target + k,
                          _mm_packus_epi16(joined(Load(source + 2 * k)), joined(Load(source + 2 * k + 16))));
    };
    auto all = [&](auto kind) {
      for (; b + 16 <= whole; b += 16) one.template operator()<decltype(kind)::value>(b);
      if (b == whole || whole < 16) return;
      b = whole;
      one.template operator()<false>(b - 16);
    };
    if (stream && IsAligned(target)) {
      all(std::true_type());
    } else {
      all(std::false_type());
    }
  }
#endif
  for (; b < whole; ++b) {
    uint8_t v = 0;
    for (int k = 0; k < per_byte; ++k)
      v |= static_cast<uint8_t>((static_cast<uint8_t>(source[b * per_byte + k]) & mask) << (bits * k));
    target[b] = static_cast<std::byte>(v);
  }
  if (whole * per_byte == n) return;
  uint8_t v = 0;
  for (int64_t i = whole * per_byte; i < n; ++i) {
    v |= static_cast<uint8_t>((static_cast<uint8_t>(source[i]) & mask) << (bits * (i % per_byte)));
  }
  target[whole] = static_cast<std::byte>(v);
}

}  // namespace backplane::relayout

#endif  // BACKPLANE_CORE_RELAYOUT_RELAYOUT_KERNELS_H_
