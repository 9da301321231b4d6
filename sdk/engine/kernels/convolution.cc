#include "sdk/engine/kernels/convolution.h"

#include <algorithm>
#include <complex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/engine/kernels/convolution_internal.h"
#include "sdk/engine/kernels/scalar_access.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

// The definition, one element at a time.
class ReferenceConvolution : public ConvolutionPlan {
 public:
  explicit ReferenceConvolution(const ConvolutionProblem& p) : p_(p) {}
  absl::string_view name() const override { return "reference"; }
  size_t scratch_bytes() const override { return 0; }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void*, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    const bool complex = IsComplex(p_.lhs_type) || IsComplex(p_.rhs_type) || IsComplex(p_.out_type);
    const bool real = IsFloat(p_.lhs_type) || IsFloat(p_.rhs_type) || IsFloat(p_.out_type);
    auto image = [&](int64_t index, int) {
      const int64_t b = index / p_.out_features, o = index % p_.out_features;
      if (complex) {
        Image<std::complex<double>>(b, o, lhs, rhs, out);
      } else if (real) {
        Image<double>(b, o, lhs, rhs, out);
      } else {
        Image<uint64_t>(b, o, lhs, rhs, out);
      }
    };
    const int64_t images = OutputBatch(p_) * p_.out_features;
    if (pool != nullptr) {
      pool->ParallelFor(images, image);
    } else {
      for (int64_t i = 0; i < images; ++i) image(i, 0);
    }
    if (epilogue != nullptr) epilogue->run(epilogue->context, 0, 0, OutputBatch(p_));
    return absl::OkStatus();
  }

 private:
  template <typename T>
  void Image(int64_t b, int64_t o, const void* lhs, const void* rhs, void* out) const {
    const int64_t feature_group = o / (p_.out_features / p_.feature_groups);
    const int64_t batch_group = o / (p_.out_features / p_.batch_groups);
    const int64_t lhs_base = (batch_group * OutputBatch(p_) + b) * p_.lhs_batch_stride +
                             feature_group * p_.kernel_in_features * p_.lhs_feature_stride;
    const int64_t positions = OutputPositions(p_), taps = KernelPositions(p_);
    const int rank = static_cast<int>(p_.dims.size());
    for (int64_t position = 0; position < positions; ++position) {
      int64_t at[8] = {}, rest = position, out_index = b * p_.out_batch_stride + o * p_.out_feature_stride;
      for (int d = rank - 1; d >= 0; --d) {
        at[d] = rest % p_.dims[d].output;
        rest /= p_.dims[d].output;
        out_index += at[d] * p_.dims[d].out_stride;
      }
      T sum{};
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t left = tap, lhs_index = lhs_base, rhs_index = o * p_.rhs_out_stride;
        bool inside = true;
        for (int d = rank - 1; d >= 0 && inside; --d) {
          const int64_t k = left % p_.dims[d].kernel;
          left /= p_.dims[d].kernel;
          const int64_t i = InputIndex(p_.dims[d], at[d], k);
          inside = i >= 0;
          lhs_index += i * p_.dims[d].lhs_stride;
          rhs_index += k * p_.dims[d].rhs_stride;
        }
        if (!inside) continue;
        for (int64_t f = 0; f < p_.kernel_in_features; ++f) {
          sum += LoadScalar<T>(lhs, lhs_index + f * p_.lhs_feature_stride, p_.lhs_type) *
                 LoadScalar<T>(rhs, rhs_index + f * p_.rhs_in_stride, p_.rhs_type);
        }
      }
      StoreScalar<T>(out, out_index, p_.out_type, sum);
    }
  }

  const ConvolutionProblem p_;
};

// Batch groups as so many convolutions of their own, one after another.
class BatchGrouped : public ConvolutionPlan {
 public:
  BatchGrouped(const ConvolutionProblem& p, std::unique_ptr<ConvolutionPlan> group) : p_(p), group_(std::move(group)) {}
  absl::string_view name() const override { return group_->name(); }
  size_t scratch_bytes() const override { return group_->scratch_bytes(); }
  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    const int64_t features = p_.out_features / p_.batch_groups;
    for (int64_t g = 0; g < p_.batch_groups; ++g) {
      absl::Status s =
          group_->Execute(At(lhs, g * OutputBatch(p_) * p_.lhs_batch_stride, p_.lhs_type),
                          At(rhs, g * features * p_.rhs_out_stride, p_.rhs_type),
                          At(out, g * features * p_.out_feature_stride, p_.out_type), scratch, pool, nullptr);
      if (!s.ok()) return s;
    }
    if (epilogue != nullptr) epilogue->run(epilogue->context, 0, 0, OutputBatch(p_));
    return absl::OkStatus();
  }

 private:
  const ConvolutionProblem p_;
  const std::unique_ptr<ConvolutionPlan> group_;
};

absl::Status Invalid(const ConvolutionProblem& p, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("convolution ", p.ToString(), ": ", std::string(what)));
}

