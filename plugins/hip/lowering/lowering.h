// From kernels as gpu_ir.h describes them to what a GPU's runtime loads, for each kind of GPU and for the host.
//
//   target                      image
//   gfx90a, gfx942, gfx1030,    a code object for the HSA runtime, linked in this process; gfx9-generic and the like,
//   gfx1100, gfx1201, ...       too
//   sm_80 ... sm_90             PTX text, which the driver assembles; "sm_90:tf32" with GpuTarget::tf32_products,
//                               "sm_90:async" with async_copies, "sm_90:tf32:async" with both
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

// Behind the name of a target, in this order.
inline constexpr char kTf32Suffix[] = ":tf32", kAsyncSuffix[] = ":async";

enum class ImageKind : uint8_t { kAmdCodeObject, kPtx, kHost };

struct GpuTarget {
  std::string name;  // "gfx942", "sm_90", "host"
  ImageKind kind = ImageKind::kHost;
  // What emitters ask. Addresses of buffers are in kGlobalAddressSpace on all targets. A thread computes scalars: on
  // the host, Lower makes vectors of neighboring threads.
  codegen::IrTarget ir;
  int wave_size = 32;
  int max_block_threads = 1024;
  int shared_bytes = 65536;                 // of a block
  int multiprocessor_shared_bytes = 65536;  // for its blocks
  // Whether kernels can call gpu.multiply, gpu.copy and gpu.load (gpu_ir.h): GPUs of NVIDIA, and the host if a test
  // sets it.
  bool multiplies_matrices = false;
  bool tf32_products = false;  // products of f32 of default precision may round their operands to tf32
  bool async_copies = false;   // products copy their operands asynchronously (cp.async) where these are aligned
  int max_vgprs = 256;         // of a thread, in 32-bit units; 0: the machine has no such registers
  // The version of an AMD code object. 5 and 4 for machines; generic ones have 6 alone.
  int code_object_version = 5;
};

// The name of the target for a device whose runtime calls it so: "gfx942:sramecc+:xnack-" is compiled for as "gfx942",
// whose code runs in every mode; "sm_120" as the newest of NVIDIA's that is not newer, whose PTX its driver assembles.
std::string TargetOfArchitecture(absl::string_view architecture);
// By name; "host" is the machine that this process runs on. NotFound names those that are known.
absl::StatusOr<GpuTarget> FindGpuTarget(absl::string_view name);
// The names that FindGpuTarget accepts, the generic ones included.
std::vector<std::string> GpuTargetNames();

// What the compiler says of a kernel. Unknown numbers are -1 (PTX, host).
struct KernelResources {
  std::string name;
  int threads = 0;
  int vgprs = -1;  // of a thread, AGPRs included where they take the place of VGPRs
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
// Optimizes and compiles the module, which is changed and must not be lowered again. InvalidArgument for a module that
// is not as gpu_ir.h says, naming the kernel; ResourceExhausted for more shared memory or threads than the target has;
// Internal if LLVM or the linker fails, with its message.
absl::StatusOr<Image> Lower(llvm::Module& module, const GpuTarget& target);
enum class CodeForm : uint8_t {
  kIr,        // LLVM IR as the code generator takes it: lowered and optimized
  kAssembly,  // with register and memory use as comments; PTX for NVIDIA's GPUs
};
// The same as text, for people.
absl::StatusOr<std::string> LowerToText(llvm::Module& module, const GpuTarget& target,
                                        CodeForm form = CodeForm::kAssembly);

// The bytes of shared memory that a launch of a kernel must give to its blocks, beside those that the image declares:
// PTX declares no more than 48 KiB.
int DynamicSharedBytes(const std::string& image, absl::string_view kernel);

// What the image says of its kernels, in the order of `names`: the same that Lower returns for a code object. Kernels
// of other images have names alone.
absl::StatusOr<std::vector<KernelResources>> ReadResources(const std::string& image,
                                                           const std::vector<std::string>& names,
                                                           const GpuTarget& target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_H_
