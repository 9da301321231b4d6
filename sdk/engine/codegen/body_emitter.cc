#include "sdk/engine/codegen/body_emitter.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace backplane::engine::codegen {

using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

bool BodyEmitter::MemoKey::operator<(const MemoKey& o) const {
  if (instruction != o.instruction)
    return instruction->id() != o.instruction->id() ? instruction->id() < o.instruction->id()
                                                    : instruction < o.instruction;
  if (element != o.element) return element < o.element;
  if (!(index == o.index)) return IndexLess(index, o.index);
  return std::lexicographical_compare(guards.begin(), guards.end(), o.guards.begin(), o.guards.end());
}

BodyEmitter::BodyEmitter(ElementEmitter& elements, VarTable& vars, const jit::HostInfo& host)
    : e_(elements), b_(elements.b()), vars_(vars), host_(host) {
  scopes_.push_back(std::make_unique<Scope>());
}

void BodyEmitter::SetJoint(std::vector<const Instruction*> reduces) {
  for (const Instruction* r : reduces) joint_[r] = reduces;
}

// ---- Counters and levels ------------------------------------------------------------------------------------------

void BodyEmitter::Count(absl::Span<const VarId> vars, Value* value, int lanes) {
  Counter c;
  c.vars.assign(vars.begin(), vars.end());
  c.strides.resize(vars.size());
  for (size_t i = vars.size(); i-- > 0;) {
    c.strides[i] = c.extent;
    c.extent *= vars_.extent(vars[i]);
  }
  c.value = value;
  c.lanes = lanes;
  c.level = level();
  if (lanes > 0) lanes_ = lanes;
  for (VarId v : vars) counter_of_[v] = static_cast<int>(counters_.size());
  counters_.push_back(std::move(c));
}

Guard BodyEmitter::TailGuard(absl::Span<const VarId> vars) const {
  Guard g;
  int64_t stride = 1;
  for (size_t i = vars.size(); i-- > 0;) {
    g.e.Add(Affine::Var(vars[i]), stride);
    stride *= vars_.extent(vars[i]);
  }
  g.lo = std::numeric_limits<int64_t>::min();
  g.hi = stride;
  return g;
}

Guards BodyEmitter::TailGuardsOf(const Index& index) const {
  std::set<VarId> used;
  for (const Affine& e : index) vars_.ForEachLoopVar(e, [&](VarId v) { used.insert(v); });
  Guards guards;
  for (const Counter& c : counters_) {
    if (c.lanes == 0 || c.extent % c.lanes == 0) continue;
    if (std::none_of(c.vars.begin(), c.vars.end(), [&](VarId v) { return used.contains(v); })) continue;
    Guard g = TailGuard(c.vars);
    guards.insert(std::lower_bound(guards.begin(), guards.end(), g), g);
  }
  return guards;
}

int BodyEmitter::VarLevel(VarId v) const {
  const VarDef& d = vars_.def(v);
  if (d.kind == VarKind::kLoop) {
    auto it = counter_of_.find(v);
    return it == counter_of_.end() ? 0 : counters_[it->second].level;
  }
  if (d.kind == VarKind::kRuntime) return LevelOf(d.source_index);
  return LevelOf(d.expr);
}

int BodyEmitter::LevelOf(const Affine& e) const {
  int l = 0;
  for (const Term& t : e.terms) l = std::max(l, VarLevel(t.var));
  return l;
}

int BodyEmitter::LevelOf(const Index& index) const {
  int l = 0;
  for (const Affine& e : index) l = std::max(l, LevelOf(e));
  return l;
}

bool BodyEmitter::VarHasLanes(VarId v) const {
  const VarDef& d = vars_.def(v);
  if (d.kind == VarKind::kLoop) {
    auto it = counter_of_.find(v);
    return it != counter_of_.end() && counters_[it->second].lanes > 0;
  }
  if (d.kind == VarKind::kRuntime) return HasLanes(d.source_index);
  return HasLanes(d.expr);
}

bool BodyEmitter::HasLanes(const Affine& e) const {
  for (const Term& t : e.terms) {
    if (VarHasLanes(t.var)) return true;
  }
  return false;
}

bool BodyEmitter::HasLanes(const Index& index) const {
  for (const Affine& e : index) {
    if (HasLanes(e)) return true;
  }
  return false;
}

