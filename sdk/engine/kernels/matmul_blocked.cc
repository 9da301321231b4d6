// Our own matrix multiplication: packs blocks into the accumulator type, multiplies register tiles, converts on the
// way out. Takes every type and stride. Without packing it is also the fastest thing for tiny matrices.
#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/engine/kernels/bf16_products.h"
#include "sdk/engine/kernels/gemm_simd.h"
#include "sdk/engine/kernels/matmul_internal.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

constexpr int64_t kBlockK = 256;                   // one panel's block stays in L1 or close to it
constexpr int64_t kBlockRows = 96;                 // rows packed at a time: 96 x 256 f64 is a fifth of a megabyte
constexpr int64_t kSmallOperandBytes = 64 * 1024;  // up to here operands are read where they are
constexpr int64_t kMaxAccumulatorColumns = 1024;
constexpr int64_t kTailTileBytes = 8 * 128;  // a whole tile: 8 rows of two 64-byte registers

ElementType AccumulatorOf(const MatmulProblem& p) {
  auto any = [&](auto test) { return test(p.lhs_type) || test(p.rhs_type) || test(p.out_type); };
  if (any([](ElementType t) { return t == ElementType::kF64 || t == ElementType::kC128; })) return ElementType::kF64;
  if (any([](ElementType t) { return IsFloat(t) || IsComplex(t); })) return ElementType::kF32;
  if (any([](ElementType t) { return ElementBytes(t) == 8; })) return ElementType::kS64;
  return ElementType::kS32;
}

// Same bits in memory as the accumulator's.
bool SameAsAccumulator(ElementType t, ElementType acc) {
  if (t == acc) return true;
  return (acc == ElementType::kS32 && t == ElementType::kU32) || (acc == ElementType::kS64 && t == ElementType::kU64);
}

class BlockedMatmul : public MatmulPlan {
 public:
  BlockedMatmul(const MatmulProblem& problem, int num_threads, bool small)
      : p_(problem), threads_(std::max(1, num_threads)), small_(small) {
    kernels_ = &PickSimd(base::gemm_kernels, avx2::gemm_kernels, avx512::gemm_kernels);
    acc_ = AccumulatorOf(p_);
    acc_bytes_ = static_cast<int64_t>(ElementBytes(acc_));
    complex_ = IsComplex(p_.lhs_type);
    switch (acc_) {
      case ElementType::kF32:
        tile_ = &kernels_->f32;
        break;
      case ElementType::kF64:
        tile_ = &kernels_->f64;
        break;
      case ElementType::kS32:
        tile_ = &kernels_->s32;
        break;
      default:
        tile_ = &kernels_->s64;
        break;
    }
    // A complex product is a real one of twice the depth and width: [re im] times [[re im] [-im re]].
    k_ = complex_ ? 2 * p_.k : p_.k;
    n_ = complex_ ? 2 * p_.n : p_.n;
    lhs_real_ = complex_ ? acc_ : p_.lhs_type;
    // Columns in the packed operand: whole wide panels, then perhaps a narrow one.
    const int64_t rest = n_ % tile_->wide;
    padded_n_ = n_ - rest + (rest == 0 ? 0 : rest <= tile_->narrow ? tile_->narrow : tile_->wide);

    const bool plain_b = !complex_ && SameAsAccumulator(p_.rhs_type, acc_) && p_.rhs_n_stride == 1;
    direct_b_ = plain_b && n_ == padded_n_ && p_.k * p_.n * acc_bytes_ <= kSmallOperandBytes;
    direct_a_ = (complex_ ? p_.lhs_k_stride == 1 : SameAsAccumulator(p_.lhs_type, acc_)) &&
                p_.m * k_ * acc_bytes_ <= kSmallOperandBytes;
    direct_c_ = p_.out_n_stride == 1 && (complex_ || SameAsAccumulator(p_.out_type, acc_));

    batches_ = BatchCount(p_);
    const int64_t work = p_.m * n_ * k_;
    const bool worth_splitting = threads_ > 1 && work * batches_ >= kMultipliesWorthSplitting;
    whole_batches_ = !worth_splitting || batches_ >= 2 * threads_;
    parallel_ = worth_splitting;
    if (!whole_batches_) {
      const int64_t wanted = 3 * threads_;
      chunk_rows_ = std::clamp<int64_t>(RoundUp(CeilDiv(p_.m, wanted), tile_->rows), tile_->rows, kBlockRows);
      chunk_columns_ = padded_n_;
      const int64_t row_chunks = CeilDiv(p_.m, chunk_rows_);
      if (row_chunks < 2 * threads_) {
        chunk_columns_ =
            std::max<int64_t>(tile_->wide, RoundUp(CeilDiv(padded_n_, CeilDiv(wanted, row_chunks)), tile_->wide));
      }
    } else {
      chunk_rows_ = kBlockRows;
      chunk_columns_ = padded_n_;
    }
    accumulator_columns_ = direct_c_ ? 0 : std::min<int64_t>({chunk_columns_, padded_n_, kMaxAccumulatorColumns});
    // Scratch: [packed rhs, shared][per thread: packed rhs of its own, packed lhs, accumulators, one tile]
    packed_b_bytes_ = direct_b_ ? 0 : RoundUp(k_ * padded_n_ * acc_bytes_, 64);
    shared_bytes_ = whole_batches_ || p_.rhs_is_constant ? 0 : packed_b_bytes_;
    own_b_bytes_ = whole_batches_ && !p_.rhs_is_constant ? packed_b_bytes_ : 0;
    own_a_bytes_ =
        direct_a_ ? 0
                  : RoundUp(std::min(RoundUp(p_.m, tile_->rows), kBlockRows) * std::min(k_, kBlockK) * acc_bytes_, 64);
    own_c_bytes_ = RoundUp(std::min(p_.m, kBlockRows) * accumulator_columns_ * acc_bytes_, 64);
    slot_bytes_ = own_b_bytes_ + own_a_bytes_ + own_c_bytes_ + kTailTileBytes;
  }

