// Private to the *_simd.cc files. Each of them is compiled several times, for different vector widths, into a namespace
// named after the level. Such a file must not include anything that defines inline functions (no standard library, no
// abseil): the linker keeps one copy of each inline function, which could be one that only newer machines can run.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_SIMD_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_SIMD_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(BP_SIMD_AVX512BF16)
#define BP_SIMD avx512bf16
#define BP_VECTOR_BYTES 64
#elif defined(BP_SIMD_AVX512)
#define BP_SIMD avx512
#define BP_VECTOR_BYTES 64
#elif defined(BP_SIMD_AVX2)
#define BP_SIMD avx2
#define BP_VECTOR_BYTES 32
#else
#define BP_SIMD base
#define BP_VECTOR_BYTES 16
#endif

#if defined(__AVX__)
#include <immintrin.h>
#endif

#define BP_INLINE inline __attribute__((always_inline))

namespace backplane::engine::BP_SIMD {
namespace {

constexpr int kVectorBytes = BP_VECTOR_BYTES;

template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(BP_VECTOR_BYTES)));
  // For loads and stores at any address.
  typedef T unaligned __attribute__((vector_size(BP_VECTOR_BYTES), aligned(1), may_alias));
  static constexpr int kLanes = BP_VECTOR_BYTES / sizeof(T);
};

template <typename T>
using Vec = typename VectorOf<T>::type;

template <typename T>
BP_INLINE Vec<T> Load(const T* p) {
  return *reinterpret_cast<const typename VectorOf<T>::unaligned*>(p);
}
template <typename T>
BP_INLINE void Store(T* p, Vec<T> v) {
  *reinterpret_cast<typename VectorOf<T>::unaligned*>(p) = v;
}
template <typename T>
BP_INLINE Vec<T> Broadcast(T x) {
  return x - Vec<T>{};  // which, unlike x + 0, is x for every x: no instruction remains of it
}

// The bits of a bf16, which can be widened exactly.
struct Bf16 {
  uint16_t bits;
};
typedef _Float16 F16;

BP_INLINE float ToFloat(float x) { return x; }
BP_INLINE double ToFloat(double x) { return x; }
BP_INLINE float ToFloat(F16 x) { return static_cast<float>(x); }
BP_INLINE float ToFloat(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
BP_INLINE Bf16 ToBf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return Bf16{static_cast<uint16_t>((bits >> 16) | 0x40)};  // NaN, made quiet
  return Bf16{static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

// Loads a register of f32 from consecutive elements of type S, or of f64 from f64.
template <typename T, typename S>
BP_INLINE Vec<T> LoadAs(const S* p);
template <>
BP_INLINE Vec<float> LoadAs<float, float>(const float* p) {
  return Load(p);
}
template <>
BP_INLINE Vec<double> LoadAs<double, double>(const double* p) {
  return Load(p);
}
template <>
BP_INLINE Vec<float> LoadAs<float, Bf16>(const Bf16* p) {
#if BP_VECTOR_BYTES == 64
  return (Vec<float>)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16);
#elif BP_VECTOR_BYTES == 32
  return (Vec<float>)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16);
#else
  Vec<float> v;
  for (int i = 0; i < 4; ++i) v[i] = ToFloat(p[i]);
  return v;
#endif
}
template <>
BP_INLINE Vec<float> LoadAs<float, F16>(const F16* p) {
#if BP_VECTOR_BYTES == 64
  return (Vec<float>)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#elif BP_VECTOR_BYTES == 32
  return (Vec<float>)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#else
  Vec<float> v;
  for (int i = 0; i < 4; ++i) v[i] = ToFloat(p[i]);
  return v;
#endif
}

template <typename T>
BP_INLINE T HorizontalSum(Vec<T> v) {
  T lanes[VectorOf<T>::kLanes];
  memcpy(lanes, &v, sizeof(v));
  for (int width = VectorOf<T>::kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

BP_INLINE int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
BP_INLINE int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace
}  // namespace backplane::engine::BP_SIMD

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_SIMD_H_
