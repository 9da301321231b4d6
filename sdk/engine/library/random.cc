#include "sdk/engine/library/random.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/mutex.h"
#include "sdk/engine/library/parallel.h"
#include "sdk/engine/library/targets.h"

namespace backplane::engine {
namespace {

constexpr int64_t kBatch = 64;       // blocks made together
constexpr int64_t kGrain = 1 << 13;  // blocks worth a thread

__attribute__((always_inline)) inline void ThreeFryLanes(uint64_t key, uint64_t first, uint32_t* out0, uint32_t* out1) {
  const uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t ks[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
  constexpr int kRotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  constexpr int kLanes = 16;
  for (int64_t base = 0; base < kBatch; base += 4 * kLanes) {
    uint32_t a[4 * kLanes], b[4 * kLanes];
    for (int i = 0; i < 4 * kLanes; ++i) {
      const uint64_t c = first + static_cast<uint64_t>(base + i);
      a[i] = static_cast<uint32_t>(c) + ks[0];
      b[i] = static_cast<uint32_t>(c >> 32) + ks[1];
    }
#pragma GCC unroll 5
    for (uint32_t group = 1; group <= 5; ++group) {
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const int left = kRotation[(group - 1) % 2][r];
        for (int i = 0; i < 4 * kLanes; ++i) {
          a[i] += b[i];
          b[i] = a[i] ^ ((b[i] << left) | (b[i] >> (32 - left)));
        }
      }
      for (int i = 0; i < 4 * kLanes; ++i) {
        a[i] += ks[group % 3];
        b[i] += ks[(group + 1) % 3] + group;
      }
    }
    for (int i = 0; i < 4 * kLanes; ++i) out0[base + i] = a[i], out1[base + i] = b[i];
  }
}

// Blocks [first, first + kBatch) to two arrays of words.
BP_TARGETS(void, ThreeFryBatch, (uint64_t key, uint64_t first, uint32_t* out0, uint32_t* out1),
           (key, first, out0, out1), { ThreeFryLanes(key, first, out0, out1); })

// The same for `batches` batches, word 0 and word 1 of a block side by side.
BP_TARGETS(void, ThreeFryPairs, (uint64_t key, uint64_t first, int64_t batches, uint32_t* out),
           (key, first, batches, out), {
             for (int64_t batch = 0; batch < batches; ++batch) {
               uint32_t w0[kBatch], w1[kBatch];
               ThreeFryLanes(key, first + static_cast<uint64_t>(batch * kBatch), w0, w1);
               uint32_t* to = out + 2 * kBatch * batch;
               for (int i = 0; i < kBatch; ++i) to[2 * i] = w0[i], to[2 * i + 1] = w1[i];
             }
           })

// Blocks from (low, high) on, four words a block side by side.
BP_TARGETS(void, PhiloxQuads, (uint64_t key, uint64_t low, uint64_t high, int64_t batches, uint32_t* out),
           (key, low, high, batches, out), {
             constexpr int kLanes = 16;
             for (int64_t batch = 0; batch < batches * (kBatch / kLanes); ++batch) {
               uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
               for (int i = 0; i < kLanes; ++i) {
                 const uint64_t l = low + static_cast<uint64_t>(batch * kLanes + i), h = high + (l < low ? 1 : 0);
                 c0[i] = static_cast<uint32_t>(l);
                 c1[i] = static_cast<uint32_t>(l >> 32);
                 c2[i] = static_cast<uint32_t>(h);
                 c3[i] = static_cast<uint32_t>(h >> 32);
               }
               uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
               for (int round = 0; round < 10; ++round) {
                 for (int i = 0; i < kLanes; ++i) {
                   const uint64_t p = uint64_t{c0[i]} * 0xd2511f53u, q = uint64_t{c2[i]} * 0xcd9e8d57u;
                   c0[i] = static_cast<uint32_t>(q >> 32) ^ c1[i] ^ k0;
                   c1[i] = static_cast<uint32_t>(q);
                   c2[i] = static_cast<uint32_t>(p >> 32) ^ c3[i] ^ k1;
                   c3[i] = static_cast<uint32_t>(p);
                 }
                 k0 += 0x9e3779b9u;
                 k1 += 0xbb67ae85u;
               }
               uint32_t* to = out + 4 * kLanes * batch;
               for (int i = 0; i < kLanes; ++i)
                 to[4 * i] = c0[i], to[4 * i + 1] = c1[i], to[4 * i + 2] = c2[i], to[4 * i + 3] = c3[i];
             }
           })

// Words [begin, end) of the Philox stream that starts at `s`; begin is a multiple of 4 * kBatch.
void PhiloxWords(const RandomState& s, int64_t begin, int64_t end, uint32_t* out) {
  const uint64_t low = s.low + static_cast<uint64_t>(begin / 4), high = s.high + (low < s.low ? 1 : 0);
  const int64_t whole = (end - begin) / (4 * kBatch);
  PhiloxQuads(s.key, low, high, whole, out);
  const int64_t done = whole * 4 * kBatch;
  if (begin + done == end) return;
  uint32_t rest[4 * kBatch];
  const uint64_t next = low + static_cast<uint64_t>(whole * kBatch);
  PhiloxQuads(s.key, next, high + (next < low ? 1 : 0), 1, rest);
  std::memcpy(out + done, rest, static_cast<size_t>(end - begin - done) * 4);
}

void Advance(RandomState& s, int64_t blocks) {
  s.low += static_cast<uint64_t>(blocks);
  if (s.low < static_cast<uint64_t>(blocks)) ++s.high;
}

template <typename T>
void Narrow(const uint32_t* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

struct Halves {
  int64_t size, half, inner, outer;
};

Halves Split(absl::Span<const int64_t> dims) {
  size_t split = dims.size();
  for (size_t i = 0; i < dims.size() && split == dims.size(); ++i) {
    if (dims[i] % 2 == 0) split = i;
  }
  if (split == dims.size() && !dims.empty())
    split = static_cast<size_t>(std::max_element(dims.begin(), dims.end()) - dims.begin());
  Halves h{1, 1, 1, 1};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i == split)
      h.size = dims[i];
    else
      (i < split ? h.outer : h.inner) *= dims[i];
  }
  h.half = (h.size + 1) / 2;
  return h;
}

template <typename T>
void ThreeFryWords(const RandomState& s, const Halves& h, T* out, ThreadPool* pool) {
  const int64_t blocks = h.outer * h.half * h.inner;
  ForRange(pool, (blocks + kBatch - 1) / kBatch, kGrain / kBatch, [&](int64_t first_batch, int64_t last_batch, int) {
    uint32_t w[2][kBatch];
    for (int64_t batch = first_batch; batch < last_batch; ++batch) {
      const int64_t begin = batch * kBatch, end = std::min(blocks, begin + kBatch);
      ThreeFryBatch(s.key, s.low + static_cast<uint64_t>(begin), w[0], w[1]);
      for (int64_t c = begin; c < end;) {
        // A run of blocks within one line of the minor dimensions.
        const int64_t i = c % h.inner, line = c / h.inner, row = line % h.half, run = std::min(end - c, h.inner - i);
        T* to = out + ((line / h.half) * h.size + 2 * row) * h.inner + i;
        Narrow(w[0] + (c - begin), run, to);
        if (2 * row + 1 < h.size) Narrow(w[1] + (c - begin), run, to + h.inner);
        c += run;
      }
    }
  });
}

// Word 0 and word 1 side by side throughout.
template <typename T>
void ThreeFryPlain(const RandomState& s, int64_t blocks, T* out, ThreadPool* pool) {
  ForRange(pool, (blocks + kBatch - 1) / kBatch, kGrain / kBatch, [&](int64_t first, int64_t last, int) {
    uint32_t words[2 * kBatch];
    const int64_t whole = std::min(last, blocks / kBatch) - first;
    if constexpr (sizeof(T) == 4) {
      ThreeFryPairs(s.key, s.low + static_cast<uint64_t>(first * kBatch), whole,
                    reinterpret_cast<uint32_t*>(out) + 2 * first * kBatch);
      first += whole;
    }
    for (; first < last; ++first) {
      ThreeFryPairs(s.key, s.low + static_cast<uint64_t>(first * kBatch), 1, words);
      Narrow(words, 2 * std::min(kBatch, blocks - first * kBatch), out + 2 * first * kBatch);
    }
  });
}

template <typename T>
void ThreeFryNarrow(const RandomState& s, const Halves& h, void* out, ThreadPool* pool) {
  T* to = static_cast<T*>(out);
  if (h.inner == 1 && h.size % 2 == 0)
    ThreeFryPlain(s, h.outer * h.half, to, pool);
  else
    ThreeFryWords(s, h, to, pool);
}

// Calls fn(words, begin, end) with the Philox words of elements [begin, end), `per` words an element.
template <typename Fn>
void ForEachPhiloxPiece(RandomState& state, int64_t count, int per, ThreadPool* pool, Fn fn) {
  constexpr int64_t kPiece = 1024;  // elements; a multiple of 4 * kBatch whatever `per` is
  ForRange(pool, (count + kPiece - 1) / kPiece, 4 * kGrain / kPiece, [&](int64_t first, int64_t last, int) {
    uint32_t words[4 * kPiece];
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * kPiece, end = std::min(count, begin + kPiece);
      PhiloxWords(state, begin * per, end * per, words);
      fn(static_cast<const uint32_t*>(words), begin, end);
    }
  });
  Advance(state, (count * per + 3) / 4);
}