void BodyEmitter::AtLevel(int target, const std::function<void()>& fn) {
  if (target >= level()) return fn();
  std::vector<std::unique_ptr<Scope>> suspended;
  for (size_t i = target + 1; i < scopes_.size(); ++i) suspended.push_back(std::move(scopes_[i]));
  scopes_.resize(target + 1);
  int lanes = lanes_;
  lanes_ = 0;
  for (const Counter& c : counters_) {
    if (c.level <= target && c.lanes > 0) lanes_ = c.lanes;
  }
  {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(scopes_[target]->hoist);
    fn();
  }
  lanes_ = lanes;
  for (auto& s : suspended) scopes_.push_back(std::move(s));
}

void BodyEmitter::Repeat(std::vector<Value*>& carried, const std::function<Value*(std::vector<Value*>&)>& before_turn,
                         const std::function<Value*(std::vector<Value*>&)>& turn) {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::Function* function = before->getParent();
  bool at_end = b_.GetInsertPoint() == before->end();
  llvm::BasicBlock* after;
  llvm::Instruction* resume = nullptr;
  if (at_end) {
    after = llvm::BasicBlock::Create(e_.context(), "", function);
  } else {
    resume = &*b_.GetInsertPoint();
    after = before->splitBasicBlock(resume);
    before->getTerminator()->eraseFromParent();
  }
  llvm::BasicBlock* block = llvm::BasicBlock::Create(e_.context(), "", function, after);
  b_.SetInsertPoint(before);
  llvm::Instruction* enter = b_.CreateBr(block);
  llvm::Instruction* outer_hoist = scopes_.back()->hoist;
  scopes_.back()->hoist = enter;
  scopes_.push_back(std::make_unique<Scope>());
  int lanes = lanes_;
  size_t counters = counters_.size();

  b_.SetInsertPoint(block);
  std::vector<llvm::PHINode*> phis;
  std::vector<Value*> inside;
  for (Value* v : carried) {
    phis.push_back(b_.CreatePHI(v->getType(), 2));
    inside.push_back(phis.back());
  }
  std::vector<Value*> result = inside;
  if (before_turn) {
    Value* more = before_turn(inside);
    llvm::BasicBlock* rest = llvm::BasicBlock::Create(e_.context(), "", function, after);
    b_.CreateCondBr(more, rest, after);
    b_.SetInsertPoint(rest);
  }
  Value* again = turn(inside);
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  if (again) {
    b_.CreateCondBr(again, block, after);
    result = inside;
  } else {
    b_.CreateBr(block);
  }
  // Code was hoisted in front of `enter` meanwhile; the block that ends with it is the one that enters the loop.
  for (size_t i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(carried[i], enter->getParent());
    phis[i]->addIncoming(inside[i], latch);
  }
  carried = result;

  for (size_t i = counters; i < counters_.size(); ++i) {
    for (VarId v : counters_[i].vars) counter_of_.erase(v);
  }
  counters_.resize(counters);
  lanes_ = lanes;
  scopes_.pop_back();
  scopes_.back()->hoist = outer_hoist;
  if (resume) {
    b_.SetInsertPoint(resume);
  } else {
    b_.SetInsertPoint(after);
  }
}

void BodyEmitter::Loop(Value* begin, Value* end, int64_t step, std::vector<Value*>& carried, const LoopBody& body) {
  std::vector<Value*> all = {begin};
  all.insert(all.end(), carried.begin(), carried.end());
  Repeat(all, nullptr, [&](std::vector<Value*>& inside) -> Value* {
    Value* iv = inside[0];
    std::vector<Value*> values(inside.begin() + 1, inside.end());
    body(iv, values);
    Value* next = b_.CreateAdd(iv, b_.getInt64(step), "", true, true);
    inside = {next};
    inside.insert(inside.end(), values.begin(), values.end());
    return b_.CreateICmpSLT(next, end);
  });
  carried.assign(all.begin() + 1, all.end());
}

