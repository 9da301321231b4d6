// The table by which a host image is used, and the functions that LLVM's code for processors calls.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_HOST_TABLE_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_HOST_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace backplane::hip {

// The fields of HostKernel.
struct HostTableEntry {
  std::string name;
  llvm::Function* run = nullptr;
  uint32_t threads = 0, kernarg_bytes = 0, shared_bytes = 0, frame_bytes = 0;
};

// Defines kHostKernelTable.
void EmitHostTable(llvm::Module& module, const std::vector<HostTableEntry>& entries);

// Defines memcpy, memmove and memset for the module alone, if it copies or fills memory.
void DefineMemoryFunctions(llvm::Module& module);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_HOST_TABLE_H_
