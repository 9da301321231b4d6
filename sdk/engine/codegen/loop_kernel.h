// Compiles a whole loop to one function: the kernels of its body, its copies, the loops and branches inside.
//
// A loop over small arrays spends its time on the way from one kernel to the next, not in the kernels. Here their code
// stands one after another in one function. Small arrays that nothing outside of the loop reads are local variables,
// and a local variable whose elements are all at known places is kept in registers.
//
// Each kernel keeps its plan, and so its results, with these exceptions: reductions of a few elements are computed in
// their order instead of in vectors, and kernels of single elements but those of f64 use fused multiply-adds where the
// target does so in loops over scalars (IrTarget::fuses_sums_of_products).
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_LOOP_KERNEL_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_LOOP_KERNEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "sdk/engine/codegen/kernel.h"

namespace backplane::engine::codegen {

struct LoopStep {
  enum class Kind : uint8_t {
    kKernel,  // runs all phases of `fusion` over all of their work items; `arrays` are its inputs, then its outputs
    kCopy,    // copies `bytes` from arrays[0] to arrays[1]
    kLoop,    // runs sequences[1] while sequences[0], run before each iteration, leaves true in `selector`
    kBranch,  // runs the one of `sequences` that `selector` names
  };
  Kind kind = Kind::kKernel;
  std::shared_ptr<const FusionPlan> fusion;
  std::vector<int> arrays;  // numbers in LoopRequest::arrays
  int64_t bytes = 0;
  std::vector<std::vector<LoopStep>> sequences;
  int selector = -1;                  // an array; -1: none
  bool selects_by_predicate = false;  // a pred, true for sequences[0]; else an s32, the last sequence if out of range
  std::optional<int64_t> trip_count;  // of a loop: sequences[0] and `selector` are not used then
};

struct LoopArray {
  int64_t bytes = 0;
  PrimitiveType type = PrimitiveType::kInvalid;  // of its elements, if it always has the same
  // Whether the array is a local variable. Its value before the loop is copied from memory if it `enters`, and that
  // after the loop is copied to memory if it `leaves`.
  bool is_local = false, enters = false, leaves = false;
  bool HasMemory() const { return !is_local || enters || leaves; }
};

struct LoopRequest {
  std::vector<LoopArray> arrays;
  LoopStep loop;
  std::string symbol;
};

// Returns the number of HLO instructions of all kernels.
int64_t CountInstructions(const LoopStep& step);

// Returns the bytes of scratch memory that the function needs.
int64_t ScratchBytes(const LoopStep& step);

// Adds a KernelFn with one work item for each request to the module. Its buffers are the arrays that have memory, in
// order.
absl::Status EmitLoopKernels(absl::Span<const LoopRequest> requests, llvm::Module& module);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_LOOP_KERNEL_H_