void BodyEmitter::If(Value* condition, const std::function<void()>& body) {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::Function* function = before->getParent();
  llvm::BasicBlock* after;
  llvm::Instruction* resume = nullptr;
  if (b_.GetInsertPoint() == before->end()) {
    after = llvm::BasicBlock::Create(e_.context(), "", function);
  } else {
    resume = &*b_.GetInsertPoint();
    after = before->splitBasicBlock(resume);
    before->getTerminator()->eraseFromParent();
  }
  llvm::BasicBlock* block = llvm::BasicBlock::Create(e_.context(), "", function, after);
  b_.SetInsertPoint(before);
  llvm::Instruction* outer_hoist = scopes_.back()->hoist;
  scopes_.back()->hoist =
      condition ? static_cast<llvm::Instruction*>(b_.CreateCondBr(condition, block, after)) : b_.CreateBr(block);
  scopes_.push_back(std::make_unique<Scope>());
  int lanes = lanes_;
  size_t counters = counters_.size();
  b_.SetInsertPoint(block);
  body();
  b_.CreateBr(after);
  for (size_t i = counters; i < counters_.size(); ++i) {
    for (VarId v : counters_[i].vars) counter_of_.erase(v);
  }
  counters_.resize(counters);
  lanes_ = lanes;
  scopes_.pop_back();
  scopes_.back()->hoist = outer_hoist;
  if (resume) {
    b_.SetInsertPoint(resume);
  } else {
    b_.SetInsertPoint(after);
  }
}

// ---- Index values -------------------------------------------------------------------------------------------------

Type* BodyEmitter::IndexVectorType(const Affine& e) {
  auto [lo, hi] = vars_.Range(e);
  bool narrow = lo >= std::numeric_limits<int32_t>::min() / 2 && hi <= std::numeric_limits<int32_t>::max() / 2;
  return llvm::FixedVectorType::get(narrow ? b_.getInt32Ty() : b_.getInt64Ty(), lanes_);
}

Value* BodyEmitter::LaneNumbers(Type* type) {
  auto* vector = llvm::cast<llvm::FixedVectorType>(type);
  std::vector<llvm::Constant*> numbers;
  for (unsigned i = 0; i < vector->getNumElements(); ++i)
    numbers.push_back(ConstantInt::get(vector->getElementType(), i));
  return llvm::ConstantVector::get(numbers);
}

Value* BodyEmitter::VarValue(VarId v) {
  int at = VarLevel(v);
  if (at < level()) {
    if (auto it = scopes_[at]->values.find(v); it != scopes_[at]->values.end()) return it->second;
    Value* r = nullptr;
    AtLevel(at, [&] { r = VarValue(v); });
    return r;
  }
  auto& memo = scopes_.back()->values;
  if (auto it = memo.find(v); it != memo.end()) return it->second;
  const VarDef d = vars_.def(v);
  Value* r = nullptr;
  switch (d.kind) {
    case VarKind::kLoop: {
      auto it = counter_of_.find(v);
      if (it == counter_of_.end()) {
        e_.Fail(absl::InternalError("a loop variable has no counter"));
        return b_.getInt64(0);
      }
      const Counter c = counters_[it->second];
      size_t position = std::find(c.vars.begin(), c.vars.end(), v) - c.vars.begin();
      Value* m = c.value;
      if (c.lanes > 0) {
        bool narrow = c.extent + 64 <= std::numeric_limits<int32_t>::max();
        Type* type = llvm::FixedVectorType::get(narrow ? b_.getInt32Ty() : b_.getInt64Ty(), c.lanes);
        Value* start = narrow ? b_.CreateTrunc(m, b_.getInt32Ty()) : m;
        m = b_.CreateAdd(e_.Splat(start, c.lanes), LaneNumbers(type));
      }
      Type* type = m->getType();
      if (c.strides[position] != 1) m = b_.CreateUDiv(m, ConstantInt::get(type, c.strides[position]));
      if (position != 0) m = b_.CreateURem(m, ConstantInt::get(type, vars_.extent(v)));
      r = m;
      break;
    }
    case VarKind::kFloorDiv:
    case VarKind::kMod: {
      auto [lo, hi] = vars_.Range(d.expr);
      int64_t up = lo >= 0 ? 0 : (-lo + d.divisor - 1) / d.divisor;  // makes the dividend not negative
      Value* x = IndexValue(d.expr.Plus(up * d.divisor));
      Value* c = ConstantInt::get(x->getType(), d.divisor);
      if (d.kind == VarKind::kMod) {
        r = b_.CreateURem(x, c);
      } else {
        r = b_.CreateUDiv(x, c);
        if (up != 0) r = b_.CreateSub(r, ConstantInt::get(x->getType(), up));
      }
      break;
    }
    case VarKind::kClamp: {
      Value* x = IndexValue(d.expr);
      x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, ConstantInt::get(x->getType(), d.lo, true));
      r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, ConstantInt::get(x->getType(), d.hi, true));
      break;
    }
    case VarKind::kRuntime: {
      Val x = Eval(d.source, d.source_index, TailGuardsOf(d.source_index));
      PrimitiveType t = d.source->shape().element_type();
      int lanes = ElementEmitter::LanesOf(x);
      Type* wide = lanes ? static_cast<Type*>(llvm::FixedVectorType::get(b_.getInt64Ty(), lanes)) : b_.getInt64Ty();
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
        if (!d.raw) r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, r, ConstantInt::get(wide, d.hi));
      }
      if (!d.raw) r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, r, ConstantInt::get(wide, d.lo, true));
      break;
    }
  }
  // Eval may have opened and closed loops; the scope is still the same one.
  scopes_.back()->values[v] = r;
  return r;
}

