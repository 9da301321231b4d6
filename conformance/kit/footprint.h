// What this process holds at one moment, by the ways in which a plugin can hold it. Two footprints tell what a call
// left behind.
#ifndef BACKPLANE_CONFORMANCE_KIT_FOOTPRINT_H_
#define BACKPLANE_CONFORMANCE_KIT_FOOTPRINT_H_

#include <array>
#include <cstdint>

#include "conformance/kit/kit.h"

namespace backplane::conformance {

enum class Held { kHeap, kMapped, kDevice, kDescriptors, kThreads };
inline constexpr int kHeldKinds = 5;

// "bytes of malloc": the unit and where it is held, as a message says it.
const char* NameOf(Held kind);

using Footprint = std::array<int64_t, kHeldKinds>;

// kHeap: bytes that malloc has given out, the plugin's included. kMapped: writable private memory of the process, in
// bytes, whoever mapped it; it holds malloc's memory and threads' stacks too, so it is coarser. kDevice: bytes in use
// on the client's devices as PJRT_Device_MemoryStats says, or 0 where a plugin says nothing. kDescriptors: open files.
// kThreads: threads. Linux only: the others are read from /proc.
Footprint TakeFootprint(Kit& k);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_FOOTPRINT_H_
