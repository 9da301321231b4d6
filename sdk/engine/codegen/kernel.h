// From a fused HLO computation to a kernel: what can be fused, how the kernel is run, and its code as LLVM IR.
//
// A kernel is made from a Computation whose parameters are arrays (dense, row-major) and whose root is one array or a
// tuple of arrays. Everything between is evaluated element by element where it is needed, so nothing inside a fusion
// has a buffer of its own, but for rows that a kernel stages in its scratch memory.
//
// Running one:
//   - buffers[] holds the inputs (parameters in order), then the outputs (tuple elements in order), then the plan's
//     temporaries.
//   - The phases run one after another; each is spread over threads by cutting [0, work_items) into ranges, and is
//     finished before the next begins. A phase of no work items is not called. Ranges must not be empty.
//   - `scratch` is memory of scratch_bytes, 64-byte aligned, for the sole use of that call; contents are not kept.
// Results do not depend on how the work items were cut or on the number of threads.
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

struct FusionPlan;  // sdk/engine/codegen/plan.h

// ---- What the fusion pass asks ------------------------------------------------------------------------------------

// What an instruction can be inside a kernel (sdk/compiler/fusion/fusion_policy.h). Here:
//   kElementwise   also constants, parameters, tuples at the root
//   kIndexing      broadcast, reshape, transpose, slice, pad, gather, ...
//   kReduction     producers fuse in; consumers too, at the reduced shape, or broadcast back to the same rows
//   kUpdate        the root of a kernel; producers of update and indices fuse in
//   kWindow        the root of a kernel; producers fuse in when cheap
using compiler::FusionRole;

struct Verdict {
  FusionRole role = FusionRole::kNotFusible;
  std::string reason;  // why not, or why only so; for the compile log; empty when there is nothing to say
};

Verdict Classify(const Instruction& instruction);

// OK when a kernel can contain the instruction; else Unimplemented with the instruction, its type and the reason.
absl::Status CanEmit(const Instruction& instruction);

// A reduce over the most minor dimensions of its operand, with at least one kept: its result broadcast back to the
// operand's shape can stay in the same kernel (softmax, layer norm), one work item being one row.
bool IsRowReduction(const Instruction& instruction);

// Rough cost of one element of the result, in cycles of one thread with vector code: 0 for a reshape, 0.3 for a load or
// an add, 3 for exp. For a fusion pass that weighs computing something twice.
double CostPerElement(const Instruction& instruction);

// Output `output` may have the same memory as parameter `input`.
struct InPlacePair {
  int input = 0;
  int output = 0;
  // True: an update; sharing makes the kernel touch the updated elements only, otherwise all is copied first.
  bool is_update = false;
  bool operator==(const InPlacePair&) const = default;
};

// ---- Planning -----------------------------------------------------------------------------------------------------

using KernelFn = void (*)(void* const* buffers, int64_t begin, int64_t end, void* scratch);

struct KernelPhase {
  std::string symbol;  // of a KernelFn
  int64_t work_items = 0;
  int64_t min_items_per_chunk = 1;  // about 2 us of work: do not cut finer
  double estimated_us = 0;          // all work items, one thread
};

struct KernelPlan {
  std::vector<KernelPhase> phases;
  std::vector<int64_t> temp_bytes;  // temporaries that all phases share; 64-byte aligned and padded
  int64_t scratch_bytes = 0;        // for each call that runs at the same time
  std::string note;                 // for the compile log: "rows: 4096 of 1024, 16 lanes, 1 staged"
  // The pairs that are allowed, at most one input for each output and one output for each input (the first that fits,
  // updates before others). The caller adds liveness: the input must not be needed afterwards.
  std::vector<InPlacePair> in_place;
  std::shared_ptr<const FusionPlan> fusion;  // what EmitKernels makes code of

  // Names the phases; their symbols start with it.
  void SetSymbol(absl::string_view symbol);
};

// OK when a kernel can be planned for the computation; else Unimplemented, the message naming the instruction.
absl::Status CanPlanKernel(const Computation& computation);

// Plans the kernel of a computation whose outputs have memory of their own. `symbol` is the prefix of the phases'
// symbols; `host` may be null: jit::Host(). Both must outlive the plan. Errors as CanPlanKernel. The computation needs
// not be marked as a fusion: any computation of array parameters qualifies, for example the condition of a while loop
// with scalar parameters.
//
// A plan is made once and handed on: it tells which outputs may have the memory of inputs, then how the kernel is run,
// and its code is emitted from it.
absl::StatusOr<KernelPlan> PlanKernel(const Computation& computation, absl::string_view symbol,
                                      const jit::HostInfo* host = nullptr);

// The kernel of `plan` where outputs have the memory of inputs. `shared`: some of plan.in_place; else InvalidArgument.
absl::StatusOr<KernelPlan> ShareMemory(const KernelPlan& plan, const std::vector<InPlacePair>& shared,
                                       absl::string_view symbol);

// Equal keys mean equal code: emit once, run with different buffers. Independent of names, ids and metadata. Kernels
// that share memory differ from those that do not.
std::string KernelKey(const Computation& computation, const jit::HostInfo* host = nullptr);
std::string KernelKey(absl::string_view key_without_sharing, absl::Span<const InPlacePair> shared);

// ---- Emission -----------------------------------------------------------------------------------------------------

struct KernelRequest {
  std::shared_ptr<const FusionPlan> fusion;  // of a KernelPlan
  std::string symbol;                        // of that plan
};

// Adds all phases of all requests, which are for one host, to the module. One call for each module.
absl::Status EmitKernels(absl::Span<const KernelRequest> requests, llvm::Module& module);

// A function of scalars, for sort comparators and the like: parameters and result(s) of `computation` are scalars.
//   void symbol(const void* const* arguments, void* const* results)
// with one pointer for each parameter and for each result.
using ScalarFn = void (*)(const void* const* arguments, void* const* results);
struct ScalarRequest {
  const Computation* computation = nullptr;
  std::string symbol;
};
// A comparator of a sort with n operands, 2n scalar parameters (2k: left, 2k+1: right), one pred result.
//   bool symbol(const void* const* lhs, const void* const* rhs)      n pointers each
using ComparatorFn = bool (*)(const void* const* lhs, const void* const* rhs);

absl::Status EmitScalarFunctions(absl::Span<const ScalarRequest> functions, absl::Span<const ScalarRequest> comparators,
                                 llvm::Module& module);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_KERNEL_H_