// Uniform in [0, 1), with as many bits as the type holds.
template <typename Wide>
Wide Unit(const uint32_t* w) {
  if constexpr (sizeof(Wide) == 4)
    return static_cast<float>(w[0] >> 8) * 0x1p-24f;
  else
    return static_cast<double>((w[0] | uint64_t{w[1]} << 32) >> 11) * 0x1p-53;
}

struct Bf16 {
  uint16_t bits;
};
float Widen(Bf16 x) {
  const uint32_t u = static_cast<uint32_t>(x.bits) << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
float Widen(_Float16 x) { return static_cast<float>(x); }
float Widen(float x) { return x; }
double Widen(double x) { return x; }
template <typename T, typename Wide>
T Round(Wide x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    uint32_t u;
    const float f = static_cast<float>(x);
    std::memcpy(&u, &f, 4);
    if (f != f) return Bf16{static_cast<uint16_t>((u >> 16) | 0x40)};
    return Bf16{static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
  } else {
    return static_cast<T>(x);
  }
}

template <typename T>
T Read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

template <typename T>
void UniformFloats(RandomState& state, const void* low, const void* high, int64_t count, void* out, ThreadPool* pool) {
  using Wide = decltype(Widen(T{}));
  const T first = Read<T>(low);
  const Wide a = Widen(first), b = Widen(Read<T>(high));
  ForEachPhiloxPiece(state, count, sizeof(Wide) / 4, pool, [&](const uint32_t* words, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i, words += sizeof(Wide) / 4) {
      T v = Round<T>(a + (b - a) * Unit<Wide>(words));
      if (a < b && Widen(v) >= b) v = first;  // rounding may reach the open end
      static_cast<T*>(out)[i] = v;
    }
  });
}

