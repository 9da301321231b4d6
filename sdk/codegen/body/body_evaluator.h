// Evaluates any element of any instruction of a fusion inside the loops of a kernel, for any target.
//
// A kernel's author opens loops and binds variables (LoopScopes), says where arrays are (SetArray), and calls Eval for
// the elements that the kernel stores; Eval emits what they need, down to loads. Each value is emitted in the outermost
// loop that its index depends on, and once in its loop. Whether an element is a scalar or a vector follows from the
// bindings that its index goes by; the evaluator knows the target (ElementEmitter::target), the positions
// (IndexEvaluator) and the memory (MemoryAccess), and nothing of how loops were planned. What a kernel does its own way
// is in EvaluationHooks.
//
//   LoopScopes scopes(elements.b(), vars);
//   IndexEvaluator indices(elements, scopes);
//   MemoryAccess memory(elements, scopes, indices);
//   BodyEvaluator body(elements, scopes, indices, memory);
//   body.SetArray(parameter, 0, {pointer, type});
//   scopes.If(in_range, [&] {                            // on a GPU; on a CPU a scopes.Loop, and a Bind with lanes
//     scopes.Bind({&v, 1}, work_item);
//     memory.Store({out, type}, Affine::Var(v), body.Eval(root, {Affine::Var(v)}, {}), {});
//   });
//
// One object serves one function. Errors are in ElementEmitter::status; the code is then useless.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_BODY_EVALUATOR_H_
#define BACKPLANE_SDK_CODEGEN_BODY_BODY_EVALUATOR_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "sdk/codegen/body/called_computation.h"
#include "sdk/codegen/body/combiner_emitter.h"
#include "sdk/codegen/body/evaluation_hooks.h"
#include "sdk/codegen/body/memory_access.h"

namespace backplane::codegen {

// Partial results of a split reduction: `count` of them, each as many values as the result has elements.
struct PartialResults {
  std::vector<llvm::Value*> bases;  // one for each result, see MemoryAccess::LoadComputed
  int64_t count = 0;
  int64_t elements = 0;
};

class BodyEvaluator {
 public:
  // All must outlive the evaluator. `hooks` may be null.
  BodyEvaluator(ElementEmitter& elements, LoopScopes& scopes, IndexEvaluator& indices, MemoryAccess& memory,
                EvaluationHooks* hooks = nullptr);
  BodyEvaluator(const BodyEvaluator&) = delete;
  BodyEvaluator& operator=(const BodyEvaluator&) = delete;

  ComputationCaller& caller() { return caller_; }
  CombinerEmitter& combiners() { return combiners_; }

  // ---- What is known

  // The instruction is read from memory. A tuple-shaped one has an array for each element.
  void SetArray(const Instruction* instruction, int element, ArrayRef array);
  const ArrayRef& ArrayOf(const Instruction* instruction) const { return arrays_.at({instruction, 0}); }
  // The reduction's result is to be combined from what earlier kernels left in memory.
  void SetPartials(const Instruction* reduce, PartialResults partials) { partials_[reduce] = std::move(partials); }
  // Independent reductions over the same elements, to be computed by the same loops.
  void SetMultiOutput(absl::Span<const Instruction* const> reduces);
  // The value of an instruction, whatever the index (a loop's accumulators).
  void SetValue(const Instruction* instruction, int element, Val v) { values_[{instruction, element}] = v; }
  // The value of one element of an array, for the rest of the innermost scope.
  void SetElement(const Instruction* array, const Index& index, Val v);

  // ---- Evaluation

  // Element `index` of the instruction, or of its tuple element `element`. Where the guards do not hold the value is
  // arbitrary, and nothing is read.
  Val Eval(const Instruction* instruction, const Index& index, const Guards& guards, int element = 0);

  // A part of the outermost loop of a reduction.
  struct Range {
    llvm::Value* begin = nullptr;
    llvm::Value* end = nullptr;
  };
  // The results of reductions over the same elements, for the element of their results at `index`. `range`: of a part
  // of the elements, or null. `finish`: as values of the results' types, initial values included; else accumulators,
  // which start from identities where there are any.
  std::vector<Vals> ReduceLoops(absl::Span<const Instruction* const> reduces, const Index& index, const Guards& guards,
                                const Range* range, bool finish);
  // The initial values of a reduction's accumulators, or identities where the reduction has them.
  Vals InitialValues(const Instruction& reduce, bool identities);

 private:
  struct ElementKey {
    const Instruction* instruction;
    int element;
    Index index;
    Guards guards;
    bool operator<(const ElementKey& o) const;
  };

  // Those that matter at the index.
  Guards RelevantGuards(const Guards& guards, const Index& index) const;
  // `guards` and those of `more` that differ from lane to lane.
  Guards WithLaneGuards(const Guards& guards, const Guards& more) const;
  // `index` moved to an existing element wherever it is the same for all lanes.
  Index Existing(const Index& index, absl::Span<const int64_t> dims) const;

  Val Compute(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalMoved(const Instruction* op, const Index& index, const Guards& guards);
  Val EvalBitcast(const Instruction* op, const Index& index, const Guards& guards);
  Val EvalControl(const Instruction* op, const Guards& guards, int element);
  Val EvalWindow(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalReduce(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalPartials(const Instruction* op, const Index& index, const PartialResults& partials, int element);
  // Runs fn for each combination of values of the loops, outer to inner.
  void Nest(absl::Span<const VarId> loops, std::vector<llvm::Value*>& carried,
            const std::function<void(std::vector<llvm::Value*>&)>& fn);

  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  LoopScopes& scopes_;
  VarTable& vars_;
  IndexEvaluator& indices_;
  MemoryAccess& memory_;
  EvaluationHooks default_hooks_;
  EvaluationHooks& hooks_;
  ComputationCaller caller_;
  CombinerEmitter combiners_;
  ScopedCache<ElementKey, Val> elements_;
  std::map<std::pair<const Instruction*, int>, ArrayRef> arrays_;
  std::map<std::pair<const Instruction*, int>, Val> values_;
  std::map<const Instruction*, PartialResults> partials_;
  std::map<const Instruction*, std::vector<const Instruction*>> multi_output_;
  AccessWalk::ArraySet in_memory_;
  std::map<const Instruction*, ArrayRef> constants_;
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_BODY_EVALUATOR_H_
