#include "sdk/codegen/body/index_evaluator.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace backplane::codegen {

using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

namespace {

// With room for sums of two.
bool FitsInt32(std::pair<int64_t, int64_t> range) {
  return range.first >= std::numeric_limits<int32_t>::min() / 2 &&
         range.second <= std::numeric_limits<int32_t>::max() / 2;
}

Value* SignedConstant(Type* type, int64_t c) { return ConstantInt::get(type, static_cast<uint64_t>(c), true); }

}  // namespace

IndexEvaluator::IndexEvaluator(ElementEmitter& elements, LoopScopes& scopes)
    : e_(elements),
      b_(elements.b()),
      scopes_(scopes),
      vars_(scopes.vars()),
      variables_(scopes),
      uniforms_(scopes),
      masks_(scopes) {}

llvm::IntegerType* IndexEvaluator::CounterType(int64_t extent) {
  const bool narrow = e_.target().index_bits <= 32 && FitsInt32({0, extent});
  return narrow ? b_.getInt32Ty() : b_.getInt64Ty();
}

llvm::IntegerType* IndexEvaluator::ScalarType(const Affine& e) {
  const bool narrow = e_.target().index_bits <= 32 && FitsInt32(vars_.Range(e));
  return narrow ? b_.getInt32Ty() : b_.getInt64Ty();
}

Type* IndexEvaluator::VectorType(const Affine& e) {
  const bool narrow = FitsInt32(vars_.Range(e));
  return llvm::FixedVectorType::get(narrow ? b_.getInt32Ty() : b_.getInt64Ty(), static_cast<unsigned>(scopes_.lanes()));
}

Value* IndexEvaluator::LaneNumbers(Type* type) {
  auto* vector = llvm::cast<llvm::FixedVectorType>(type);
  std::vector<llvm::Constant*> numbers;
  for (unsigned i = 0; i < vector->getNumElements(); ++i)
    numbers.push_back(ConstantInt::get(vector->getElementType(), i));
  return llvm::ConstantVector::get(numbers);
}

// ---- Variables ----------------------------------------------------------------------------------------------------

Value* IndexEvaluator::GetVariable(VarId v) {
  const int at = std::min(scopes_.GetLevel(v), scopes_.level());
  if (Value* const* known = variables_.Find(at, v)) return *known;
  Value* r = nullptr;
  scopes_.AtLevel(at, [&] {
    r = EmitVariable(v);
    variables_.Set(scopes_.level(), v, r);
  });
  return r;
}

Value* IndexEvaluator::EmitVariable(VarId v) {
  const VarDef d = vars_.def(v);  // a copy: evaluation below may add variables
  switch (d.kind) {
    case VarKind::kLoop: {
      const LoopScopes::Binding* binding = scopes_.FindBinding(v);
      if (binding == nullptr) {
        e_.Fail(absl::InternalError("a loop variable is not bound"));
        return b_.getInt64(0);
      }
      return Digit(*binding, v);
    }
    case VarKind::kFloorDiv:
    case VarKind::kMod: {
      const int64_t lo = vars_.Range(d.expr).first;
      const int64_t up = lo >= 0 ? 0 : (-lo + d.divisor - 1) / d.divisor;  // makes the dividend not negative
      Value* x = Evaluate(d.expr.Plus(up * d.divisor));
      Value* divisor = SignedConstant(x->getType(), d.divisor);
      if (d.kind == VarKind::kMod) return b_.CreateURem(x, divisor);
      Value* r = b_.CreateUDiv(x, divisor);
      return up == 0 ? r : b_.CreateSub(r, SignedConstant(x->getType(), up));
    }
    case VarKind::kClamp: {
      Value* x = Evaluate(d.expr);
      x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, SignedConstant(x->getType(), d.lo));
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, SignedConstant(x->getType(), d.hi));
    }
    case VarKind::kRuntime:
      return RuntimeVariable(d);
  }
  return nullptr;
}

