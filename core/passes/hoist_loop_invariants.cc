// Moves loop-invariant computations of while loops in front of the loop. The hoisted values become elements of the loop
// state.
//
// Only operations that are defined for all operands are hoisted, because the loop may run zero iterations. Side
// effects, random numbers, calls to the host and collectives stay.
//
// The cost model weighs the computation saved against the memory traffic of a larger state. Reductions, dots, sorts,
// gathers, transposes, integer divisions and transcendental functions over arrays are hoisted, together with operations
// on their results that do not enlarge them. Broadcasts, iotas, reshapes and plain arithmetic are not: fusion computes
// them in their users. Scalar constants stay in the body, where SimplifyControlFlow puts them; the passes do not
// conflict, because hoisting does not count a constant as work.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/analysis/trip_count.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

// A value that is larger than all its inputs is hoisted only up to this size.
constexpr int64_t kMaxGrownBytes = int64_t{16} << 20;

// Whether the operation is worth hoisting if its result is large enough.
bool IsExpensive(const Instruction* i) {
  switch (i->opcode()) {
    case Opcode::kSort:
    case Opcode::kTopK:
    case Opcode::kDot:
    case Opcode::kConvolution:
    case Opcode::kFft:
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
    case Opcode::kGather:
    case Opcode::kTranspose:
      return true;
    case Opcode::kDivide:
      return !IsFloat(i->shape().element_type());
    case Opcode::kRemainder:
      return true;
    default: {
      if (i->info().ReducesLocally()) return true;
      if (!i->info().Has(kElementwise)) return false;
      Instruction::ContextStorage storage;
      return EstimateCost(i->Context(storage), i->shape()).transcendentals > 0;
    }
  }
}

// Operations without cost: they are fused into their users.
bool IsFusedForFree(const Instruction* i) {
  switch (i->opcode()) {
    case Opcode::kConstant:
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kBitcastConvert:
    case Opcode::kConcatenate:
    case Opcode::kPad:
    case Opcode::kReverse:
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
      return true;
    default:
      return i->info().Has(kElementwise);
  }
}

bool IsStatic(const Shape& shape) {
  bool is_static = true;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
    is_static &= leaf.IsArray() && !leaf.HasDynamicDimensions();
  });
  return is_static;
}

bool IsTotal(const Instruction* i) {
  if (i->HasSideEffect() || !IsStatic(i->shape()) || !(IsExpensive(i) || IsFusedForFree(i))) return false;
  for (const Computation* called : i->called()) {
    for (const auto& inner : called->instructions()) {
      if (!inner->Is(Opcode::kParameter) && !IsTotal(inner.get())) return false;
    }
  }
  return true;
}

// Properties of a loop-invariant value.
struct Invariant {
  int64_t largest_input = 0;  // bytes of the largest state element that it depends on
  int64_t work =
      -1;  // bytes of the largest expensive result that it depends on through cheap operations only; -1: none
};

class LoopInvariants {
 public:
  LoopInvariants(const Computation* body, int64_t min_elements) : body_(body), min_elements_(min_elements) {
    for (const auto& i : body->instructions()) {
      for (const Instruction* p : i->control_predecessors()) {
        ordered_.insert(p);
        ordered_.insert(i.get());
      }
    }
    for (const auto& i : body->instructions()) Visit(i.get());
  }

  // Returns the values to hoist in the order of the computation.
  std::vector<Instruction*> ChooseValues() {
    for (const auto& i : body_->instructions()) {
      if (invariant_.contains(i.get())) continue;
      for (Instruction* o : i->operands()) Choose(o);
    }
    std::vector<Instruction*> chosen;
    for (const auto& i : body_->instructions()) {
      if (carried_.contains(i.get())) chosen.push_back(i.get());
    }
    return chosen;
  }

 private:
  void Visit(const Instruction* i) {
    if (ordered_.contains(i)) return;
    if (i->Is(Opcode::kGetTupleElement) && i->operand(0) == body_->parameter(0)) {
      const Instruction* next = body_->root()->operand(i->tuple_index());
      const bool same = next->Is(Opcode::kGetTupleElement) && next->operand(0) == body_->parameter(0) &&
                        next->tuple_index() == i->tuple_index();
      if (same && i->shape().IsArray() && IsStatic(i->shape())) invariant_[i] = {i->shape().byte_size(), -1};
      return;
    }
    if (i->Is(Opcode::kParameter)) return;
    Invariant all;
    int64_t elements = i->shape().IsArray() ? i->shape().num_elements() : 0;
    for (const Instruction* o : i->operands()) {
      auto at = invariant_.find(o);
      if (at == invariant_.end()) return;
      all.largest_input = std::max(all.largest_input, at->second.largest_input);
      all.work = std::max(all.work, at->second.work);
      if (o->shape().IsArray() && !i->info().Has(kElementwise))
        elements = std::max(elements, o->shape().num_elements());
    }
    if (!IsTotal(i)) return;
    int64_t bytes = 0;
    ForEachLeaf(i->shape(), [&](const Shape& leaf, const std::vector<int64_t>&) { bytes += leaf.byte_size(); });
    if (elements >= min_elements_ && IsExpensive(i) && bytes <= std::max(2 * all.largest_input, kMaxGrownBytes))
      all.work = bytes;
    invariant_[i] = all;
  }

