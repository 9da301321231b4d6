// SelectAndScatterPhase: of each window the chosen element is found, then updated in the output.
#include <algorithm>

#include "sdk/engine/codegen/phase_frame.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

class SelectAndScatterLoops {
 public:
  SelectAndScatterLoops(PhaseFrame& f, const SelectAndScatterPhase& kind)
      : f_(f),
        kind_(kind),
        op_(*kind.operation),
        operand_(op_.operand(0)),
        source_(op_.operand(1)),
        rank_(source_->shape().rank()),
        lanes_(static_cast<int>(kind.lanes)) {
    for (int64_t d = 0; d < rank_; ++d) {
      vars_.push_back(f_.vars.Loop(source_->shape().dimensions(d)));
      index_.push_back(Affine::Var(vars_.back()));
    }
  }

  void Emit() {
    f_.ForEachItem([&](Value* item) {
      for (int d = kind_.item_dimensions - 1; d >= 0; --d) {
        f_.scopes.Bind(Var(d), f_.Take(item, source_->shape().dimensions(d)));
      }
      EmitLoopNest(kind_.item_dimensions);
    });
  }

 private:
  // The chosen element so far, in each lane.
  struct Choice {
    Val value;
    Value* address;
    Value* exists;
  };

  absl::Span<const VarId> Var(int64_t d) const { return {&vars_[static_cast<size_t>(d)], 1}; }
  Value* Splat(Value* v) { return f_.e.Splat(v, lanes_); }

  void EmitLoopNest(int64_t d) {
    if (d == rank_) return f_.scopes.Block([&] { Update({}); });
    const int64_t n = source_->shape().dimensions(d);
    if (lanes_ > 0 && d == rank_ - 1) {
      return f_.scopes.Loop(f_.Number(0), f_.Number(n), lanes_, [&](Value* iv) {
        f_.scopes.Bind(Var(d), iv, lanes_);
        Guards tail;
        if (n % lanes_ != 0) tail.push_back(f_.scopes.TailGuard(Var(d)));
        Update(tail);
      });
    }
    f_.scopes.Loop(f_.Number(0), f_.Number(n), 1, [&](Value* iv) {
      f_.scopes.Bind(Var(d), iv);
      EmitLoopNest(d + 1);
    });
  }

  void Update(const Guards& tail) {
    const Choice chosen = Select(tail);
    const Val add = f_.body.Eval(source_, index_, tail);
    const ArrayRef out{f_.buffers[static_cast<size_t>(f_.phase.outputs[0].buffer)], operand_->shape().element_type()};
    // Lanes differ in the last dimension, so no two of them update the same element.
    for (int lane = 0; lane < std::max(lanes_, 1); ++lane) {
      auto pick = [&](Value* v) {
        return v && v->getType()->isVectorTy() ? f_.b.CreateExtractElement(v, static_cast<uint64_t>(lane)) : v;
      };
      Value* found = pick(chosen.exists);
      if (!tail.empty()) found = f_.b.CreateAnd(found, pick(Splat(f_.indices.Mask(tail))));
      Value* where = pick(chosen.address);
      const Val x{pick(add.v), pick(add.im)};
      f_.scopes.If(found, [&] {
        const VarId position = f_.vars.Loop(std::max<int64_t>(1, operand_->shape().num_elements()));
        f_.scopes.Bind({&position, 1}, where);
        const Val old = f_.memory.Load(out, Affine::Var(position), {});
        f_.memory.Store(out, Affine::Var(position), f_.body.caller().Call(*op_.called(1), {old, x})[0], {});
      });
    }
  }

  // A loop over the window's positions.
  Choice Select(const Guards& tail) {
    const PrimitiveType type = operand_->shape().element_type();
    const bool complex = IsComplex(type);
    std::vector<int64_t> sizes;
    int64_t positions = 1;
    for (const WindowDimension& w : op_.window().dimensions) {
      sizes.push_back(w.size);
      positions *= w.size;
    }
    const VarId counter = f_.vars.Loop(positions);
    const Index position = Delinearize(f_.vars, Affine::Var(counter), sizes);
    llvm::Constant* zero = llvm::Constant::getNullValue(f_.e.ComputeType(type));
    std::vector<Value*> carried = {Splat(zero), Splat(f_.Number(0)), Splat(f_.b.getFalse())};
    if (complex) carried.push_back(Splat(zero));
    auto choice = [&](const std::vector<Value*>& v) { return Choice{{v[0], complex ? v[3] : nullptr}, v[1], v[2]}; };
    f_.scopes.Loop(f_.Number(0), f_.Number(positions), 1, carried, [&](Value* iv, std::vector<Value*>& now) {
      f_.scopes.Bind({&counter, 1}, iv);
      const Choice next = SelectOne(position, tail, choice(now));
      now[0] = next.value.v;
      now[1] = next.address;
      now[2] = next.exists;
      if (complex) now[3] = next.value.im;
    });
    return choice(carried);
  }

  Choice SelectOne(const Index& position, const Guards& tail, Choice best) {
    const DimVector& dims = operand_->shape().dimensions();
    Index in;
    Guards guards;
    if (!compiler::WindowElement(op_.window(), dims, index_, position, f_.vars, in, guards)) return best;
    Guards by_lane = tail;
    for (const Guard& g : guards) {
      if (f_.scopes.HasLanes(g.e)) by_lane.insert(std::lower_bound(by_lane.begin(), by_lane.end(), g), g);
    }
    Value* mask = f_.indices.Mask(guards);
    for (size_t d = 0; d < in.size(); ++d) {
      if (!f_.scopes.HasLanes(in[d])) in[d] = f_.vars.Clamp(in[d], 0, dims[d] - 1);
    }
    const Val value = f_.e.Splat(f_.body.Eval(operand_, in, by_lane), lanes_);
    ComputationCaller& caller = f_.body.caller();
    const Computation& select = *op_.called(0);
    // Where nothing is chosen yet there is nothing to compare with.
    Value* active = ComputationCaller::ContainsLoop(select)
                        ? caller.AndMasks(best.exists, caller.AndMasks(f_.indices.Mask(tail), mask))
                        : nullptr;
    Value* keep = caller.Call(select, {best.value, value}, true, active)[0].v;
    Value* better = f_.b.CreateOr(f_.b.CreateNot(best.exists), f_.b.CreateNot(Splat(keep)));
    if (mask) better = f_.b.CreateAnd(better, Splat(mask));
    Value* address = Splat(f_.indices.Evaluate(Linearize(in, dims)));
    address = f_.b.CreateSExtOrTrunc(address, best.address->getType());
    Choice next;
    next.value.v = f_.b.CreateSelect(better, value.v, best.value.v);
    next.address = f_.b.CreateSelect(better, address, best.address);
    next.exists = f_.b.CreateOr(best.exists, better);
    if (best.value.im) next.value.im = f_.b.CreateSelect(better, value.im, best.value.im);
    return next;
  }

  PhaseFrame& f_;
  const SelectAndScatterPhase& kind_;
  const Instruction& op_;
  const Instruction *operand_, *source_;
  const int64_t rank_;
  const int lanes_;
  std::vector<VarId> vars_;  // by dimension of the source
  Index index_;
};

}  // namespace

void EmitPhaseBody(PhaseFrame& f, const SelectAndScatterPhase& kind) { SelectAndScatterLoops(f, kind).Emit(); }

}  // namespace backplane::engine::codegen