  absl::string_view name() const override { return small_ ? "small" : "blocked"; }
  size_t scratch_bytes() const override { return shared_bytes_ + slot_bytes_ * (parallel_ ? threads_ : 1); }

  size_t packed_rhs_bytes() const override { return p_.rhs_is_constant ? packed_b_bytes_ * batches_ : 0; }

  absl::Status PrepareRhs(const void* rhs, void* packed) const override {
    for (int64_t b = 0; b < batches_ && packed_rhs_bytes() > 0; ++b) {
      const char* source = At(rhs, ComputeBatchOffsets(p_, b).rhs, p_.rhs_type);
      PackPanels(source, static_cast<char*>(packed) + b * packed_b_bytes_, 0, padded_n_);
    }
    return absl::OkStatus();
  }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    if (p_.m == 0 || p_.n == 0 || batches_ == 0) return absl::OkStatus();
    char* slots = static_cast<char*>(scratch) + shared_bytes_;
    const bool prepacked = packed_rhs_bytes() > 0;
    auto packed_at = [&](int64_t b) { return static_cast<const char*>(rhs) + b * packed_b_bytes_; };
    if (whole_batches_) {
      auto run = [&](int64_t b, int slot) {
        const BatchOffsets o = ComputeBatchOffsets(p_, b);
        char* mine = slots + slot * slot_bytes_;
        const char* b_source = prepacked ? nullptr : At(rhs, o.rhs, p_.rhs_type);
        const char* panels = nullptr;
        if (prepacked) {
          panels = packed_at(b);
        } else if (!direct_b_) {
          PackPanels(b_source, mine, 0, padded_n_);
          panels = mine;
        }
        const char* a = At(lhs, o.lhs, p_.lhs_type);
        char* c = At(out, o.out, p_.out_type);
        for (int64_t row = 0; row < p_.m; row += kBlockRows) {
          const int64_t end = std::min(p_.m, row + kBlockRows);
          Block(a, b_source, panels, c, row, end, 0, padded_n_, mine + own_b_bytes_);
          if (epilogue != nullptr) epilogue->run(epilogue->context, b, row, end);
        }
      };
      if (pool == nullptr || !parallel_) {
        for (int64_t b = 0; b < batches_; ++b) run(b, 0);
      } else {
        pool->ParallelFor(batches_, run);
      }
      return absl::OkStatus();
    }
    auto parallel = [&](int64_t count, auto fn) {
      if (pool == nullptr) {
        for (int64_t i = 0; i < count; ++i) fn(i, 0);
      } else {
        pool->ParallelFor(count, fn);
      }
    };
    const int64_t row_chunks = CeilDiv(p_.m, chunk_rows_);
    const int64_t column_chunks = CeilDiv(padded_n_, chunk_columns_);
    for (int64_t b = 0; b < batches_; ++b) {
      const BatchOffsets o = ComputeBatchOffsets(p_, b);
      const char* b_source = prepacked ? nullptr : At(rhs, o.rhs, p_.rhs_type);
      const char* panels = nullptr;
      if (prepacked) {
        panels = packed_at(b);
      } else if (!direct_b_) {
        const int64_t step = tile_->wide * std::max<int64_t>(1, CeilDiv(padded_n_ / tile_->wide, 4 * threads_));
        parallel(CeilDiv(padded_n_, step), [&](int64_t i, int) {
          PackPanels(b_source, static_cast<char*>(scratch), i * step, std::min(padded_n_, (i + 1) * step));
        });
        panels = static_cast<char*>(scratch);
      }
      const char* a = At(lhs, o.lhs, p_.lhs_type);
      char* c = At(out, o.out, p_.out_type);
      parallel(row_chunks * column_chunks, [&](int64_t i, int slot) {
        const int64_t row = (i / column_chunks) * chunk_rows_, column = (i % column_chunks) * chunk_columns_;
        const int64_t row_end = std::min(p_.m, row + chunk_rows_);
        Block(a, b_source, panels, c, row, row_end, column, std::min(padded_n_, column + chunk_columns_),
              slots + slot * slot_bytes_);
        if (epilogue != nullptr && column_chunks == 1) epilogue->run(epilogue->context, b, row, row_end);
      });
      if (epilogue != nullptr && column_chunks != 1) {
        parallel(row_chunks, [&](int64_t i, int) {
          epilogue->run(epilogue->context, b, i * chunk_rows_, std::min(p_.m, (i + 1) * chunk_rows_));
        });
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t PanelWidth(int64_t column) const { return std::min<int64_t>(tile_->wide, padded_n_ - column); }

  // Columns [begin, end) of the right operand; a panel that starts at column j lies at j * k_.
  void PackPanels(const char* source, char* packed, int64_t begin, int64_t end) const {
    for (int64_t j = begin; j < end; j += tile_->wide) {
      const int64_t width = PanelWidth(j);
      const int64_t valid = std::min(width, n_ - j);
      char* panel = packed + j * k_ * acc_bytes_;
      if (valid < width) std::memset(panel, 0, k_ * width * acc_bytes_);
      if (complex_) {
        if (acc_ == ElementType::kF32) {
          PackComplex<float>(source, panel, j, width, valid);
        } else {
          PackComplex<double>(source, panel, j, width, valid);
        }
      } else {
        kernels_->convert(p_.rhs_type, At(source, j * p_.rhs_n_stride, p_.rhs_type), p_.rhs_k_stride, p_.rhs_n_stride,
                          acc_, panel, width, 1, k_, valid);
      }
    }
  }

  template <typename T>
  void PackComplex(const char* source, char* panel, int64_t j, int64_t width, int64_t valid) const {
    const T* s = reinterpret_cast<const T*>(source);
    T* d = reinterpret_cast<T*>(panel);
    for (int64_t q = 0; q < p_.k; ++q) {
      for (int64_t x = 0; x < valid; x += 2) {
        const T* z = s + 2 * (q * p_.rhs_k_stride + (j + x) / 2 * p_.rhs_n_stride);
        d[(2 * q) * width + x] = z[0];
        d[(2 * q) * width + x + 1] = z[1];
        d[(2 * q + 1) * width + x] = -z[1];
        d[(2 * q + 1) * width + x + 1] = z[0];
      }
    }
  }

  // Rows [row, row_end) (at most kBlockRows) by columns [column, column_end) of the output.
  void Block(const char* a, const char* b_source, const char* panels, char* c, int64_t row, int64_t row_end,
             int64_t column, int64_t column_end, char* mine) const {
    char* packed_a = mine;
    char* accumulators = mine + own_a_bytes_;
    char* tail_tile = accumulators + own_c_bytes_;
    const int64_t rows = row_end - row;
    const int64_t c_scale = complex_ ? 2 : 1;
    if (k_ == 0) {
      // An empty sum: through the accumulator of zeros, a tile at a time.
      std::memset(tail_tile, 0, kTailTileBytes);
      for (int64_t i = row; i < row_end; ++i)
        for (int64_t j = column; j < std::min(column_end, n_); ++j) {
          if (complex_) {
            std::memset(c + (2 * (i * p_.out_m_stride + j / 2 * p_.out_n_stride) + j % 2) * acc_bytes_, 0, acc_bytes_);
          } else {
            kernels_->convert_out(acc_, tail_tile, 0, p_.out_type,
                                  At(c, i * p_.out_m_stride + j * p_.out_n_stride, p_.out_type), 0, 1, 1, 1);
          }
        }
      return;
    }
    // With accumulators of our own, at most so many columns at a time; then A is packed again for the next ones.
    const int64_t step = direct_c_ ? column_end - column : accumulator_columns_;
    for (int64_t j0 = column; j0 < column_end; j0 += step) {
      const int64_t j1 = std::min(column_end, j0 + step);
      for (int64_t q = 0; q < k_; q += kBlockK) {
        const int64_t depth = std::min(kBlockK, k_ - q);
        if (!direct_a_) PackRows(a, packed_a, row, row_end, q, depth);
        for (int64_t j = j0; j < j1; j += tile_->wide) {
          const int64_t width = PanelWidth(j);
          const GemmTileFn run = width == tile_->wide ? tile_->run_wide : tile_->run_narrow;
          const char* b;
          int64_t bk;
          if (panels != nullptr) {
            b = panels + (j * k_ + q * width) * acc_bytes_;
            bk = width;
          } else {
            b = b_source + (q * p_.rhs_k_stride + j) * acc_bytes_;
            bk = p_.rhs_k_stride;
          }
          for (int64_t i = row; i < row_end; i += tile_->rows) {
            const int64_t height = std::min<int64_t>(tile_->rows, row_end - i);
            const char* ta;
            int64_t am, ak;
            if (!direct_a_) {
              ta = packed_a + (i - row) * depth * acc_bytes_;
              am = 1;
              ak = height;
            } else if (complex_) {
              ta = a + (2 * i * p_.lhs_m_stride + q) * acc_bytes_;
              am = 2 * p_.lhs_m_stride;
              ak = 1;
            } else {
              ta = a + (i * p_.lhs_m_stride + q * p_.lhs_k_stride) * acc_bytes_;
              am = p_.lhs_m_stride;
              ak = p_.lhs_k_stride;
            }
            if (!direct_c_) {
              run(height, depth, ta, am, ak, b, bk,
                  accumulators + ((i - row) * accumulator_columns_ + j - j0) * acc_bytes_, accumulator_columns_, q > 0);
              continue;
            }
            const int64_t cm = c_scale * p_.out_m_stride;
            char* tc = c + (i * cm + j) * acc_bytes_;
            if (j + width <= n_) {
              run(height, depth, ta, am, ak, b, bk, tc, cm, q > 0);
              continue;
            }
            const int64_t valid = n_ - j;
            if (q > 0) {
              for (int64_t r = 0; r < height; ++r)
                std::memcpy(tail_tile + r * width * acc_bytes_, tc + r * cm * acc_bytes_, valid * acc_bytes_);
            }
            run(height, depth, ta, am, ak, b, bk, tail_tile, width, q > 0);
            for (int64_t r = 0; r < height; ++r)
              std::memcpy(tc + r * cm * acc_bytes_, tail_tile + r * width * acc_bytes_, valid * acc_bytes_);
          }
        }
      }
      if (!direct_c_) WriteOut(accumulators, c, row, rows, j0, std::min(j1, n_));
    }
  }

  void PackRows(const char* a, char* packed, int64_t row, int64_t row_end, int64_t q, int64_t depth) const {
    for (int64_t i = row; i < row_end; i += tile_->rows) {
      const int64_t height = std::min<int64_t>(tile_->rows, row_end - i);
      char* block = packed + (i - row) * depth * acc_bytes_;
      if (!complex_) {
        kernels_->convert(p_.lhs_type, At(a, i * p_.lhs_m_stride + q * p_.lhs_k_stride, p_.lhs_type), p_.lhs_m_stride,
                          p_.lhs_k_stride, acc_, block, 1, height, height, depth);
        continue;
      }
      // Blocks begin at even q, so a block holds whole numbers.
      for (int part = 0; part < 2; ++part) {
        kernels_->convert(acc_, a + (2 * (i * p_.lhs_m_stride + q / 2 * p_.lhs_k_stride) + part) * acc_bytes_,
                          2 * p_.lhs_m_stride, 2 * p_.lhs_k_stride, acc_, block + part * height * acc_bytes_, 1,
                          2 * height, height, depth / 2);
      }
    }
  }

  void WriteOut(const char* accumulators, char* c, int64_t row, int64_t rows, int64_t j0, int64_t j1) const {
    if (!complex_) {
      kernels_->convert_out(acc_, accumulators, accumulator_columns_, p_.out_type,
                            At(c, row * p_.out_m_stride + j0 * p_.out_n_stride, p_.out_type), p_.out_m_stride,
                            p_.out_n_stride, rows, j1 - j0);
      return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = j0; j < j1; j += 2) {
        std::memcpy(c + 2 * ((row + r) * p_.out_m_stride + j / 2 * p_.out_n_stride) * acc_bytes_,
                    accumulators + (r * accumulator_columns_ + j - j0) * acc_bytes_, 2 * acc_bytes_);
      }
    }
  }

  const MatmulProblem p_;
  const int threads_;
  const bool small_;
  const GemmKernels* kernels_;
  const GemmTile* tile_ = nullptr;
  ElementType acc_, lhs_real_;
  int64_t acc_bytes_;
  bool complex_, direct_a_, direct_b_, direct_c_;
  bool whole_batches_, parallel_;  // a task is a batch, or a piece of one
  int64_t k_, n_, padded_n_, batches_;
  int64_t chunk_rows_, chunk_columns_, accumulator_columns_;
  int64_t packed_b_bytes_, shared_bytes_, own_b_bytes_, own_a_bytes_, own_c_bytes_, slot_bytes_;
};

absl::Status Accepts(const MatmulProblem& p) {
  const bool any_complex = IsComplex(p.lhs_type) || IsComplex(p.rhs_type) || IsComplex(p.out_type);
  if (any_complex && (p.lhs_type != p.rhs_type || p.lhs_type != p.out_type)) {
    return absl::UnimplementedError("complex operands of different types");
  }
  const bool float_in = IsFloat(p.lhs_type) || IsFloat(p.rhs_type);
  if (!any_complex && float_in && !IsFloat(p.out_type))
    return absl::UnimplementedError("float operands with an integer result");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeBlockedMatmul(const MatmulProblem& problem, int num_threads) {
  if (absl::Status s = Accepts(problem); !s.ok()) return s;
  return std::unique_ptr<MatmulPlan>(std::make_unique<BlockedMatmul>(problem, num_threads, /*small=*/false));
}

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeSmallMatmul(const MatmulProblem& problem, int num_threads) {
  if (absl::Status s = Accepts(problem); !s.ok()) return s;
  // Where oneDNN's 0.5 us a call no longer matter; it has instructions for bf16 that this kernel has not.
  const bool bf16 = problem.lhs_type == ElementType::kBF16 && HasFastBf16Products();
  const int64_t most = bf16 ? 20 * 20 * 20 : 64 * 64 * 64;
  const int64_t work = problem.m * problem.n * problem.k;
  if (work > most) return absl::UnimplementedError(absl::StrCat(work, " multiplications in one product, above ", most));
  return std::unique_ptr<MatmulPlan>(std::make_unique<BlockedMatmul>(problem, num_threads, /*small=*/true));
}

}  // namespace backplane::engine