BodyEmitter::Lin BodyEmitter::Linearized(const Affine& e) {
  Lin lin;
  lin.uniform.constant = e.constant;
  Affine rest = e;
  rest.constant = 0;
  Affine vec;
  // Loop variables by counter: together when they move like one number.
  for (const Term& t : e.terms) {
    if (rest.CoefOf(t.var) == 0) continue;  // done with its counter
    if (!VarHasLanes(t.var)) {
      lin.uniform.Add(Affine::Var(t.var), t.coef);
      continue;
    }
    auto it = counter_of_.find(t.var);
    if (it != counter_of_.end()) {
      const Counter& c = counters_[it->second];
      int64_t k = e.CoefOf(c.vars.back());
      bool together = true;
      for (size_t i = 0; i < c.vars.size(); ++i) together = together && e.CoefOf(c.vars[i]) == k * c.strides[i];
      if (together) {
        lin.stride += k;
        // The counter's value, as a uniform sum: its variables stand for lane 0 below.
        for (VarId v : c.vars) {
          lin.uniform.Add(Affine::Var(v), e.CoefOf(v));
          rest.Add(Affine::Var(v), -rest.CoefOf(v));
        }
        continue;
      }
    }
    vec.Add(Affine::Var(t.var), t.coef);
    rest.Add(Affine::Var(t.var), -t.coef);
  }
  if (!vec.terms.empty()) {
    Type* type = IndexVectorType(vec);
    for (const Term& t : vec.terms) {
      Value* x = VarValue(t.var);
      x = b_.CreateSExtOrTrunc(e_.Splat(x, lanes_), type);
      if (t.coef != 1) x = b_.CreateMul(x, ConstantInt::get(type, t.coef, true));
      lin.vec = lin.vec ? b_.CreateAdd(lin.vec, x) : x;
    }
  }
  return lin;
}

// Lane 0 of counters that have lanes. Sums are built outer loops first, each part in its loop.
Value* BodyEmitter::UniformValue(const Affine& e) {
  if (e.IsConst()) return b_.getInt64(e.constant);
  auto var_level = [&](VarId v) { return VarLevel(v); };
  int at = 0;
  for (const Term& t : e.terms) at = std::max(at, var_level(t.var));
  if (auto it = scopes_[at]->sums.find(e); it != scopes_[at]->sums.end()) return it->second;
  if (at < level()) {
    Value* r = nullptr;
    AtLevel(at, [&] { r = UniformValue(e); });
    return r;
  }
  Affine outer;
  outer.constant = e.constant;
  absl::InlinedVector<Term, 4> here;
  for (const Term& t : e.terms) {
    if (var_level(t.var) < at) {
      outer.terms.push_back(t);
    } else {
      here.push_back(t);
    }
  }
  Value* sum = outer.IsConst() && outer.constant == 0 ? nullptr : UniformValue(outer);
  auto add = [&](Value* x, int64_t k) {
    if (k != 1) x = b_.CreateMul(x, b_.getInt64(k));
    sum = sum ? b_.CreateAdd(sum, x) : x;
  };
  std::set<int> done;
  for (const Term& t : here) {
    auto it = counter_of_.find(t.var);
    if (it == counter_of_.end()) {
      add(VarValue(t.var), t.coef);
      continue;
    }
    const Counter c = counters_[it->second];
    if (done.contains(it->second)) continue;
    int64_t k = e.CoefOf(c.vars.back());
    bool together = true;
    for (size_t i = 0; i < c.vars.size(); ++i) together = together && e.CoefOf(c.vars[i]) == k * c.strides[i];
    if (together) {
      done.insert(it->second);
      add(c.value, k);
    } else {
      add(VarValue(t.var), t.coef);
    }
  }
  scopes_.back()->sums[e] = sum;
  return sum;
}

