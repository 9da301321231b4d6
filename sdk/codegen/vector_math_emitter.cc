#include "sdk/codegen/vector_math_emitter.h"

#include <algorithm>
#include <numeric>

namespace backplane::codegen {

V MathEmitter::ExtractLanes(V x, int begin, int count) {
  const int have = static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
  std::vector<int> mask(count, -1);  // -1: anything
  for (int i = 0; i < count && begin + i < have; ++i) mask[i] = begin + i;
  return b.CreateShuffleVector(x, mask);
}

V MathEmitter::Join(const std::vector<V>& pieces) {
  std::vector<V> level = pieces;
  while (level.size() > 1) {
    std::vector<V> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      const int n = static_cast<int>(llvm::cast<llvm::FixedVectorType>(level[i]->getType())->getNumElements());
      const int m = static_cast<int>(llvm::cast<llvm::FixedVectorType>(level[i + 1]->getType())->getNumElements());
      V second = n == m ? level[i + 1] : ExtractLanes(level[i + 1], 0, n);
      std::vector<int> mask(n + m);
      std::iota(mask.begin(), mask.end(), 0);
      next.push_back(b.CreateShuffleVector(level[i], second, mask));
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  return level[0];
}

V MathEmitter::ApplyInPieces(const std::vector<V>& xs, int count, const std::function<V(const std::vector<V>&)>& fn) {
  if (lanes == count) return fn(xs);
  std::vector<V> pieces;
  for (int begin = 0; begin < lanes; begin += count) {
    std::vector<V> arguments;
    for (V x : xs) arguments.push_back(ExtractLanes(x, begin, count));
    V result = fn(arguments);
    if (lanes - begin < count) result = ExtractLanes(result, 0, lanes - begin);
    pieces.push_back(result);
  }
  return Join(pieces);
}

V MathEmitter::Scalef(V x, V n) {
  const int width = f64 ? 8 : 16;
  return ApplyInPieces({x, n}, width, [&](const std::vector<V>& p) -> V {
    V mask = f64 ? V(b.getInt8(0xff)) : V(b.getInt16(0xffff));
    return b.CreateIntrinsic(
        f64 ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512 : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
        {p[0], p[1], llvm::PoisonValue::get(p[0]->getType()), mask, b.getInt32(4)});
  });
}

V MathEmitter::GetExp(V x) {
  const int width = f64 ? 8 : 16;
  return ApplyInPieces({x}, width, [&](const std::vector<V>& p) -> V {
    V mask = f64 ? V(b.getInt8(0xff)) : V(b.getInt16(0xffff));
    return b.CreateIntrinsic(
        f64 ? llvm::Intrinsic::x86_avx512_mask_getexp_pd_512 : llvm::Intrinsic::x86_avx512_mask_getexp_ps_512, {},
        {p[0], llvm::PoisonValue::get(p[0]->getType()), mask, b.getInt32(4)});
  });
}

V MathEmitter::GetMant(V x) {
  const int width = f64 ? 8 : 16;
  constexpr int kThreeQuartersToOneAndAHalf = 3, kNanIfNegative = 2 << 2;
  return ApplyInPieces({x}, width, [&](const std::vector<V>& p) -> V {
    V mask = f64 ? V(b.getInt8(0xff)) : V(b.getInt16(0xffff));
    return b.CreateIntrinsic(
        f64 ? llvm::Intrinsic::x86_avx512_mask_getmant_pd_512 : llvm::Intrinsic::x86_avx512_mask_getmant_ps_512, {},
        {p[0], b.getInt32(kThreeQuartersToOneAndAHalf | kNanIfNegative), llvm::PoisonValue::get(p[0]->getType()), mask,
         b.getInt32(4)});
  });
}

V MathEmitter::ScaleByRounded(V x, const Rounded& n) {
  if (HasAvx512()) return Scalef(x, n.value);
  // In two steps, so that neither factor leaves the normal range. The bits above the number are shifted out, but the
  // halving needs its sign: take it relative to the magic number.
  V whole = b.CreateSub(n.bits, Bits(GetRoundingConstant()));
  V half =
      f64 ? V(b.CreateSub(b.CreateLShr(b.CreateAdd(whole, I(1 << 20)), I(1)), I(1 << 19))) : b.CreateAShr(whole, I(1));
  V rest = b.CreateSub(whole, half);
  return Mul(Mul(x, PowerOfTwo(half)), PowerOfTwo(rest));
}

// Numbers beyond the last binary place are whole already; below, a sum with one whose last place is a unit rounds.
V MathEmitter::RoundByAdding(V x) {
  V unit = C(f64 ? 0x1p52 : 0x1p23);
  V size = Abs(x);
  return Select(Lt(size, unit), CopySign(Sub(Add(size, unit), unit), x), x);
}

V MathEmitter::Whole(llvm::Intrinsic::ID id, V x) {
  if (target->has_rounding) return Rounding(id, x);
  V from = id == llvm::Intrinsic::trunc ? Abs(x) : x;
  V near = RoundByAdding(from);
  V one = C(1.0);
  V whole = id == llvm::Intrinsic::ceil ? Select(Lt(near, from), Add(near, one), near)
                                        : Select(Gt(near, from), Sub(near, one), near);
  return CopySign(whole, x);
}

V MathEmitter::CallOutOfLine(const std::string& name, const std::vector<V>& xs, int max_lanes,
                             const std::function<V(MathEmitter&, const std::vector<V>&)>& body) {
  const int count = lanes == 0 ? 0 : std::min(lanes, max_lanes);
  llvm::Type* element = type->getScalarType();
  llvm::Type* piece_type = count == 0 ? element : llvm::FixedVectorType::get(element, count);
  std::string full = "backplane.math." + name + (f64 ? ".f64" : ".f32");
  if (count > 0) full += ".v" + std::to_string(count);
  llvm::Function* function = module->getFunction(full);
  if (function == nullptr) {
    std::vector<llvm::Type*> parameters(xs.size(), piece_type);
    function = llvm::Function::Create(llvm::FunctionType::get(piece_type, parameters, false),
                                      llvm::Function::InternalLinkage, full, module);
    SetFunctionAttributes(*function, *target);
    llvm::IRBuilder<> inner(module->getContext());
    inner.SetInsertPoint(llvm::BasicBlock::Create(module->getContext(), "entry", function));
    MathEmitter e(inner, module, target, piece_type);
    std::vector<V> arguments;
    for (llvm::Argument& a : function->args()) arguments.push_back(&a);
    inner.CreateRet(body(e, arguments));
  }
  auto call = [&](const std::vector<V>& p) -> V { return b.CreateCall(function, p); };
  if (count == 0) return call(xs);
  return ApplyInPieces(xs, count, call);
}

llvm::Function* MathEmitter::FindOrMake(const ScalarFunction& f) {
  llvm::LLVMContext& context = module->getContext();
  const std::string full = "backplane.exact." + std::string(f.name) + (f64 ? ".f64" : ".f32");
  if (llvm::Function* function = module->getFunction(full)) return function;
  std::vector<llvm::Type*> results;
  for (llvm::Type* t : f.results) results.push_back(t->getScalarType());
  llvm::Type* result = results.size() == 1 ? results[0] : llvm::StructType::get(context, results);
  llvm::Type* element = type->getScalarType();
  const std::vector<llvm::Type*> parameters(f.parameters, element);
  const auto linkage =
      target->links_exact_math ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage;
  llvm::Function* function =
      llvm::Function::Create(llvm::FunctionType::get(result, parameters, false), linkage, full, module);
  if (target->links_exact_math) {
    function->setDoesNotThrow();
    return function;
  }
  SetFunctionAttributes(*function, *target);
  llvm::IRBuilder<> inner(llvm::BasicBlock::Create(context, "entry", function));
  MathEmitter e(inner, module, target, element);
  std::vector<V> arguments;
  for (llvm::Argument& a : function->args()) arguments.push_back(&a);
  const std::vector<V> values = f.body(e, arguments);
  V all = values[0];
  if (values.size() > 1) {
    all = llvm::PoisonValue::get(result);
    for (size_t i = 0; i < values.size(); ++i) all = inner.CreateInsertValue(all, values[i], static_cast<unsigned>(i));
  }
  inner.CreateRet(all);
  return function;
}

std::vector<V> MathEmitter::EachLane(const ScalarFunction& f, const std::vector<V>& xs) {
  llvm::LLVMContext& context = module->getContext();
  llvm::Type* element = type->getScalarType();
  llvm::Function* function = FindOrMake(f);
  const std::vector<llvm::Type*>& types = f.results;
  std::vector<llvm::Type*> results;
  for (llvm::Type* t : types) results.push_back(t->getScalarType());
  auto call = [&](const std::vector<V>& arguments) -> std::vector<V> {
    V all = b.CreateCall(function, arguments);
    if (results.size() == 1) return {all};
    std::vector<V> values;
    for (size_t i = 0; i < results.size(); ++i) values.push_back(b.CreateExtractValue(all, static_cast<unsigned>(i)));
    return values;
  };
  if (lanes == 0) return call(xs);

  const llvm::Align align(64);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* caller = before->getParent();
  llvm::IRBuilder<> entry(&caller->getEntryBlock(), caller->getEntryBlock().begin());
  auto slot = [&](llvm::Type* t) {
    llvm::AllocaInst* memory = entry.CreateAlloca(t);
    memory->setAlignment(align);
    return memory;
  };
  std::vector<llvm::AllocaInst*> in, out;
  for (V x : xs) {
    in.push_back(slot(x->getType()));
    b.CreateAlignedStore(x, in.back(), align);
  }
  for (llvm::Type* t : types) out.push_back(slot(t));
  auto* loop = llvm::BasicBlock::Create(context, "lane", caller);
  auto* after = llvm::BasicBlock::Create(context, "lanes", caller);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt32Ty(), 2);
  std::vector<V> arguments;
  for (llvm::AllocaInst* memory : in) arguments.push_back(b.CreateLoad(element, b.CreateGEP(element, memory, i)));
  const std::vector<V> values = call(arguments);
  for (size_t k = 0; k < values.size(); ++k) b.CreateStore(values[k], b.CreateGEP(results[k], out[k], i));
  V next = b.CreateAdd(i, b.getInt32(1));
  i->addIncoming(b.getInt32(0), before);
  i->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt32(lanes)), loop, after);
  b.SetInsertPoint(after);
  std::vector<V> vectors;
  for (size_t k = 0; k < types.size(); ++k) vectors.push_back(b.CreateAlignedLoad(types[k], out[k], align));
  return vectors;
}

