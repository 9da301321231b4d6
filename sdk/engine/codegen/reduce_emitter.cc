// Reductions inside a kernel: loops over the reduced elements, several accumulators side by side where the order of
// combination is free, and the combination of lanes and partial results.
#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/body_emitter.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

// Whether the second operand counts up along the single reduced dimension.
bool IndexOperandIncreases(const Instruction& reduce) {
  if (reduce.dimensions().size() != 1) return false;
  const Instruction* x = reduce.operand(1);
  int64_t d = reduce.dimensions()[0];
  for (int hops = 0; hops < 8; ++hops) {
    switch (x->opcode()) {
      case Opcode::kIota:
        return x->attrs().GetInt(AttrId::kIotaDimension) == d;
      case Opcode::kBroadcast: {
        const Ints& dims = x->dimensions();
        auto it = std::find(dims.begin(), dims.end(), d);
        if (it == dims.end() || x->operand(0)->shape().dimensions(it - dims.begin()) != x->shape().dimensions(d))
          return false;
        d = it - dims.begin();
        x = x->operand(0);
        break;
      }
      case Opcode::kCopy:
        x = x->operand(0);
        break;
      case Opcode::kConvert:
        if (!IsIntegral(x->operand(0)->shape().element_type())) return false;
        x = x->operand(0);
        break;
      case Opcode::kReshape: {
        // Only sizes of one come or go.
        const Shape &in = x->operand(0)->shape(), &out = x->shape();
        int64_t before = 0;
        for (int64_t i = 0; i < d; ++i) before += out.dimensions(i) != 1;
        int64_t found = -1, seen = 0;
        std::vector<int64_t> a, b;
        for (int64_t n : in.dimensions())
          if (n != 1) a.push_back(n);
        for (int64_t n : out.dimensions())
          if (n != 1) b.push_back(n);
        if (a != b) return false;
        for (int64_t i = 0; i < in.rank(); ++i) {
          if (in.dimensions(i) == 1) continue;
          if (seen++ == before) found = i;
        }
        if (found < 0) return false;
        d = found;
        x = x->operand(0);
        break;
      }
      default:
        return false;
    }
  }
  return false;
}

}  // namespace

bool MayReorder(const Instruction& reduce, const Combiner& c) {
  if (!c.reorderable) return c.selects_by_index && IndexOperandIncreases(reduce);
  for (size_t i = 0; i < c.ops.size(); ++i) {
    const Opcode op = c.ops[i];
    const bool idempotent = op == Opcode::kMaximum || op == Opcode::kMinimum || op == Opcode::kAnd || op == Opcode::kOr;
    if (!idempotent &&
        !ElementEmitter::HasIdentity(op, reduce.operand(static_cast<int64_t>(i))->shape().element_type()))
      return false;
  }
  return true;
}

const Combiner& BodyEmitter::CombinerOf(const Instruction& reduce) {
  const Computation* c = reduce.called(0);
  auto it = combiners_.find(c);
  if (it == combiners_.end()) it = combiners_.emplace(c, AnalyzeCombiner(*c)).first;
  return it->second;
}

bool BodyEmitter::HasIdentities(const Instruction& reduce) {
  const Combiner& c = CombinerOf(reduce);
  for (size_t i = 0; i < c.ops.size(); ++i) {
    if (!ElementEmitter::HasIdentity(c.ops[i], reduce.operand(static_cast<int64_t>(i))->shape().element_type()))
      return false;
  }
  return !c.ops.empty();
}

Vals BodyEmitter::InitialValues(const Instruction& reduce, bool identity) {
  Vals r;
  int64_t n = reduce.operand_count() / 2;
  const Combiner& c = CombinerOf(reduce);
  for (int64_t i = 0; i < n; ++i) {
    Val v;
    if (identity && !c.ops.empty() &&
        e_.Identity(c.ops[static_cast<size_t>(i)], reduce.operand(i)->shape().element_type(), &v)) {
      r.push_back(v);
    } else {
      v = Eval(reduce.operand(n + i), {}, {});
      v.stored = nullptr;
      r.push_back(v);
    }
  }
  return r;
}

