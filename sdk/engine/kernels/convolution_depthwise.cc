// Depthwise convolution: each channel with its own small kernel. Channels must be contiguous; weights stay in
// registers.
#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/engine/kernels/convolution_internal.h"
#include "sdk/engine/kernels/depthwise_simd.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

constexpr int64_t kMaxKernelRows = 64;

class Depthwise : public ConvolutionPlan {
 public:
  Depthwise(const ConvolutionProblem& p, DepthwiseType type, int num_threads)
      : p_(p),
        type_(type),
        kernels_(PickSimd(base::depthwise_kernels, avx2::depthwise_kernels, avx512::depthwise_kernels)) {
    // One dimension is a single row.
    if (p_.dims.size() == 1) p_.dims.insert(p_.dims.begin(), ConvolutionDim());
    acc_bytes_ = type == DepthwiseType::kF64 ? 8 : 4;
    parallel_ = num_threads > 1 && CountMultiplies(p_) >= kMultipliesWorthSplitting / 4;
  }

  absl::string_view name() const override { return "depthwise"; }
  size_t scratch_bytes() const override { return KernelPositions(p_) * p_.out_features * acc_bytes_; }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    const ConvolutionDim &y = p_.dims[0], &x = p_.dims[1];
    char* kernel = static_cast<char*>(scratch);
    for (int64_t ky = 0; ky < y.kernel; ++ky) {
      for (int64_t kx = 0; kx < x.kernel; ++kx) {
        // In window order, so that reversal is over with.
        const int64_t my = y.reversed ? y.kernel - 1 - ky : ky, mx = x.reversed ? x.kernel - 1 - kx : kx;
        kernels_.widen(type_, At(rhs, my * y.rhs_stride + mx * x.rhs_stride, p_.rhs_type), p_.rhs_out_stride,
                       kernel + (ky * x.kernel + kx) * p_.out_features * acc_bytes_, p_.out_features);
      }
    }
    auto row = [&](int64_t index, int) {
      const int64_t b = index / y.output, oy = index % y.output;
      const void* rows[kMaxKernelRows];
      for (int64_t ky = 0; ky < y.kernel; ++ky) {
        const int64_t i = oy * y.stride + ky * y.rhs_dilation - y.pad_low;
        rows[ky] = i < 0 || i >= y.input ? nullptr : At(lhs, b * p_.lhs_batch_stride + i * y.lhs_stride, p_.lhs_type);
      }
      DepthwiseRow r;
      r.lhs_rows = rows;
      r.kernel = kernel;
      r.out = At(out, b * p_.out_batch_stride + oy * y.out_stride, p_.out_type);
      r.kernel_rows = y.kernel;
      r.kernel_columns = x.kernel;
      r.channels = p_.out_features;
      r.in_columns = x.input;
      r.out_columns = x.output;
      r.lhs_column_stride = x.lhs_stride;
      r.out_column_stride = x.out_stride;
      r.stride = x.stride;
      r.dilation = x.rhs_dilation;
      r.pad_low = x.pad_low;
      kernels_.row(type_, r);
    };
    const int64_t rows = OutputBatch(p_) * y.output;
    if (pool == nullptr || !parallel_) {
      for (int64_t i = 0; i < rows; ++i) row(i, 0);
    } else {
      pool->ParallelFor(rows, row);
    }
    if (epilogue != nullptr) epilogue->run(epilogue->context, 0, 0, OutputBatch(p_));
    return absl::OkStatus();
  }

 private:
  ConvolutionProblem p_;
  const DepthwiseType type_;
  const DepthwiseKernels& kernels_;
  int64_t acc_bytes_;
  bool parallel_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeDepthwiseConvolution(const ConvolutionProblem& p,
                                                                          int num_threads) {
  if (p.batch_groups != 1 || p.kernel_in_features != 1 || p.feature_groups != p.in_features ||
      p.out_features != p.in_features || p.in_features < 2) {
    return absl::UnimplementedError("not depthwise");
  }
  DepthwiseType type;
  switch (p.lhs_type) {
    case ElementType::kF32:
      type = DepthwiseType::kF32;
      break;
    case ElementType::kF64:
      type = DepthwiseType::kF64;
      break;
    case ElementType::kF16:
      type = DepthwiseType::kF16;
      break;
    case ElementType::kBF16:
      type = DepthwiseType::kBF16;
      break;
    default:
      return absl::UnimplementedError(absl::StrCat("element type ", ElementTypeName(p.lhs_type), " is not supported"));
  }
  if (p.rhs_type != p.lhs_type || p.out_type != p.lhs_type) return absl::UnimplementedError("element types differ");
  if (p.dims.empty() || p.dims.size() > 2)
    return absl::UnimplementedError(absl::StrCat(p.dims.size(), " spatial dims"));
  if (p.lhs_feature_stride != 1 || p.out_feature_stride != 1)
    return absl::UnimplementedError("channels are not contiguous");
  for (const ConvolutionDim& d : p.dims) {
    if (d.lhs_dilation != 1) return absl::UnimplementedError("the input is dilated");
  }
  if (p.dims[0].kernel > kMaxKernelRows) return absl::UnimplementedError("too many kernel rows");
  return std::unique_ptr<ConvolutionPlan>(std::make_unique<Depthwise>(p, type, num_threads));
}

}  // namespace backplane::engine
