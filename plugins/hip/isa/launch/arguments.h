// The memory that a launch prepares: kernel arguments and the dispatch packet.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_ARGUMENTS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_ARGUMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/hip/isa/interpreter.h"

namespace backplane::hip::isa {

// Returns the explicit arguments, and behind them the hidden ones that the kernel's metadata names. Hidden arguments
// that only a runtime could give (a queue, a heap, a buffer of printf) are zero, as a runtime without them passes,
// because every kernel whose calls the compiler cannot analyze lists them. Returns Unimplemented if the kernel needs
// such an argument.
absl::StatusOr<std::vector<uint64_t>> BuildArguments(const KernelInfo& kernel, const Launch& launch);

// Returns an hsa_kernel_dispatch_packet_t, 64 bytes.
std::vector<uint64_t> BuildDispatchPacket(const KernelInfo& kernel, const Launch& launch, uint64_t arguments);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_LAUNCH_ARGUMENTS_H_