Value* BodyEmitter::IndexValue(const Affine& e) {
  if (!HasLanes(e)) return UniformValue(e);
  Lin lin = Linearized(e);
  Type* type = IndexVectorType(e);
  Value* scalar = UniformValue(lin.uniform);
  Value* r = e_.Splat(b_.CreateSExtOrTrunc(scalar, type->getScalarType()), lanes_);
  if (lin.stride != 0) {
    Value* steps = LaneNumbers(type);
    if (lin.stride != 1) steps = b_.CreateMul(steps, ConstantInt::get(type, lin.stride, true));
    r = b_.CreateAdd(r, steps);
  }
  if (lin.vec) r = b_.CreateAdd(r, b_.CreateSExtOrTrunc(lin.vec, type));
  return r;
}

Value* BodyEmitter::Mask(const Guards& guards) {
  if (guards.empty()) return nullptr;
  int at = 0;
  for (const Guard& g : guards) at = std::max(at, LevelOf(g.e));
  std::vector<Guard> key(guards.begin(), guards.end());
  if (auto it = scopes_[at]->masks.find(key); it != scopes_[at]->masks.end()) return it->second;
  Value* r = nullptr;
  AtLevel(at, [&] {
    int lanes = 0;
    for (const Guard& g : guards) {
      Value* x = IndexValue(g.e);
      auto [lo, hi] = vars_.Range(g.e);
      auto conjoin = [&](Value* c) {
        lanes = std::max({lanes, ElementEmitter::LanesOf(c), r ? ElementEmitter::LanesOf(r) : 0});
        r = r ? b_.CreateAnd(e_.Splat(r, lanes), e_.Splat(c, lanes)) : c;
      };
      Type* type = x->getType();
      if (g.lo > lo) conjoin(b_.CreateICmpSGE(x, ConstantInt::get(type, g.lo, true)));
      bool tail = g.lo == std::numeric_limits<int64_t>::min();
      if (tail || g.hi <= hi) conjoin(b_.CreateICmpSLT(x, ConstantInt::get(type, g.hi, true)));
    }
    if (!r) r = b_.getTrue();
    scopes_[level()]->masks[key] = r;
  });
  return r;
}

Guards BodyEmitter::Prune(const Guards& guards, const Index& index) const {
  if (guards.empty()) return guards;
  std::set<VarId> used;
  for (const Affine& e : index) vars_.ForEachLoopVar(e, [&](VarId v) { used.insert(v); });
  Guards r;
  for (const Guard& g : guards) {
    bool shares = false;
    vars_.ForEachLoopVar(g.e, [&](VarId v) { shares = shares || used.contains(v); });
    // A guard on a run-time value without loop variables protects reads that depend on that value alone.
    bool has_loop_vars = false;
    vars_.ForEachLoopVar(g.e, [&](VarId) { has_loop_vars = true; });
    if (shares || (!has_loop_vars && !index.empty())) r.push_back(g);
  }
  return r;
}

// ---- Memory -------------------------------------------------------------------------------------------------------

// Elements at a constant stride of 2 to 4: consecutive loads that end with the last wanted element, then shuffles.
Value* BodyEmitter::StridedLoad(Type* element, Value* pointer, int stride) {
  Type* vector = llvm::FixedVectorType::get(element, lanes_);
  int span = (lanes_ - 1) * stride + 1;
  Value* result = nullptr;
  for (int piece = 0; piece < stride; ++piece) {
    int offset = std::min(piece * lanes_, span - lanes_);
    Value* x = b_.CreateAlignedLoad(vector, b_.CreateConstGEP1_64(element, pointer, offset), llvm::Align(1));
    if (!result) {
      std::vector<int> pick(lanes_, -1);
      for (int i = 0; i < lanes_; ++i) {
        if (i * stride < lanes_) pick[i] = i * stride;
      }
      result = b_.CreateShuffleVector(x, pick);
      continue;
    }
    std::vector<int> pick(lanes_, -1);
    for (int i = 0; i < lanes_; ++i) {
      int at = i * stride;
      if (at < piece * lanes_) {
        pick[i] = i;
      } else if (at >= piece * lanes_ && at < (piece + 1) * lanes_) {
        pick[i] = lanes_ + at - offset;
      }
    }
    result = b_.CreateShuffleVector(result, x, pick);
  }
  return result;
}