Vals BodyEmitter::Combine(const Instruction& reduce, absl::Span<const Val> accumulators, absl::Span<const Val> inputs,
                          bool rounded, Value* active) {
  const Combiner& c = CombinerOf(reduce);
  if (c.op) {
    Val v = e_.Binary(*c.op, reduce.operand(0)->shape().element_type(), accumulators[0], inputs[0], rounded);
    v.stored = nullptr;
    return {v};
  }
  Vals all(accumulators.begin(), accumulators.end());
  all.insert(all.end(), inputs.begin(), inputs.end());
  int lanes = 0;
  for (const Val& v : all) lanes = std::max(lanes, ElementEmitter::LanesOf(v));
  Vals r = Call(*reduce.called(0), all, rounded || c.ops.empty(), active);
  for (Val& v : r) {
    v = e_.Splat(v, lanes);
    v.stored = nullptr;
  }
  return r;
}

Vals BodyEmitter::CombineLanes(const Instruction& reduce, Vals acc) {
  int lanes = ElementEmitter::LanesOf(acc[0]);
  bool by_index = !CombinerOf(reduce).op && CombinerOf(reduce).selects_by_index;
  auto part = [&](const Val& v, int from, int count) {
    std::vector<int> pick(count);
    for (int i = 0; i < count; ++i) pick[i] = from + i;
    return Val{b_.CreateShuffleVector(v.v, pick), v.im ? b_.CreateShuffleVector(v.im, pick) : nullptr};
  };
  while (lanes > 1) {
    int half = lanes / 2;
    Vals low, high;
    for (const Val& v : acc) {
      low.push_back(part(v, 0, half));
      high.push_back(part(v, half, half));
    }
    acc = Combine(reduce, low, high);
    if (by_index) {
      // The pair with the smaller index stands on the left.
      Vals turned = Combine(reduce, high, low);
      bool is_signed = IsSigned(reduce.operand(1)->shape().element_type());
      Value* swap = is_signed ? b_.CreateICmpSGT(low[1].v, high[1].v) : b_.CreateICmpUGT(low[1].v, high[1].v);
      for (size_t i = 0; i < acc.size(); ++i) acc[i] = e_.Select(swap, turned[i], acc[i]);
    }
    lanes = half;
  }
  for (Val& v : acc) {
    if (!v.v->getType()->isVectorTy()) continue;
    v.v = b_.CreateExtractElement(v.v, uint64_t{0});
    if (v.im) v.im = b_.CreateExtractElement(v.im, uint64_t{0});
  }
  return acc;
}

