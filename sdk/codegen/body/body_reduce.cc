// BodyEvaluator: reductions. Loops over the reduced elements, several accumulators side by side where the kernel wants
// lanes there, and the combination of lanes and of partial results.
#include <algorithm>
#include <utility>
#include <vector>

#include "sdk/codegen/body/body_evaluator.h"
#include "sdk/codegen/body/carried_values.h"

namespace backplane::codegen {

using llvm::Value;

Vals BodyEvaluator::InitialValues(const Instruction& reduce, bool identities) {
  Vals r;
  const int64_t n = reduce.operand_count() / 2;
  for (int64_t i = 0; i < n; ++i) {
    Val v;
    if (!identities || !combiners_.Identity(reduce, i, &v)) {
      v = Eval(reduce.operand(n + i), {}, {});
      v.stored = nullptr;
    }
    r.push_back(v);
  }
  return r;
}

std::vector<Vals> BodyEvaluator::ReduceLoops(absl::Span<const Instruction* const> reduces, const Index& index,
                                             const Guards& guards, const Range* range, bool finish) {
  std::vector<Vals> results;
  ReduceNest nest = AnalyzeReduce(vars_, in_memory_, reduces, index);
  if (nest.total == 0) {
    for (const Instruction* r : reduces) results.push_back(InitialValues(*r, false));
    return results;
  }
  const std::vector<std::vector<VarId>>& groups = nest.groups;
  bool reorder = true, by_index = false;
  for (const Instruction* r : reduces) {
    const Combiner& c = combiners_.GetCombiner(*r);
    reorder = reorder && MayReorder(*r, c);
    by_index = by_index || (!c.op && !c.reorderable);
  }
  int lanes = 0;
  if (reorder && !scopes_.HasLanes(index) && !groups.empty()) {
    lanes = hooks_.ReductionLanes(nest, range != nullptr, by_index);
  }

  // The accumulators of all reductions, one after another. `initial_later`: they start from identities.
  Vals initial;
  std::vector<bool> initial_later(reduces.size(), false);
  for (size_t k = 0; k < reduces.size(); ++k) {
    const Instruction& r = *reduces[k];
    initial_later[k] = combiners_.HasIdentities(r) && (lanes > 0 || !finish);
    for (Val v : InitialValues(r, initial_later[k])) {
      if (lanes > 0) v = e_.Splat(v, lanes);
      if (scopes_.HasLanes(index)) v = e_.Splat(v, scopes_.lanes());
      initial.push_back(v);
    }
  }
  auto by_reduction = [&](absl::Span<Value* const> parts) {
    const Vals all = FromParts(initial, parts);
    std::vector<Vals> r;
    auto next = all.begin();
    for (const Instruction* reduce : reduces) {
      r.emplace_back(next, next + reduce->operand_count() / 2);
      next += reduce->operand_count() / 2;
    }
    return r;
  };

  // `fresh`: the lanes whose elements are seen for the first time; null for all.
  auto combine_element = [&](std::vector<Value*>& parts, const Guards& tail, Value* fresh) {
    const std::vector<Vals> acc = by_reduction(parts);
    parts.clear();
    Guards inner = guards;
    for (const Guard& g : tail) inner.insert(std::lower_bound(inner.begin(), inner.end(), g), g);
    for (size_t k = 0; k < reduces.size(); ++k) {
      const Instruction& r = *reduces[k];
      const Index in = compiler::ReduceOperandIndex(r, index, nest.reduced);
      Vals inputs;
      for (int64_t i = 0; i < r.operand_count() / 2; ++i) inputs.push_back(Eval(r.operand(i), in, inner));
      const Vals next = combiners_.Combine(r, acc[k], inputs, false, caller_.ComputeActiveMask(*r.called(0), inner));
      for (size_t i = 0; i < next.size(); ++i) {
        Val v = e_.Splat(next[i], ElementEmitter::GetLanes(acc[k][i]));
        if (fresh) v = e_.Select(fresh, v, acc[k][i]);
        AppendParts({v}, parts);
      }
    }
  };
  auto extent_of = [&](const std::vector<VarId>& group) {
    int64_t n = 1;
    for (VarId v : group) n *= vars_.extent(v);
    return n;
  };
  auto emit_loops = [&](auto& self, size_t k, std::vector<Value*>& parts) -> void {
    if (groups.empty()) return scopes_.Block([&] { combine_element(parts, {}, nullptr); });
    if (k == groups.size()) return combine_element(parts, {}, nullptr);
    const int64_t n = extent_of(groups[k]);
    llvm::IntegerType* type = indices_.CounterType(n);
    Value* begin = llvm::ConstantInt::get(type, 0);
    Value* end = llvm::ConstantInt::get(type, static_cast<uint64_t>(n));
    if (k == 0 && range) begin = range->begin, end = range->end;
    if (lanes == 0 || k + 1 < groups.size()) {
      scopes_.Loop(begin, end, 1, parts, [&](Value* iv, std::vector<Value*>& inside) {
        scopes_.Bind(groups[k], iv);
        self(self, k + 1, inside);
      });
      return;
    }
    if (n <= lanes) {
      return scopes_.Block([&] {
        scopes_.Bind(groups[k], llvm::ConstantInt::get(type, 0), lanes);
        Guards tail;
        if (n < lanes) tail.push_back(scopes_.TailGuard(groups[k]));
        combine_element(parts, tail, indices_.Mask(tail));
      });
    }
    scopes_.Loop(begin, end, lanes, parts, [&](Value* iv, std::vector<Value*>& inside) {
      Value* fresh = nullptr;
      Value* start = iv;
      if (n % lanes != 0) {
        // The last vector starts early enough to be full; what it sees for the second time is left out.
        start = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, iv,
                                         llvm::ConstantInt::get(type, static_cast<uint64_t>(n - lanes)));
        std::vector<llvm::Constant*> numbers;
        for (int i = 0; i < lanes; ++i) numbers.push_back(b_.getInt32(static_cast<uint32_t>(i)));
        Value* seen = b_.CreateTrunc(b_.CreateSub(iv, start), b_.getInt32Ty());
        fresh = b_.CreateICmpSGE(llvm::ConstantVector::get(numbers), e_.Splat(seen, lanes));
      }
      scopes_.Bind(groups[k], start, lanes);
      combine_element(inside, {}, fresh);
    });
  };
  hooks_.BeginPass(nest.vars, lanes > 0 && range == nullptr);
  std::vector<Value*> carried = GetParts(initial);
  emit_loops(emit_loops, 0, carried);
  hooks_.EndPass();

