// Compiles a fused HLO computation to a kernel: what can be fused, how the kernel is run, and its code as LLVM IR.
//
// A kernel is made from a Computation whose parameters are dense row-major arrays and whose root is an array or a tuple
// of arrays. All values in between are computed element by element where they are needed, so nothing inside a fusion
// has a buffer, except rows that a kernel stages in its scratch memory.
//
// To run a kernel:
//   - buffers[] holds the inputs (parameters in order), then the outputs (tuple elements in order), then the plan's
//     temporaries.
//   - The phases run one after another. A phase is distributed over threads by dividing [0, work_items) into ranges,
//     and must end before the next one starts. A phase without work items is not called. Ranges must not be empty.
//   - `scratch` is memory of scratch_bytes, 64-byte aligned, for the exclusive use of that call; contents are not kept.
// Results do not depend on the ranges or on the number of threads.
//
// The planning functions are pure and thread-safe and need no LLVM; EmitKernels fills one module on one thread.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_KERNEL_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ir/computation.h"
#include "sdk/compiler/fusion/fusion_policy.h"
#include "sdk/engine/jit/host.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace backplane::engine::codegen {

// A kernel may have copies of its code for the elements of short dimensions, at most so many.
constexpr int64_t kMaxUnrolled = 4;

struct FusionPlan;  // sdk/engine/codegen/plan.h

// ---- Queries of the fusion pass -----------------------------------------------------------------------------------

// The role of an instruction in a kernel (sdk/compiler/fusion/fusion_policy.h). In the engine:
//   kElementwise   also constants, parameters, tuples at the root
//   kIndexing      broadcast, reshape, transpose, slice, pad, gather, ...
//   kReduction     producers fuse in; consumers too, at the reduced shape, or broadcast back to the same rows
//   kUpdate        the root of a kernel; producers of update and indices fuse in
//   kWindow        the root of a kernel; producers fuse in when cheap
using compiler::FusionRole;

struct Verdict {
  FusionRole role = FusionRole::kNotFusible;
  std::string reason;  // why the role is limited, for the compile log; may be empty
};

Verdict Classify(const Instruction& instruction);

// Returns OK if a kernel can contain the instruction, else Unimplemented with the instruction, its type and the reason.
absl::Status CanEmit(const Instruction& instruction);

// Whether the instruction reduces the most minor dimensions of its operand and keeps at least one dimension. Its
// result, broadcast back to the shape of the operand, can stay in the same kernel (softmax, layer norm), where a work
// item is a row.
bool IsRowReduction(const Instruction& instruction);

// Estimates the cost of one element of the result, in cycles of one thread with vector code: 0 for a reshape, 0.3 for a
// load or an add, 3 for exp. The fusion pass uses it to decide whether to compute a value twice.
double CostPerElement(const Instruction& instruction);

// Output `output` may have the same memory as parameter `input`.
struct InPlacePair {
  int input = 0;
  int output = 0;
  // Whether the output is an update. With shared memory the kernel then writes only the updated elements; otherwise it
  // first copies all of them.
  bool is_update = false;
  bool operator==(const InPlacePair&) const = default;
};

// ---- Planning -----------------------------------------------------------------------------------------------------

using KernelFn = void (*)(void* const* buffers, int64_t begin, int64_t end, void* scratch);

struct KernelPhase {
  std::string symbol;  // of a KernelFn
  int64_t work_items = 0;
  int64_t min_items_per_chunk = 1;  // about 2 us of work; use no smaller ranges
  double estimated_us = 0;          // all work items, one thread
  // If not 0, item i writes the elements [i * n, (i + 1) * n) of each output, in row-major order, and nothing else.
  int64_t elements_per_item = 0;
};

struct KernelPlan {
  std::vector<KernelPhase> phases;
  std::vector<int64_t> temp_bytes;  // temporaries that all phases share; 64-byte aligned and padded
  int64_t scratch_bytes = 0;        // for each call that runs at the same time
  std::string note;                 // for the compile log: "rows: 4096 of 1024, 16 lanes, 1 staged"
  // The pairs that may share memory: at most one input per output and one output per input (the first that fits,
  // updates before others). The caller must check liveness: the input must not be used after the kernel.
  std::vector<InPlacePair> in_place;
  std::shared_ptr<const FusionPlan> fusion;  // the input of EmitKernels

  // Names the phases; their symbols start with it.
  void SetSymbol(absl::string_view symbol);
};

// Returns OK if a kernel can be planned for the computation, else Unimplemented with the name of the instruction.
absl::Status CanPlanKernel(const Computation& computation);

// Plans the kernel of a computation whose outputs have memory of their own. `symbol` is the prefix of the symbols of
// the phases. `host` may be null: jit::Host(). The computation and the host must outlive the plan. Returns the errors
// of CanPlanKernel. The computation need not be marked as a fusion: any computation of array parameters is accepted,
// for example the condition of a while loop with scalar parameters.
//
// The same plan tells which outputs may have the memory of inputs and how the kernel is run, and is the input of
// EmitKernels.
absl::StatusOr<KernelPlan> PlanKernel(const Computation& computation, absl::string_view symbol,
                                      const jit::HostInfo* host = nullptr);

// Returns the plan of the same kernel with shared memory. `shared` must be a subset of plan.in_place; otherwise
// InvalidArgument is returned.
absl::StatusOr<KernelPlan> ShareMemory(const KernelPlan& plan, const std::vector<InPlacePair>& shared,
                                       absl::string_view symbol);

// Returns a key of the code: kernels with equal keys have equal code, which can be emitted once and run with different
// buffers. Independent of names, ids and metadata. Kernels with different shared memory have different keys.
std::string KernelKey(const Computation& computation, const jit::HostInfo* host = nullptr);
std::string KernelKey(absl::string_view key_without_sharing, absl::Span<const InPlacePair> shared);

// ---- Emission -----------------------------------------------------------------------------------------------------

struct KernelRequest {
  std::shared_ptr<const FusionPlan> fusion;  // of a KernelPlan
  std::string symbol;                        // of that plan
};

// Adds all phases of all requests to the module. All requests must be for one host. Call it once per module.
absl::Status EmitKernels(absl::Span<const KernelRequest> requests, llvm::Module& module);

// A function of scalars. All parameters and results of `computation` are scalars.
//   void symbol(const void* const* arguments, void* const* results)
// takes one pointer per parameter and one per result.
using ScalarFn = void (*)(const void* const* arguments, void* const* results);
struct ScalarRequest {
  const Computation* computation = nullptr;
  std::string symbol;
};
// A comparator of a sort with n operands. It has 2n scalar parameters (2k: left, 2k+1: right) and one pred result.
//   bool symbol(const void* const* lhs, const void* const* rhs)      n pointers each
using ComparatorFn = bool (*)(const void* const* lhs, const void* const* rhs);

absl::Status EmitScalarFunctions(absl::Span<const ScalarRequest> functions, absl::Span<const ScalarRequest> comparators,
                                 llvm::Module& module);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_KERNEL_H_