Value* IndexEvaluator::Digit(const LoopScopes::Binding& binding, VarId v) {
  const size_t position =
      static_cast<size_t>(std::find(binding.vars.begin(), binding.vars.end(), v) - binding.vars.begin());
  Value* number = binding.value;
  if (binding.lanes > 0) {
    const bool narrow = binding.extent + 64 <= std::numeric_limits<int32_t>::max();
    Type* type =
        llvm::FixedVectorType::get(narrow ? b_.getInt32Ty() : b_.getInt64Ty(), static_cast<unsigned>(binding.lanes));
    Value* start = b_.CreateSExtOrTrunc(number, type->getScalarType());
    number = b_.CreateAdd(e_.Splat(start, binding.lanes), LaneNumbers(type));
  }
  Type* type = number->getType();
  if (binding.strides[position] != 1) number = b_.CreateUDiv(number, SignedConstant(type, binding.strides[position]));
  if (position != 0) number = b_.CreateURem(number, SignedConstant(type, vars_.extent(v)));
  return number;
}

Value* IndexEvaluator::RuntimeVariable(const VarDef& d) {
  const Val x = reader_(d.source, d.source_index, scopes_.GetTailGuards(d.source_index));
  const PrimitiveType t = d.source->shape().element_type();
  const int lanes = ElementEmitter::GetLanes(x);
  Type* wide = b_.getInt64Ty();
  if (lanes > 0) wide = llvm::FixedVectorType::get(wide, static_cast<unsigned>(lanes));
  Value* r = nullptr;
  if (IsUnsigned(t) || t == PrimitiveType::kPred) {
    r = b_.CreateZExt(x.v, wide);
    // As an index of its own a number past the range of signed ones must not turn negative: it may be a window's
    // start, and the window reach zero.
    const uint64_t most = d.raw ? uint64_t{1} << 62 : static_cast<uint64_t>(d.hi);
    if (!d.raw || t == PrimitiveType::kU64) {
      r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, r, ConstantInt::get(wide, most));
    }
  } else {
    r = b_.CreateSExt(x.v, wide);
    if (!d.raw) r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, r, SignedConstant(wide, d.hi));
  }
  if (!d.raw) r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, r, SignedConstant(wide, d.lo));
  return r;
}

// ---- Sums ---------------------------------------------------------------------------------------------------------

// Outer loops first, each part in its loop. The arithmetic may wrap on the way: the result fits its type.
Value* IndexEvaluator::Uniform(const Affine& e) {
  llvm::IntegerType* type = ScalarType(e);
  if (e.IsConst()) return SignedConstant(type, e.constant);
  const int at = scopes_.GetLevel(e);
  if (Value* const* known = uniforms_.Find(at, e)) return *known;
  if (at < scopes_.level()) {
    Value* r = nullptr;
    scopes_.AtLevel(at, [&] { r = Uniform(e); });
    return r;
  }
  Affine outer;
  outer.constant = e.constant;
  absl::InlinedVector<Term, 4> here;
  for (const Term& t : e.terms) {
    if (scopes_.GetLevel(t.var) < at) {
      outer.terms.push_back(t);
    } else {
      here.push_back(t);
    }
  }
  Value* sum = nullptr;
  if (!outer.IsConst() || outer.constant != 0) sum = b_.CreateSExtOrTrunc(Uniform(outer), type);
  auto add = [&](Value* x, int64_t coefficient) {
    x = b_.CreateSExtOrTrunc(x, type);
    if (coefficient != 1) x = b_.CreateMul(x, SignedConstant(type, coefficient));
    sum = sum ? b_.CreateAdd(sum, x) : x;
  };
  std::set<const LoopScopes::Binding*> done;
  for (const Term& t : here) {
    const LoopScopes::Binding* binding = scopes_.FindBinding(t.var);
    if (binding != nullptr && done.contains(binding)) continue;
    int64_t coefficient = 0;
    if (binding != nullptr && binding->MovesTogether(e, &coefficient)) {
      done.insert(binding);
      add(binding->value, coefficient);
    } else {
      add(GetVariable(t.var), t.coef);
    }
  }
  uniforms_.Set(scopes_.level(), e, sum);
  return sum;
}

