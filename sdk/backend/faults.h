// Fault injection inside a plugin: the n-th allocation, copy, kernel and so on fails, as if a resource had run out.
//
// The layer `fault` (sdk/layers/fault) fails calls of the C ABI before the plugin sees them, which tests the host. Here
// a call fails in the middle, which tests the plugin: whether it reports an error, frees its memory, wakes waiting
// threads, and can be used afterwards. A test counts the fault points that a program passes, then runs the program once
// for each of them with that point failing (plugins/cpu/faults_test.cc).
//
// Fault points are part of every build. As long as no failure is planned, a fault point costs one load of a flag.
// Thread-safe. There is one plan per process.
#ifndef BACKPLANE_SDK_BACKEND_FAULTS_H_
#define BACKPLANE_SDK_BACKEND_FAULTS_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace backplane {

enum class FaultSite : uint8_t {
  kStorage,    // memory of a buffer
  kTemporary,  // memory of a program: temporaries of a run, constants and packed weights of a compilation
  kThread,     // the start of a thread
  kCopy,       // a copy from the host, to it, or between memories
  kKernel,     // a step of a program, and each iteration of a loop
  kLaunch,     // a program on one device
  kCode,       // a stage of a compilation: generating code, linking an object, creating a step
  kCount,
};

const char* FaultSiteName(FaultSite site);

namespace faults {
inline std::atomic<bool> on{false};
absl::Status Pass(FaultSite site);  // counts the fault point; returns an error if the plan says so

// Starts a plan: resets all counts, and makes the `nth` fault point of `site` fail once (the first is 1). With 0 fault
// points are only counted.
void Fail(FaultSite site, int64_t nth);
// Returns how many fault points of `site` have been passed since the plan started.
int64_t CountPassed(FaultSite site);
// Ends the plan. The counts stay readable.
void Stop();
// Whether the planned failure has occurred.
bool Failed();
}  // namespace faults

// A fault point. Returns OK, or, if the plan says that it fails, ResourceExhausted for memory and threads and Internal
// for other sites.
inline absl::Status Fault(FaultSite site) {
  if (!faults::on.load(std::memory_order_relaxed)) [[likely]]
    return absl::OkStatus();
  return faults::Pass(site);
}

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_FAULTS_H_