std::vector<Vals> BodyEmitter::ReduceLoops(absl::Span<const Instruction* const> reduces, const Index& index,
                                           const Guards& guards, const Range* range, bool finish) {
  auto round = [&](const Instruction& r, Vals v) {
    for (size_t i = 0; i < v.size(); ++i) {
      PrimitiveType t = r.operand(i)->shape().element_type();
      if (IsNarrowFloat(t)) v[i] = e_.Round(t, v[i].v);
    }
    return v;
  };
  std::vector<Vals> results;
  ReduceNest loops = AnalyzeReduce(vars_, materialized_, reduces, index);
  if (loops.total == 0) {
    for (const Instruction* r : reduces) results.push_back(InitialValues(*r, false));
    return results;
  }

  std::vector<std::vector<VarId>>& groups = loops.groups;

  bool reorder = true, by_index = false;
  for (const Instruction* r : reduces) {
    const Combiner& c = CombinerOf(*r);
    reorder = reorder && MayReorder(*r, c);
    by_index = by_index || (!c.op && !c.reorderable);
  }
  auto extent_of = [&](const std::vector<VarId>& g) {
    int64_t n = 1;
    for (VarId v : g) n *= vars_.extent(v);
    return n;
  };
  int64_t lanes = 0;
  if (reorder && !HasLanes(index) && !groups.empty()) {
    size_t best = groups.size() - 1;
    if (!by_index && range == nullptr) {
      // Lanes go along the loop that walks memory element by element in most arrays.
      int best_count = -1;
      for (size_t g = 0; g < groups.size(); ++g) {
        int count = 0;
        for (const Access& a : loops.accesses) count += std::abs(a.address.CoefOf(groups[g].back())) == 1;
        if (count >= best_count) best_count = count, best = g;
      }
    }
    std::rotate(groups.begin() + best, groups.begin() + best + 1, groups.end());
    int64_t n = extent_of(groups.back());
    lanes = LanesFor(host_, loops.width);
    if (loops.body_size <= 8 && n >= 4 * lanes && lanes <= 32) lanes *= 2;
    if (n < lanes) lanes = std::bit_ceil(static_cast<uint64_t>(n));
    if (lanes < 4) lanes = 0;
  }

  // Accumulators as one flat list of values.
  bool init_pending = false;
  std::vector<Value*> carried;
  std::vector<bool> pending(reduces.size(), false);
  for (size_t k = 0; k < reduces.size(); ++k) {
    const Instruction& r = *reduces[k];
    pending[k] = HasIdentities(r) && (lanes > 0 || !finish);
    init_pending = init_pending || pending[k];
    for (Val v : InitialValues(r, pending[k])) {
      if (lanes > 0) v = e_.Splat(v, static_cast<int>(lanes));
      if (HasLanes(index)) v = e_.Splat(v, lanes_);
      carried.push_back(v.v);
      if (v.im) carried.push_back(v.im);
    }
  }
  auto unflatten = [&](const std::vector<Value*>& flat) {
    std::vector<Vals> all;
    size_t k = 0;
    for (const Instruction* r : reduces) {
      Vals vals;
      for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
        Val v{flat[k++]};
        if (IsComplex(r->operand(i)->shape().element_type())) v.im = flat[k++];
        vals.push_back(v);
      }
      all.push_back(std::move(vals));
    }
    return all;
  };

  std::set<VarId> outer_sweep = sweep_vars_;
  int outer_number = sweep_;
  bool keeps_rows = lanes > 0 && level() == 1 && range == nullptr;
  auto body = [&](std::vector<Value*>& values, const Guards& tail, Value* keep) {
    std::set<VarId> saved = sweep_vars_;
    int saved_number = sweep_;
    if (keeps_rows) sweep_vars_ = std::set<VarId>(loops.vars.begin(), loops.vars.end());
    sweep_ = sweeps_;
    int mine = sweep_;
    std::vector<Vals> acc = unflatten(values);
    size_t slot = 0;
    Guards inner = guards;
    for (const Guard& g : tail) inner.insert(std::lower_bound(inner.begin(), inner.end(), g), g);
    for (size_t k = 0; k < reduces.size(); ++k) {
      const Instruction& r = *reduces[k];
      Index in = ReduceOperandIndex(r, index, loops.reduced);
      Vals inputs;
      for (int64_t i = 0; i < r.operand_count() / 2; ++i) {
        sweep_ = mine;
        inputs.push_back(Eval(r.operand(i), in, inner));
      }
      Vals next = Combine(r, acc[k], inputs, false, ActiveIn(*r.called(0), inner));
      for (size_t i = 0; i < next.size(); ++i) {
        Val v = e_.Splat(next[i], ElementEmitter::LanesOf(acc[k][i]));
        if (keep) v = e_.Select(keep, v, acc[k][i]);
        values[slot++] = v.v;
        if (v.im) values[slot++] = v.im;
      }
    }
    sweep_vars_ = saved;
    sweep_ = saved_number;
  };
  ++sweeps_;
  int number = sweeps_;
  auto nest = [&](auto& self, size_t k, std::vector<Value*>& values) -> void {
    if (k == groups.size()) {
      if (groups.empty()) return Block([&] { body(values, {}, nullptr); });
      return body(values, {}, nullptr);
    }
    int64_t n = extent_of(groups[k]);
    Value* begin = k == 0 && range ? range->begin : b_.getInt64(0);
    Value* end = k == 0 && range ? range->end : b_.getInt64(n);
    if (lanes == 0 || k + 1 < groups.size()) {
      Loop(begin, end, 1, values, [&](Value* iv, std::vector<Value*>& inside) {
        Count(groups[k], iv);
        self(self, k + 1, inside);
      });
      return;
    }
    int count = static_cast<int>(lanes);
    if (n <= lanes) {
      return Block([&] {
        Count(groups[k], b_.getInt64(0), count);
        Guards tail;
        if (n < lanes) tail.push_back(TailGuard(groups[k]));
        body(values, tail, Mask(tail));
      });
    }
    Loop(begin, end, lanes, values, [&](Value* iv, std::vector<Value*>& inside) {
      Value* keep = nullptr;
      Value* start = iv;
      if (n % lanes != 0) {
        // The last block starts early enough to be whole; what it sees for the second time is left out.
        start = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, iv, b_.getInt64(n - lanes));
        std::vector<llvm::Constant*> numbers;
        for (int i = 0; i < count; ++i) numbers.push_back(b_.getInt32(i));
        Value* seen = b_.CreateTrunc(b_.CreateSub(iv, start), b_.getInt32Ty());
        keep = b_.CreateICmpSGE(llvm::ConstantVector::get(numbers), e_.Splat(seen, count));
      }
      Count(groups[k], start, count);
      body(inside, {}, keep);
    });
  };
  int outer_lanes = lanes_;
  nest(nest, 0, carried);
  lanes_ = outer_lanes;
  sweep_vars_ = outer_sweep;
  sweep_ = outer_number;
  for (auto& [instruction, row] : kept_) {
    if (row.pending != number) continue;
    row.pending = 0;
    row.filled = true;
  }

  results = unflatten(carried);
  for (size_t k = 0; k < reduces.size(); ++k) {
    if (lanes > 0) results[k] = CombineLanes(*reduces[k], std::move(results[k]));
    if (!finish) continue;
    if (pending[k]) results[k] = Combine(*reduces[k], InitialValues(*reduces[k], false), results[k]);
    results[k] = round(*reduces[k], std::move(results[k]));
  }
  return results;
}