template <typename T>
void UniformIntegers(RandomState& state, const void* low, const void* high, int64_t count, void* out,
                     ThreadPool* pool) {
  const T first = Read<T>(low);
  const uint64_t range = static_cast<uint64_t>(Read<T>(high)) - static_cast<uint64_t>(first);
  ForEachPhiloxPiece(state, count, 2, pool, [&](const uint32_t* words, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i, words += 2) {
      const uint64_t bits = words[0] | uint64_t{words[1]} << 32;
      static_cast<T*>(out)[i] = static_cast<T>(static_cast<uint64_t>(first) + (range == 0 ? 0 : bits % range));
    }
  });
}

template <typename T>
void NormalFloats(RandomState& state, const void* mean, const void* deviation, int64_t count, void* out,
                  ThreadPool* pool) {
  const double m = static_cast<double>(Widen(Read<T>(mean))), d = static_cast<double>(Widen(Read<T>(deviation)));
  ForEachPhiloxPiece(state, count, 4, pool, [&](const uint32_t* words, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i, words += 4) {
      const double radius = std::sqrt(-2 * std::log(1 - Unit<double>(words)));
      static_cast<T*>(out)[i] = Round<T>(m + d * radius * std::cos(2 * M_PI * Unit<double>(words + 2)));
    }
  });
}

}  // namespace

