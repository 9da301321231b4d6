// Helpers for tests that compile programs, run them without any runtime, and compare the results with the evaluator's.
#ifndef BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_TESTING_H_
#define BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "plugins/hip/isa/interpreter.h"
#include "plugins/hip/program/program.h"

namespace backplane::hip {

struct Compiled {
  std::unique_ptr<GpuProgram> program;
  std::vector<std::string> log;
  isa::Statistics statistics;  // for an AMD target: sums over the kernels that ran
};

// Compiles the program for the target, "host" or an AMD GPU that the interpreter knows, runs it on random arguments,
// and compares the results with those that the evaluator gets from the module as it was. The target "mma" is the host
// with the matrix products of NVIDIA's GPUs (GpuTarget::multiplies_matrices), "mma:tf32" with tf32_products, ":async"
// behind them with async_copies, and ":groups" before it with multiplies_in_groups.
Compiled CompileAndCompare(const std::string& hlo, const std::string& target, double tolerance);

// FindGpuTarget, which knows the names of CompileAndCompare as well.
absl::StatusOr<GpuTarget> FindTestTarget(const std::string& name);

// Compiles the program for GPUs of AMD and NVIDIA: its kernels must need no private memory for registers, and no more
// shared memory than there is.
void ExpectCompilesForGpus(const std::string& hlo);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_TESTING_H_