  // Decides for an invariant operand of the loop: hoist it, hoist values that it depends on, or leave it.
  void Choose(Instruction* read) {
    std::vector<Instruction*> values = {read};
    while (!values.empty()) {
      Instruction* v = values.back();
      values.pop_back();
      auto at = invariant_.find(v);
      if (at == invariant_.end() || at->second.work < 0 || !chosen_.insert(v).second) continue;
      if (v->shape().IsArray() && v->shape().byte_size() <= at->second.work) {
        carried_.insert(v);
        continue;
      }
      for (Instruction* o : v->operands()) values.push_back(o);
    }
  }

  const Computation* body_;
  const int64_t min_elements_;
  absl::flat_hash_set<const Instruction*> ordered_;  // instructions with control dependencies
  absl::flat_hash_map<const Instruction*, Invariant> invariant_;
  absl::flat_hash_set<const Instruction*> chosen_, carried_;
};

bool HasOnlyElementUsers(const Instruction* tuple) {
  for (const Instruction* u : tuple->users()) {
    if (!u->Is(Opcode::kGetTupleElement)) return false;
  }
  return true;
}

// Whether the pass can rewrite a loop of this form.
bool CanRewrite(const Instruction* loop) {
  if (!loop->Is(Opcode::kWhile) || !loop->shape().IsTuple()) return false;
  const Computation *condition = loop->called(0), *body = loop->called(1);
  if (!body->root()->Is(Opcode::kTuple) || condition->root() == condition->parameter(0)) return false;
  return HasOnlyElementUsers(condition->parameter(0)) && HasOnlyElementUsers(body->parameter(0)) &&
         HasOnlyElementUsers(body->root());
}

// Clones values of a loop body in front of the loop.
class LoopCloner {
 public:
  LoopCloner(Instruction* loop, const Computation* body) : loop_(loop), body_(body) {}

  Instruction* CloneValue(Instruction* value) {
    std::vector<Instruction*> stack = {value};
    while (!stack.empty()) {
      Instruction* i = stack.back();
      if (copies_.contains(i)) {
        stack.pop_back();
        continue;
      }
      if (i->Is(Opcode::kGetTupleElement) && i->operand(0) == body_->parameter(0)) {
        copies_[i] = Element(i->tuple_index());
        continue;
      }
      std::vector<Instruction*> operands;
      const size_t before = stack.size();
      for (Instruction* o : i->operands()) {
        auto at = copies_.find(o);
        if (at == copies_.end()) {
          stack.push_back(o);
        } else {
          operands.push_back(at->second);
        }
      }
      if (stack.size() > before) continue;
      copies_[i] = Copy(i, std::move(operands));
      stack.pop_back();
    }
    return copies_.at(value);
  }

  // Returns element k of the initial state.
  Instruction* Element(int64_t k) {
    Instruction* first = loop_->operand(0);
    if (first->Is(Opcode::kTuple)) return first->operand(k);
    InstructionSpec spec;
    spec.opcode = Opcode::kGetTupleElement;
    spec.shape = first->shape().tuple_shapes(k);
    spec.operands = {first};
    spec.attrs.Set(AttrId::kTupleIndex, k);
    return loop_->parent()->AddBefore(loop_, std::move(spec));
  }

 private:
  Instruction* Copy(const Instruction* i, std::vector<Instruction*> operands) {
    InstructionSpec spec;
    spec.opcode = i->opcode();
    spec.shape = i->shape();
    spec.operands = std::move(operands);
    spec.attrs = i->attrs();
    spec.called.assign(i->called().begin(), i->called().end());
    if (i->Is(Opcode::kConstant)) spec.literal = std::make_shared<const Literal>(i->literal());
    spec.name = i->name();
    spec.metadata = i->metadata();
    Instruction* copy = loop_->parent()->AddBefore(loop_, std::move(spec));
    copy->mutable_frontend_attributes() = i->frontend_attributes();
    copy->set_result_accuracy(i->result_accuracy());
    copy->set_backend_config(i->backend_config());
    return copy;
  }

