// Our own multiplication of large floating-point matrices. A task is a block of rows and columns of the result: it
// packs, for a block of k at a time, some panels of columns of the right operand into its cache and multiplies all its
// rows by them. So the right operand is read from memory once for each block of rows, is converted on the way (bf16 and
// f16 to f32), and needs no shared copy.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/engine/kernels/gemm_simd.h"
#include "sdk/engine/kernels/matmul_internal.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

constexpr int64_t kDepthBytes = 2048;        // of a block of k: four panels of it and the rows fit into 1 MiB
constexpr int64_t kMostRows = 256;           // of a task
constexpr int64_t kPanelsTogether = 4;       // packed at once: whole cache lines of bf16, few pages at a time
constexpr int64_t kMostSums = 512;           // columns of a task that has sums of its own
constexpr int64_t kTasksPerThread = 4;       // so that a thread that starts late costs little
constexpr int64_t kTailTileBytes = 8 * 128;  // a whole tile: 8 rows of two 64-byte registers
constexpr int64_t kAliasingBytes = 2048;     // rows at a multiple of this distance share few sets of the first cache
constexpr int64_t kFewColumns = 256;         // of a task: fewer than this do not repay a copy of the rows

// The associativity of the first data cache; 0: unknown.
int64_t CountFirstCacheWays() {
#ifdef _SC_LEVEL1_DCACHE_ASSOC  // an extension of glibc
  static const int64_t ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
  return std::max<int64_t>(ways, 0);
#else
  return 0;
#endif
}

class PanelMatmul : public MatmulPlan {
 public:
  PanelMatmul(const MatmulProblem& problem, int num_threads)
      : p_(problem), threads_(std::max(1, num_threads)), batches_(BatchCount(problem)) {
    kernels_ = &PickSimd(base::gemm_kernels, avx2::gemm_kernels, avx512::gemm_kernels);
    const bool is_double = p_.lhs_type == ElementType::kF64;
    acc_ = is_double ? ElementType::kF64 : ElementType::kF32;
    acc_bytes_ = static_cast<int64_t>(ElementBytes(acc_));
    tile_ = is_double ? &kernels_->f64 : &kernels_->f32;
    const int64_t rest = p_.n % tile_->wide;
    padded_n_ = p_.n - rest + (rest == 0 ? 0 : rest <= tile_->narrow ? tile_->narrow : tile_->wide);
    group_ = kPanelsTogether * tile_->wide;
    const int64_t most_depth = kDepthBytes / acc_bytes_;
    depth_ = std::min(p_.k, RoundUp(CeilDiv(p_.k, CeilDiv(p_.k, most_depth)), 8));
    parallel_ = threads_ > 1 && p_.m * p_.n * p_.k * batches_ >= kMultipliesWorthSplitting;

    direct_c_ = p_.out_n_stride == 1 && p_.out_type == acc_;
    rows_contiguous_ = p_.lhs_k_stride == 1;

    rows_ = RoundUp(CeilDiv(p_.m, CeilDiv(p_.m, kMostRows)), tile_->rows);
    row_tasks_ = CeilDiv(p_.m, rows_);
    columns_ = padded_n_;
    if (parallel_) {
      const int64_t wanted = std::max<int64_t>(1, CeilDiv(kTasksPerThread * threads_, row_tasks_ * batches_));
      columns_ = CeilDiv(padded_n_, wanted);
      columns_ = RoundUp(columns_, columns_ >= group_ / 2 ? group_ : tile_->wide);
    }
    if (!direct_c_) columns_ = std::min(columns_, kMostSums);
    columns_ = std::min(columns_, padded_n_);
    column_tasks_ = CeilDiv(padded_n_, columns_);
    // Rows that share cache sets are copied, unless few columns use the copy and a set holds the rows of a tile anyway.
    const bool conflicts = p_.lhs_m_stride * acc_bytes_ % kAliasingBytes == 0;
    direct_a_ =
        rows_contiguous_ && p_.lhs_type == acc_ &&
        (p_.m <= tile_->rows || !conflicts || (columns_ <= kFewColumns && CountFirstCacheWays() > tile_->rows + 2));

    b_bytes_ = p_.rhs_is_constant ? 0 : RoundUp(depth_ * std::min(group_, columns_) * acc_bytes_, 64);
    // Rows of a packed block lie one line more apart than their length, so that they do not share sets.
    a_row_ = rows_contiguous_ ? RoundUp(depth_, 16) + 16 : 0;
    a_bytes_ = direct_a_ ? 0 : RoundUp(rows_ * (rows_contiguous_ ? a_row_ : depth_) * acc_bytes_, 64);
    c_bytes_ = direct_c_ ? 0 : RoundUp(rows_ * columns_ * acc_bytes_, 64);
    slot_bytes_ = b_bytes_ + a_bytes_ + c_bytes_ + kTailTileBytes;
  }

