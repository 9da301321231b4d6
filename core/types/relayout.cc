#include "core/types/relayout.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

struct Wide {  // c128
  uint64_t part[2];
};

// target[i * kRows + k] = source[k * pitch + i]
template <typename T, int kRows>
void Interleave(const T* __restrict source, int64_t pitch, int64_t n, T* __restrict target) {
  static_assert(kRows == 2 || kRows == 4);
  const T *a = source, *b = source + pitch;
  if constexpr (kRows == 2) {
    for (int64_t i = 0; i < n; ++i) {
      target[2 * i] = a[i];
      target[2 * i + 1] = b[i];
    }
  } else {
    const T *c = b + pitch, *d = c + pitch;
    for (int64_t i = 0; i < n; ++i) {
      target[4 * i] = a[i];
      target[4 * i + 1] = b[i];
      target[4 * i + 2] = c[i];
      target[4 * i + 3] = d[i];
    }
  }
}

// target[k * pitch + i] = source[i * kRows + k]
template <typename T, int kRows>
void Deinterleave(const T* __restrict source, int64_t n, T* __restrict target, int64_t pitch) {
  static_assert(kRows == 2 || kRows == 4);
  T* __restrict a = target, * __restrict b = target + pitch;
  if constexpr (kRows == 2) {
    for (int64_t i = 0; i < n; ++i) {
      a[i] = source[2 * i];
      b[i] = source[2 * i + 1];
    }
  } else {
    T* __restrict c = target + 2 * pitch, * __restrict d = target + 3 * pitch;
    for (int64_t i = 0; i < n; ++i) {
      a[i] = source[4 * i];
      b[i] = source[4 * i + 1];
      c[i] = source[4 * i + 2];
      d[i] = source[4 * i + 3];
    }
  }
}

// Targets larger than this are written past the caches, as memcpy writes large blocks: they would be gone again anyway.
constexpr int64_t kStreamBytes = int64_t{4} << 20;
constexpr int64_t kBufferBytes = 4096;

// A contiguous run, past the caches where asked and possible.
void CopyRun(const void* source, void* target, size_t bytes, bool stream) {
#ifdef __SSE2__
  if (stream && bytes % 16 == 0 && bytes >= 64 && reinterpret_cast<uintptr_t>(target) % 16 == 0) {
    const __m128i* from = static_cast<const __m128i*>(source);
    __m128i* to = static_cast<__m128i*>(target);
    for (size_t i = 0; i < bytes / 16; ++i) _mm_stream_si128(to + i, _mm_loadu_si128(from + i));
    return;
  }
#endif
  std::memcpy(target, source, bytes);
}

// The commonest weave, pairs of rows of 16-bit elements, goes past the caches straight from registers. False: not done.
bool StreamPairs(const uint16_t* a, const uint16_t* b, int64_t n, uint16_t* target) {
#ifdef __SSE2__
  if (n % 8 != 0 || reinterpret_cast<uintptr_t>(target) % 16 != 0) return false;
  __m128i* to = reinterpret_cast<__m128i*>(target);
  for (int64_t i = 0; i < n; i += 8, to += 2) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i));
    const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i));
    _mm_stream_si128(to, _mm_unpacklo_epi16(x, y));
    _mm_stream_si128(to + 1, _mm_unpackhi_epi16(x, y));
  }
  return true;
#else
  return false;
#endif
}

