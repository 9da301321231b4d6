// What one run of a program starts on a device, in order, with the bytes and the arithmetic of each.
#ifndef BACKPLANE_PLUGINS_HIP_REPORT_LAUNCHES_H_
#define BACKPLANE_PLUGINS_HIP_REPORT_LAUNCHES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/hip/program/program.h"

namespace backplane::hip {

// Not called Launch, as the backend has a class of that name in the same namespace.
struct ProgramLaunch {
  enum class Kind : uint8_t {
    kKernel,
    kCopy,
    kHost,       // the host evaluates the instruction
    kCollective  // a collective: copies between devices, and kernels that combine them
  };
  Kind kind = Kind::kKernel;
  const Instruction* instruction = nullptr;  // null: a copy at the end of a computation
  int kernel = -1;                           // a number of ProgramKernels
  std::string note;                          // kHost: why no kernel runs it
  // How often it is started in one run: the product of the trip counts of the loops around it, times the equal launches
  // of an instruction that takes several (the merges of a sort). Loops of unknown trip count count once, and the number
  // is then a lower bound. A branch counts as if it were taken.
  double executions = 1;  // products of trip counts may be huge
  bool executions_known = true;
  // Of one execution. An array counts once, however often the threads read it; of an array that is only sliced or
  // gathered from, the elements that are taken count.
  int64_t read_bytes = 0, written_bytes = 0;
  double flops = 0, transcendentals = 0;
  // The type in which it computes.
  PrimitiveType type = PrimitiveType::kF32;
};

// The launches of a program that has been through RunGpuPipeline. `kernels` receives its kernels.
absl::StatusOr<std::vector<ProgramLaunch>> FindLaunches(const Module& module, ProgramKernels& kernels);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_REPORT_LAUNCHES_H_
