// A matrix times a few vectors: bound by reading the matrix, so it is read once (or from cache the second time), in the
// order it lies in memory.
#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/engine/kernels/gemv_simd.h"
#include "sdk/engine/kernels/matmul_internal.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

constexpr int64_t kVectorsAtOnce = 4;
// Where another kernel gets faster, by the direction in which the matrix is contiguous.
constexpr int64_t kMaxVectorsDots = 4, kMaxVectorsColumns = 3, kMaxVectorsDotsBf16 = 16;
constexpr int64_t kBytesToReuse = 128 * 1024;  // a piece of the matrix that stays in cache for the next vectors

class GemvMatmul : public MatmulPlan {
 public:
  GemvMatmul(const MatmulProblem& problem, GemvType type, bool matrix_is_rhs, int num_threads)
      : p_(problem), type_(type), matrix_is_rhs_(matrix_is_rhs), threads_(std::max(1, num_threads)) {
    kernels_ = HostSimdLevel() == SimdLevel::kAvx512Bf16
                   ? &avx512bf16::gemv_kernels
                   : &PickSimd(base::gemv_kernels, avx2::gemv_kernels, avx512::gemv_kernels);
    if (matrix_is_rhs_) {
      vectors_ = p_.m;
      rows_ = p_.n;
      matrix_row_ = p_.rhs_n_stride;
      matrix_k_ = p_.rhs_k_stride;
      vector_r_ = p_.lhs_m_stride;
      vector_k_ = p_.lhs_k_stride;
      out_r_ = p_.out_m_stride;
      out_i_ = p_.out_n_stride;
    } else {
      vectors_ = p_.n;
      rows_ = p_.m;
      matrix_row_ = p_.lhs_m_stride;
      matrix_k_ = p_.lhs_k_stride;
      vector_r_ = p_.rhs_n_stride;
      vector_k_ = p_.rhs_k_stride;
      out_r_ = p_.out_n_stride;
      out_i_ = p_.out_m_stride;
    }
    element_bytes_ = static_cast<int64_t>(ElementBytes(p_.lhs_type));
    wide_out_ = p_.out_type != p_.lhs_type;
    batches_ = BatchCount(p_);
    dots_ = matrix_k_ == 1;
    copy_vectors_ = vector_k_ != 1 && p_.k > 1;
    vector_bytes_ = copy_vectors_ ? RoundUp(vectors_ * p_.k * element_bytes_, 64) : 0;
    const bool split = threads_ > 1 && rows_ * p_.k * batches_ >= kMultipliesWorthSplitting / 4;
    chunks_ = 1;
    if (split && batches_ < 2 * threads_) {
      chunks_ = dots_ ? std::clamp<int64_t>(rows_ / 16, 1, 8 * threads_) : std::clamp<int64_t>(p_.k / 64, 1, threads_);
    }
    parallel_ = split;
    const int64_t acc_bytes = type_ == GemvType::kF64 ? 8 : 4;
    sum_stride_ = dots_ ? 0 : RoundUp(rows_, 16);
    sum_bytes_ = sum_stride_ * vectors_ * acc_bytes;
    // Per batch: the copied vectors, then the sums of each chunk.
    batch_bytes_ = vector_bytes_ + chunks_ * sum_bytes_;
  }