bool StreamPairsApart(const uint16_t* source, int64_t n, uint16_t* a, uint16_t* b) {
#ifdef __SSE2__
  if (n % 8 != 0 || (reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % 16 != 0) return false;
  const __m128i* from = reinterpret_cast<const __m128i*>(source);
  for (int64_t i = 0; i < n; i += 8, from += 2) {
    const __m128i x = _mm_loadu_si128(from), y = _mm_loadu_si128(from + 1);
    // Sign-extended halves pack without loss.
    const __m128i low =
        _mm_packs_epi32(_mm_srai_epi32(_mm_slli_epi32(x, 16), 16), _mm_srai_epi32(_mm_slli_epi32(y, 16), 16));
    const __m128i high = _mm_packs_epi32(_mm_srai_epi32(x, 16), _mm_srai_epi32(y, 16));
    _mm_stream_si128(reinterpret_cast<__m128i*>(a + i), low);
    _mm_stream_si128(reinterpret_cast<__m128i*>(b + i), high);
  }
  return true;
#else
  return false;
#endif
}

void EndStream() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// target[j + i * to] = source[i + j * from] for i < n, j < m: by blocks that are turned inside a buffer, so that both
// sides are read and written a cache line at a time.
template <typename T>
void Transpose(const T* __restrict source, int64_t from, T* __restrict target, int64_t to, int64_t n, int64_t m) {
  constexpr int64_t kBlock = sizeof(T) <= 2 ? 32 : sizeof(T) <= 8 ? 16 : 8;
  alignas(64) T block[kBlock * kBlock];
  for (int64_t i0 = 0; i0 < n; i0 += kBlock) {
    for (int64_t j0 = 0; j0 < m; j0 += kBlock) {
      const T* a = source + i0 + j0 * from;
      T* b = target + j0 + i0 * to;
      if (i0 + kBlock <= n && j0 + kBlock <= m) {
        for (int64_t j = 0; j < kBlock; ++j) {
          for (int64_t i = 0; i < kBlock; ++i) block[i * kBlock + j] = a[i + j * from];
        }
        for (int64_t i = 0; i < kBlock; ++i) std::memcpy(b + i * to, block + i * kBlock, sizeof(T) * kBlock);
        continue;
      }
      const int64_t i1 = std::min(n - i0, kBlock), j1 = std::min(m - j0, kBlock);
      for (int64_t i = 0; i < i1; ++i) {
        for (int64_t j = 0; j < j1; ++j) b[j + i * to] = a[i + j * from];
      }
    }
  }
}

// `bits` of 1, 2 or 4: elements of one byte out of packed ones, and back.
void Unpack(const std::byte* __restrict source, int64_t n, int bits, bool sign, std::byte* __restrict target) {
  const int per_byte = 8 / bits;
  // Sign: v ^ top - top, which does nothing for top = 0.
  const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1), top = sign ? static_cast<uint8_t>(1 << (bits - 1)) : 0;
  auto element = [&](uint8_t byte, int64_t k) {
    return static_cast<std::byte>((((byte >> (bits * k)) & mask) ^ top) - top);
  };
  const int64_t whole = n / per_byte;
  if (bits == 4) {
    for (int64_t b = 0; b < whole; ++b) {
      const uint8_t v = static_cast<uint8_t>(source[b]);
      target[2 * b] = static_cast<std::byte>(((v & 15) ^ top) - top);
      target[2 * b + 1] = static_cast<std::byte>(((v >> 4) ^ top) - top);
    }
  } else {
    for (int64_t i = 0; i < whole * per_byte; ++i)
      target[i] = element(static_cast<uint8_t>(source[i / per_byte]), i % per_byte);
  }
  for (int64_t i = whole * per_byte; i < n; ++i) target[i] = element(static_cast<uint8_t>(source[whole]), i % per_byte);
}

void Pack(const std::byte* __restrict source, int64_t n, int bits, std::byte* __restrict target) {
  const int per_byte = 8 / bits;
  const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1);
  const int64_t whole = n / per_byte;
  for (int64_t b = 0; bits == 4 && b < whole; ++b) {
    target[b] = (source[2 * b] & std::byte{15}) | (source[2 * b + 1] << 4);
  }
  for (int64_t b = 0; bits != 4 && b < whole; ++b) {
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

bool IsPacked(int64_t bits) { return bits == 1 || bits == 2 || bits == 4; }

}  // namespace

absl::StatusOr<Relayout> Relayout::Plan(const Shape& from, const Shape& to, PaddingFill fill) {
  if (!from.IsArray() || !(from == to)) {
    return absl::InvalidArgumentError(absl::StrCat("relayout: ", from.ToString(true), " to ", to.ToString(true),
                                                   ": expected arrays that differ in layout only"));
  }
  ASSIGN_OR_RETURN(PhysicalLayout a, PhysicalLayout::Of(from));
  ASSIGN_OR_RETURN(PhysicalLayout b, PhysicalLayout::Of(to));
  return Plan(from.element_type(), a, b, fill);
}