// base[scale * address + offset] for each lane. Mask: scalar, vector or null.
Value* BodyEmitter::LoadVector(Type* element, Value* base, const Affine& address, int scale, int offset, Value* mask) {
  Affine a = address.Times(scale).Plus(offset);
  llvm::Align align(1);
  if (!HasLanes(a)) {
    Value* pointer = b_.CreateGEP(element, base, UniformValue(a));
    if (mask && !mask->getType()->isVectorTy()) {
      if (!safe_) {
        auto* zeros = llvm::ConstantAggregateZero::get(llvm::ArrayType::get(b_.getInt8Ty(), 64));
        safe_ =
            new llvm::GlobalVariable(*e_.module(), zeros->getType(), true, llvm::GlobalValue::PrivateLinkage, zeros);
      }
      pointer = b_.CreateSelect(mask, pointer, safe_);
    } else if (mask) {
      // Some lane may need it and the place then exists; if none does, it may not. The first element always does.
      pointer = b_.CreateSelect(b_.CreateOrReduce(mask), pointer, base);
    }
    return b_.CreateAlignedLoad(element, pointer, align);
  }
  Lin lin = Linearized(a);
  Value* start = b_.CreateGEP(element, base, UniformValue(lin.uniform));
  Type* vector = llvm::FixedVectorType::get(element, lanes_);
  Value* lane_mask = mask ? e_.Splat(mask, lanes_) : nullptr;
  if (!lin.vec && lin.stride == 1) {
    if (!lane_mask) return b_.CreateAlignedLoad(vector, start, align);
    return b_.CreateMaskedLoad(vector, start, align, lane_mask, llvm::Constant::getNullValue(vector));
  }
  if (!lin.vec && lin.stride == -1) {
    Value* low = b_.CreateConstGEP1_64(element, start, 1 - lanes_);
    if (!lane_mask) return b_.CreateVectorReverse(b_.CreateAlignedLoad(vector, low, align));
    return b_.CreateVectorReverse(b_.CreateMaskedLoad(vector, low, align, b_.CreateVectorReverse(lane_mask),
                                                      llvm::Constant::getNullValue(vector)));
  }
  if (!lin.vec && !lane_mask && lin.stride >= 2 && lin.stride <= 4 && lanes_ >= lin.stride) {
    return StridedLoad(element, start, static_cast<int>(lin.stride));
  }
  // Everything else lane by lane.
  Type* type = lin.vec ? lin.vec->getType() : IndexVectorType(a);
  Value* offsets = lin.vec;
  if (lin.stride != 0) {
    Value* steps = b_.CreateMul(LaneNumbers(type), ConstantInt::get(type, lin.stride, true));
    offsets = offsets ? b_.CreateAdd(offsets, steps) : steps;
  }
  unsigned bits = element->getScalarSizeInBits();
  if (bits == 32 || bits == 64) {
    Value* pointers = b_.CreateGEP(element, start, offsets);
    return b_.CreateMaskedGather(vector, pointers, align, lane_mask, llvm::Constant::getNullValue(vector));
  }
  // No such instruction for narrow elements: a load for each lane, of the array's first element where masked.
  Value* wide = b_.CreateSExt(offsets, llvm::FixedVectorType::get(b_.getInt64Ty(), lanes_));
  wide = b_.CreateAdd(wide, e_.Splat(UniformValue(lin.uniform), lanes_));
  if (lane_mask) wide = b_.CreateSelect(lane_mask, wide, llvm::Constant::getNullValue(wide->getType()));
  Value* r = llvm::PoisonValue::get(vector);
  for (int i = 0; i < lanes_; ++i) {
    Value* pointer = b_.CreateGEP(element, base, b_.CreateExtractElement(wide, i));
    r = b_.CreateInsertElement(r, b_.CreateAlignedLoad(element, pointer, align), i);
  }
  return r;
}

