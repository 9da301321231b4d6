// The create options of the HIP plugin, and the topology that follows from them.
//
//   platform      auto (default), amd, nvidia, emulated: whose runtime is opened (runtime/open_runtime.h). If it is not
//                 given, the environment variable BACKPLANE_HIP_PLATFORM is read
//   library       path of the runtime's library
//   target        compile for this GPU (lowering.h), "gfx942" or "host". If it is not given, the environment variable
//                 BACKPLANE_HIP_TARGET is read. Default: the device's own; for the emulated runtime "host", which runs
//                 faster than machine code
//   f32_products  exact (default), or tf32: products of f32 of default precision round their operands to tf32, which
//                 the GPUs of NVIDIA multiply by matrix instructions. If it is not given, the environment variable
//                 BACKPLANE_HIP_F32_PRODUCTS is read
//   operand_copies  registers (default), or async: products on NVIDIA's GPUs copy aligned operands asynchronously. No
//                 GPU has run these kernels yet. If it is not given, the environment variable
//                 BACKPLANE_HIP_OPERAND_COPIES is read
//   memory_limit_bytes, collective_timeout_seconds      as of the other plugins (sdk/backend/host_topology.h)
//   memory_slab_bytes     how much memory is taken from the runtime at a time for small arrays (MemoryPool); 0: each
//                 array is an allocation of its own. Default: 0 for the emulated runtime, which checks the accesses to
//                 each of its allocations, else 32 MiB
//   device_count  of a topology without hardware: for how many devices, 1 to 1024, is compiled; default 1
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_OPTIONS_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_OPTIONS_H_

#include <chrono>
#include <optional>
#include <string>

#include "plugins/hip/runtime/open_runtime.h"
#include "sdk/backend/backend.h"

namespace backplane::hip {

struct Options {
  RuntimeOptions runtime;
  std::string target;  // empty: the device's
  bool tf32_products = false;
  bool async_copies = false;
  int64_t memory_limit_bytes = 0;
  std::optional<int64_t> memory_slab_bytes;  // nothing: the default
  std::chrono::milliseconds collective_time_limit{};
  int device_count = 1;
};

// The name under which FindGpuTarget finds the machine with what the options say of its kernels.
std::string TargetName(const std::string& machine, const Options& options);

// The slabs of a client whose runtime is emulated or not.
size_t SlabBytes(const Options& options, bool emulated);

// InvalidArgument names an option that is unknown or has a wrong value, and the options that there are.
absl::StatusOr<Options> ParseOptions(const NamedValues& options);

// The attribute of a topology that names the GPU for which is compiled.
inline constexpr char kTargetAttribute[] = "target";

struct DeviceNames {
  std::string name, architecture;
};
// Device d has the memories 2d "device", its default, and 2d + 1 "pinned_host".
Topology MakeTopology(const std::string& target, const std::vector<DeviceNames>& devices);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_OPTIONS_H_