absl::StatusOr<Relayout> Relayout::Plan(PrimitiveType type, const PhysicalLayout& from, const PhysicalLayout& to,
                                        PaddingFill fill) {
  if (from.dims() != to.dims()) return absl::InvalidArgumentError("relayout: the arrays differ in size");
  for (const PhysicalLayout* p : {&from, &to}) {
    const int64_t bits = p->element_bits();
    const bool natural = bits == 8 * ByteWidth(type);
    if (!natural && !(IsPacked(bits) && bits >= BitWidth(type) && ByteWidth(type) == 1)) {
      return absl::UnimplementedError(absl::StrCat("relayout: ", Name(type), " in elements of ", bits, " bits"));
    }
  }
  Relayout r(type, from, to, fill);
  r.MakeBoxes();
  return r;
}

// Each dimension is cut where its digits on both sides end, so that inside a box every loop steps by constant strides.
void Relayout::MakeBoxes() {
  boxed_ = from_.separable() && to_.separable();
  if (!boxed_ || from_.num_logical() == 0) return;
  struct Range {
    int64_t from = 0, to = 0;
    std::vector<Loop> loops;
  };
  auto address = [](const std::vector<PhysicalLayout::Digit>& digits, int64_t index) {
    int64_t sum = 0;
    for (size_t k = 0; k < digits.size(); ++k) {
      const int64_t v = index / digits[k].divisor;
      sum += (k == 0 ? v : v % digits[k].size) * digits[k].stride;
    }
    return sum;
  };
  std::vector<std::vector<Range>> per_dim;
  for (size_t d = 0; d < from_.dims().size(); ++d) {
    const auto &a = from_.digits(static_cast<int64_t>(d)), &b = to_.digits(static_cast<int64_t>(d));
    // Steps, each a divisor of the next larger one.
    std::vector<int64_t> steps;
    for (const auto* digits : {&a, &b}) {
      for (const PhysicalLayout::Digit& x : *digits) steps.push_back(x.divisor);
    }
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    for (size_t k = 1; k < steps.size(); ++k) {
      if (steps[k] % steps[k - 1] != 0) boxed_ = false;
    }
    if (!boxed_) return;
    std::vector<Range> ranges;
    const int64_t n = from_.dims()[d];
    for (int64_t at = 0; at < n;) {
      // The largest whole steps that are left, then the smaller ones inside them.
      size_t k = steps.size() - 1;
      while (steps[k] > n - at) --k;
      Range range{address(a, at), address(b, at), {}};
      int64_t count = (n - at) / steps[k];
      const int64_t length = count * steps[k];
      for (size_t j = k + 1; j-- > 0;) {
        range.loops.push_back(
            {count, address(a, at + steps[j]) - address(a, at), address(b, at + steps[j]) - address(b, at)});
        if (j > 0) count = steps[j] / steps[j - 1];
      }
      for (Loop& loop : range.loops) {
        if (loop.size == 1) loop.from = loop.to = 0;
      }
      ranges.push_back(std::move(range));
      at += length;
    }
    per_dim.push_back(std::move(ranges));
  }
  // All combinations of ranges.
  std::vector<Box> boxes(1);
  for (const auto& ranges : per_dim) {
    std::vector<Box> next;
    for (const Box& box : boxes) {
      for (const Range& r : ranges) {
        Box b = box;
        b.from += r.from;
        b.to += r.to;
        b.loops.insert(b.loops.end(), r.loops.begin(), r.loops.end());
        next.push_back(std::move(b));
      }
    }
    boxes = std::move(next);
  }
  for (Box& box : boxes) {
    std::vector<Loop>& loops = box.loops;
    loops.erase(std::remove_if(loops.begin(), loops.end(), [](const Loop& l) { return l.size == 1; }), loops.end());
    // Writes go through memory in order; loops that continue one another on both sides are one.
    std::stable_sort(loops.begin(), loops.end(), [](const Loop& x, const Loop& y) { return x.to > y.to; });
    std::vector<Loop> merged;
    for (const Loop& l : loops) {
      if (!merged.empty() && merged.back().from == l.size * l.from && merged.back().to == l.size * l.to) {
        merged.back() = {merged.back().size * l.size, l.from, l.to};
      } else {
        merged.push_back(l);
      }
    }
    loops = std::move(merged);
  }
  boxes_ = std::move(boxes);
}

