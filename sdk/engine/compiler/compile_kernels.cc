#include "sdk/engine/compiler/compile_kernels.h"

#include <algorithm>
#include <numeric>

#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine {
namespace {

constexpr int64_t kMaxModuleInstructions = 4096;  // of HLO, about

// The code of one module.
struct ModuleWork {
  std::vector<codegen::KernelRequest> kernels;
  std::vector<codegen::LoopRequest> loops;
  int64_t load = 0;
};

}  // namespace

absl::StatusOr<std::vector<jit::ObjectCode>> CompileKernels(const CodeRequests& requests, ThreadPool* pool,
                                                            int num_threads) {
  const int kernels = static_cast<int>(requests.kernels.size());
  const int count = kernels + static_cast<int>(requests.loops.size());
  const bool scalars = !requests.scalars.empty() || !requests.comparators.empty();
  // Kernels first, then loops.
  auto size_of = [&](int k) {
    return k < kernels ? requests.kernels[static_cast<size_t>(k)].fusion->computation->instruction_count()
                       : codegen::CountInstructions(requests.loops[static_cast<size_t>(k - kernels)].loop);
  };
  auto load_of = [&](int k) { return 4 + size_of(k); };
  int64_t total = 0;
  for (int k = 0; k < count; ++k) total += load_of(k);
  // A module for each thread, and more where they would grow large: what LLVM holds at a time stays bounded.
  const int modules = std::max({1, jit::SuggestModuleCount(count, std::max(1, num_threads)),
                                static_cast<int>(std::min<int64_t>(count, total / kMaxModuleInstructions))});
  std::vector<ModuleWork> work(static_cast<size_t>(modules));
  // Largest kernels first, each to the module with the least so far.
  std::vector<int> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size_of(a) > size_of(b); });
  for (int k : order) {
    ModuleWork& least = *std::min_element(work.begin(), work.end(),
                                          [](const ModuleWork& a, const ModuleWork& b) { return a.load < b.load; });
    least.load += load_of(k);
    if (k < kernels) {
      least.kernels.push_back(requests.kernels[static_cast<size_t>(k)]);
    } else {
      least.loops.push_back(requests.loops[static_cast<size_t>(k - kernels)]);
    }
  }
  return jit::CompileModules(
      modules,
      [&](int index, llvm::Module& module) -> absl::Status {
        RETURN_IF_ERROR(codegen::EmitKernels(work[static_cast<size_t>(index)].kernels, module));
        RETURN_IF_ERROR(codegen::EmitLoopKernels(work[static_cast<size_t>(index)].loops, module));
        RETURN_IF_ERROR(Fault(FaultSite::kCode));
        if (index == 0 && scalars)
          RETURN_IF_ERROR(codegen::EmitScalarFunctions(requests.scalars, requests.comparators, module));
        return absl::OkStatus();
      },
      pool);
}

}  // namespace backplane::engine
