// What a machine says about itself to whoever writes LLVM IR for it.
//
// The emitters of elements and of elementary functions ask an IrTarget and nothing else: no emitter knows a triple,
// looks at the machine it runs on, or calls a function that the generated code's process would have to supply. The IR
// for one target is therefore complete: compiled, it has no undefined symbol, unless links_exact_math asks for some.
//
// A target is a plain value. Make one with a factory below and change fields where a machine differs. The host's own is
// jit::Host().target, which an engine detects; there is no LLVM in this header.
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

// Code generation passes that a target can leave out. LLVM has options for some of them, but those are the whole
// process's; here they belong to one target's pipeline (target_machine.h).
struct CodegenPasses {
  bool loop_strength_reduction = true;
  bool prepare = true;  // CodeGenPrepare
  bool schedule_before_allocation = true;
  bool schedule_after_allocation = true;
};

struct IrTarget {
  // --- what LLVM is told: its names
  TargetFamily family = TargetFamily::kX86;
  std::string triple;    // "x86_64-unknown-linux-gnu", "amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda"
  std::string cpu;       // "znver4", "gfx942", "sm_90"
  std::string features;  // "+avx2,-avx512f,..."; empty: those of the cpu

  // --- arithmetic: what is an instruction, or a short exact sequence that LLVM knows
  bool has_fma = true;              // x * y + z in one rounding, f32 and f64
  bool has_rounding = true;         // to whole numbers: floor, ceil, trunc, nearest even
  bool has_f16_conversions = true;  // between f16 and f32; without them they are made of integer arithmetic
  // f32 to bf16, to nearest even, subnormals kept. False on x86: its instruction flushes them.
  bool has_bf16_conversions = false;
  // AVX-512's scaling and splitting of floats by their exponents, on vectors.
  bool has_avx512 = false;

  // The slow cases of sine, cosine, tangent and remainder (huge angles, huge quotients) are external functions, which
  // EmitExactMath (vector_math.h) defines in a module of their own. They take half as long to compile as the rest of a
  // small module; a machine that links many modules into one process compiles them once. False: each module has its
  // own, and is complete.
  bool links_exact_math = false;

  // --- vectors
  // Of the widest register that arithmetic should use; 0: the machine runs one element in each lane by itself (a GPU).
  int vector_bytes = 16;
  int F32Lanes() const { return vector_bytes > 4 ? vector_bytes / 4 : 1; }
  int F64Lanes() const { return vector_bytes > 8 ? vector_bytes / 8 : 1; }

  // --- memory
  unsigned buffer_address_space = 0;     // of a kernel's arrays
  unsigned constant_address_space = 0;   // of tables that the code brings along
  unsigned temporary_address_space = 0;  // of local variables
  int index_bits = 64;                   // the integers that index arithmetic is best done in, where the numbers fit
  int buffer_alignment = 1;              // bytes, of each array's first element; what a caller promises may be more

  // --- code generation
  CodegenPasses passes;
};

// The machine of an x86-64 level of the psABI: 1 (SSE2), 2 (SSE4.2), 3 (AVX2, FMA, F16C), 4 (AVX-512). Linux.
IrTarget X86Target(int level);
// An AMD GPU by LLVM's name, "gfx942" or "gfx1100"; the code object is for the HSA runtime.
IrTarget AmdGpuTarget(absl::string_view name);
// An NVIDIA GPU by LLVM's name, "sm_90"; from sm_80 on.
IrTarget NvptxTarget(absl::string_view name);

// What every function with a body needs: cpu and features, no unwinding, IEEE arithmetic with subnormals.
void SetFunctionAttributes(llvm::Function& function, const IrTarget& target);
// The same for a function that the host calls or launches, with the calling convention of a kernel.
void SetKernelAttributes(llvm::Function& function, const IrTarget& target);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_IR_TARGET_H_