absl::Status Validate(const ConvolutionProblem& p) {
  if (p.batch < 0 || p.in_features < 0 || p.kernel_in_features < 0 || p.out_features < 0)
    return Invalid(p, "a size is negative");
  if (p.feature_groups < 1 || p.batch_groups < 1) return Invalid(p, "a group count is below 1");
  if (p.feature_groups > 1 && p.batch_groups > 1) return Invalid(p, "feature groups and batch groups together");
  if (p.kernel_in_features * p.feature_groups != p.in_features)
    return Invalid(p, "kernel input features times groups differ from input features");
  if (p.out_features % p.feature_groups != 0 || p.out_features % p.batch_groups != 0)
    return Invalid(p, "output features are no multiple of the groups");
  if (p.batch % p.batch_groups != 0) return Invalid(p, "batch is no multiple of the batch groups");
  if (p.dims.size() > 8) return Invalid(p, "more than 8 spatial dims");
  for (const ConvolutionDim& d : p.dims) {
    if (d.input < 0 || d.kernel < 0 || d.output < 0) return Invalid(p, "a spatial size is negative");
    if (d.stride < 1 || d.lhs_dilation < 1 || d.rhs_dilation < 1) return Invalid(p, "a stride or dilation is below 1");
    const int64_t base = d.input == 0 ? 0 : (d.input - 1) * d.lhs_dilation + 1;
    const int64_t window = d.kernel == 0 ? 0 : (d.kernel - 1) * d.rhs_dilation + 1;
    const int64_t padded = d.pad_low + base + d.pad_high;
    const int64_t expected = window > padded || padded < 0 ? 0 : (padded - window) / d.stride + 1;
    if (d.output != expected) return Invalid(p, absl::StrCat("output size ", d.output, ", expected ", expected));
  }
  return absl::OkStatus();
}

struct ConvolutionCandidate {
  const char* name;
  ConvolutionFactory make;
};

std::vector<ConvolutionCandidate> RankCandidates(const ConvolutionProblem& p) {
  const ConvolutionCandidate depthwise{"depthwise", &MakeDepthwiseConvolution},
      forward{"onednn_forward", &MakeOneDnnForward}, data{"onednn_backward_data", &MakeOneDnnBackwardData},
      weights{"onednn_backward_weights", &MakeOneDnnBackwardWeights}, im2col{"im2col", &MakeIm2Col},
      thin{"thin", &MakeThinConvolution}, phases{"phases", &MakePhasedConvolution},
      reference{"reference", &MakeReferenceConvolution};
  // A window larger than the output is the gradient of a kernel: the roles of window and output are exchanged there.
  if (p.batch_groups > 1 || KernelPositions(p) > OutputPositions(p))
    return {weights, depthwise, forward, data, im2col, thin, reference};
  // oneDNN has its own depthwise kernel for bf16, and it is the faster one; ours covers what that refuses.
  if (p.lhs_type == ElementType::kBF16) return {forward, depthwise, data, weights, im2col, thin, reference};
  // With few channels the time goes into copies, and each phase has its own.
  constexpr int64_t kFewestPhaseChannels = 16;
  if (p.in_features >= kFewestPhaseChannels && p.out_features >= kFewestPhaseChannels)
    return {depthwise, forward, phases, data, weights, im2col, thin, reference};
  return {depthwise, forward, data, phases, weights, im2col, thin, reference};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeReferenceConvolution(const ConvolutionProblem& problem, int) {
  return std::unique_ptr<ConvolutionPlan>(std::make_unique<ReferenceConvolution>(problem));
}

absl::Status ConvolutionPlan::PrepareRhs(const void*, void*) const { return absl::OkStatus(); }

std::string ConvolutionProblem::ToString() const {
  std::string s = absl::StrCat(ElementTypeName(lhs_type), "[b", batch, " f", in_features);
  for (const ConvolutionDim& d : dims) absl::StrAppend(&s, " ", d.input);
  absl::StrAppend(&s, "] * ", ElementTypeName(rhs_type), "[i", kernel_in_features, " o", out_features);
  for (const ConvolutionDim& d : dims) absl::StrAppend(&s, " ", d.kernel);
  absl::StrAppend(&s, "] -> ", ElementTypeName(out_type));
  for (const ConvolutionDim& d : dims) {
    absl::StrAppend(&s, " {", d.output, " stride ", d.stride, " pad ", d.pad_low, "_", d.pad_high);
    if (d.lhs_dilation != 1) absl::StrAppend(&s, " lhs_dilate ", d.lhs_dilation);
    if (d.rhs_dilation != 1) absl::StrAppend(&s, " rhs_dilate ", d.rhs_dilation);
    if (d.reversed) absl::StrAppend(&s, " reversed");
    absl::StrAppend(&s, "}");
  }
  if (feature_groups != 1) absl::StrAppend(&s, " feature_groups ", feature_groups);
  if (batch_groups != 1) absl::StrAppend(&s, " batch_groups ", batch_groups);
  return s;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> PlanConvolution(const ConvolutionProblem& problem,
                                                                 const ConvolutionOptions& options, RefusalLog* log) {
  if (absl::Status s = Validate(problem); !s.ok()) return s;
  for (const ConvolutionCandidate& candidate : RankCandidates(problem)) {
    if (!options.only.empty() && options.only != candidate.name) continue;
    absl::StatusOr<std::unique_ptr<ConvolutionPlan>> plan = candidate.make(problem, options.num_threads);
    if (plan.ok()) return plan;
    if (plan.status().code() != absl::StatusCode::kUnimplemented) return plan.status();
    if (log != nullptr) log->push_back(absl::StrCat(candidate.name, ": ", plan.status().message()));
    if (problem.batch_groups > 1 && candidate.make != &MakeOneDnnBackwardWeights) {
      ConvolutionProblem group = problem;
      group.batch /= problem.batch_groups;
      group.out_features /= problem.batch_groups;
      group.batch_groups = 1;
      group.rhs_is_constant = false;
      plan = candidate.make(group, options.num_threads);
      if (plan.ok()) return std::unique_ptr<ConvolutionPlan>(std::make_unique<BatchGrouped>(problem, *std::move(plan)));
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("convolution ", problem.ToString(), ": no kernel named ", options.only, " takes it"));
}

}  // namespace backplane::engine
