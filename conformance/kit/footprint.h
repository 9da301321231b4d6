// The resources that this process holds at one moment. The difference of two footprints is what a call left behind.
#ifndef BACKPLANE_CONFORMANCE_KIT_FOOTPRINT_H_
#define BACKPLANE_CONFORMANCE_KIT_FOOTPRINT_H_

#include <array>
#include <cstdint>

#include "conformance/kit/kit.h"

namespace backplane::conformance {

enum class Resource { kHeap, kMapped, kDevice, kDescriptors, kThreads };
inline constexpr int kResourceKinds = 5;

// "bytes of malloc": the unit of a resource, for messages.
const char* GetName(Resource kind);

using Footprint = std::array<int64_t, kResourceKinds>;

// kHeap: bytes allocated by malloc, including those of the plugin. kMapped: writable private memory of the process in
// bytes, which includes malloc's memory and thread stacks, so it is coarser. kDevice: bytes in use on the client's
// devices according to PJRT_Device_MemoryStats, or 0 if the plugin does not report them. kDescriptors: open files.
// kThreads: threads. All but kHeap and kDevice are read from /proc, so they work on Linux only.
Footprint MeasureFootprint(Kit& k);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_FOOTPRINT_H_