  results = by_reduction(carried);
  for (size_t k = 0; k < reduces.size(); ++k) {
    const Instruction& r = *reduces[k];
    if (lanes > 0) results[k] = combiners_.CombineLanes(r, std::move(results[k]));
    if (!finish) continue;
    if (initial_later[k]) results[k] = combiners_.Combine(r, InitialValues(r, false), results[k]);
    results[k] = combiners_.Rounded(r, std::move(results[k]));
  }
  return results;
}

Val BodyEvaluator::EvalReduce(const Instruction* op, const Index& index, const Guards& guards, int element) {
  std::vector<const Instruction*> reduces = {op};
  if (auto it = multi_output_.find(op); it != multi_output_.end() && guards.empty()) {
    for (const Instruction* r : it->second) {
      if (r != op) reduces.push_back(r);
    }
  }
  const std::vector<Vals> results = ReduceLoops(reduces, index, guards, nullptr, true);
  for (size_t k = 0; k < reduces.size(); ++k) {
    for (size_t i = 0; i < results[k].size(); ++i) {
      elements_.Set(scopes_.level(), ElementKey{reduces[k], static_cast<int>(i), index, RelevantGuards(guards, index)},
                    results[k][i]);
    }
  }
  return results[0][static_cast<size_t>(element)];
}

Val BodyEvaluator::EvalPartials(const Instruction* op, const Index& index, const PartialResults& partials,
                                int element) {
  const Affine position = Linearize(index, compiler::FirstShape(*op).dimensions());
  auto load = [&](const Affine& at) {
    Vals r;
    for (size_t i = 0; i < partials.bases.size(); ++i) {
      const PrimitiveType t = op->operand(static_cast<int64_t>(i))->shape().element_type();
      Val v = memory_.LoadComputed(partials.bases[i], at, t);
      v.stored = nullptr;
      r.push_back(v);
    }
    return r;
  };
  Vals acc = load(position);
  if (partials.count > 1) {
    const VarId part = vars_.Loop(partials.count);
    std::vector<Value*> carried = GetParts(acc);
    llvm::IntegerType* type = indices_.CounterType(partials.count);
    Value* end = llvm::ConstantInt::get(type, static_cast<uint64_t>(partials.count));
    scopes_.Loop(llvm::ConstantInt::get(type, 1), end, 1, carried, [&](Value* iv, std::vector<Value*>& inside) {
      scopes_.Bind({&part, 1}, iv);
      const Vals next =
          combiners_.Combine(*op, FromParts(acc, inside), load(position.Plus(Affine::Var(part), partials.elements)));
      inside = GetParts(next);
    });
    acc = FromParts(acc, carried);
  }
  if (combiners_.HasIdentities(*op)) acc = combiners_.Combine(*op, InitialValues(*op, false), acc);
  acc = combiners_.Rounded(*op, std::move(acc));
  for (size_t i = 0; i < acc.size(); ++i) {
    elements_.Set(scopes_.level(), ElementKey{op, static_cast<int>(i), index, {}}, acc[i]);
  }
  return acc[static_cast<size_t>(element)];
}

}  // namespace backplane::codegen
