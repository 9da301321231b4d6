#include "sdk/engine/library/fft_pass.h"

#include <cstring>

#include "sdk/engine/library/targets.h"

#define BP_INLINE inline __attribute__((always_inline))

namespace backplane::engine {
namespace {

// Registers of B bytes. Units of work are of 64 bytes (kFftWidth numbers), done in as many registers as that takes:
// code for wider vectors than the machine has is slow to compile and spills.
template <int B, typename T>
struct Register {
  typedef T type __attribute__((vector_size(B)));
  typedef T unaligned __attribute__((vector_size(B), aligned(alignof(T)), may_alias));
};
template <int B, typename T>
using V = typename Register<B, T>::type;
template <int B, typename T>
BP_INLINE V<B, T> Load(const T* p) {
  return *reinterpret_cast<const typename Register<B, T>::unaligned*>(p);
}
template <int B, typename T>
BP_INLINE void Store(T* p, V<B, T> v) {
  *reinterpret_cast<typename Register<B, T>::unaligned*>(p) = v;
}

template <int B, typename T>
constexpr int64_t kLanes = B / static_cast<int64_t>(sizeof(T));

// Forward transform of R complex numbers in place.
template <int R, int B, typename T>
struct Butterfly;

template <int B, typename T>
struct Butterfly<2, B, T> {
  static BP_INLINE void Run(V<B, T>* r, V<B, T>* i, const FftPass<T>&) {
    const V<B, T> ar = r[0], ai = i[0];
    r[0] = ar + r[1], i[0] = ai + i[1];
    r[1] = ar - r[1], i[1] = ai - i[1];
  }
};

template <int B, typename T>
struct Butterfly<3, B, T> {
  static BP_INLINE void Run(V<B, T>* r, V<B, T>* i, const FftPass<T>&) {
    constexpr T kSin = static_cast<T>(0.866025403784438646763723170752936183L);
    const V<B, T> tr = r[1] + r[2], ti = i[1] + i[2], sr = (r[1] - r[2]) * kSin, si = (i[1] - i[2]) * kSin;
    const V<B, T> mr = r[0] - tr * T(0.5), mi = i[0] - ti * T(0.5);
    r[0] += tr, i[0] += ti;
    r[1] = mr + si, i[1] = mi - sr;
    r[2] = mr - si, i[2] = mi + sr;
  }
};

template <int B, typename T>
BP_INLINE void Four(V<B, T>& r0, V<B, T>& i0, V<B, T>& r1, V<B, T>& i1, V<B, T>& r2, V<B, T>& i2, V<B, T>& r3,
                    V<B, T>& i3) {
  const V<B, T> ar = r0 + r2, ai = i0 + i2, br = r0 - r2, bi = i0 - i2, cr = r1 + r3, ci = i1 + i3, dr = r1 - r3,
                di = i1 - i3;
  r0 = ar + cr, i0 = ai + ci;
  r2 = ar - cr, i2 = ai - ci;
  r1 = br + di, i1 = bi - dr;
  r3 = br - di, i3 = bi + dr;
}

template <int B, typename T>
struct Butterfly<4, B, T> {
  static BP_INLINE void Run(V<B, T>* r, V<B, T>* i, const FftPass<T>&) {
    Four<B, T>(r[0], i[0], r[1], i[1], r[2], i[2], r[3], i[3]);
  }
};

template <int B, typename T>
struct Butterfly<5, B, T> {
  static BP_INLINE void Run(V<B, T>* r, V<B, T>* i, const FftPass<T>&) {
    constexpr T c1 = static_cast<T>(0.309016994374947424102293417182819059L),
                c2 = static_cast<T>(-0.809016994374947424102293417182819059L);
    constexpr T s1 = static_cast<T>(0.951056516295153572116439333379382143L),
                s2 = static_cast<T>(0.587785252292473129168705954639072769L);
    const V<B, T> ar = r[1] + r[4], ai = i[1] + i[4], br = r[2] + r[3], bi = i[2] + i[3];
    const V<B, T> dr = r[1] - r[4], di = i[1] - i[4], er = r[2] - r[3], ei = i[2] - i[3];
    const V<B, T> mr = r[0] + ar * c1 + br * c2, mi = i[0] + ai * c1 + bi * c2, nr = r[0] + ar * c2 + br * c1,
                  ni = i[0] + ai * c2 + bi * c1;
    const V<B, T> pr = dr * s1 + er * s2, pi = di * s1 + ei * s2, qr = dr * s2 - er * s1, qi = di * s2 - ei * s1;
    r[0] += ar + br, i[0] += ai + bi;
    r[1] = mr + pi, i[1] = mi - pr;
    r[4] = mr - pi, i[4] = mi + pr;
    r[2] = nr + qi, i[2] = ni - qr;
    r[3] = nr - qi, i[3] = ni + qr;
  }
};

template <int B, typename T>
struct Butterfly<8, B, T> {
  static BP_INLINE void Run(V<B, T>* r, V<B, T>* i, const FftPass<T>&) {
    constexpr T h = static_cast<T>(0.707106781186547524400844362104849039L);
    Four<B, T>(r[0], i[0], r[2], i[2], r[4], i[4], r[6], i[6]);
    Four<B, T>(r[1], i[1], r[3], i[3], r[5], i[5], r[7], i[7]);
    const V<B, T> o1r = (r[3] + i[3]) * h, o1i = (i[3] - r[3]) * h, o2r = i[5], o2i = -r[5], o3r = (i[7] - r[7]) * h,
                  o3i = -(r[7] + i[7]) * h;
    const V<B, T> o0r = r[1], o0i = i[1], e0r = r[0], e0i = i[0], e1r = r[2], e1i = i[2], e2r = r[4], e2i = i[4],
                  e3r = r[6], e3i = i[6];
    r[0] = e0r + o0r, i[0] = e0i + o0i, r[4] = e0r - o0r, i[4] = e0i - o0i;
    r[1] = e1r + o1r, i[1] = e1i + o1i, r[5] = e1r - o1r, i[5] = e1i - o1i;
    r[2] = e2r + o2r, i[2] = e2i + o2i, r[6] = e2r - o2r, i[6] = e2i - o2i;
    r[3] = e3r + o3r, i[3] = e3i + o3i, r[7] = e3r - o3r, i[7] = e3i - o3i;
  }
};

// Any radix up to kMaxRadix, by the definition, pairing terms j and radix - j.
template <int B, typename T>
struct Butterfly<0, B, T> {
  static BP_INLINE void Run(V<B, T>* r, V<B, T>* i, const FftPass<T>& pass) {
    const int n = pass.radix, half = n / 2;  // n is odd here
    V<B, T> sr[kMaxRadix / 2 + 1], si[kMaxRadix / 2 + 1], dr[kMaxRadix / 2 + 1], di[kMaxRadix / 2 + 1];
    V<B, T> sum_r = r[0], sum_i = i[0];
    for (int j = 1; j <= half; ++j) {
      sr[j] = r[j] + r[n - j], si[j] = i[j] + i[n - j];
      dr[j] = r[j] - r[n - j], di[j] = i[j] - i[n - j];
      sum_r += sr[j], sum_i += si[j];
    }
    for (int k = 1; k <= half; ++k) {
      V<B, T> ar = r[0], ai = i[0], br = {}, bi = {};
      for (int j = 1, at = k; j <= half; ++j, at = at + k >= n ? at + k - n : at + k) {
        ar += sr[j] * pass.root_r[at], ai += si[j] * pass.root_r[at];
        br += dr[j] * pass.root_i[at], bi += di[j] * pass.root_i[at];
      }
      r[k] = ar - bi, i[k] = ai + br;  // r[0] and i[0] are still the inputs; others are in s and d
      r[n - k] = ar + bi, i[n - k] = ai - br;
    }
    r[0] = sum_r, i[0] = sum_i;
  }
};

template <int B, typename T>
BP_INLINE void Times(V<B, T>& r, V<B, T>& i, V<B, T> wr, V<B, T> wi) {
  const V<B, T> t = r * wr - i * wi;
  i = r * wi + i * wr;
  r = t;
}

template <int R, int B, typename T>
BP_INLINE void Wide(const FftPass<T>& pass, const T* xr, const T* xi, T* yr, T* yi, int64_t begin, int64_t end) {
  const int radix = R == 0 ? pass.radix : R;
  const int64_t w = kFftWidth<T>, s = pass.s, m = pass.m, blocks = (s + w - 1) / w;
  for (int64_t p = begin / blocks, block = begin % blocks, left = end - begin; left > 0; ++p, block = 0) {
    const int64_t stop = left < blocks - block ? block + left : blocks;
    left -= stop - block;
    for (; block < stop; ++block) {
      int64_t q = block * w + w <= s ? block * w : s - w;  // the last unit overlaps the one before
#pragma GCC unroll 1
      for (const int64_t stop_q = q + w; q < stop_q; q += kLanes<B, T>) {
        V<B, T> r[R == 0 ? kMaxRadix : R], i[R == 0 ? kMaxRadix : R];
        for (int k = 0; k < radix; ++k) {
          const int64_t at = (p + m * k) * s + q;
          r[k] = Load<B>(xr + at), i[k] = Load<B>(xi + at);
        }
        Butterfly<R, B, T>::Run(r, i, pass);
        for (int k = 0; k < radix; ++k) {
          if (k > 0 && m > 1)
            Times<B, T>(r[k], i[k], V<B, T>{} + pass.wr[(k - 1) * m + p], V<B, T>{} + pass.wi[(k - 1) * m + p]);
          const int64_t at = (radix * p + k) * s + q;
          Store<B, T>(yr + at, r[k]), Store<B, T>(yi + at, i[k]);
        }
      }
    }
  }
}

// s below a register's width: a register holds several p.
template <int R, int S, int B, typename T>
BP_INLINE void NarrowOf(const FftPass<T>& pass, const T* xr, const T* xi, T* yr, T* yi, int64_t begin, int64_t end) {
  const int radix = R == 0 ? pass.radix : R;
  const int64_t s = S == 0 ? pass.s : S, m = pass.m, many = kFftWidth<T> / s;
  for (int64_t p = begin; p < end; p += many) {
    T to_r[R == 0 ? kMaxRadix : R][kFftWidth<T>], to_i[R == 0 ? kMaxRadix : R][kFftWidth<T>];
#pragma GCC unroll 1
    for (int64_t at = 0; at < kFftWidth<T>; at += kLanes<B, T>) {
      V<B, T> r[R == 0 ? kMaxRadix : R], i[R == 0 ? kMaxRadix : R];
      for (int k = 0; k < radix; ++k)
        r[k] = Load<B>(xr + m * k * s + p * s + at), i[k] = Load<B>(xi + m * k * s + p * s + at);
      Butterfly<R, B, T>::Run(r, i, pass);
      for (int k = 0; k < radix; ++k) {
        if (k > 0 && m > 1)
          Times<B, T>(r[k], i[k], Load<B>(pass.wr + (k - 1) * m * s + p * s + at),
                      Load<B>(pass.wi + (k - 1) * m * s + p * s + at));
        Store<B, T>(to_r[k] + at, r[k]), Store<B, T>(to_i[k] + at, i[k]);
      }
    }
    const int64_t count = end - p < many ? end - p : many;
    for (int64_t c = 0; c < count; ++c) {
      T* dr = yr + radix * (p + c) * s;
      T* di = yi + radix * (p + c) * s;
      for (int k = 0; k < radix; ++k) {
        if constexpr (S != 0) {
          memcpy(dr + k * s, to_r[k] + c * s, S * sizeof(T));
          memcpy(di + k * s, to_i[k] + c * s, S * sizeof(T));
        } else {
          for (int64_t q = 0; q < s; ++q) dr[k * s + q] = to_r[k][c * s + q], di[k * s + q] = to_i[k][c * s + q];
        }
      }
    }
  }
}

// kFew: without code of their own for the common widths; for the oldest machines, to keep this file short to compile.
template <int R, bool kFew, int B, typename T>
BP_INLINE void AnyWidth(const FftPass<T>& pass, const T* xr, const T* xi, T* yr, T* yi, int64_t begin, int64_t end) {
  if (pass.s >= kFftWidth<T>) return Wide<R, B>(pass, xr, xi, yr, yi, begin, end);
  if (pass.s == 1) return NarrowOf<R, 1, B>(pass, xr, xi, yr, yi, begin, end);
  if constexpr (!kFew) {
    if (pass.s == 4) return NarrowOf<R, 4, B>(pass, xr, xi, yr, yi, begin, end);
    if constexpr (sizeof(T) == 4) {
      if (pass.s == 8) return NarrowOf<R, 8, B>(pass, xr, xi, yr, yi, begin, end);
    }
  }
  NarrowOf<R, 0, B>(pass, xr, xi, yr, yi, begin, end);
}

template <bool kFew, int B, typename T>
BP_INLINE void AnyRadix(const FftPass<T>& pass, const T* xr, const T* xi, T* yr, T* yi, int64_t begin, int64_t end) {
  switch (pass.radix) {
    case 2:
      return AnyWidth<2, kFew, B>(pass, xr, xi, yr, yi, begin, end);
    case 3:
      return AnyWidth<3, kFew, B>(pass, xr, xi, yr, yi, begin, end);
    case 4:
      return AnyWidth<4, kFew, B>(pass, xr, xi, yr, yi, begin, end);
    case 5:
      return AnyWidth<5, kFew, B>(pass, xr, xi, yr, yi, begin, end);
    case 8:
      return AnyWidth<8, kFew, B>(pass, xr, xi, yr, yi, begin, end);
    default:
      return AnyWidth<0, kFew, B>(pass, xr, xi, yr, yi, begin, end);
  }
}

// BP_TARGETS by hand, for the base form differs.
#define BP_PASS(NAME, TARGET, FEW, B, T)                                                                         \
  TARGET void NAME(const FftPass<T>& pass, const T* xr, const T* xi, T* yr, T* yi, int64_t begin, int64_t end) { \
    AnyRadix<FEW, B>(pass, xr, xi, yr, yi, begin, end);                                                          \
  }
BP_PASS(PassBase, , true, 16, float)
BP_PASS(PassBase, , true, 16, double)
BP_PASS(PassAvx2, BP_AVX2_TARGET, false, 32, float)
BP_PASS(PassAvx2, BP_AVX2_TARGET, false, 32, double)
BP_PASS(PassAvx512, BP_AVX512_TARGET, false, 64, float)
BP_PASS(PassAvx512, BP_AVX512_TARGET, false, 64, double)

template <typename T>
void Dispatch(const FftPass<T>& pass, const T* xr, const T* xi, T* yr, T* yi, int64_t begin, int64_t end) {
  switch (HostSimdLevel()) {
    case SimdLevel::kBase:
      return PassBase(pass, xr, xi, yr, yi, begin, end);
    case SimdLevel::kAvx2:
      return PassAvx2(pass, xr, xi, yr, yi, begin, end);
    default:
      return PassAvx512(pass, xr, xi, yr, yi, begin, end);
  }
}

}  // namespace

void RunFftPass(const FftPass<float>& pass, const float* xr, const float* xi, float* yr, float* yi, int64_t begin,
                int64_t end) {
  Dispatch(pass, xr, xi, yr, yi, begin, end);
}
void RunFftPass(const FftPass<double>& pass, const double* xr, const double* xi, double* yr, double* yi, int64_t begin,
                int64_t end) {
  Dispatch(pass, xr, xi, yr, yi, begin, end);
}

}  // namespace backplane::engine
