// Small steps that several passes take.
#ifndef BACKPLANE_CORE_PASSES_REWRITE_H_
#define BACKPLANE_CORE_PASSES_REWRITE_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"

namespace backplane {

// All uses of `from` become uses of `to`; `from` stays for RemoveDead.
inline void Replace(Instruction* from, Instruction* to) { from->ReplaceAllUsesWith(to); }

// A new instruction at the end of the computation, with metadata of `like`. Call SortTopologically when done.
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

// Copies the instructions of `callee` into `into`, its parameters replaced by `arguments`; returns its root's copy.
Instruction* Inline(Computation* into, const Computation* callee, absl::Span<Instruction* const> arguments);

// The computations that are executed instruction by instruction: the entry, and what loops, branches and calls execute.
// Not among them: bodies of fusions, reducers, comparators. Callees first.
std::vector<Computation*> ControlFlowComputations(const Module* module);

// For a pass that edits what an instruction calls: an edit for one caller must not reach the others.
class CalledComputations {
 public:
  // Counts the callers of every computation. What the pass itself makes it must make through Own.
  explicit CalledComputations(const Module& module);
  // What `caller` calls k-th, called by nobody else afterwards: where it has another caller, `caller` gets a copy.
  Computation* Own(Instruction* caller, int64_t k);

 private:
  void CountCallsOf(const Computation* c);
  absl::flat_hash_map<const Computation*, int64_t> callers_;
};

// The scalar that all elements of a constant (or a broadcast of one) have, or null.
const Literal* UniformConstant(const Instruction* i);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_REWRITE_H_
