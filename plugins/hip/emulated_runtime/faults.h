// Fault injection: the n-th call of a function fails.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_FAULTS_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_FAULTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip::emulated {

// Counts the calls of each function and decides which fail. Thread-safe.
class FaultTable {
 public:
  // "hipMalloc:3,hipModuleLaunchKernel:2:719": the third call of hipMalloc fails, with the error that is usual for the
  // function, and the second launch with 719. The InvalidArgument error names the part that is wrong.
  absl::Status Parse(absl::string_view text);
  // The n-th call of `function` from now on (n = 1: the next) fails with `error`; hipSuccess: the usual error. n = 0
  // withdraws all faults of the function.
  void Set(absl::string_view function, int64_t n, hipError_t error);
  // Counts a call and returns the error it fails with, or hipSuccess.
  hipError_t CountCall(absl::string_view function);
  int64_t calls(absl::string_view function) const;

 private:
  struct Fault {
    int64_t call;  // counted from the first call of the process
    hipError_t error;
  };
  struct Entry {
    int64_t calls = 0;
    std::vector<Fault> faults;
  };
  mutable Mutex mu_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_FAULTS_H_
