// The memory that a launch prepares: kernel arguments and the dispatch packet.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_ARGUMENTS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_ARGUMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/hip/isa/interpreter.h"

namespace backplane::hip::isa {

// The explicit arguments, and behind them the hidden ones that the kernel's metadata names. Unimplemented for a hidden
// argument that only a runtime could give (a queue, a heap, a buffer of printf), if the kernel needs it: such arguments
// are listed by every kernel whose calls the compiler cannot see through, so they are zero, as a runtime without them
// passes.
absl::StatusOr<std::vector<uint64_t>> BuildArguments(const KernelInfo& kernel, const Launch& launch);

// hsa_kernel_dispatch_packet_t, 64 bytes.
std::vector<uint64_t> BuildDispatchPacket(const KernelInfo& kernel, const Launch& launch, uint64_t arguments);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_ARGUMENTS_H_
