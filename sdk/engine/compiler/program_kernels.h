// The generated code of one program: a kernel for each fusion, a comparator for each sort that needs one.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_KERNELS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "sdk/compiler/schedule.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/codegen/loop_kernel.h"
#include "sdk/engine/jit/jit.h"

namespace backplane::engine {

// Whether the instruction is a fusion that generated code runs. A fusion of a dot and a transpose of its result is
// none: the library runs it.
bool IsKernelFusion(const Instruction& instruction);

// Functions are called in this order: MayWorkInPlace while buffers are assigned, Plan, Compile, then the lookups. Holds
// pointers to the instructions, which must outlive it. Not thread-safe.
class ProgramKernels {
 public:
  // The InPlaceOracle of buffer assignment (buffer_assignment.h): kernels may write over some of their operands.
  bool MayWorkInPlace(const Instruction& instruction, int64_t operand, int64_t output);

  // Plans the code of all instructions of the schedule. Fusions with equal bodies and buffers share a kernel. A loop
  // that consists of kernels with little work becomes one function (loop_requests.h). `log` may be null.
  void Plan(const compiler::Schedule& schedule, std::vector<std::string>* log);

  // Compiles the planned code on `pool`, which may be null. `program` is the name that profilers see. `objects`, which
  // may be null, is the code of an earlier build of the same module, which is linked instead.
  absl::Status Compile(absl::string_view program, const std::vector<jit::ObjectCode>* objects, ThreadPool* pool,
                       int num_threads);

  struct Kernel {
    codegen::KernelPlan plan;
    std::vector<codegen::KernelFn> functions;  // one for each phase of the plan; none if only LoopKernels contain it
    bool is_compiled = false;                  // as a function of its own
  };
  struct LoopKernel {
    codegen::KernelFn function = nullptr;
    std::string symbol;
    int64_t scratch_bytes = 0;
    double estimated_us = 0;
    std::vector<compiler::SlotId> slots;  // of its buffers
  };
  // Returns null if the fusion has no kernel; `refusal` returns the reason.
  const Kernel* Find(const Instruction& fusion) const;
  std::string refusal(const Instruction& fusion) const;
  // Returns null if the steps of the loop run one by one.
  const LoopKernel* FindLoop(const Instruction& loop) const;
  // Returns null if the sort needs no generated comparator.
  absl::StatusOr<codegen::ComparatorFn> FindComparator(const Instruction& sort) const;

  // Return the results of Compile. The functions are valid as long as the library lives. Null: there was nothing to
  // compile.
  std::vector<jit::ObjectCode> TakeObjects() { return std::move(objects_); }
  std::unique_ptr<jit::CodeLibrary> TakeLibrary() { return std::move(library_); }

 private:
  // The body of a fusion. Fusions with equal bodies share one Body, so each body is planned once.
  struct Body {
    std::string key;                           // codegen::KernelKey
    absl::StatusOr<codegen::KernelPlan> plan;  // with memory of its own for each output
  };
  const Body& GetBody(const Instruction& fusion);
  // The pairs of an operand and a result of the fusion to which the assignment gives the same memory.
  std::vector<codegen::InPlacePair> FindShared(const Instruction& fusion, const codegen::KernelPlan& plan,
                                               const compiler::BufferAssignment& assignment);
  void PlanFusion(const Instruction& fusion, const compiler::BufferAssignment& assignment,
                  std::vector<std::string>* log);
  // Chooses the loops that become one function each, and the kernels that are called by themselves.
  void PlanLoops(const compiler::StepSequence& sequence, const compiler::BufferAssignment& assignment,
                 std::vector<std::string>* log);

  absl::flat_hash_map<std::string, std::unique_ptr<const Body>> bodies_;  // by key
  absl::flat_hash_map<const Instruction*, const Body*> body_of_fusion_;
  std::vector<Kernel> kernels_;
  std::vector<codegen::KernelRequest> requests_;  // by kernel
  absl::flat_hash_map<std::string, size_t> kernel_of_key_;
  absl::flat_hash_map<const Instruction*, size_t> kernel_of_fusion_;
  absl::flat_hash_map<const Instruction*, std::string> refusals_;
  absl::flat_hash_map<const Instruction*, std::string> comparators_;  // of sorts: their symbols
  absl::flat_hash_map<const Instruction*, LoopKernel> loops_;
  std::vector<codegen::LoopRequest> loop_requests_;
  std::vector<jit::ObjectCode> objects_;
  std::unique_ptr<jit::CodeLibrary> library_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_KERNELS_H_
