// Convolution as matrix multiplication: the input values under a run of output positions become rows, the kernel one
// matrix. Takes every type, layout, dilation and grouping.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "sdk/engine/kernels/convolution_internal.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

constexpr int64_t kPatchBytes = 256 * 1024;  // rows of patches that stay in L2
constexpr int64_t kFewestFeatures = 4;       // below, in a grouped convolution, the products are too thin

// Copies `count` elements of `bytes` each.
void CopyStrided(const char* source, int64_t source_stride, char* target, int64_t target_stride, int64_t count,
                 int64_t bytes) {
  if (source_stride == 1 && target_stride == 1) {
    std::memcpy(target, source, count * bytes);
    return;
  }
  auto copy = [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(target + i * target_stride * sizeof(T), source + i * source_stride * sizeof(T), sizeof(T));
  };
  switch (bytes) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    case 8:
      return copy(uint64_t{});
    default:
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(target + i * target_stride * bytes, source + i * source_stride * bytes, bytes);
  }
}

class Im2Col : public ConvolutionPlan {
 public:
  Im2Col(const ConvolutionProblem& p, int num_threads) : p_(p), threads_(std::max(1, num_threads)) {}

  absl::Status Init() {
    taps_ = KernelPositions(p_);
    depth_ = taps_ * p_.kernel_in_features;
    group_features_ = p_.out_features / p_.feature_groups;
    positions_ = OutputPositions(p_);
    lhs_bytes_ = static_cast<int64_t>(ElementBytes(p_.lhs_type));
    rhs_bytes_ = static_cast<int64_t>(ElementBytes(p_.rhs_type));
    out_bytes_ = static_cast<int64_t>(ElementBytes(p_.out_type));
    const int64_t rows = OutputBatch(p_) * positions_;
    rows_ = std::clamp<int64_t>(kPatchBytes / std::max<int64_t>(1, depth_ * lhs_bytes_), 8, 1024);
    rows_ = std::max<int64_t>(1, std::min(rows_, CeilDiv(rows, 2 * threads_)));
    chunks_ = CeilDiv(rows, rows_);
    for (int tail = 0; tail < 2; ++tail) {
      MatmulProblem m =
          MatmulProblem::Dense(p_.lhs_type, tail ? rows - (chunks_ - 1) * rows_ : rows_, group_features_, depth_);
      m.rhs_type = p_.rhs_type;
      m.out_type = p_.out_type;
      absl::StatusOr<std::unique_ptr<MatmulPlan>> plan = PlanMatmul(m);
      if (!plan.ok()) return plan.status();
      (tail ? last_ : whole_) = *std::move(plan);
    }
    kernel_bytes_ = RoundUp(depth_ * p_.out_features * rhs_bytes_, 64);
    patch_bytes_ = RoundUp(rows_ * depth_ * lhs_bytes_, 64);
    result_bytes_ = RoundUp(rows_ * group_features_ * out_bytes_, 64);
    inner_bytes_ = RoundUp(static_cast<int64_t>(std::max(whole_->scratch_bytes(), last_->scratch_bytes())), 64);
    slot_bytes_ = patch_bytes_ + result_bytes_ + inner_bytes_;
    return absl::OkStatus();
  }