template <typename T>
void Relayout::CopyBox(const Box& box, bool stream, const T* source, T* target) {
  source += box.from;
  target += box.to;
  std::vector<Loop> outer = box.loops;
  // The innermost work: one loop that is contiguous on both sides, or two, each contiguous on one side.
  Loop run{1, 1, 1}, in{1, 1, 1}, out{1, 1, 1};
  enum { kRun, kInterleave, kDeinterleave, kTranspose, kSingle } how = kSingle;
  auto unit_both = std::find_if(outer.begin(), outer.end(), [](const Loop& l) { return l.from == 1 && l.to == 1; });
  if (unit_both != outer.end()) {
    run = *unit_both;
    outer.erase(unit_both);
    how = kRun;
  } else {
    auto unit_in = std::find_if(outer.begin(), outer.end(), [](const Loop& l) { return l.from == 1; });
    auto unit_out = std::find_if(outer.begin(), outer.end(), [](const Loop& l) { return l.to == 1; });
    if (unit_in != outer.end() && unit_out != outer.end()) {
      in = *unit_in;
      out = *unit_out;
      outer.erase(std::max(unit_in, unit_out));
      outer.erase(std::min(unit_in, unit_out));
      const bool few_out = out.size == 2 || out.size == 4, few_in = in.size == 2 || in.size == 4;
      how = few_out && in.to == out.size ? kInterleave : few_in && out.from == in.size ? kDeinterleave : kTranspose;
    }
  }
  // Rows that are woven together, or apart, pass through a buffer in the nearest cache when the target is streamed to.
  alignas(64) T buffer[kBufferBytes / sizeof(T)];
  constexpr int64_t kBuffered = kBufferBytes / static_cast<int64_t>(sizeof(T));
  const bool woven = stream && (how == kInterleave || how == kDeinterleave) && in.size * out.size <= kBuffered;
  auto work = [&](const T* a, T* b) {
    switch (how) {
      case kRun:
        return CopyRun(a, b, static_cast<size_t>(run.size) * sizeof(T), stream);
      case kInterleave: {
        if constexpr (sizeof(T) == 2) {
          if (woven && out.size == 2 && StreamPairs(a, a + out.from, in.size, b)) return;
        }
        T* to = woven ? buffer : b;
        if (out.size == 2) {
          Interleave<T, 2>(a, out.from, in.size, to);
        } else {
          Interleave<T, 4>(a, out.from, in.size, to);
        }
        if (woven) CopyRun(buffer, b, static_cast<size_t>(in.size * out.size) * sizeof(T), true);
        return;
      }
      case kDeinterleave: {
        if constexpr (sizeof(T) == 2) {
          if (woven && in.size == 2 && StreamPairsApart(a, out.size, b, b + in.to)) return;
        }
        T* to = woven ? buffer : b;
        const int64_t pitch = woven ? out.size : in.to;
        if (in.size == 2) {
          Deinterleave<T, 2>(a, out.size, to, pitch);
        } else {
          Deinterleave<T, 4>(a, out.size, to, pitch);
        }
        for (int64_t k = 0; woven && k < in.size; ++k) {
          CopyRun(buffer + k * out.size, b + k * in.to, static_cast<size_t>(out.size) * sizeof(T), true);
        }
        return;
      }
      case kTranspose:
        return Transpose(a, out.from, b, in.to, in.size, out.size);
      case kSingle:
        *b = *a;
        return;
    }
  };
  // The innermost of the other loops is walked here, the rest by an odometer.
  Loop last{1, 0, 0};
  if (!outer.empty()) {
    last = outer.back();
    outer.pop_back();
  }
  // Pieces that lie apart are not foreseen by the processor: it is told of the one some places ahead.
  const int64_t rows = how == kInterleave ? out.size : 1, pitch = how == kInterleave ? out.from : 0;
  const int64_t piece = how == kRun            ? run.size
                        : how == kInterleave   ? in.size
                        : how == kDeinterleave ? in.size * out.size
                                               : 0;
  const int64_t lines = piece * static_cast<int64_t>(sizeof(T)) <= 1024 ? piece * static_cast<int64_t>(sizeof(T)) : 0;
  constexpr int64_t kAhead = 4;
  std::vector<int64_t> at(outer.size(), 0);
  for (;;) {
    const T* a = source;
    T* b = target;
    for (int64_t i = 0; i < last.size; ++i, a += last.from, b += last.to) {
      if (stream && i + kAhead < last.size) {
        for (int64_t k = 0; k < rows; ++k) {
          const char* ahead = reinterpret_cast<const char*>(a + kAhead * last.from + k * pitch);
          for (int64_t at_byte = 0; at_byte < lines; at_byte += 64) __builtin_prefetch(ahead + at_byte);
        }
      }
      work(a, b);
    }
    size_t d = outer.size();
    while (d > 0) {
      const Loop& l = outer[d - 1];
      source += l.from;
      target += l.to;
      if (++at[d - 1] < l.size) break;
      source -= l.size * l.from;
      target -= l.size * l.to;
      at[--d] = 0;
    }
    if (d == 0) return;
  }
}

