// BodyEmitter::Eval and what it does for each kind of operation, reductions excepted.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/ops/families/run_reducer.h"
#include "sdk/engine/codegen/body_emitter.h"

namespace backplane::engine::codegen {

using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

Val BodyEmitter::Eval(const Instruction* op, const Index& index, const Guards& all_guards, int element) {
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
  MemoKey key{op, element, index, Prune(all_guards, index)};
  int at = LevelOf(index);
  for (const Guard& g : key.guards) at = std::max(at, LevelOf(g.e));
  auto& memo = scopes_[std::min(at, level())]->memo;
  if (auto it = memo.find(key); it != memo.end()) return it->second;
  Val r;
  AtLevel(at, [&] {
    if (auto kept = FromKept(op, index)) {
      r = *kept;
      return;
    }
    r = Compute(op, index, key.guards, element);
    ToKept(op, index, r);
  });
  scopes_[std::min(at, level())]->memo[key] = r;
  return r;
}

Val BodyEmitter::Compute(const Instruction* op, const Index& index, const Guards& guards, int element) {
  if (auto it = arrays_.find({op, element}); it != arrays_.end()) {
    return Load(it->second, Linearize(index, FirstShape(*op).dimensions()), guards);
  }
  switch (op->opcode()) {
    case Opcode::kConstant: {
      ArrayRef& array = constants_[op];
      if (!array.base) {
        const Literal& literal = op->literal();
        absl::string_view bytes(reinterpret_cast<const char*>(literal.bytes()), literal.byte_size());
        auto* data = llvm::ConstantDataArray::getString(e_.context(), {bytes.data(), bytes.size()}, false);
        auto* global =
            new llvm::GlobalVariable(*e_.module(), data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
        global->setAlignment(llvm::Align(64));
        array = {global, op->shape().element_type()};
      }
      return Load(array, Linearize(index, op->shape().dimensions()), guards);
    }
    case Opcode::kIota: {
      const Affine& e = index[op->attrs().GetInt(AttrId::kIotaDimension)];
      return e_.FromInteger(IndexValue(e), op->shape().element_type());
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
      return EvalControl(op, guards, element);
    case Opcode::kParameter:
      e_.Fail(absl::InternalError(absl::StrCat(op->name(), ": parameter without a buffer")));
      return {llvm::PoisonValue::get(e_.ComputeType(op->shape().element_type()))};
    default:
      break;
  }
  if (MovesElements(*op)) return EvalMoved(op, index, guards);
  Vals operands;
  for (const Instruction* operand : op->operands()) {
    operands.push_back(Eval(operand, operand->shape().rank() == 0 ? Index{} : index, guards));
  }
  if (op->Is(Opcode::kMap)) return Call(*op->called(0), operands, true, ActiveIn(*op->called(0), guards))[element];
  return e_.Emit(*op, operands);
}

Val BodyEmitter::EvalMoved(const Instruction* op, const Index& index, const Guards& guards) {
  std::vector<Source> sources = SourcesOf(*op, index, vars_);
  if (sources.empty()) {  // nothing there: an empty concatenation under a guard that never holds
    Type* t = e_.ComputeType(op->shape().element_type());
    return {llvm::Constant::getNullValue(t),
            IsComplex(op->shape().element_type()) ? llvm::Constant::getNullValue(t) : nullptr};
  }
  auto fetch = [&](Source& s) {
    Guards inner = guards;
    // Guards that are the same for all lanes cost less as a clamped index than as a mask on every load.
    std::set<VarId> uniform;
    for (const Guard& g : s.guards) {
      if (HasLanes(g.e)) {
        inner.insert(std::lower_bound(inner.begin(), inner.end(), g), g);
      } else {
        vars_.ForEachLoopVar(g.e, [&](VarId v) { uniform.insert(v); });
        for (const Term& t : g.e.terms) uniform.insert(t.var);
      }
    }
    const DimVector& dims = s.instruction->shape().dimensions();
    if (!uniform.empty()) {
      for (size_t d = 0; d < s.index.size(); ++d) {
        if (HasLanes(s.index[d])) continue;
        s.index[d] = vars_.Clamp(s.index[d], 0, dims[d] - 1);
      }
      for (size_t d = 0; d < s.index.size(); ++d) {
        if (!HasLanes(s.index[d])) continue;
        // A lane index that also moves with the uniform part stays guarded by it.
        for (const Guard& g : s.guards) {
          if (HasLanes(g.e)) continue;
          bool shares = false;
          for (const Term& t : g.e.terms) shares = shares || s.index[d].CoefOf(t.var) != 0;
          if (shares) inner.insert(std::lower_bound(inner.begin(), inner.end(), g), g);
        }
      }
    }
    return Eval(s.instruction, s.index, inner);
  };
  Val r = fetch(sources.back());
  for (size_t i = sources.size() - 1; i-- > 0;) {
    Val v = fetch(sources[i]);
    Value* mask = Mask(sources[i].guards);
    r = mask ? e_.Select(mask, v, r) : v;
  }
  return r;
}

// Between element widths: the last dimension numbers the parts of the wider element, lowest first.
Val BodyEmitter::EvalBitcast(const Instruction* op, const Index& index, const Guards& guards) {
  const Instruction* x = op->operand(0);
  PrimitiveType from = x->shape().element_type(), to = op->shape().element_type();
  if (x->shape().rank() == op->shape().rank()) return e_.BitcastConvert(Eval(x, index, guards), from, to);
  auto integer = [&](Value* raw) {
    int lanes = ElementEmitter::LanesOf(raw);
    Type* t = b_.getIntNTy(raw->getType()->getScalarSizeInBits());
    return b_.CreateBitCast(raw, lanes ? static_cast<Type*>(llvm::FixedVectorType::get(t, lanes)) : t);
  };
  auto as = [&](int bits, Value* like) -> Type* {
    int lanes = ElementEmitter::LanesOf(like);
    Type* t = b_.getIntNTy(bits);
    return lanes ? static_cast<Type*>(llvm::FixedVectorType::get(t, lanes)) : t;
  };
  auto finish = [&](Value* raw) {
    int lanes = ElementEmitter::LanesOf(raw);
    Type* t = e_.StorageType(to);
    return e_.FromStorage(to,
                          b_.CreateBitCast(raw, lanes ? static_cast<Type*>(llvm::FixedVectorType::get(t, lanes)) : t));
  };
  int from_bits = ByteWidth(from) * 8, to_bits = ByteWidth(to) * 8;
  if (x->shape().rank() < op->shape().rank()) {
    Index in = index;
    Affine part = in.back();
    in.pop_back();
    Value* raw = integer(e_.ToStorage(from, Eval(x, in, guards)));
    Value* shift = IndexValue(part.Times(to_bits));
    int lanes = std::max(ElementEmitter::LanesOf(raw), ElementEmitter::LanesOf(shift));
    raw = e_.Splat(raw, lanes);
    shift = b_.CreateSExtOrTrunc(e_.Splat(shift, lanes), raw->getType());
    Value* r = b_.CreateLShr(raw, shift);
    return finish(b_.CreateTrunc(r, as(to_bits, r)));
  }
  Value* r = nullptr;
  for (int64_t k = 0; k < x->shape().dimensions().back(); ++k) {
    Index in = index;
    in.push_back(Affine::Const(k));
    Value* raw = integer(e_.ToStorage(from, Eval(x, in, guards)));
    raw = b_.CreateZExt(raw, as(to_bits, raw));
    if (k > 0) raw = b_.CreateShl(raw, k * from_bits);
    if (r) {
      int lanes = std::max(ElementEmitter::LanesOf(raw), ElementEmitter::LanesOf(r));
      raw = b_.CreateOr(e_.Splat(r, lanes), e_.Splat(raw, lanes));
    }
    r = raw;
  }
  return finish(r);
}

// One output element of a reduce-window: all window positions in order, those in the padding left out.
Val BodyEmitter::EvalWindow(const Instruction* op, const Index& index, const Guards& guards, int element) {
  const Window& window = op->window();
  int64_t n = op->operand_count() / 2, positions = 1;
  for (const WindowDimension& w : window.dimensions) positions *= w.size;
  Vals acc = InitialValues(*op, false);
  if (HasLanes(index)) {
    for (Val& v : acc) v = e_.Splat(v, lanes_);
  }
  const DimVector& dims = op->operand(0)->shape().dimensions();
  auto step = [&](const Index& position, Vals& accumulators) {
    Source s;
    if (!WindowElement(window, dims, index, position, vars_, s.index, s.guards)) return;
    Value* mask = Mask(s.guards);
    Vals inputs;
    for (int64_t i = 0; i < n; ++i) {
      Guards inner = guards;
      Index in = s.index;
      for (const Guard& g : s.guards) {
        if (HasLanes(g.e)) inner.insert(std::lower_bound(inner.begin(), inner.end(), g), g);
      }
      for (size_t d = 0; d < in.size(); ++d) {
        if (!HasLanes(in[d])) in[d] = vars_.Clamp(in[d], 0, dims[d] - 1);
      }
      inputs.push_back(Eval(op->operand(i), in, inner));
    }
    const Computation& body = *op->called(0);
    Value* active = Both(ActiveIn(body, guards), ActiveIn(body, s.guards));
    Vals next = Combine(*op, accumulators, inputs, positions <= kStepwiseWindow, active);
    for (int64_t i = 0; i < n; ++i) accumulators[i] = mask ? e_.Select(mask, next[i], accumulators[i]) : next[i];
  };
  if (positions <= 16) {
    std::vector<int64_t> at(window.dimensions.size(), 0);
    for (int64_t p = 0; p < positions; ++p) {
      Index position;
      for (int64_t k : at) position.push_back(Affine::Const(k));
      step(position, acc);
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < window.dimensions[d].size) break;
        at[d] = 0;
      }
    }
  } else {
    std::vector<Value*> carried;
    for (const Val& v : acc) {
      carried.push_back(v.v);
      if (v.im) carried.push_back(v.im);
    }
    auto unflatten = [&](const std::vector<Value*>& flat) {
      Vals r;
      size_t k = 0;
      for (int64_t i = 0; i < n; ++i) {
        Val v{flat[k++]};
        if (IsComplex(op->operand(i)->shape().element_type())) v.im = flat[k++];
        r.push_back(v);
      }
      return r;
    };
    std::vector<VarId> loops;
    for (const WindowDimension& w : window.dimensions) {
      if (w.size > 1) loops.push_back(vars_.Loop(w.size));
    }
    auto nest = [&](auto& self, size_t k, std::vector<Value*>& values) -> void {
      if (k == loops.size()) {
        Index position;
        size_t next = 0;
        for (const WindowDimension& w : window.dimensions) {
          position.push_back(w.size > 1 ? Affine::Var(loops[next++]) : Affine::Const(0));
        }
        Vals now = unflatten(values);
        step(position, now);
        size_t slot = 0;
        for (const Val& v : now) {
          values[slot++] = v.v;
          if (v.im) values[slot++] = v.im;
        }
        return;
      }
      Loop(b_.getInt64(0), b_.getInt64(vars_.extent(loops[k])), 1, values, [&](Value* iv, std::vector<Value*>& inside) {
        VarId v = loops[k];
        Count({&v, 1}, iv);
        self(self, k + 1, inside);
      });
    };
    nest(nest, 0, carried);
    acc = unflatten(carried);
  }
  PrimitiveType t = op->operand(element)->shape().element_type();
  return IsNarrowFloat(t) ? e_.Round(t, acc[element].v) : acc[element];
}

// ---- Kept rows ----------------------------------------------------------------------------------------------------

// The part of an address that moves within the row: what counters inside the unit's loop contribute.
std::optional<Val> BodyEmitter::FromKept(const Instruction* op, const Index& index) {
  auto it = kept_.find(op);
  if (it == kept_.end() || !it->second.filled) return std::nullopt;
  Affine address = Linearize(index, op->shape().dimensions()), fixed, moving;
  fixed.constant = address.constant;
  for (const Term& t : address.terms) (VarLevel(t.var) <= 1 ? fixed : moving).Add(Affine::Var(t.var), t.coef);
  Affine offset = fixed.Plus(it->second.origin, -1);
  if (!offset.IsConst()) return std::nullopt;
  moving.constant = offset.constant;
  auto [lo, hi] = vars_.Range(moving);
  if (lo < 0 || hi >= it->second.length) return std::nullopt;
  return LoadRow(it->second.base, moving, op->shape().element_type());
}

void BodyEmitter::ToKept(const Instruction* op, const Index& index, const Val& v) {
  auto it = kept_.find(op);
  if (it == kept_.end() || it->second.filled || it->second.pending != 0 || sweep_vars_.empty()) return;
  Affine address = Linearize(index, op->shape().dimensions()), fixed, moving;
  fixed.constant = address.constant;
  for (const Term& t : address.terms) (sweep_vars_.contains(t.var) ? moving : fixed).Add(Affine::Var(t.var), t.coef);
  for (const Term& t : fixed.terms) {
    if (VarLevel(t.var) > 1) return;
  }
  // Every position of the row exactly once: the strides are those of a mixed-radix number over all sweep variables.
  std::vector<Term> terms(moving.terms.begin(), moving.terms.end());
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.coef < b.coef; });
  int64_t expected = 1;
  for (const Term& t : terms) {
    if (t.coef != expected || vars_.def(t.var).kind != VarKind::kLoop) return;
    expected *= vars_.extent(t.var);
  }
  if (expected != it->second.length || terms.size() != sweep_vars_.size()) return;
  StoreRow(it->second.base, moving, op->shape().element_type(), v);
  it->second.pending = sweep_;
  it->second.origin = fixed;
}

}  // namespace backplane::engine::codegen
