// The rare cases of the elementary functions, compiled ahead of time.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "sdk/engine/jit/vector_math_runtime.h"

namespace backplane::engine::jit {
namespace {

// 2 over pi times powers of two, modulo 4: rows of four doubles that add up, row i for numbers whose exponent is
// i + kFirstExponent.
constexpr int kFirstExponent = 16;
constexpr int kRows = 1024 - kFirstExponent;

const double* TwoOverPiTable() {
  static const double* const table = [] {
    // 2 over pi as a binary fraction.
    static const uint64_t kDigits[20] = {
        0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
        0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
        0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
    // Digit j, counted from 1, has the weight 2^-j.
    auto digit = [](int j) {
      return j < 1 || j > 1280 ? uint64_t{0} : (kDigits[(j - 1) / 64] >> (63 - (j - 1) % 64)) & 1;
    };
    double* t = new double[4 * kRows];
    for (int row = 0; row < kRows; ++row) {
      // The number is a whole m in [2^52, 2^53) times 2^scale.
      const int scale = row + kFirstExponent - 52;
      // 2^scale * 2/pi modulo 4: digits with the weights 2^1, 2^0, 2^-1, ... in four groups of 53.
      for (int part = 0; part < 4; ++part) {
        const int top = 1 - 53 * part;  // weight of the group's first digit
        uint64_t group = 0;
        for (int i = 0; i < 53; ++i) group = 2 * group + digit(scale - (top - i));
        double value = static_cast<double>(group);
        for (int i = 0; i < 52 - top; ++i) value *= 0.5;
        t[4 * row + part] = value;
      }
    }
    return t;
  }();
  return table;
}

struct Two {
  double hi, lo;
};
Two Sum(double x, double y) {
  const double hi = x + y, part = hi - x;
  return {hi, (x - (hi - part)) + (y - part)};
}
Two Product(double x, double y) {
  const double hi = x * y;
  return {hi, std::fma(x, y, -hi)};
}

struct Angle {
  double hi, lo;
  int64_t quadrant;
};

// Payne and Hanek: only those digits of 2 over pi are multiplied that matter for the exponent of x.
Angle Reduce(double x) {
  const double a = std::fabs(x);
  if (!(a >= 0x1p16)) return {0, 0, 0};
  if (std::isinf(a)) return {NAN, NAN, 0};
  uint64_t bits;
  std::memcpy(&bits, &a, sizeof(bits));
  const double* part = TwoOverPiTable() + 4 * ((bits >> 52) - (1023 + kFirstExponent));
  // The significand as a whole number in [2^52, 2^53).
  bits = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1075} << 52);
  double m;
  std::memcpy(&m, &bits, sizeof(m));
  // m times the row, modulo 4, largest parts first; each step is exact until the very last sums, because a fraction may
  // be as small as 2^-61 and is still to have 53 good digits.
  const Two p0 = Product(m, part[0]), p1 = Product(m, part[1]), p2 = Product(m, part[2]);
  const double k = p0.hi - 4 * std::rint(p0.hi * 0.25);
  const Two s = Sum(k, p0.lo), t = Sum(s.hi, p1.hi), u = Sum(s.lo, t.lo), v = Sum(u.hi, p1.lo), w = Sum(v.hi, p2.hi);
  const double lowest = (u.lo + v.lo) + (w.lo + std::fma(m, part[3], p2.lo));
  const double n = std::rint(t.hi);
  Two fraction = Sum(t.hi - n, w.hi);
  fraction = Sum(fraction.hi, fraction.lo + lowest);
  // Times pi/2. The low part can carry the fraction past a half; harmless, the polynomials reach a little further.
  Two r = Product(fraction.hi, 0x1.921fb54442d18p+0);
  r.lo = std::fma(fraction.hi, 0x1.1a62633145c07p-54, r.lo);
  r.lo = std::fma(fraction.lo, 0x1.921fb54442d18p+0, r.lo);
  r = Sum(r.hi, r.lo);
  const int64_t quadrant = static_cast<int64_t>(n);
  return x < 0 ? Angle{-r.hi, -r.lo, -quadrant} : Angle{r.hi, r.lo, quadrant};
}

}  // namespace

void ReduceAngleF64(const double* x, double* hi, double* lo, int64_t* quadrant, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const Angle a = Reduce(x[i]);
    hi[i] = a.hi;
    lo[i] = a.lo;
    quadrant[i] = a.quadrant;
  }
}

void ReduceAngleF32(const float* x, float* hi, float* lo, int32_t* quadrant, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const Angle a = Reduce(x[i]);
    hi[i] = static_cast<float>(a.hi);
    lo[i] = 0;
    quadrant[i] = static_cast<int32_t>(a.quadrant);
  }
}

void FmodF64(const double* x, const double* y, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = std::fmod(x[i], y[i]);
}

void FmodF32(const float* x, const float* y, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = std::fmod(x[i], y[i]);
}

}  // namespace backplane::engine::jit
