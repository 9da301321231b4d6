// Compiles kernels as gpu_ir.h describes them to images that a GPU's runtime loads, for each kind of GPU and for the
// host.
//
//   target                      image
//   gfx90a, gfx942, gfx1030,    a code object for the HSA runtime, linked in this process; gfx9-generic and the like,
//   gfx1100, gfx1201, ...       too
//   sm_80 ... sm_90, sm_90a     PTX text, which the driver assembles; "sm_90:tf32" with GpuTarget::tf32_products,
//                               "sm_90:registers" without async_copies, "sm_90:tf32:registers" with both
//   host                        a shared library, see host_image.h
//
// A client asks for a target, prepares an empty module, emits kernels for target.ir, and lowers the module:
//
//   ASSIGN_OR_RETURN(GpuTarget target, FindGpuTarget("gfx942"));
//   llvm::LLVMContext context;
//   llvm::Module module("kernels", context);
//   RETURN_IF_ERROR(PrepareModule(module, target));
//   ...  // emit
//   ASSIGN_OR_RETURN(Image image, Lower(module, target));
//
// Nothing here needs the maker's software. All functions are thread-safe; linking is serialized. A module and its
// context belong to one thread at a time.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/codegen/ir_target.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace backplane::hip {

// The suffixes of the name of a target, in this order.
inline constexpr char kTf32Suffix[] = ":tf32", kRegistersSuffix[] = ":registers";

enum class ImageKind : uint8_t { kAmdCodeObject, kPtx, kHost };

struct GpuTarget {
  std::string name;  // "gfx942", "sm_90", "host"
  ImageKind kind = ImageKind::kHost;
  // The target as emitters see it. Addresses of buffers are in kGlobalAddressSpace on all targets. A thread computes
  // scalars; on the host, Lower makes vectors of neighbouring threads.
  codegen::IrTarget ir;
  int wave_size = 32;
  int max_block_threads = 1024;
  int shared_bytes = 65536;                 // of a block
  int multiprocessor_shared_bytes = 65536;  // for all blocks that run on a multiprocessor
  // Whether kernels can call gpu.multiply, gpu.copy and gpu.load (gpu_ir.h): GPUs of NVIDIA, and the host if a test
  // sets it.
  bool multiplies_matrices = false;
  bool multiplies_in_groups = false;  // whether they can call gpu.group: sm_90a, and the host if a test sets it
  bool tf32_products = false;         // products of f32 of default precision may round their operands to tf32
  bool async_copies = false;          // products copy their operands asynchronously (cp.async) where these are aligned
  int max_vgprs = 256;                // of a thread, in 32-bit units; 0: the machine has no such registers
  // The version of an AMD code object: 5 or 4 for machines, 6 for generic targets.
  int code_object_version = 5;
};

// Returns the name of the target for an architecture as runtimes name it. Programs for "gfx942:sramecc+:xnack-" are
// compiled for "gfx942", whose code runs in every mode. Programs for "sm_120" are compiled for the newest target of
// NVIDIA that is not newer, because the driver assembles its PTX for newer GPUs; that of "sm_90a" for "sm_90" alone.
std::string FindTargetOfArchitecture(absl::string_view architecture);
// Finds a target by its name; "host" is the machine on which this process runs. The NotFound error names the known
// ones.
absl::StatusOr<GpuTarget> FindGpuTarget(absl::string_view name);
// Returns the names that FindGpuTarget accepts, with those of generic targets.
std::vector<std::string> ListGpuTargets();

// The resources that a kernel uses, as the compiler tells them. Unknown numbers are -1 (PTX, host).
struct KernelResources {
  std::string name;
  int threads = 0;
  int vgprs = -1;  // of a thread, with AGPRs if both share a register file
  int agprs = -1, sgprs = -1, shared_bytes = 0, spilled_registers = -1, code_bytes = -1;
  int scratch_bytes = -1;  // private memory of a thread, in the GPU's memory
  int occupancy = -1;      // waves of a SIMD that run at once, as the registers and shared memory allow
};

struct Image {
  std::string bytes;
  std::vector<KernelResources> kernels;  // in the module's order
};

// Gives an empty module the triple and the data layout that kernels for the target are written with.
absl::Status PrepareModule(llvm::Module& module, const GpuTarget& target);
// Optimizes and compiles the module, which is changed and must not be lowered again. Returns InvalidArgument, with the
// name of the kernel, for a module that is not as gpu_ir.h describes; ResourceExhausted for more shared memory or
// threads than the target has; Internal, with the message of LLVM or the linker, if one of them fails.
absl::StatusOr<Image> Lower(llvm::Module& module, const GpuTarget& target);
enum class CodeForm : uint8_t {
  kIr,        // LLVM IR as the code generator takes it: lowered and optimized
  kAssembly,  // with register and memory use as comments; PTX for NVIDIA's GPUs
};
// Does the same, but returns text for people.
absl::StatusOr<std::string> LowerToText(llvm::Module& module, const GpuTarget& target,
                                        CodeForm form = CodeForm::kAssembly);

// Reads how many bytes of shared memory a launch of a kernel must ask for, besides those that the image declares. PTX
// declares no more than 48 KiB.
int ReadDynamicSharedBytes(const std::string& image, absl::string_view kernel);

// Reads the resources of kernels from an image, in the order of `names`. For a code object they are those that Lower
// returned; for other images only the names are known.
absl::StatusOr<std::vector<KernelResources>> ReadResources(const std::string& image,
                                                           const std::vector<std::string>& names,
                                                           const GpuTarget& target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_H_
