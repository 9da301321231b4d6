// Helpers that passes use to create, replace and inline instructions.
#ifndef BACKPLANE_CORE_PASSES_REWRITE_H_
#define BACKPLANE_CORE_PASSES_REWRITE_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"

namespace backplane {

// Replaces all uses of `from` by `to`. `from` stays until RemoveDead.
inline void Replace(Instruction* from, Instruction* to) { from->ReplaceAllUsesWith(to); }

// Appends a new instruction with the metadata of `like`. Call SortTopologically when all rewrites are done.
inline Instruction* Make(Computation* c, const Instruction* like, Opcode opcode, const Shape& shape,
                         std::vector<Instruction*> operands, Attributes attrs = {},
                         std::vector<Computation*> called = {}) {
  InstructionSpec spec;
  spec.opcode = opcode;
  spec.shape = shape.WithoutLayout();
  spec.operands = std::move(operands);
  spec.attrs = std::move(attrs);
  spec.called = std::move(called);
  if (like != nullptr) spec.metadata = like->metadata();
  return c->Add(std::move(spec));
}

inline Instruction* MakeConstant(Computation* c, const Instruction* like, Literal value) {
  InstructionSpec spec;
  spec.opcode = Opcode::kConstant;
  spec.shape = value.shape();
  spec.literal = std::make_shared<const Literal>(std::move(value));
  if (like != nullptr) spec.metadata = like->metadata();
  return c->Add(std::move(spec));
}

inline Instruction* MakeElement(Computation* c, Instruction* tuple, int64_t index) {
  Attributes attrs;
  attrs.Set(AttrId::kTupleIndex, index);
  return Make(c, tuple, Opcode::kGetTupleElement, tuple->shape().tuple_shapes(index), {tuple}, std::move(attrs));
}

inline Instruction* MakeBroadcast(Computation* c, const Instruction* like, Instruction* x, const Shape& shape,
                                  Ints dimensions) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, std::move(dimensions));
  return Make(c, like, Opcode::kBroadcast, shape, {x}, std::move(attrs));
}

// Copies the instructions of `callee` into `into`, with `arguments` for its parameters. Returns the copy of the root.
Instruction* Inline(Computation* into, const Computation* callee, absl::Span<Instruction* const> arguments);

// Returns the entry and the computations that loops, conditionals and calls execute, callees first. Excludes fusions
// and the computations that reductions, sorts and similar operations apply.
std::vector<Computation*> CollectControlFlowComputations(const Module* module);

// Gives a pass private copies of called computations, so that editing one for a caller does not affect other callers.
class CalledComputations {
 public:
  // Counts the callers of every computation. The pass must obtain the computations that it edits from CloneIfShared.
  explicit CalledComputations(const Module& module);
  // Returns the k-th computation that `caller` calls. If it has another caller, clones it for `caller` first.
  Computation* CloneIfShared(Instruction* caller, int64_t k);

 private:
  void CountCalls(const Computation* c);
  absl::flat_hash_map<const Computation*, int64_t> callers_;
};

// Returns the scalar value that all elements of a constant (or of a broadcast of one) have, or null.
const Literal* FindUniformConstant(const Instruction* i);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_REWRITE_H_