template <typename T>
void Relayout::Copy(const T* source, T* target) const {
  if (boxed_) {
    const bool stream = to_.num_elements() * static_cast<int64_t>(sizeof(T)) > kStreamBytes;
    for (const Box& box : boxes_) CopyBox(box, stream, source, target);
    if (stream) EndStream();
    return;
  }
  DimVector at(from_.dims().size(), 0);
  for (int64_t n = 0; n < from_.num_logical(); ++n) {
    target[to_.LinearIndex(at)] = source[from_.LinearIndex(at)];
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < from_.dims()[d]) break;
      at[d] = 0;
    }
  }
}

void Relayout::CopyUnits(int64_t bytes, const std::byte* source, std::byte* target) const {
  switch (bytes) {
    case 1:
      return Copy(reinterpret_cast<const uint8_t*>(source), reinterpret_cast<uint8_t*>(target));
    case 2:
      return Copy(reinterpret_cast<const uint16_t*>(source), reinterpret_cast<uint16_t*>(target));
    case 4:
      return Copy(reinterpret_cast<const uint32_t*>(source), reinterpret_cast<uint32_t*>(target));
    case 8:
      return Copy(reinterpret_cast<const uint64_t*>(source), reinterpret_cast<uint64_t*>(target));
    default:
      return Copy(reinterpret_cast<const Wide*>(source), reinterpret_cast<Wide*>(target));
  }
}

void Relayout::Run(const void* source, void* target) const {
  const std::byte* in = static_cast<const std::byte*>(source);
  std::byte* out = static_cast<std::byte*>(target);
  if (fill_ == PaddingFill::kZero && to_.has_padding()) std::memset(out, 0, static_cast<size_t>(to_.byte_size()));
  std::vector<std::byte> unpacked, packed;
  if (IsPacked(from_.element_bits())) {
    unpacked.resize(static_cast<size_t>(from_.num_elements()));
    Unpack(in, from_.num_elements(), static_cast<int>(from_.element_bits()), IsSigned(type_), unpacked.data());
    in = unpacked.data();
  }
  if (!IsPacked(to_.element_bits())) return CopyUnits(ByteWidth(type_), in, out);
  // Padding inside a byte that is written keeps what the target held.
  packed.resize(static_cast<size_t>(to_.num_elements()));
  if (to_.has_padding()) Unpack(out, to_.num_elements(), static_cast<int>(to_.element_bits()), false, packed.data());
  CopyUnits(1, in, packed.data());
  Pack(packed.data(), to_.num_elements(), static_cast<int>(to_.element_bits()), out);
}

}  // namespace backplane
