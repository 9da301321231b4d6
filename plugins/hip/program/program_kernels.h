// The kernels of a program: which there are, and their code.
#ifndef BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "plugins/hip/lowering/lowering.h"

namespace backplane::hip {

class ProgramKernels {
 public:
  // The target must outlive the object.
  explicit ProgramKernels(const GpuTarget& target) : target_(target) {}

  struct Kernel {
    KernelPlan plan;
    const Instruction* instruction = nullptr;  // the first of those that it runs
    std::string name;
  };

  // The kernel of an instruction for which IsKernelInstruction holds; further kernels of it have the numbers after
  // that. Equal bodies have one. Unimplemented where there is none.
  absl::StatusOr<int> Find(const Instruction& instruction);
  // A kernel that combines `members` arrays of so many elements, element by element, from the first to the last. Sums
  // and products of f16 and bf16 are computed in f32 and rounded once. Unimplemented for reducers that are no single
  // operation, and for types that have no kernel.
  absl::StatusOr<int> FindCombiner(const Computation& reducer, PrimitiveType type, int64_t members, int64_t elements);
  // Whether the output may have the memory of the operand: each thread reads of it only what it then overwrites.
  bool MayWorkInPlace(const Instruction& instruction, int64_t operand, int64_t output);

  const std::vector<Kernel>& kernels() const { return kernels_; }
  absl::StatusOr<Image> Compile() const;
  // What Compile makes of them, as text for people: the IR that the code generator takes, or assembly.
  absl::StatusOr<std::string> CompileToText(CodeForm form) const;

 private:
  const GpuTarget& target_;
  std::vector<Kernel> kernels_;
  std::vector<std::unique_ptr<Module>> combiners_;
  absl::flat_hash_map<std::string, int> by_key_;
  absl::flat_hash_map<const Instruction*, absl::StatusOr<int>> by_instruction_;
};

// Whether the instruction is one that a kernel may run: a fusion, a dot, a convolution, a scatter, a sort, a scan, a
// select-and-scatter, a factorization.
bool IsKernelInstruction(const Instruction& instruction);

// Whether a program has no step for the instruction: it computes no element and has no effect.
bool NeedsNoStep(const Instruction& instruction);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_KERNELS_H_