  absl::string_view name() const override { return "panels"; }
  size_t scratch_bytes() const override { return slot_bytes_ * (parallel_ ? threads_ : 1); }
  size_t packed_rhs_bytes() const override { return p_.rhs_is_constant ? p_.k * padded_n_ * acc_bytes_ * batches_ : 0; }

  // All depths of one panel lie together.
  absl::Status PrepareRhs(const void* rhs, void* packed) const override {
    if (!p_.rhs_is_constant) return absl::OkStatus();
    for (int64_t b = 0; b < batches_; ++b) {
      const char* source = At(rhs, ComputeBatchOffsets(p_, b).rhs, p_.rhs_type);
      char* target = static_cast<char*>(packed) + b * p_.k * padded_n_ * acc_bytes_;
      for (int64_t j = 0; j < padded_n_; j += tile_->wide)
        PackColumns(source, j, PanelWidth(j), 0, p_.k, target + j * p_.k * acc_bytes_);
    }
    return absl::OkStatus();
  }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    const int64_t tasks = row_tasks_ * column_tasks_;
    auto run = [&](int64_t i, int slot) {
      const int64_t b = i / tasks, row = i % tasks / column_tasks_ * rows_, column = i % column_tasks_ * columns_;
      const BatchOffsets o = ComputeBatchOffsets(p_, b);
      const char* source = p_.rhs_is_constant ? static_cast<const char*>(rhs) + b * p_.k * padded_n_ * acc_bytes_
                                              : At(rhs, o.rhs, p_.rhs_type);
      const int64_t row_end = std::min(p_.m, row + rows_);
      Task(At(lhs, o.lhs, p_.lhs_type), source, At(out, o.out, p_.out_type), row, row_end, column,
           std::min(padded_n_, column + columns_), static_cast<char*>(scratch) + slot * slot_bytes_);
      if (epilogue != nullptr && column_tasks_ == 1) epilogue->run(epilogue->context, b, row, row_end);
    };
    if (pool == nullptr || !parallel_) {
      for (int64_t i = 0; i < tasks * batches_; ++i) run(i, 0);
    } else {
      pool->ParallelFor(tasks * batches_, run);
    }
    if (epilogue != nullptr && column_tasks_ > 1) {
      for (int64_t b = 0; b < batches_; ++b) epilogue->run(epilogue->context, b, 0, p_.m);
    }
    return absl::OkStatus();
  }

 private:
  int64_t PanelWidth(int64_t column) const { return std::min<int64_t>(tile_->wide, padded_n_ - column); }

  // One panel of `width` columns from column j on, rows [q, q + depth) of the right operand.
  void PackColumns(const char* source, int64_t j, int64_t width, int64_t q, int64_t depth, char* panel) const {
    const int64_t valid = std::min(width, p_.n - j);
    if (valid < width) std::memset(panel, 0, depth * width * acc_bytes_);
    kernels_->convert(p_.rhs_type, At(source, q * p_.rhs_k_stride + j * p_.rhs_n_stride, p_.rhs_type), p_.rhs_k_stride,
                      p_.rhs_n_stride, acc_, panel, width, 1, depth, valid);
  }

  // Panels of columns [j, j_end), one after another.
  void PackGroup(const char* source, int64_t j, int64_t j_end, int64_t q, int64_t depth, char* panels) const {
    if (p_.rhs_n_stride == 1) {
      const int64_t whole = std::max<int64_t>(0, std::min(j_end, p_.n) - j) / tile_->wide;
      kernels_->pack_panels(p_.rhs_type, At(source, q * p_.rhs_k_stride + j, p_.rhs_type), p_.rhs_k_stride, panels,
                            depth * tile_->wide, depth, whole);
      j += whole * tile_->wide;
      panels += whole * tile_->wide * depth * acc_bytes_;
    }
    for (; j < j_end; j += tile_->wide) {
      PackColumns(source, j, PanelWidth(j), q, depth, panels);
      panels += tile_->wide * depth * acc_bytes_;
    }
  }

  void PackLeft(const char* a, int64_t row, int64_t row_end, int64_t q, int64_t depth, char* packed) const {
    if (rows_contiguous_) {
      kernels_->pack_rows(p_.lhs_type, At(a, row * p_.lhs_m_stride + q, p_.lhs_type), p_.lhs_m_stride, packed, a_row_,
                          row_end - row, depth);
      return;
    }
    for (int64_t i = row; i < row_end; i += tile_->rows) {
      const int64_t height = std::min<int64_t>(tile_->rows, row_end - i);
      kernels_->convert(p_.lhs_type, At(a, i * p_.lhs_m_stride + q * p_.lhs_k_stride, p_.lhs_type), p_.lhs_m_stride,
                        p_.lhs_k_stride, acc_, packed + (i - row) * depth * acc_bytes_, 1, height, height, depth);
    }
  }

  // `source` is the right operand, or its panels if it is constant.
  void Task(const char* a, const char* source, char* c, int64_t row, int64_t row_end, int64_t column,
            int64_t column_end, char* mine) const {
    char* const packed_b = mine;
    char* const packed_a = packed_b + b_bytes_;
    char* const sums = packed_a + a_bytes_;
    char* const tail = sums + c_bytes_;
    for (int64_t q = 0; q < p_.k; q += depth_) {
      const int64_t depth = std::min(depth_, p_.k - q);
      if (!direct_a_) PackLeft(a, row, row_end, q, depth, packed_a);
      for (int64_t j0 = column; j0 < column_end; j0 += group_) {
        const int64_t j1 = std::min(column_end, j0 + group_);
        if (!p_.rhs_is_constant) PackGroup(source, j0, j1, q, depth, packed_b);
        for (int64_t i = row; i < row_end; i += tile_->rows) {
          const int64_t height = std::min<int64_t>(tile_->rows, row_end - i);
          const char* ta;
          int64_t am = 1, ak = 1;
          if (direct_a_) {
            ta = a + (i * p_.lhs_m_stride + q) * acc_bytes_;
            am = p_.lhs_m_stride;
          } else if (rows_contiguous_) {
            ta = packed_a + (i - row) * a_row_ * acc_bytes_;
            am = a_row_;
          } else {
            ta = packed_a + (i - row) * depth * acc_bytes_;
            ak = height;
          }
          for (int64_t j = j0; j < j1; j += tile_->wide) {
            const int64_t width = PanelWidth(j);
            const GemmTileFn run = width == tile_->wide ? tile_->run_wide : tile_->run_narrow;
            const char* b = p_.rhs_is_constant ? source + (j * p_.k + q * width) * acc_bytes_
                                               : packed_b + (j - j0) * depth * acc_bytes_;
            if (!direct_c_) {
              run(height, depth, ta, am, ak, b, width, sums + ((i - row) * columns_ + j - column) * acc_bytes_,
                  columns_, q > 0);
              continue;
            }
            char* tc = c + (i * p_.out_m_stride + j) * acc_bytes_;
            if (j + width <= p_.n) {
              run(height, depth, ta, am, ak, b, width, tc, p_.out_m_stride, q > 0);
              continue;
            }
            CopyRows(tc, p_.out_m_stride, tail, width, height, q > 0 ? p_.n - j : 0);
            run(height, depth, ta, am, ak, b, width, tail, width, q > 0);
            CopyRows(tail, width, tc, p_.out_m_stride, height, p_.n - j);
          }
        }
      }
    }
    if (direct_c_) return;
    kernels_->convert_out(acc_, sums, columns_, p_.out_type,
                          At(c, row * p_.out_m_stride + column * p_.out_n_stride, p_.out_type), p_.out_m_stride,
                          p_.out_n_stride, row_end - row, std::min(column_end, p_.n) - column);
  }

  void CopyRows(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t rows, int64_t n) const {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to + r * to_stride * acc_bytes_, from + r * from_stride * acc_bytes_, n * acc_bytes_);
  }

  const MatmulProblem p_;
  const int threads_;
  const int64_t batches_;
  const GemmKernels* kernels_;
  const GemmTile* tile_;
  ElementType acc_;
  int64_t acc_bytes_;
  bool parallel_, direct_a_, direct_c_, rows_contiguous_;
  int64_t padded_n_, group_, depth_;
  int64_t rows_, columns_, row_tasks_, column_tasks_;
  int64_t b_bytes_, a_bytes_, a_row_, c_bytes_, slot_bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakePanelMatmul(const MatmulProblem& p, int num_threads) {
  auto narrow = [](ElementType t) {
    return t == ElementType::kF32 || t == ElementType::kBF16 || t == ElementType::kF16;
  };
  const bool is_float = narrow(p.lhs_type) && narrow(p.rhs_type) && narrow(p.out_type);
  const bool is_double =
      p.lhs_type == ElementType::kF64 && p.rhs_type == ElementType::kF64 && p.out_type == ElementType::kF64;
  if (!is_float && !is_double) {
    return absl::UnimplementedError(absl::StrCat("element types ", ElementTypeName(p.lhs_type), ", ",
                                                 ElementTypeName(p.rhs_type), " to ", ElementTypeName(p.out_type),
                                                 " are not supported"));
  }
  if (p.m == 0 || p.n == 0 || p.k == 0 || BatchCount(p) == 0) return absl::UnimplementedError("empty operand");
  return std::unique_ptr<MatmulPlan>(std::make_unique<PanelMatmul>(p, num_threads));
}

}  // namespace backplane::engine