  absl::string_view name() const override { return "gemv"; }
  size_t scratch_bytes() const override { return batch_bytes_ * batches_; }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    if (rows_ == 0 || vectors_ == 0 || batches_ == 0) return absl::OkStatus();
    const void* matrix = matrix_is_rhs_ ? rhs : lhs;
    const void* vectors = matrix_is_rhs_ ? lhs : rhs;
    auto batch_scratch = [&](int64_t b) { return static_cast<char*>(scratch) + b * batch_bytes_; };
    auto offsets = [&](int64_t b) {
      const BatchOffsets o = ComputeBatchOffsets(p_, b);
      return BatchOffsets{matrix_is_rhs_ ? o.rhs : o.lhs, matrix_is_rhs_ ? o.lhs : o.rhs,
                          o.out};  // matrix, vectors, out
    };
    if (copy_vectors_) {
      for (int64_t b = 0; b < batches_; ++b) CopyVectors(At(vectors, offsets(b).rhs, p_.lhs_type), batch_scratch(b));
    }
    auto run = [&](int64_t index, int) {
      const int64_t b = index / chunks_, c = index % chunks_;
      const BatchOffsets o = offsets(b);
      const char* w = At(matrix, o.lhs, p_.lhs_type);
      const char* x = copy_vectors_ ? batch_scratch(b) : At(vectors, o.rhs, p_.lhs_type);
      const int64_t xs = copy_vectors_ ? p_.k : vector_r_;
      char* y = At(out, o.out, p_.out_type);
      if (dots_) {
        const int64_t end = rows_ * (c + 1) / chunks_;
        const int64_t step = vectors_ <= kVectorsAtOnce
                                 ? rows_
                                 : std::max<int64_t>(1, kBytesToReuse / std::max<int64_t>(1, p_.k * element_bytes_));
        for (int64_t begin = rows_ * c / chunks_; begin < end; begin += step) {
          for (int64_t r = 0; r < vectors_; r += kVectorsAtOnce) {
            kernels_->dots(type_, static_cast<int>(std::min(kVectorsAtOnce, vectors_ - r)), begin,
                           std::min(end, begin + step), p_.k, w, matrix_row_, x + r * xs * element_bytes_, xs,
                           At(y, r * out_r_, p_.out_type), out_r_, out_i_, wide_out_);
          }
        }
        return;
      }
      char* sums = batch_scratch(b) + vector_bytes_ + c * sum_bytes_;
      for (int64_t r = 0; r < vectors_; r += kVectorsAtOnce) {
        kernels_->columns(type_, static_cast<int>(std::min(kVectorsAtOnce, vectors_ - r)), p_.k * c / chunks_,
                          p_.k * (c + 1) / chunks_, rows_, w, matrix_k_, x + r * xs * element_bytes_, xs,
                          sums + r * sum_stride_ * (type_ == GemvType::kF64 ? 8 : 4), sum_stride_);
      }
      if (chunks_ == 1) Reduce(b, y, scratch, 0, rows_);
    };
    if (pool == nullptr || !parallel_) {
      for (int64_t i = 0; i < batches_ * chunks_; ++i) run(i, 0);
    } else {
      pool->ParallelFor(batches_ * chunks_, run);
    }
    if (!dots_ && chunks_ > 1) {
      for (int64_t b = 0; b < batches_; ++b) Reduce(b, At(out, offsets(b).out, p_.out_type), scratch, 0, rows_);
    }
    if (epilogue != nullptr) {
      for (int64_t b = 0; b < batches_; ++b) epilogue->run(epilogue->context, b, 0, p_.m);
    }
    return absl::OkStatus();
  }

 private:
  void Reduce(int64_t b, char* y, void* scratch, int64_t begin, int64_t end) const {
    const char* sums = static_cast<char*>(scratch) + b * batch_bytes_ + vector_bytes_;
    const int64_t acc_bytes = type_ == GemvType::kF64 ? 8 : 4;
    for (int64_t r = 0; r < vectors_; ++r) {
      kernels_->reduce(type_, chunks_, sum_stride_ * vectors_, sums + r * sum_stride_ * acc_bytes, begin, end,
                       At(y, r * out_r_, p_.out_type), out_i_, wide_out_);
    }
  }

  void CopyVectors(const char* source, char* target) const {
    for (int64_t r = 0; r < vectors_; ++r) {
      for (int64_t q = 0; q < p_.k; ++q) {
        std::memcpy(target + (r * p_.k + q) * element_bytes_, source + (r * vector_r_ + q * vector_k_) * element_bytes_,
                    element_bytes_);
      }
    }
  }

  const MatmulProblem p_;
  const GemvType type_;
  const bool matrix_is_rhs_;
  const int threads_;
  const GemvKernels* kernels_;
  int64_t vectors_, rows_, matrix_row_, matrix_k_, vector_r_, vector_k_, out_r_, out_i_;
  int64_t element_bytes_, batches_, chunks_, vector_bytes_, sum_stride_, sum_bytes_, batch_bytes_;
  bool wide_out_, dots_, copy_vectors_, parallel_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeGemvMatmul(const MatmulProblem& p, int num_threads) {
  GemvType type;
  switch (p.lhs_type) {
    case ElementType::kF32:
      type = GemvType::kF32;
      break;
    case ElementType::kF64:
      type = GemvType::kF64;
      break;
    case ElementType::kF16:
      type = GemvType::kF16;
      break;
    case ElementType::kBF16:
      type = GemvType::kBF16;
      break;
    default:
      return absl::UnimplementedError(absl::StrCat("element type ", ElementTypeName(p.lhs_type), " is not supported"));
  }
  if (p.rhs_type != p.lhs_type) return absl::UnimplementedError("operand types differ");
  const bool narrow = type == GemvType::kF16 || type == GemvType::kBF16;
  if (p.out_type != p.lhs_type && !(narrow && p.out_type == ElementType::kF32)) {
    return absl::UnimplementedError(absl::StrCat("result type ", ElementTypeName(p.out_type), " is not supported"));
  }
  const bool matrix_is_rhs = p.m <= p.n;
  const int64_t vectors = std::min(p.m, p.n);
  constexpr int64_t kMinMultiplyAdds = 1024;
  if (std::max(p.m, p.n) * p.k < kMinMultiplyAdds) return absl::UnimplementedError("too small");
  const int64_t row = matrix_is_rhs ? p.rhs_n_stride : p.lhs_m_stride;
  const int64_t depth = matrix_is_rhs ? p.rhs_k_stride : p.lhs_k_stride;
  if (row != 1 && depth != 1) return absl::UnimplementedError("the matrix is contiguous in no dimension");
  const bool packed_bf16 = type == GemvType::kBF16 && p.rhs_is_constant;
  const int64_t most = depth != 1                                ? kMaxVectorsColumns
                       : type == GemvType::kBF16 && !packed_bf16 ? kMaxVectorsDotsBf16
                                                                 : kMaxVectorsDots;
  if (vectors > most) return absl::UnimplementedError(absl::StrCat(vectors, " vectors, more than ", most));
  return std::unique_ptr<MatmulPlan>(std::make_unique<GemvMatmul>(p, type, matrix_is_rhs, num_threads));
}

}  // namespace backplane::engine