Val BodyEmitter::Load(const ArrayRef& array, const Affine& address, const Guards& guards) {
  Value* mask = Mask(guards);
  if (IsComplex(array.type)) {
    Type* part = e_.ComputeType(array.type);
    if (HasLanes(address) && !mask) {
      Lin lin = Linearized(address);
      if (!lin.vec && lin.stride == 1) {
        Value* start = b_.CreateGEP(part, array.base, b_.CreateShl(UniformValue(lin.uniform), 1));
        Value* both = b_.CreateAlignedLoad(llvm::FixedVectorType::get(part, 2 * lanes_), start, llvm::Align(1));
        std::vector<int> even, odd;
        for (int i = 0; i < lanes_; ++i) even.push_back(2 * i), odd.push_back(2 * i + 1);
        return {b_.CreateShuffleVector(both, even), b_.CreateShuffleVector(both, odd)};
      }
    }
    return {LoadVector(part, array.base, address, 2, 0, mask), LoadVector(part, array.base, address, 2, 1, mask)};
  }
  return e_.FromStorage(array.type, LoadVector(e_.StorageType(array.type), array.base, address, 1, 0, mask));
}

void BodyEmitter::Store(const ArrayRef& array, const Affine& address, Val value, const Guards& guards) {
  llvm::Align align(1);
  bool complex = IsComplex(array.type);
  Type* element = complex ? e_.ComputeType(array.type) : e_.StorageType(array.type);
  Value* mask = Mask(guards);
  auto put = [&](Value* raw, int scale, int offset) {
    Affine a = address.Times(scale).Plus(offset);
    if (!HasLanes(a)) {
      b_.CreateAlignedStore(raw, b_.CreateGEP(element, array.base, UniformValue(a)), align);
      return;
    }
    raw = e_.Splat(raw, lanes_);
    Lin lin = Linearized(a);
    Value* start = b_.CreateGEP(element, array.base, UniformValue(lin.uniform));
    Value* lane_mask = mask ? e_.Splat(mask, lanes_) : nullptr;
    if (!lin.vec && lin.stride == 1) {
      if (lane_mask) {
        b_.CreateMaskedStore(raw, start, align, lane_mask);
      } else {
        b_.CreateAlignedStore(raw, start, align);
      }
      return;
    }
    if (!lin.vec && lin.stride == -1) {
      Value* low = b_.CreateConstGEP1_64(element, start, 1 - lanes_);
      raw = b_.CreateVectorReverse(raw);
      if (lane_mask) {
        b_.CreateMaskedStore(raw, low, align, b_.CreateVectorReverse(lane_mask));
      } else {
        b_.CreateAlignedStore(raw, low, align);
      }
      return;
    }
    Type* type = lin.vec ? lin.vec->getType() : IndexVectorType(a);
    Value* offsets = lin.vec;
    if (lin.stride != 0) {
      Value* steps = b_.CreateMul(LaneNumbers(type), ConstantInt::get(type, lin.stride, true));
      offsets = offsets ? b_.CreateAdd(offsets, steps) : steps;
    }
    b_.CreateMaskedScatter(raw, b_.CreateGEP(element, start, offsets), align, lane_mask);
  };
  if (!complex) return put(e_.ToStorage(array.type, value), 1, 0);
  if (HasLanes(address) && !mask) {
    Lin lin = Linearized(address);
    if (!lin.vec && lin.stride == 1) {
      Val v = e_.Splat(value, lanes_);
      std::vector<int> zip;
      for (int i = 0; i < lanes_; ++i) zip.push_back(i), zip.push_back(lanes_ + i);
      Value* start = b_.CreateGEP(element, array.base, b_.CreateShl(UniformValue(lin.uniform), 1));
      b_.CreateAlignedStore(b_.CreateShuffleVector(v.v, v.im, zip), start, align);
      return;
    }
  }
  put(value.v, 2, 0);
  put(value.im, 2, 1);
}

Type* BodyEmitter::RowType(PrimitiveType t) { return t == PrimitiveType::kPred ? b_.getInt8Ty() : e_.ComputeType(t); }

void BodyEmitter::StoreRow(Value* base, const Affine& position, PrimitiveType t, Val v) {
  v.stored = nullptr;
  bool plain = IsNarrowFloat(t);
  Store({base, plain ? PrimitiveType::kF32 : t}, position, v, {});
}

Val BodyEmitter::LoadRow(Value* base, const Affine& position, PrimitiveType t) {
  Val v = Load({base, IsNarrowFloat(t) ? PrimitiveType::kF32 : t}, position, {});
  if (IsNarrowFloat(t)) v.stored = nullptr;
  return v;
}

}  // namespace backplane::engine::codegen
