// Emits code that computes any element of any instruction of a fusion inside the loops of a kernel, for any target.
//
// The emitter of a kernel opens loops and binds variables (LoopScopes), states where arrays are (SetArray), and calls
// Eval for the elements that the kernel stores. Eval emits the code for these elements, down to loads. Each value is
// emitted once, in the outermost loop that binds everything its index depends on. The bindings in its index determine
// whether an element is a scalar or a vector. The evaluator knows the target (ElementEmitter::target), the positions
// (IndexEvaluator) and the memory (MemoryAccess), but not how the loops were planned. A kind of kernel can change
// details by EvaluationHooks.
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
// An object is used for one function, on one thread. Errors are reported by ElementEmitter::status; after an error the
// code is invalid.
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

// Partial results of a split reduction: `count` partial results for each of `elements` elements of the result.
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

  // ---- Declarations

  // Declares that the instruction is read from memory. An instruction with a tuple shape has one array per element.
  void SetArray(const Instruction* instruction, int element, ArrayRef array);
  const ArrayRef& GetArray(const Instruction* instruction) const { return arrays_.at({instruction, 0}); }
  // Declares that the result of the reduction is combined from partial results that earlier kernels left in memory.
  void SetPartials(const Instruction* reduce, PartialResults partials) { partials_[reduce] = std::move(partials); }
  // Declares independent reductions over the same elements, which the same loops shall compute.
  void SetMultiOutput(absl::Span<const Instruction* const> reduces);
  // Sets the value of an instruction for every index, such as the accumulator of a loop.
  void SetValue(const Instruction* instruction, int element, Val v) { values_[{instruction, element}] = v; }
  // Sets the value of one element of an array until the innermost scope ends.
  void SetElement(const Instruction* array, const Index& index, Val v);

  // ---- Evaluation

  // Emits element `index` of the instruction, or of element `element` of its tuple. If the guards do not hold, the
  // value is unspecified and no memory is read.
  Val Eval(const Instruction* instruction, const Index& index, const Guards& guards, int element = 0);

  // A part of the iterations of the outermost loop of a reduction.
  struct Range {
    llvm::Value* begin = nullptr;
    llvm::Value* end = nullptr;
  };
  // Emits the loops of reductions over the same elements and returns their results for the result element at `index`.
  // `range` restricts the outermost loop; null: all iterations. If `finish` is true, returns values of the result types
  // that include the initial values. Otherwise returns accumulators, which started from identities where these exist.
  std::vector<Vals> ReduceLoops(absl::Span<const Instruction* const> reduces, const Index& index, const Guards& guards,
                                const Range* range, bool finish);
  // Returns the values with which the accumulators of a reduction start: its initial values, or identities if
  // `identities` is true and they exist.
  Vals InitialValues(const Instruction& reduce, bool identities);

 private:
  struct ElementKey {
    const Instruction* instruction;
    int element;
    Index index;
    Guards guards;
    bool operator<(const ElementKey& o) const;
  };

  // Returns the guards that are relevant at the index.
  Guards RelevantGuards(const Guards& guards, const Index& index) const;
  // Returns `guards` and those of `more` that differ between lanes.
  Guards WithLaneGuards(const Guards& guards, const Guards& more) const;
  // Returns `index`, moved to an existing element wherever it is the same for all lanes.
  Index MoveToExisting(const Index& index, absl::Span<const int64_t> dims) const;

  Val Compute(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalMoved(const Instruction* op, const Index& index, const Guards& guards);
  Val EvalBitcast(const Instruction* op, const Index& index, const Guards& guards);
  Val EvalControl(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalWindow(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalReduce(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalPartials(const Instruction* op, const Index& index, const PartialResults& partials, int element);
  // Emits nested loops, outer to inner, around the code that fn emits.
  void EmitLoopNest(absl::Span<const VarId> loops, std::vector<llvm::Value*>& carried,
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
