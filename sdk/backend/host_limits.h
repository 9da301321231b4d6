// What this process may use of the machine: processors by its affinity mask and its control groups' quota, memory by
// its control groups' limit.
//
// Control groups of both versions are read, alone or side by side, in the process's own group and all above it: the
// smallest limit counts. Files that are not there or hold no number set no limit. Nothing is cached.
#ifndef BACKPLANE_SDK_BACKEND_HOST_LIMITS_H_
#define BACKPLANE_SDK_BACKEND_HOST_LIMITS_H_

#include <cstdint>
#include <string>

namespace backplane {

// `root` stands before /proc/self/cgroup, /proc/self/mountinfo and the groups' files: another tree, for tests.

// Processors' time that the groups allow: 1.5 is one and a half processors. 0: no limit.
double CpuQuota(const std::string& root = "");
// Bytes that the groups allow. 0: no limit.
int64_t GroupMemoryBytes(const std::string& root = "");

// Logical cpus that this process may run on (its affinity mask, which a cpuset narrows); at least 1.
int AffinityCpus();

// Threads that can compute at the same time: AffinityCpus, or the quota rounded up where that is less. At least 1.
int AvailableCpus(const std::string& root = "");

// Whether a quota allows less than the cpus of the affinity mask: a thread that spins takes it from those that work.
bool IsCpuTimeRationed(const std::string& root = "");

// What the machine has, or the groups allow if that is less. 0: not known.
int64_t HostMemoryBytes(const std::string& root = "");

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_LIMITS_H_
