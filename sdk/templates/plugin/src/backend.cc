// @Name@: a PJRT plugin. Add claims for your kernels below; the evaluator runs every operation without a kernel.
// Backplane's docs/writing_a_plugin.md continues from here: matrix products, fusions, device memory.
#include "sdk/backend/mixed/mixed_backend.h"

namespace {

using backplane::Instruction;
using backplane::Opcode;
using backplane::PrimitiveType;
using backplane::mixed::Kernel;
using backplane::mixed::KernelArrays;

// The first kernel: f32 sums. It is created once for each instruction, when a program is compiled, and must be
// thread-safe. Its arrays are dense, row-major and not empty.
absl::StatusOr<Kernel> MakeSum(const Instruction& op) {
  const int64_t n = op.shape().num_elements();
  return Kernel([n](const KernelArrays& arrays) {
    const float* x = static_cast<const float*>(arrays.operands[0]);
    const float* y = static_cast<const float*>(arrays.operands[1]);
    float* out = static_cast<float*>(arrays.results[0]);
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
    return absl::OkStatus();
  });
}

}  // namespace

std::unique_ptr<backplane::Backend> backplane::CreateBackend(BackendServices services) {
  mixed::Options options;
  options.platform_name = "@name@";
  options.version = "@name@ 0.1.0";
  options.claims.Add({"sum", Opcode::kAdd, {PrimitiveType::kF32}, nullptr, &MakeSum});
  return mixed::MakeBackend(std::move(options), std::move(services));
}
