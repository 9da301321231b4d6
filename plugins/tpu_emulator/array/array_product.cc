#include "plugins/tpu_emulator/array/array_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace backplane::tpu {
namespace {

// A tile of the result that stays in registers: rows of the left operand by columns of the right one.
constexpr int64_t kRows = 6, kColumns = 16;

// acc[r][c] = the chunk's sum for rows a (lda apart) and one panel of the right operand (k rows of kColumns).
using ChunkKernel = void (*)(const float* a, int64_t lda, const float* panel, int64_t k, float* acc);

// The definition, also for hosts without fused multiply-add.
template <int64_t kCount>
void PlainChunk(const float* a, int64_t lda, const float* panel, int64_t k, float* acc) {
  std::fill(acc, acc + kCount * kColumns, 0.0f);
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t r = 0; r < kCount; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        acc[r * kColumns + c] = std::fma(a[r * lda + i], panel[i * kColumns + c], acc[r * kColumns + c]);
      }
    }
  }
}

#if defined(__x86_64__)
template <int64_t kCount>
__attribute__((target("avx2,fma"))) void VectorChunk(const float* a, int64_t lda, const float* panel, int64_t k,
                                                     float* acc) {
  __m256 sum[kCount][2];
  for (int64_t r = 0; r < kCount; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  for (int64_t i = 0; i < k; ++i) {
    const __m256 b0 = _mm256_loadu_ps(panel + i * kColumns), b1 = _mm256_loadu_ps(panel + i * kColumns + 8);
#pragma GCC unroll 6
    for (int64_t r = 0; r < kCount; ++r) {
      const __m256 x = _mm256_broadcast_ss(a + r * lda + i);
      sum[r][0] = _mm256_fmadd_ps(x, b0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(x, b1, sum[r][1]);
    }
  }
  for (int64_t r = 0; r < kCount; ++r) {
    _mm256_storeu_ps(acc + r * kColumns, sum[r][0]);
    _mm256_storeu_ps(acc + r * kColumns + 8, sum[r][1]);
  }
}
#endif

// By number of rows, 1 to kRows.
struct Kernels {
  ChunkKernel of[kRows + 1];
};
const Kernels& HostKernels() {
  static constexpr Kernels kPlain = {
      {nullptr, PlainChunk<1>, PlainChunk<2>, PlainChunk<3>, PlainChunk<4>, PlainChunk<5>, PlainChunk<6>}};
#if defined(__x86_64__)
  static constexpr Kernels kVector = {
      {nullptr, VectorChunk<1>, VectorChunk<2>, VectorChunk<3>, VectorChunk<4>, VectorChunk<5>, VectorChunk<6>}};
  static const bool vector = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (vector) return kVector;
#endif
  return kPlain;
}

// Part number `part` (0 leading, 1, 2) of each value.
void SplitPart(const float* x, int64_t count, int part, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    float rest = x[i], piece = RoundToBf16(rest);
    for (int p = 0; p < part; ++p) {
      rest = std::isfinite(piece) && std::isfinite(rest) ? rest - piece : 0.0f;
      piece = RoundToBf16(rest);
    }
    out[i] = piece;
  }
}

// One pass of one matrix: rows [row_begin, row_end) of out, set (first) or added to.
void Pass(const ArrayProductShape& s, const float* lhs, const float* rhs, float* out, int64_t row_begin,
          int64_t row_end, bool first) {
  const Kernels& kernels = HostKernels();
  const int64_t columns = (s.n + kColumns - 1) / kColumns * kColumns;
  std::vector<float> panels(static_cast<size_t>(columns * std::min(s.side, s.k)));
  std::vector<float> sums;  // of this pass, while another one's total is in `out`
  float* total = out;
  if (!first) {
    sums.resize(static_cast<size_t>((row_end - row_begin) * s.n));
    total = sums.data() - row_begin * s.n;
  }
  float acc[kRows * kColumns];
  for (int64_t k0 = 0; k0 < s.k; k0 += s.side) {
    const int64_t chunk = std::min(s.side, s.k - k0);
    for (int64_t n0 = 0; n0 < columns; n0 += kColumns) {
      float* panel = panels.data() + n0 * chunk;
      const int64_t width = std::min(kColumns, s.n - n0);
      for (int64_t i = 0; i < chunk; ++i) {
        const float* row = rhs + (k0 + i) * s.n + n0;
        std::copy(row, row + width, panel + i * kColumns);
        std::fill(panel + i * kColumns + width, panel + (i + 1) * kColumns, 0.0f);
      }
    }
    for (int64_t m = row_begin; m < row_end; m += kRows) {
      const int64_t rows = std::min(kRows, row_end - m);
      for (int64_t n0 = 0; n0 < columns; n0 += kColumns) {
        kernels.of[rows](lhs + m * s.k + k0, s.k, panels.data() + n0 * chunk, chunk, acc);
        const int64_t width = std::min(kColumns, s.n - n0);
        for (int64_t r = 0; r < rows; ++r) {
          float* to = total + (m + r) * s.n + n0;
          const float* from = acc + r * kColumns;
          if (k0 == 0) {
            std::copy(from, from + width, to);
          } else {
            for (int64_t c = 0; c < width; ++c) to[c] += from[c];
          }
        }
      }
    }
  }
  if (!first) {
    for (int64_t i = row_begin * s.n; i < row_end * s.n; ++i) out[i] += total[i];
  }
}

}  // namespace

float RoundToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  if (std::isnan(x)) {
    bits = (bits | 0x00400000u) & 0xffff0000u;
  } else {
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  }
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

void ArrayProduct(const ArrayProductShape& s, const float* lhs, const float* rhs, float* out, int threads) {
  const int64_t lhs_size = s.batch * s.m * s.k, rhs_size = s.batch * s.k * s.n;
  if (s.batch * s.m * s.n == 0) return;
  if (s.k == 0) {
    std::fill(out, out + s.batch * s.m * s.n, 0.0f);
    return;
  }
  // The parts of each operand that are needed, and the products of them, smallest first.
  using Pairs = std::vector<std::pair<int, int>>;
  const Pairs pairs = s.passes == 6   ? Pairs{{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}}
                      : s.passes == 3 ? Pairs{{1, 0}, {0, 1}, {0, 0}}
                                      : Pairs{{0, 0}};
  const int parts = s.passes == 6 ? 3 : s.passes == 3 ? 2 : s.passes == 1 ? 1 : 0;
  std::vector<std::unique_ptr<float[]>> left, right;
  for (int p = 0; p < parts; ++p) {
    left.emplace_back(new float[static_cast<size_t>(lhs_size)]);
    right.emplace_back(new float[static_cast<size_t>(rhs_size)]);
    SplitPart(lhs, lhs_size, p, left.back().get());
    SplitPart(rhs, rhs_size, p, right.back().get());
  }
  auto rows = [&](int64_t begin, int64_t end) {  // of all batches' rows
    for (int64_t row = begin; row < end;) {
      const int64_t b = row / s.m, m0 = row % s.m, m1 = std::min(s.m, m0 + (end - row));
      bool first = true;
      for (const auto& [l, r] : pairs) {
        const float* a = (parts == 0 ? lhs : left[static_cast<size_t>(l)].get()) + b * s.m * s.k;
        const float* w = (parts == 0 ? rhs : right[static_cast<size_t>(r)].get()) + b * s.k * s.n;
        Pass(s, a, w, out + b * s.m * s.n, m0, m1, first);
        first = false;
      }
      row += m1 - m0;
    }
  };
  const int64_t all = s.batch * s.m;
  const double work = static_cast<double>(all) * static_cast<double>(s.n) * static_cast<double>(s.k);
  // A thread is worth its start from some millions of multiply-adds on.
  const int64_t shares = std::clamp<int64_t>(static_cast<int64_t>(work / 4e6), 1, std::min<int64_t>(threads, all));
  std::vector<std::thread> helpers;
  for (int64_t t = 1; t < shares; ++t) helpers.emplace_back(rows, all * t / shares, all * (t + 1) / shares);
  rows(0, all / shares);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace backplane::tpu
