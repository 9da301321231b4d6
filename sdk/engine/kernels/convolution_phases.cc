// A convolution of a dilated input (a transposed convolution) as several plain ones. With a dilation of 2 every other
// output sees only every other tap of the window, so there is one plain convolution for each phase: the outputs at the
// same position modulo the dilation, and their taps. The library's own kernel for the purpose runs at half of the speed
// of its plain convolutions.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/engine/kernels/convolution_internal.h"

namespace backplane::engine {
namespace {

constexpr int64_t kMostPhases = 8;

struct Phase {
  std::unique_ptr<ConvolutionPlan> plan;
  int64_t rhs_offset = 0, out_offset = 0;  // in elements
};

class PhasedConvolution : public ConvolutionPlan {
 public:
  PhasedConvolution(const ConvolutionProblem& p, std::vector<Phase> phases) : p_(p), phases_(std::move(phases)) {}
  absl::string_view name() const override { return "phases"; }
  size_t scratch_bytes() const override {
    size_t most = 0;
    for (const Phase& phase : phases_) most = std::max(most, phase.plan->scratch_bytes());
    return most;
  }
  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    for (const Phase& phase : phases_) {
      absl::Status s = phase.plan->Execute(lhs, At(rhs, phase.rhs_offset, p_.rhs_type),
                                           At(out, phase.out_offset, p_.out_type), scratch, pool, nullptr);
      if (!s.ok()) return s;
    }
    if (epilogue != nullptr) epilogue->run(epilogue->context, 0, 0, OutputBatch(p_));
    return absl::OkStatus();
  }

 private:
  const ConvolutionProblem p_;
  const std::vector<Phase> phases_;
};

// Restricts dimension d to the outputs at `phase` modulo its dilation, and returns where its taps and outputs begin.
std::pair<int64_t, int64_t> RestrictToPhase(ConvolutionDim& d, int64_t phase) {
  const int64_t dilation = d.lhs_dilation, taps = d.kernel;
  // Output `phase + dilation q` sees input element q + u - pad with tap `first + dilation u`.
  const int64_t first = ((d.pad_low - phase) % dilation + dilation) % dilation;
  d.kernel = CeilDiv(taps - first, dilation);
  d.output = CeilDiv(d.output - phase, dilation);
  d.pad_low = (d.pad_low - phase - first) / dilation;
  d.pad_high = d.output + d.kernel - 1 - d.input - d.pad_low;
  d.lhs_dilation = 1;
  const int64_t lowest = d.reversed ? taps - 1 - first - dilation * (d.kernel - 1) : first;
  const std::pair<int64_t, int64_t> begin = {lowest * d.rhs_stride, phase * d.out_stride};
  d.rhs_stride *= dilation;
  d.out_stride *= dilation;
  return begin;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakePhasedConvolution(const ConvolutionProblem& p, int num_threads) {
  if (p.rhs_is_constant) return absl::UnimplementedError("the kernel can be packed once");
  if (p.feature_groups > 1 || p.batch_groups > 1) return absl::UnimplementedError("groups");
  int64_t count = 1;
  for (const ConvolutionDim& d : p.dims) {
    if (d.lhs_dilation == 1) continue;
    if (d.stride != 1 || d.rhs_dilation != 1) return absl::UnimplementedError("stride or dilation of the window");
    if (d.kernel < d.lhs_dilation) return absl::UnimplementedError("some outputs see no input");
    if (d.output < d.lhs_dilation) return absl::UnimplementedError("fewer outputs than phases");
    count *= d.lhs_dilation;
    if (count > kMostPhases) return absl::UnimplementedError("many phases");
  }
  if (count == 1) return absl::UnimplementedError("the input is not dilated");
  std::vector<Phase> phases;
  for (int64_t index = 0; index < count; ++index) {
    ConvolutionProblem one = p;
    Phase phase;
    int64_t rest = index;
    for (ConvolutionDim& d : one.dims) {
      if (d.lhs_dilation == 1) continue;
      const int64_t at = rest % d.lhs_dilation;
      rest /= d.lhs_dilation;
      const auto [rhs_offset, out_offset] = RestrictToPhase(d, at);
      phase.rhs_offset += rhs_offset;
      phase.out_offset += out_offset;
    }
    absl::StatusOr<std::unique_ptr<ConvolutionPlan>> plan = MakeOneDnnForward(one, num_threads);
    if (!plan.ok()) return plan.status();
    phase.plan = *std::move(plan);
    phases.push_back(std::move(phase));
  }
  return std::unique_ptr<ConvolutionPlan>(std::make_unique<PhasedConvolution>(p, std::move(phases)));
}

}  // namespace backplane::engine