Val BodyEmitter::EvalReduce(const Instruction* op, const Index& index, const Guards& guards, int element) {
  std::vector<const Instruction*> reduces = {op};
  if (auto it = joint_.find(op); it != joint_.end() && guards.empty()) {
    for (const Instruction* r : it->second) {
      if (r != op) reduces.push_back(r);
    }
  }
  std::vector<Vals> results = ReduceLoops(reduces, index, guards, nullptr, true);
  for (size_t k = 0; k < reduces.size(); ++k) {
    for (size_t i = 0; i < results[k].size(); ++i) {
      scopes_.back()->memo[MemoKey{reduces[k], static_cast<int>(i), index, Prune(guards, index)}] = results[k][i];
    }
  }
  return results[0][element];
}

Val BodyEmitter::EvalPartials(const Instruction* op, const Index& index, const PartialsRef& partials, int element) {
  Affine position = Linearize(index, FirstShape(*op).dimensions());
  int64_t n = op->operand_count() / 2;
  auto load = [&](const Affine& at) {
    Vals r;
    for (int64_t i = 0; i < n; ++i) {
      Val v = LoadRow(partials.bases[i], at, op->operand(i)->shape().element_type());
      v.stored = nullptr;
      r.push_back(v);
    }
    return r;
  };
  Vals acc = load(position);
  if (partials.count > 1) {
    VarId block = vars_.Loop(partials.count);
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
    Loop(b_.getInt64(1), b_.getInt64(partials.count), 1, carried, [&](Value* iv, std::vector<Value*>& inside) {
      Count({&block, 1}, iv);
      Vals next = Combine(*op, unflatten(inside), load(position.Plus(Affine::Var(block), partials.elements)));
      size_t slot = 0;
      for (const Val& v : next) {
        inside[slot++] = v.v;
        if (v.im) inside[slot++] = v.im;
      }
    });
    acc = unflatten(carried);
  }
  if (HasIdentities(*op)) {
    acc = Combine(*op, InitialValues(*op, false), acc);
  }
  for (int64_t i = 0; i < n; ++i) {
    PrimitiveType t = op->operand(i)->shape().element_type();
    if (IsNarrowFloat(t)) acc[i] = e_.Round(t, acc[i].v);
    scopes_.back()->memo[MemoKey{op, static_cast<int>(i), index, {}}] = acc[i];
  }
  return acc[element];
}

}  // namespace backplane::engine::codegen