IndexEvaluator::LaneSum IndexEvaluator::SplitLanes(const Affine& e) {
  LaneSum sum;
  sum.uniform.constant = e.constant;
  Affine rest = e;
  rest.constant = 0;
  Affine varying;
  for (const Term& t : e.terms) {
    if (rest.GetCoef(t.var) == 0) continue;  // done with its binding
    if (!scopes_.HasLanes(t.var)) {
      sum.uniform.Add(Affine::Var(t.var), t.coef);
      continue;
    }
    const LoopScopes::Binding* binding = scopes_.FindBinding(t.var);
    int64_t coefficient = 0;
    if (binding != nullptr && binding->MovesTogether(e, &coefficient)) {
      sum.stride += coefficient;
      // In the uniform part the variables stand for the binding's value at lane 0.
      for (VarId v : binding->vars) {
        sum.uniform.Add(Affine::Var(v), e.GetCoef(v));
        rest.Add(Affine::Var(v), -rest.GetCoef(v));
      }
      continue;
    }
    varying.Add(Affine::Var(t.var), t.coef);
    rest.Add(Affine::Var(t.var), -t.coef);
  }
  if (varying.terms.empty()) return sum;
  Type* type = VectorType(varying);
  for (const Term& t : varying.terms) {
    Value* x = GetVariable(t.var);
    x = b_.CreateSExtOrTrunc(e_.Splat(x, scopes_.lanes()), type);
    if (t.coef != 1) x = b_.CreateMul(x, SignedConstant(type, t.coef));
    sum.varying = sum.varying ? b_.CreateAdd(sum.varying, x) : x;
  }
  return sum;
}

Value* IndexEvaluator::LaneOffsets(const LaneSum& sum, const Affine& e) {
  if (sum.stride == 0) return sum.varying;
  Type* type = sum.varying ? sum.varying->getType() : VectorType(e);
  Value* steps = b_.CreateMul(LaneNumbers(type), SignedConstant(type, sum.stride));
  return sum.varying ? b_.CreateAdd(sum.varying, steps) : steps;
}

Value* IndexEvaluator::Evaluate(const Affine& e) {
  if (!scopes_.HasLanes(e)) return Uniform(e);
  const LaneSum sum = SplitLanes(e);
  Type* type = VectorType(e);
  Value* r = e_.Splat(b_.CreateSExtOrTrunc(Uniform(sum.uniform), type->getScalarType()), scopes_.lanes());
  if (sum.stride != 0) {
    Value* steps = LaneNumbers(type);
    if (sum.stride != 1) steps = b_.CreateMul(steps, SignedConstant(type, sum.stride));
    r = b_.CreateAdd(r, steps);
  }
  if (sum.varying) r = b_.CreateAdd(r, b_.CreateSExtOrTrunc(sum.varying, type));
  return r;
}

Value* IndexEvaluator::Mask(const Guards& guards) {
  if (guards.empty()) return nullptr;
  const int at = scopes_.GetLevel(guards);
  const std::vector<Guard> key(guards.begin(), guards.end());
  if (Value* const* known = masks_.Find(at, key)) return *known;
  Value* r = nullptr;
  scopes_.AtLevel(at, [&] {
    int lanes = 0;
    for (const Guard& g : guards) {
      Value* x = Evaluate(g.e);
      const auto [lo, hi] = vars_.Range(g.e);
      auto conjoin = [&](Value* c) {
        lanes = std::max({lanes, ElementEmitter::GetLanes(c), r ? ElementEmitter::GetLanes(r) : 0});
        r = r ? b_.CreateAnd(e_.Splat(r, lanes), e_.Splat(c, lanes)) : c;
      };
      if (g.lo > lo) conjoin(b_.CreateICmpSGE(x, SignedConstant(x->getType(), g.lo)));
      const bool tail = g.lo == std::numeric_limits<int64_t>::min();
      if (tail || g.hi <= hi) conjoin(b_.CreateICmpSLT(x, SignedConstant(x->getType(), g.hi)));
    }
    if (!r) r = b_.getTrue();
    masks_.Set(scopes_.level(), key, r);
  });
  return r;
}

}  // namespace backplane::codegen