DoubleValue FastTwoSum(MathEmitter& e, V larger, V smaller) {
  V hi = e.Add(larger, smaller);
  return {hi, e.Sub(smaller, e.Sub(hi, larger))};
}

DoubleValue TwoSum(MathEmitter& e, V x, V y) {
  V hi = e.Add(x, y);
  V part = e.Sub(hi, x);
  return {hi, e.Add(e.Sub(x, e.Sub(hi, part)), e.Sub(y, part))};
}

DoubleValue TwoProduct(MathEmitter& e, V x, V y) {
  V hi = e.Mul(x, y);
  if (e.target->has_fma) return {hi, e.Fma(x, y, e.Neg(hi))};
  // Without a fused multiply-add: halves of the factors multiply exactly (Dekker).
  V splitter = e.C(e.f64 ? 134217729.0 : 4097.0);
  auto split = [&](V v) {
    V t = e.Mul(v, splitter);
    V high = e.Sub(t, e.Sub(t, v));
    return DoubleValue{high, e.Sub(v, high)};
  };
  DoubleValue a = split(x), c = split(y);
  V lo = e.Sub(e.Mul(a.hi, c.hi), hi);
  lo = e.Add(lo, e.Mul(a.hi, c.lo));
  lo = e.Add(lo, e.Mul(a.lo, c.hi));
  return {hi, e.Add(lo, e.Mul(a.lo, c.lo))};
}

}  // namespace backplane::codegen
