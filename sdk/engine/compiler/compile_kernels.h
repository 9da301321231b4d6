// Compiles kernels to machine code. Nothing else in this folder uses LLVM.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_COMPILE_KERNELS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_COMPILE_KERNELS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/codegen/loop_kernel.h"
#include "sdk/engine/jit/jit.h"

namespace backplane::engine {

// The code that must be generated for a program.
struct CodeRequests {
  std::vector<codegen::KernelRequest> kernels;
  std::vector<codegen::LoopRequest> loops;
  std::vector<codegen::ScalarRequest> scalars, comparators;
};

// Compiles the requests, divided into modules, in parallel on the pool, which may be null. Returns the first error.
absl::StatusOr<std::vector<jit::ObjectCode>> CompileKernels(const CodeRequests& requests, ThreadPool* pool,
                                                            int num_threads);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_COMPILE_KERNELS_H_
