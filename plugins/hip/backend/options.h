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
//   operand_copies  async (default): products on NVIDIA's GPUs copy aligned operands asynchronously; or registers: they
//                 copy none so. If it is not given, the environment variable BACKPLANE_HIP_OPERAND_COPIES is read
//   vendor_libraries  auto (default): libraries of the GPU's maker compute products where they are right and faster
//                 (product_tuner.h); or off. If it is not given, BACKPLANE_HIP_VENDOR_LIBRARIES is read
//   product_library   path of such a library, else the environment variable BACKPLANE_HIP_PRODUCT_LIBRARY. By default
//                 those that OpenProductLibraries looks for
//   graphs        auto (default): kernels that are started again and again are started as graphs of the runtime where
//                 that is faster (graph_cache.h); on: wherever possible; or off. If it is not given, the environment
//                 variable BACKPLANE_HIP_GRAPHS is read
//   collective_library  path of a library for collectives, else the environment variable
//                 BACKPLANE_HIP_COLLECTIVE_LIBRARY; default: that of OpenCollectiveLibrary. vendor_libraries=off: none
//   memory_limit_bytes, collective_timeout_seconds      as of the other plugins (sdk/backend/host_topology.h)
//   memory_slab_bytes     how much memory is taken from the runtime at a time for small arrays (MemoryPool); 0: each
//                 array is an allocation of its own. Default: 0 for the emulated runtime, which checks the accesses to
//                 each of its allocations, else 32 MiB
//   device_count  for a topology without hardware: the number of devices, 1 to 1024; default 1
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_OPTIONS_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_OPTIONS_H_

#include <chrono>
#include <optional>
#include <string>

#include "plugins/hip/runtime/open_runtime.h"
#include "sdk/backend/backend.h"

namespace backplane::hip {

// Whether kernels and copies are started as graphs of the runtime.
enum class GraphMode {
  kOff,
  kAuto,  // where graphs are faster
  kOn,    // wherever possible
};

struct Options {
  RuntimeOptions runtime;
  std::string target;  // empty: the target of the device
  bool tf32_products = false;
  bool register_copies = false;
  bool vendor_libraries = true;
  std::string product_library;     // empty: those that OpenProductLibraries looks for
  std::string collective_library;  // empty: that of OpenCollectiveLibrary
  GraphMode graphs = GraphMode::kAuto;
  int64_t memory_limit_bytes = 0;
  std::optional<int64_t> memory_slab_bytes;  // nullopt: the default
  std::chrono::milliseconds collective_time_limit{};
  int device_count = 1;
};

// Returns the name under which FindGpuTarget finds the machine, with suffixes for the options that change its kernels.
std::string MakeTargetName(const std::string& machine, const Options& options);

// Returns the size of a client's slabs. `emulated` tells whether its runtime is the emulated one.
size_t ChooseSlabBytes(const Options& options, bool emulated);

// Returns InvalidArgument for an option that is unknown or has a wrong value. The message names the known options.
absl::StatusOr<Options> ParseOptions(const NamedValues& options);

// The attribute of a topology that names the GPU for which programs are compiled.
inline constexpr char kTargetAttribute[] = "target";

struct DeviceNames {
  std::string name, architecture;
};
// Makes a topology whose device d has the memories 2d "device", its default, and 2d + 1 "pinned_host".
Topology MakeTopology(const std::string& target, const std::vector<DeviceNames>& devices);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_OPTIONS_H_
