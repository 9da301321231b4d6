#include "sdk/codegen/body/body_evaluator.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"

namespace backplane::codegen {

using compiler::FirstShape;
using compiler::Source;
using llvm::Type;
using llvm::Value;

namespace {

void Insert(Guards& guards, const Guard& g) { guards.insert(std::lower_bound(guards.begin(), guards.end(), g), g); }

}  // namespace

bool BodyEvaluator::ElementKey::operator<(const ElementKey& o) const {
  if (instruction != o.instruction)
    return instruction->id() != o.instruction->id() ? instruction->id() < o.instruction->id()
                                                    : instruction < o.instruction;
  if (element != o.element) return element < o.element;
  if (!(index == o.index)) return compiler::IndexLess(index, o.index);
  return std::lexicographical_compare(guards.begin(), guards.end(), o.guards.begin(), o.guards.end());
}

BodyEvaluator::BodyEvaluator(ElementEmitter& elements, LoopScopes& scopes, IndexEvaluator& indices,
                             MemoryAccess& memory, EvaluationHooks* hooks)
    : e_(elements),
      b_(elements.b()),
      scopes_(scopes),
      vars_(scopes.vars()),
      indices_(indices),
      memory_(memory),
      hooks_(hooks == nullptr ? default_hooks_ : *hooks),
      caller_(elements, scopes, indices),
      combiners_(elements, caller_),
      elements_(scopes) {
  indices_.SetElementReader([this](const Instruction* array, const Index& index, const Guards& guards) {
    return Eval(array, index, guards);
  });
}

void BodyEvaluator::SetArray(const Instruction* instruction, int element, ArrayRef array) {
  arrays_[{instruction, element}] = array;
  in_memory_.insert(instruction);
}

void BodyEvaluator::SetMultiOutput(absl::Span<const Instruction* const> reduces) {
  for (const Instruction* r : reduces) multi_output_[r].assign(reduces.begin(), reduces.end());
}

void BodyEvaluator::SetElement(const Instruction* array, const Index& index, Val v) {
  elements_.Set(scopes_.level(), ElementKey{array, 0, index, {}}, v);
}

// ---- Guards -------------------------------------------------------------------------------------------------------

Guards BodyEvaluator::RelevantGuards(const Guards& guards, const Index& index) const {
  if (guards.empty()) return guards;
  std::set<VarId> used;
  for (const Affine& e : index) vars_.ForEachLoopVar(e, [&](VarId v) { used.insert(v); });
  Guards r;
  for (const Guard& g : guards) {
    bool shares = false, has_loop_vars = false;
    vars_.ForEachLoopVar(g.e, [&](VarId v) {
      shares = shares || used.contains(v);
      has_loop_vars = true;
    });
    // A guard on a run-time value without loop variables protects reads that depend on that value alone.
    if (shares || (!has_loop_vars && !index.empty())) r.push_back(g);
  }
  return r;
}

Guards BodyEvaluator::WithLaneGuards(const Guards& guards, const Guards& more) const {
  Guards r = guards;
  for (const Guard& g : more) {
    if (scopes_.HasLanes(g.e)) Insert(r, g);
  }
  return r;
}

Index BodyEvaluator::MoveToExisting(const Index& index, absl::Span<const int64_t> dims) const {
  Index r = index;
  for (size_t d = 0; d < r.size(); ++d) {
    if (!scopes_.HasLanes(r[d])) r[d] = vars_.Clamp(r[d], 0, dims[d] - 1);
  }
  return r;
}

// ---- Evaluation ---------------------------------------------------------------------------------------------------

Val BodyEvaluator::Eval(const Instruction* op, const Index& index, const Guards& all_guards, int element) {
  if (!e_.status().ok()) return {llvm::PoisonValue::get(e_.ComputeType(FirstShape(*op).element_type()))};
  if (auto it = values_.find({op, element}); it != values_.end()) return it->second;
  if (!arrays_.contains({op, element})) {
    switch (op->opcode()) {
      case Opcode::kGetTupleElement:
        return Eval(op->operand(0), index, all_guards, static_cast<int>(op->tuple_index()));
      case Opcode::kTuple:
        return Eval(op->operand(element), index, all_guards);
      case Opcode::kConstant:
        if (op->shape().num_elements() >= 1 && (op->shape().num_elements() == 1 || op->literal().IsAllEqual())) {
          return e_.Constant(op->literal(), 0);
        }
        break;
      default:
        break;
    }
  }
  ElementKey key{op, element, index, RelevantGuards(all_guards, index)};
  const int at = std::min(std::max(scopes_.GetLevel(index), scopes_.GetLevel(key.guards)), scopes_.level());
  if (const Val* known = elements_.Find(at, key)) return *known;
  Val r;
  scopes_.AtLevel(at, [&] {
    if (std::optional<Val> found = hooks_.Find(*op, index)) {
      r = *found;
      return;
    }
    r = Compute(op, index, key.guards, element);
    hooks_.OnComputed(*op, index, r);
  });
  elements_.Set(at, std::move(key), r);
  return r;
}

Val BodyEvaluator::Compute(const Instruction* op, const Index& index, const Guards& guards, int element) {
  if (auto it = arrays_.find({op, element}); it != arrays_.end()) {
    return memory_.Load(it->second, Linearize(index, FirstShape(*op).dimensions()), guards);
  }
  switch (op->opcode()) {
    case Opcode::kConstant: {
      auto it = constants_.find(op);
      if (it == constants_.end()) it = constants_.emplace(op, memory_.Constant(op->literal())).first;
      return memory_.Load(it->second, Linearize(index, op->shape().dimensions()), guards);
    }
    case Opcode::kIota: {
      const Affine& e = index[static_cast<size_t>(op->attrs().GetInt(AttrId::kIotaDimension))];
      return e_.FromInteger(indices_.Evaluate(e), op->shape().element_type());
    }
    case Opcode::kReduce: {
      if (auto it = partials_.find(op); it != partials_.end()) return EvalPartials(op, index, it->second, element);
      return EvalReduce(op, index, guards, element);
    }
    case Opcode::kReduceWindow:
      return EvalWindow(op, index, guards, element);
    case Opcode::kBitcastConvert:
      return EvalBitcast(op, index, guards);
    case Opcode::kWhile:
    case Opcode::kConditional:
      return EvalControl(op, index, guards, element);
    case Opcode::kParameter:
      e_.Fail(absl::InternalError(absl::StrCat(op->name(), ": parameter without a buffer")));
      return {llvm::PoisonValue::get(e_.ComputeType(op->shape().element_type()))};
    default:
      break;
  }
  if (compiler::MovesElements(*op)) return EvalMoved(op, index, guards);
  Vals operands;
  for (const Instruction* operand : op->operands()) {
    operands.push_back(Eval(operand, operand->shape().rank() == 0 ? Index{} : index, guards));
  }
  if (op->Is(Opcode::kMap)) {
    const Computation& called = *op->called(0);
    return caller_.Call(called, operands, true,
                        caller_.ComputeActiveMask(called, guards))[static_cast<size_t>(element)];
  }
  return e_.Emit(*op, operands);
}

Val BodyEvaluator::EvalMoved(const Instruction* op, const Index& index, const Guards& guards) {
  std::vector<Source> sources = compiler::FindSources(*op, index, vars_);
  if (sources.empty()) {  // nothing there: an empty concatenation under a guard that never holds
    Type* t = e_.ComputeType(op->shape().element_type());
    return {llvm::Constant::getNullValue(t),
            IsComplex(op->shape().element_type()) ? llvm::Constant::getNullValue(t) : nullptr};
  }
  auto fetch = [&](const Source& s) {
    Guards inner = WithLaneGuards(guards, s.guards);
    if (std::all_of(s.guards.begin(), s.guards.end(), [&](const Guard& g) { return scopes_.HasLanes(g.e); })) {
      return Eval(s.instruction, s.index, inner);
    }
    // Guards that are the same for all lanes cost less as a clamped index than as a mask on every load.
    const Index existing = MoveToExisting(s.index, s.instruction->shape().dimensions());
    for (const Affine& e : s.index) {
      if (!scopes_.HasLanes(e)) continue;
      // A lane index that also moves with a uniform guard stays guarded by it.
      for (const Guard& g : s.guards) {
        if (scopes_.HasLanes(g.e)) continue;
        const bool shares =
            std::any_of(g.e.terms.begin(), g.e.terms.end(), [&](const Term& t) { return e.GetCoef(t.var) != 0; });
        if (shares) Insert(inner, g);
      }
    }
    return Eval(s.instruction, existing, inner);
  };
  Val r = fetch(sources.back());
  for (size_t i = sources.size() - 1; i-- > 0;) {
    const Val v = fetch(sources[i]);
    Value* mask = indices_.Mask(sources[i].guards);
    r = mask ? e_.Select(mask, v, r) : v;
  }
  return r;
}

// Between element widths: the last dimension numbers the parts of the wider element, lowest first.
Val BodyEvaluator::EvalBitcast(const Instruction* op, const Index& index, const Guards& guards) {
  const Instruction* x = op->operand(0);
  const PrimitiveType from = x->shape().element_type(), to = op->shape().element_type();
  if (x->shape().rank() == op->shape().rank()) return e_.BitcastConvert(Eval(x, index, guards), from, to);
  auto with_lanes_of = [&](Type* t, Value* like) -> Type* {
    const int lanes = ElementEmitter::GetLanes(like);
    return lanes ? llvm::FixedVectorType::get(t, static_cast<unsigned>(lanes)) : t;
  };
  auto bits_of = [&](const Val& v) {
    Value* raw = e_.ToStorage(from, v);
    return b_.CreateBitCast(raw, with_lanes_of(b_.getIntNTy(raw->getType()->getScalarSizeInBits()), raw));
  };
  auto finish = [&](Value* raw) {
    return e_.FromStorage(to, b_.CreateBitCast(raw, with_lanes_of(e_.StorageType(to), raw)));
  };
  const int from_bits = ByteWidth(from) * 8, to_bits = ByteWidth(to) * 8;
  if (x->shape().rank() < op->shape().rank()) {
    Index in = index;
    const Affine part = in.back();
    in.pop_back();
    Value* raw = bits_of(Eval(x, in, guards));
    Value* shift = indices_.Evaluate(part.Times(to_bits));
    const int lanes = std::max(ElementEmitter::GetLanes(raw), ElementEmitter::GetLanes(shift));
    raw = e_.Splat(raw, lanes);
    shift = b_.CreateSExtOrTrunc(e_.Splat(shift, lanes), raw->getType());
    Value* r = b_.CreateLShr(raw, shift);
    return finish(b_.CreateTrunc(r, with_lanes_of(b_.getIntNTy(static_cast<unsigned>(to_bits)), r)));
  }
  Value* r = nullptr;
  for (int64_t k = 0; k < x->shape().dimensions().back(); ++k) {
    Index in = index;
    in.push_back(Affine::Const(k));
    Value* raw = bits_of(Eval(x, in, guards));
    raw = b_.CreateZExt(raw, with_lanes_of(b_.getIntNTy(static_cast<unsigned>(to_bits)), raw));
    if (k > 0) raw = b_.CreateShl(raw, static_cast<uint64_t>(k * from_bits));
    if (r) {
      const int lanes = std::max(ElementEmitter::GetLanes(raw), ElementEmitter::GetLanes(r));
      raw = b_.CreateOr(e_.Splat(r, lanes), e_.Splat(raw, lanes));
    }
    r = raw;
  }
  return finish(r);
}

// A loop or branch over single elements, as an instruction of the fusion.
Val BodyEvaluator::EvalControl(const Instruction* op, const Index& index, const Guards& guards, int element) {
  std::vector<Vals> operands;
  for (const Instruction* x : op->operands()) {
    Vals leaves;
    const int n = x->shape().IsTuple() ? static_cast<int>(x->shape().tuple_size()) : 1;
    for (int k = 0; k < n; ++k) {
      const int64_t rank = (x->shape().IsTuple() ? x->shape().tuple_shapes(k) : x->shape()).rank();
      Val v = Eval(x, Index(static_cast<size_t>(rank), Affine::Const(0)), guards, k);
      v.stored = nullptr;
      leaves.push_back(v);
    }
    operands.push_back(std::move(leaves));
  }
  const Vals results = op->Is(Opcode::kWhile) ? caller_.While(*op, operands[0], true, nullptr)
                                              : caller_.Conditional(*op, operands, true, nullptr);
  // All results are there at once: in this scope the others are not computed again.
  for (size_t k = 0; k < results.size(); ++k) {
    elements_.Set(scopes_.level(), ElementKey{op, static_cast<int>(k), index, RelevantGuards(guards, index)},
                  results[k]);
  }
  return results[static_cast<size_t>(element)];
}

}  // namespace backplane::codegen