  absl::string_view name() const override { return "im2col"; }
  size_t scratch_bytes() const override { return kernel_bytes_ + threads_ * slot_bytes_; }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    char* kernel = static_cast<char*>(scratch);
    char* slots = kernel + kernel_bytes_;
    auto parallel = [&](int64_t count, auto fn) {
      if (pool == nullptr || count == 1) {
        for (int64_t i = 0; i < count; ++i) fn(i, 0);
      } else {
        pool->ParallelFor(count, fn);
      }
    };
    // The kernel as [group][tap, feature][output feature].
    parallel(taps_, [&](int64_t tap, int) { PackTap(static_cast<const char*>(rhs), kernel, tap); });
    parallel(chunks_, [&](int64_t c, int slot) {
      Chunk(c, static_cast<const char*>(lhs), kernel, static_cast<char*>(out), slots + slot * slot_bytes_);
    });
    if (epilogue != nullptr) epilogue->run(epilogue->context, 0, 0, OutputBatch(p_));
    return absl::OkStatus();
  }

 private:
  void PackTap(const char* rhs, char* kernel, int64_t tap) const {
    int64_t offset = 0, rest = tap;
    for (int d = static_cast<int>(p_.dims.size()) - 1; d >= 0; --d) {
      offset += rest % p_.dims[d].kernel * p_.dims[d].rhs_stride;
      rest /= p_.dims[d].kernel;
    }
    for (int64_t g = 0; g < p_.feature_groups; ++g) {
      for (int64_t f = 0; f < p_.kernel_in_features; ++f) {
        char* target = kernel + ((g * depth_ + tap * p_.kernel_in_features + f) * group_features_) * rhs_bytes_;
        CopyStrided(rhs + (offset + f * p_.rhs_in_stride + g * group_features_ * p_.rhs_out_stride) * rhs_bytes_,
                    p_.rhs_out_stride, target, 1, group_features_, rhs_bytes_);
      }
    }
  }

  void Chunk(int64_t c, const char* lhs, const char* kernel, char* out, char* mine) const {
    const int64_t begin = c * rows_, end = std::min(OutputBatch(p_) * positions_, begin + rows_);
    const int rank = static_cast<int>(p_.dims.size());
    char* patches = mine;
    char* result = mine + patch_bytes_;
    for (int64_t g = 0; g < p_.feature_groups; ++g) {
      const char* group_lhs = lhs + g * p_.kernel_in_features * p_.lhs_feature_stride * lhs_bytes_;
      for (int64_t row = begin; row < end; ++row) {
        int64_t at[8], rest = row % positions_;
        for (int d = rank - 1; d >= 0; --d) {
          at[d] = rest % p_.dims[d].output;
          rest /= p_.dims[d].output;
        }
        char* target = patches + (row - begin) * depth_ * lhs_bytes_;
        FillRow(group_lhs + row / positions_ * p_.lhs_batch_stride * lhs_bytes_, at, 0, target);
      }
      MatmulPlan& plan = c == chunks_ - 1 ? *last_ : *whole_;
      (void)plan.Execute(patches, kernel + g * depth_ * group_features_ * rhs_bytes_, result, result + result_bytes_,
                         nullptr);
      for (int64_t row = begin; row < end; ++row) {
        int64_t target = row / positions_ * p_.out_batch_stride + g * group_features_ * p_.out_feature_stride,
                rest = row % positions_;
        for (int d = rank - 1; d >= 0; --d) {
          target += rest % p_.dims[d].output * p_.dims[d].out_stride;
          rest /= p_.dims[d].output;
        }
        CopyStrided(result + (row - begin) * group_features_ * out_bytes_, 1, out + target * out_bytes_,
                    p_.out_feature_stride, group_features_, out_bytes_);
      }
    }
  }

  // Values under the window, taps in memory order from dimension d on; returns past the last written.
  char* FillRow(const char* source, const int64_t* at, size_t d, char* target) const {
    if (d == p_.dims.size()) {
      CopyStrided(source, p_.lhs_feature_stride, target, 1, p_.kernel_in_features, lhs_bytes_);
      return target + p_.kernel_in_features * lhs_bytes_;
    }
    int64_t inner = p_.kernel_in_features;
    for (size_t e = d + 1; e < p_.dims.size(); ++e) inner *= p_.dims[e].kernel;
    for (int64_t k = 0; k < p_.dims[d].kernel; ++k) {
      const int64_t i = InputIndex(p_.dims[d], at[d], k);
      if (i < 0) {
        std::memset(target, 0, inner * lhs_bytes_);
        target += inner * lhs_bytes_;
      } else {
        target = FillRow(source + i * p_.dims[d].lhs_stride * lhs_bytes_, at, d + 1, target);
      }
    }
    return target;
  }

  const ConvolutionProblem p_;
  const int threads_;
  int64_t taps_, depth_, group_features_, positions_, lhs_bytes_, rhs_bytes_, out_bytes_, rows_, chunks_;
  int64_t kernel_bytes_, patch_bytes_, result_bytes_, inner_bytes_, slot_bytes_;
  std::unique_ptr<MatmulPlan> whole_, last_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeIm2Col(const ConvolutionProblem& p, int num_threads) {
  if (p.batch_groups > 1) return absl::UnimplementedError("batch groups are done one by one");
  if (CountMultiplies(p) == 0) return absl::UnimplementedError("empty operand");
  if (p.feature_groups > 1 &&
      (p.kernel_in_features < kFewestFeatures || p.out_features / p.feature_groups < kFewestFeatures)) {
    return absl::UnimplementedError("groups of few features");
  }
  constexpr int64_t kMaxPatchBytes = 64 << 20;
  if (8 * KernelPositions(p) * p.kernel_in_features * static_cast<int64_t>(ElementBytes(p.lhs_type)) > kMaxPatchBytes) {
    return absl::UnimplementedError("the window is too large to be copied");
  }
  auto plan = std::make_unique<Im2Col>(p, num_threads);
  if (absl::Status s = plan->Init(); !s.ok()) return s;
  return std::unique_ptr<ConvolutionPlan>(std::move(plan));
}

}  // namespace backplane::engine
