#include "conformance/kit/footprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "conformance/kit/steps.h"

namespace backplane::conformance {
namespace {

// Reads without malloc, so that measuring changes nothing.
int64_t MappedBytes() {
  char text[256];
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = '\0';
  long long pages = 0;
  if (std::sscanf(text, "%*d %*d %*d %*d %*d %lld", &pages) != 1) return 0;
  return pages * sysconf(_SC_PAGESIZE);
}

int64_t CountEntries(const char* folder) {
  DIR* open_folder = opendir(folder);
  if (open_folder == nullptr) return 0;
  int64_t count = 0;
  while (const dirent* entry = readdir(open_folder)) count += entry->d_name[0] != '.';
  closedir(open_folder);
  return count;
}

int64_t DeviceBytes(Kit& k) {
  if (!k.Has(&PJRT_Api::PJRT_Device_MemoryStats)) return 0;
  int64_t bytes = 0;
  for (PJRT_Device* device : k.devices()) {
    KIT_ARGS(k, a, PJRT_Device_MemoryStats);
    a.device = device;
    if (KIT_TRY(k, PJRT_Device_MemoryStats, a).ok()) bytes += a.bytes_in_use;
  }
  return bytes;
}

}  // namespace

const char* GetName(Resource kind) {
  switch (kind) {
    case Resource::kHeap:
      return "bytes of malloc";
    case Resource::kMapped:
      return "bytes of mapped memory";
    case Resource::kDevice:
      return "bytes in use on the devices";
    case Resource::kDescriptors:
      return "open files";
    case Resource::kThreads:
      return "threads";
  }
  return "";
}

Footprint MeasureFootprint(Kit& k) {
  // Queries the device first, because an error that it returns is allocated and freed.
  const int64_t device = DeviceBytes(k);
  return {CountHeapBytes(), MappedBytes(), device, CountEntries("/proc/self/fd"), CountEntries("/proc/self/task")};
}

}  // namespace backplane::conformance
