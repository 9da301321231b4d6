// The kernels of a program and their code.
#ifndef BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "plugins/hip/lowering/lowering.h"

namespace backplane::hip {

class ProgramKernels {
 public:
  // The target must outlive the object.
  explicit ProgramKernels(const GpuTarget& target) : target_(target) {}

  struct Kernel {
    KernelPlan plan;
    const Instruction* instruction = nullptr;  // the first instruction that it runs
    std::string name;
  };

  // Returns the number of the kernel of an instruction for which IsKernelInstruction holds. Its further kernels have
  // the numbers after that. Instructions with equal bodies share a kernel. Returns Unimplemented if there is none.
  absl::StatusOr<int> Find(const Instruction& instruction);
  // Returns the number of a kernel that combines `members` arrays of `elements` elements, element by element, from the
  // first array to the last. Sums and products of f16 and bf16 are computed in f32 and rounded once. Returns
  // Unimplemented for reducers that are not a single operation, and for types that have no kernel.
  absl::StatusOr<int> FindCombiner(const Computation& reducer, PrimitiveType type, int64_t members, int64_t elements);
  // Whether the output may use the memory of the operand, because each thread reads of the operand only what it then
  // overwrites.
  bool MayWorkInPlace(const Instruction& instruction, int64_t operand, int64_t output);

  const std::vector<Kernel>& kernels() const { return kernels_; }
  absl::StatusOr<Image> Compile() const;
  // Returns what Compile makes of the kernels as text for people: the IR that the code generator takes, or assembly.
  absl::StatusOr<std::string> CompileToText(CodeForm form) const;

 private:
  const GpuTarget& target_;
  std::vector<Kernel> kernels_;
  std::vector<std::unique_ptr<Module>> combiners_;
  absl::flat_hash_map<std::string, int> by_key_;
  absl::flat_hash_map<const Instruction*, absl::StatusOr<int>> by_instruction_;
};

// Whether the instruction is one that a kernel may run: a fusion, a dot, a convolution, a scatter, a sort, a scan, a
// select-and-scatter, a Fourier transform, a factorization.
bool IsKernelInstruction(const Instruction& instruction);

// Whether a program has no step for the instruction: it computes no element and has no effect.
bool NeedsNoStep(const Instruction& instruction);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_KERNELS_H_