void GenerateThreeFryBits(RandomState& state, absl::Span<const int64_t> dims, int element_bytes, void* out,
                          ThreadPool* pool) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  if (count == 0) return;
  const Halves h = Split(dims);
  switch (element_bytes) {
    case 8:
      ThreeFryPlain(state, count, static_cast<uint32_t*>(out), pool);
      state.low += static_cast<uint64_t>(count);
      return;
    case 4:
      ThreeFryNarrow<uint32_t>(state, h, out, pool);
      break;
    case 2:
      ThreeFryNarrow<uint16_t>(state, h, out, pool);
      break;
    default:
      ThreeFryNarrow<uint8_t>(state, h, out, pool);
      break;
  }
  state.low += static_cast<uint64_t>(h.outer * h.half * h.inner);
}

void GeneratePhiloxBits(RandomState& state, int64_t count, int element_bytes, void* out, ThreadPool* pool) {
  if (element_bytes >= 4) {
    const int64_t words = count * (element_bytes / 4), pieces = (words + 4 * kBatch - 1) / (4 * kBatch);
    ForRange(pool, pieces, kGrain / kBatch, [&](int64_t first, int64_t last, int) {
      const int64_t begin = first * 4 * kBatch;
      PhiloxWords(state, begin, std::min(words, last * 4 * kBatch), static_cast<uint32_t*>(out) + begin);
    });
    Advance(state, (words + 3) / 4);
    return;
  }
  ForEachPhiloxPiece(state, count, 1, pool, [&](const uint32_t* words, int64_t begin, int64_t end) {
    if (element_bytes == 2)
      Narrow(words, end - begin, static_cast<uint16_t*>(out) + begin);
    else
      Narrow(words, end - begin, static_cast<uint8_t*>(out) + begin);
  });
}

void DrawUniformNumbers(RandomState& state, RandomNumber type, const void* low, const void* high, int64_t count,
                        void* out, ThreadPool* pool) {
  switch (type) {
    case RandomNumber::kF16:
      return UniformFloats<_Float16>(state, low, high, count, out, pool);
    case RandomNumber::kBF16:
      return UniformFloats<Bf16>(state, low, high, count, out, pool);
    case RandomNumber::kF32:
      return UniformFloats<float>(state, low, high, count, out, pool);
    case RandomNumber::kF64:
      return UniformFloats<double>(state, low, high, count, out, pool);
    case RandomNumber::kPred:
    case RandomNumber::kU8:
      return UniformIntegers<uint8_t>(state, low, high, count, out, pool);
    case RandomNumber::kS8:
      return UniformIntegers<int8_t>(state, low, high, count, out, pool);
    case RandomNumber::kS16:
      return UniformIntegers<int16_t>(state, low, high, count, out, pool);
    case RandomNumber::kS32:
      return UniformIntegers<int32_t>(state, low, high, count, out, pool);
    case RandomNumber::kS64:
      return UniformIntegers<int64_t>(state, low, high, count, out, pool);
    case RandomNumber::kU16:
      return UniformIntegers<uint16_t>(state, low, high, count, out, pool);
    case RandomNumber::kU32:
      return UniformIntegers<uint32_t>(state, low, high, count, out, pool);
    case RandomNumber::kU64:
      return UniformIntegers<uint64_t>(state, low, high, count, out, pool);
  }
}

void DrawNormalNumbers(RandomState& state, RandomNumber type, const void* mean, const void* deviation, int64_t count,
                       void* out, ThreadPool* pool) {
  switch (type) {
    case RandomNumber::kF16:
      return NormalFloats<_Float16>(state, mean, deviation, count, out, pool);
    case RandomNumber::kBF16:
      return NormalFloats<Bf16>(state, mean, deviation, count, out, pool);
    case RandomNumber::kF32:
      return NormalFloats<float>(state, mean, deviation, count, out, pool);
    default:
      return NormalFloats<double>(state, mean, deviation, count, out, pool);
  }
}

RandomState DrawRandomState() {
  static std::atomic<uint64_t> calls{0};
  return {0x853c49e6748fea9b, 0, calls.fetch_add(1, std::memory_order_relaxed)};
}

std::array<uint64_t, 2> AdvanceGeneratorState(uint64_t delta) {
  static Mutex* const mutex = new Mutex;
  static uint64_t low = 0x853c49e6748fea9b, high = 0xda3e39cb94b95bdb;
  MutexLock lock(*mutex);
  const std::array<uint64_t, 2> now = {low, high};
  low += delta;
  if (low < delta) ++high;
  return now;
}

}  // namespace backplane::engine
