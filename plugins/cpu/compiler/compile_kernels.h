// Kernels to machine code: the one place of the compiler that touches LLVM.
#ifndef BACKPLANE_PLUGINS_CPU_COMPILER_COMPILE_KERNELS_H_
#define BACKPLANE_PLUGINS_CPU_COMPILER_COMPILE_KERNELS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "plugins/cpu/codegen/kernel.h"
#include "plugins/cpu/jit/jit.h"

namespace backplane::cpu {

// What generated code a program needs.
struct CodeRequests {
  std::vector<codegen::KernelRequest> kernels;
  std::vector<codegen::ScalarRequest> scalars, comparators;
};

// Spreads the work over modules and the modules over the pool (may be null).
absl::StatusOr<std::vector<jit::ObjectCode>> CompileKernels(const CodeRequests& requests, ThreadPool* pool,
                                                            int num_threads);

}  // namespace backplane::cpu

#endif  // BACKPLANE_PLUGINS_CPU_COMPILER_COMPILE_KERNELS_H_