  Instruction* loop_;
  const Computation* body_;
  absl::flat_hash_map<const Instruction*, Instruction*> copies_;
};

InstructionSpec TupleOf(std::vector<Instruction*> elements) {
  InstructionSpec spec;
  spec.opcode = Opcode::kTuple;
  std::vector<Shape> shapes;
  for (const Instruction* e : elements) shapes.push_back(e->shape());
  spec.shape = Shape::Tuple(std::move(shapes));
  spec.operands = std::move(elements);
  return spec;
}

InstructionSpec ElementOf(Instruction* tuple, int64_t k) {
  InstructionSpec spec;
  spec.opcode = Opcode::kGetTupleElement;
  spec.shape = tuple->shape().tuple_shapes(k);
  spec.operands = {tuple};
  spec.attrs.Set(AttrId::kTupleIndex, k);
  return spec;
}

// Rebuilds the loop with the clones of `carried`, values of its body, as further elements of its state.
absl::Status AddToState(Instruction* loop, const std::vector<Instruction*>& carried) {
  Computation *c = loop->parent(), *condition = loop->called(0), *body = loop->called(1);
  const int64_t before = loop->shape().tuple_size();
  LoopCloner copies(loop, body);
  std::vector<Instruction*> first, next(body->root()->operands().begin(), body->root()->operands().end());
  for (int64_t k = 0; k < before; ++k) first.push_back(copies.Element(k));
  for (Instruction* v : carried) first.push_back(copies.CloneValue(v));
  Instruction* init = c->AddBefore(loop, TupleOf(std::move(first)));
  const Shape state = init->shape();
  for (Computation* called : {condition, body}) called->parameter(0)->mutable_shape() = state;
  for (size_t n = 0; n < carried.size(); ++n) {
    Instruction* v = carried[n];
    Instruction* element = body->AddBefore(v, ElementOf(body->parameter(0), before + static_cast<int64_t>(n)));
    v->ReplaceAllUsesWith(element);
    next.push_back(element);
  }
  for (int64_t k = 0; k < before; ++k) next[static_cast<size_t>(k)] = body->root()->operand(k);
  const OpMetadata metadata = body->root()->metadata();
  body->set_root(body->Add(TupleOf(std::move(next))));
  body->root()->set_metadata(metadata);
  body->RemoveDead();

  InstructionSpec spec;
  spec.opcode = Opcode::kWhile;
  spec.shape = state;
  spec.operands = {init};
  spec.attrs = loop->attrs();
  spec.called = {condition, body};
  spec.name = loop->name();
  spec.metadata = loop->metadata();
  Instruction* now = c->AddBefore(loop, std::move(spec));
  now->mutable_frontend_attributes() = loop->frontend_attributes();
  now->set_backend_config(loop->backend_config());
  if (loop->IsRoot() || !HasOnlyElementUsers(loop)) {
    std::vector<Instruction*> elements;
    for (int64_t k = 0; k < before; ++k) elements.push_back(c->AddBefore(loop, ElementOf(now, k)));
    loop->ReplaceAllUsesWith(c->AddBefore(loop, TupleOf(std::move(elements))));
  } else {
    loop->ReplaceAllUsesWith(now);
  }
  return c->Remove(loop);
}

}  // namespace

absl::StatusOr<bool> HoistLoopInvariants::Run(Module* module) {
  bool changed = false;
  CalledComputations called(*module);
  for (Computation* c : CollectControlFlowComputations(
           module)) {  // inner loops first, because hoisted values may be invariant in the outer loop too
    absl::flat_hash_set<const Instruction*> ordered;
    for (const auto& i : c->instructions()) {
      for (const Instruction* p : i->control_predecessors()) {
        ordered.insert(p);
        ordered.insert(i.get());
      }
    }
    bool here = false;
    for (Instruction* loop : c->Snapshot()) {
      if (!CanRewrite(loop) || ordered.contains(loop)) continue;
      if (LoopInvariants(loop->called(1), min_elements_).ChooseValues().empty()) continue;
      if (ComputeTripCount(*loop).value_or(2) < 2) continue;  // a single iteration repeats nothing
      called.CloneIfShared(loop, 0);
      Computation* body = called.CloneIfShared(loop, 1);
      const std::vector<Instruction*> carried = LoopInvariants(body, min_elements_).ChooseValues();
      hoisted_ += static_cast<int64_t>(carried.size());
      if (absl::Status s = AddToState(loop, carried); !s.ok()) return s;
      here = true;
    }
    if (here) c->RemoveDead();
    changed |= here;
  }
  return changed;
}

}  // namespace backplane
