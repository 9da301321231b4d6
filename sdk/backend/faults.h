// Faults on purpose inside a plugin: the n-th allocation, copy, kernel ... fails as if the machine had run out of it.
//
// The layer `fault` (sdk/layers/fault) makes calls of the C ABI fail before a plugin sees them; that tries hosts. Here
// a call fails somewhere in its middle; that tries the plugin: whether it reports an error, frees what it holds, wakes
// who waits, and goes on working. Tests count the places that a program passes, then let each of them fail in turn
// (plugins/cpu/faults_test.cc).
//
// Part of every build. While no plan is set, a place costs one load of a flag that is always in the cache.
// Thread-safety: everything from any thread; one plan for the process.
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
  kKernel,     // a step of a program, and each round of a loop
  kLaunch,     // a program on one device
  kCode,       // of a compilation: generating code, linking an object, making a step
  kCount,
};

const char* FaultSiteName(FaultSite site);

namespace faults {
inline std::atomic<bool> on{false};
absl::Status Pass(FaultSite site);  // counts, and fails where the plan says so

// From now on places count from 1, and the `nth` of `site` fails, once; 0: none does.
void Fail(FaultSite site, int64_t nth);
// How many places of `site` have been passed since then. Stop ends the plan and keeps the counts.
int64_t Passed(FaultSite site);
void Stop();
// Whether the place of the plan has been passed.
bool Failed();
}  // namespace faults

// ResourceExhausted for memory and threads, else Internal, where a plan lets this place fail.
inline absl::Status Fault(FaultSite site) {
  if (!faults::on.load(std::memory_order_relaxed)) [[likely]]
    return absl::OkStatus();
  return faults::Pass(site);
}

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_FAULTS_H_
