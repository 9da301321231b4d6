// The share of the machine that this process may use: processors by its affinity mask and the CPU quota of its control
// groups, memory by the limit of its control groups.
//
// Both versions of control groups are read, from the process's own group and all its ancestors; the smallest limit
// counts. A file that is missing or holds no number sets no limit. Nothing is cached.
#ifndef BACKPLANE_SDK_BACKEND_HOST_LIMITS_H_
#define BACKPLANE_SDK_BACKEND_HOST_LIMITS_H_

#include <cstdint>
#include <string>

namespace backplane {

// For tests, `root` is a directory that replaces the root of the file system: it is the prefix of /proc/self/cgroup,
// /proc/self/mountinfo and the files of the groups.

// Returns the CPU quota of the control groups in processors; 1.5 is one and a half processors. 0: no limit.
double ReadCpuQuota(const std::string& root = "");
// Returns the memory limit of the control groups in bytes. 0: no limit.
int64_t GroupMemoryBytes(const std::string& root = "");

// Returns the number of logical CPUs in the affinity mask of this process (a cpuset narrows it). At least 1.
int CountAffinityCpus();

// Returns how many threads can compute at the same time: CountAffinityCpus(), or the quota rounded up if that is less.
// At least 1.
int CountAvailableCpus(const std::string& root = "");

// Whether the quota is less than the CPUs of the affinity mask. If so, a spinning thread takes time from those that
// compute.
bool IsCpuTimeRationed(const std::string& root = "");

// Returns the memory of the machine in bytes, or the limit of the control groups if that is less. 0: unknown.
int64_t ReadHostMemoryBytes(const std::string& root = "");

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_LIMITS_H_
