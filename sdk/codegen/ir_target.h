// Describes a target machine to code that emits LLVM IR for it.
//
// The emitters of elements and of elementary functions read an IrTarget and nothing else. They do not look at the
// triple or at the machine on which they run, and they do not call functions that the process with the generated code
// would have to provide. Therefore the code for a target has no undefined symbols, unless links_exact_math requests
// some.
//
// A target is a plain value. Create one with a function below and change fields where a machine differs.
// jit::Host().target of the engine describes the machine on which it runs. This header does not include LLVM.
//
// What follows from the fields:
//   - Values. An element is computed as a scalar or as a vector of any length; the emitters never need vectors. On a
//     GPU a work item computes scalars, and vector_bytes is 0.
//   - Elementary functions are polynomials in IR on every machine: no library of device functions is linked. A target
//     with has_fma has the errors that stand in vector_math_test's output; one without it loses a little.
//   - Calls. Long functions become internal functions of the module (SetFunctionAttributes) with the default calling
//     convention. Only kernels have one of their own (SetKernelAttributes).
//   - Memory. An emitter that reads a table puts it into constant_address_space, one that needs a temporary array has
//     it where the data layout says (temporary_address_space is that number). Pointers to buffers come from the caller.
#ifndef BACKPLANE_SDK_CODEGEN_IR_TARGET_H_
#define BACKPLANE_SDK_CODEGEN_IR_TARGET_H_

#include <string>

#include "absl/strings/string_view.h"

namespace llvm {
class Function;
}  // namespace llvm

namespace backplane::codegen {

enum class TargetFamily { kX86, kAmdGpu, kNvptx };

// Code generation passes that a target can disable. LLVM has options for some of them, but those apply to the whole
// process. These apply to the pipeline of one target (target_machine.h).
struct CodegenPasses {
  bool loop_strength_reduction = true;
  bool prepare = true;  // CodeGenPrepare
  bool schedule_before_allocation = true;
  bool schedule_after_allocation = true;
};

struct IrTarget {
  // --- names, as LLVM spells them
  TargetFamily family = TargetFamily::kX86;
  std::string triple;    // "x86_64-unknown-linux-gnu", "amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda"
  std::string cpu;       // "znver4", "gfx942", "sm_90"
  std::string features;  // "+avx2,-avx512f,..."; empty: those of the cpu

  // --- arithmetic: operations that are one instruction or a short exact sequence
  bool has_fma = true;              // x * y + z in one rounding, f32 and f64
  bool has_rounding = true;         // to integral values: floor, ceil, trunc, nearest even
  bool has_f16_conversions = true;  // between f16 and f32; without them they are made of integer arithmetic
  // f32 to bf16, to nearest even, subnormals kept. False on x86: its instruction flushes them.
  bool has_bf16_conversions = false;
  // Whether sums of products, and loops over scalars, use fused multiply-adds, which round once where the program
  // rounds twice. Other arithmetic is rounded as the program states.
  bool fuses_sums_of_products = false;
  // AVX-512 instructions that scale and split vectors of floats by their exponents.
  bool has_avx512 = false;

  // Whether the slow cases of sine, cosine, tangent and remainder (huge angles, huge quotients) are external functions,
  // which EmitExactMath (vector_math.h) defines in a separate module. They take half as long to compile as the rest of
  // a small module, so a process that links many modules compiles them once. False: each module contains its own copies
  // and is complete.
  bool links_exact_math = false;

  // --- vectors
  // Bytes of the widest register that arithmetic should use. 0: every lane of the machine computes one element by
  // itself, as on a GPU.
  int vector_bytes = 16;
  int F32Lanes() const { return vector_bytes > 4 ? vector_bytes / 4 : 1; }
  int F64Lanes() const { return vector_bytes > 8 ? vector_bytes / 8 : 1; }

  // --- memory
  unsigned buffer_address_space = 0;     // of a kernel's arrays
  unsigned constant_address_space = 0;   // of constant tables that are part of the code
  unsigned temporary_address_space = 0;  // of local variables
  int index_bits = 64;                   // the preferred width for index arithmetic if the values fit
  int buffer_alignment = 1;              // minimum alignment in bytes of the first element of each array

  // --- code generation
  CodegenPasses passes;
};

// Returns the target for an x86-64 level of the psABI on Linux: 1 (SSE2), 2 (SSE4.2), 3 (AVX2, FMA, F16C), 4 (AVX-512).
IrTarget X86Target(int level);
// Returns the target for an AMD GPU by its name in LLVM, such as "gfx942" or "gfx1100". The code object is for the HSA
// runtime.
IrTarget AmdGpuTarget(absl::string_view name);
// Returns the target for an NVIDIA GPU by its name in LLVM, such as "sm_90"; sm_80 or newer.
IrTarget NvptxTarget(absl::string_view name);

// Sets the attributes that every function with a body needs: cpu and features, no unwinding, IEEE arithmetic with
// subnormals.
void SetFunctionAttributes(llvm::Function& function, const IrTarget& target);
// Like SetFunctionAttributes, for a function that the host calls or launches. It gets the calling convention of a
// kernel.
void SetKernelAttributes(llvm::Function& function, const IrTarget& target);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_IR_TARGET_H_
