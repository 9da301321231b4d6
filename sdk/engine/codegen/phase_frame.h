// The parts that the emission of all kinds of phases shares: the function, its buffers, work items, loops and stores.
// Internal to EmitPhase.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_FRAME_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_FRAME_H_

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "sdk/engine/codegen/body_names.h"
#include "sdk/engine/codegen/host_evaluation.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

// Limits of unrolled loops: copies of the code of a kernel, and HLO instructions with all copies.
constexpr int64_t kMaxInlineCopies = 64, kMaxInlineInstructions = 512;

class PhaseFrame {
 public:
  // Emits at the position of the builder, for the work items from `begin` to `end`.
  PhaseFrame(ElementEmitter& elements, const FusionPlan& plan, const Phase& phase, const jit::HostInfo& host,
             std::vector<llvm::Value*> buffers, llvm::Value* begin, llvm::Value* end, llvm::Value* scratch);

  llvm::Value* begin() { return begin_; }  // of the work items of the call
  llvm::Value* end() { return end_; }
  // From now on, loops over a few elements are unrolled.
  void UnrollShortLoops() {
    unrolls_short_loops_ = true;
    hooks.UnrollShortLoops();
    scopes.UnrollShortLoops(
        std::clamp<int64_t>(kMaxInlineInstructions / computation_.instruction_count(), 1, kMaxInlineCopies));
  }
  const Computation& computation() const { return computation_; }
  bool unrolls_short_loops() const { return unrolls_short_loops_; }
  // Runs `body` for each work item of the call.
  void ForEachItem(const std::function<void(llvm::Value* item)>& body);
  // Splits the innermost digit of `extent` off a mixed-radix number: returns the digit and divides the number.
  llvm::Value* Take(llvm::Value*& number, int64_t extent);
  // Binds the loop groups [0, count) to the digits of a number.
  void BindGroups(const PhaseLoops& loops, llvm::Value* number, int count);
  // How the last vector of a loop is computed if it is not full.
  enum class Tail {
    kOverlap,   // it starts early enough to be full
    kMask,      // all vectors of the loop have a mask: no element is computed twice
    kSeparate,  // it has code of its own with a mask, so that the others can read and write strided arrays in long
                // pieces
  };
  // Emits a loop over the group from `begin` to `end` in vectors of `lanes`, or scalars if 0. fn receives the guards of
  // the last vector.
  void LaneLoop(absl::Span<const VarId> group, int64_t lanes, Tail tail, llvm::Value* begin, llvm::Value* end,
                const std::function<void(const Guards& tail)>& fn);
  // Emits nested loops over the groups from `first` to the last one, which runs in vectors from `begin` to `end`.
  void LoopNestOver(const PhaseLoops& loops, size_t first, int64_t lanes, Tail tail, llvm::Value* begin,
                    llvm::Value* end, const std::function<void(const Guards& tail)>& fn);
  // Evaluates and stores those outputs whose PhaseOutput::per_row equals `per_row`.
  void EvalAndStore(const PhaseLoops& loops, const Guards& guards, bool per_row);
  // Evaluates the outputs at all of the row-major positions, and then stores them.
  void EvalAndStore(absl::Span<const Affine> positions, const Guards& guards);

  // Reserves the next bytes of the scratch memory of the call.
  llvm::Value* AllocateScratch(int64_t bytes);
  ArrayRef GetBuffer(const PhaseOutput& output) const;
  int64_t ComputeExtent(absl::Span<const VarId> group) const;
  llvm::ConstantInt* Number(int64_t n) { return b.getInt64(static_cast<uint64_t>(n)); }
  llvm::Value* Min(llvm::Value* x, llvm::Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); }
  // Walks over everything that the outputs read at the loops.
  AccessWalk WalkOutputs(const PhaseLoops& loops);
  // Returns the index of the result element of the reduction that the phase computes at the loops.
  Index ComputeReductionIndex(const PhaseLoops& loops, const Instruction* reduce);

  const Phase& phase;
  const jit::HostInfo& host;
  ElementEmitter& e;
  llvm::IRBuilder<>& b;
  AccessWalk::ArraySet materialized;  // what is read from temporaries of earlier phases
  VarTable vars;
  LoopScopes scopes;
  IndexEvaluator indices;
  MemoryAccess memory;
  HostEvaluation hooks;
  BodyEvaluator body;
  std::vector<llvm::Value*> buffers;

 private:
  void LaneLoopAndTail(absl::Span<const VarId> group, int64_t lanes, llvm::Value* begin, llvm::Value* end,
                       const std::function<void(const Guards& tail)>& fn);

  llvm::Value *begin_ = nullptr, *end_ = nullptr, *scratch_ = nullptr;
  int64_t scratch_used_ = 0;
  const Computation& computation_;
  bool unrolls_short_loops_ = false;
};

// Emit the loops of each kind of phase.
void EmitPhaseBody(PhaseFrame& f, const LoopPhase& kind);
void EmitPhaseBody(PhaseFrame& f, const RowPhase& kind);
void EmitPhaseBody(PhaseFrame& f, const ReducePhase& kind);
void EmitPhaseBody(PhaseFrame& f, const PartialReducePhase& kind);
void EmitPhaseBody(PhaseFrame& f, const ColumnReducePhase& kind);
void EmitPhaseBody(PhaseFrame& f, const PartialColumnReducePhase& kind);
void EmitPhaseBody(PhaseFrame& f, const TransposePhase& kind);
void EmitPhaseBody(PhaseFrame& f, const TransposeCopyPhase& kind);
void EmitPhaseBody(PhaseFrame& f, const ScatterPhase& kind);
void EmitPhaseBody(PhaseFrame& f, const SelectAndScatterPhase& kind);
void EmitPhaseBody(PhaseFrame& f, const ScanPhase& kind);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_FRAME_H_
