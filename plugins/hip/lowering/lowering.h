// From kernels as gpu_ir.h describes them to what a GPU's runtime loads, for each kind of GPU and for the host.
//
//   target                      image
//   gfx90a, gfx942, gfx1030,    a code object for the HSA runtime, linked in this process; gfx9-generic and the like,
//   gfx1100, gfx1201, ...       too
//   sm_80 ... sm_90             PTX text, which the driver assembles
//   host                        a shared library, see host_image.h
//
// Nothing here needs the maker's software. All functions are thread-safe; linking is serialized.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/codegen/ir_target.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace backplane::hip {

enum class ImageKind : uint8_t { kAmdCodeObject, kPtx, kHost };

struct GpuTarget {
  std::string name;           // "gfx942", "sm_90", "host"
  ImageKind kind = ImageKind::kHost;
  codegen::IrTarget ir;       // what emitters ask
  int wave_size = 32;
  int max_block_threads = 1024;
  int shared_bytes = 65536;   // of a block
  int max_vgprs = 256;        // of a thread; 0: unknown
};

// By name; "host" is the machine that this process runs on. NotFound names those that are known.
absl::StatusOr<GpuTarget> FindGpuTarget(absl::string_view name);
// The names that FindGpuTarget accepts, the generic ones included.
std::vector<std::string> GpuTargetNames();

// What the compiler says of a kernel. Unknown numbers are -1 (PTX, host).
struct KernelResources {
  std::string name;
  int threads = 0, vgprs = -1, agprs = -1, sgprs = -1, shared_bytes = 0, spilled_registers = -1, code_bytes = -1;
  int occupancy = -1;  // waves of a SIMD that run at once, as the registers and shared memory allow
};

struct Image {
  std::string bytes;
  std::vector<KernelResources> kernels;
};

// Gives an empty module the triple and the data layout that kernels for the target are written with.
absl::Status PrepareModule(llvm::Module& module, const GpuTarget& target);
// Optimizes and compiles the module, which is changed. Internal if LLVM fails, with its message.
absl::StatusOr<Image> Lower(llvm::Module& module, const GpuTarget& target);
// The same as assembly text with register and memory use as comments, for people.
absl::StatusOr<std::string> LowerToText(llvm::Module& module, const GpuTarget& target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_H_
