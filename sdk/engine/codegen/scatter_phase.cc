// ScatterPhase: updates of arrays that are there already, one after another where two may go to the same element.
#include <algorithm>
#include <utility>

#include "sdk/engine/codegen/phase_frame.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

class ScatterLoops {
 public:
  ScatterLoops(PhaseFrame& f, const ScatterPhase& kind)
      : f_(f),
        kind_(kind),
        op_(*kind.operation),
        arrays_((op_.operand_count() - 1) / 2),
        updates_(op_.operand(arrays_ + 1)->shape()),
        lane_dim_(kind.lanes > 0 ? updates_.rank() - 1 : -1) {
    MakeVariables();
    address_ =
        Linearize(compiler::ScatterTarget(op_, update_index_, f_.vars, guards_), op_.operand(0)->shape().dimensions());
  }

  void Emit() {
    f_.ForEachItem([&](Value* item) { EmitLoopNest(item, 0); });
  }

 private:
  // One variable for each dimension of the updates; scatter dimensions outside, window dimensions inside.
  void MakeVariables() {
    const int64_t rank = updates_.rank();
    vars_.assign(static_cast<size_t>(rank), -1);
    update_index_ = Index(static_cast<size_t>(rank));
    std::vector<int64_t> order = compiler::ScatterUpdateDims(op_);
    const Ints& window_dims = op_.scatter_dims().update_window_dims;
    order.insert(order.end(), window_dims.begin(), window_dims.end());
    for (int64_t dim : order) {
      const size_t d = static_cast<size_t>(dim);
      if (updates_.dimensions(dim) == 1 && dim != lane_dim_) {
        update_index_[d] = Affine::Const(0);
        continue;
      }
      vars_[d] = f_.vars.Loop(updates_.dimensions(dim));
      update_index_[d] = Affine::Var(vars_[d]);
      if (dim != lane_dim_) loops_.push_back(dim);
    }
  }

  void EmitLoopNest(Value* item, size_t k) {
    if (k < loops_.size()) {
      const int64_t d = loops_[k];
      return f_.scopes.Loop(f_.Number(0), f_.Number(updates_.dimensions(d)), 1, [&](Value* iv) {
        f_.scopes.Bind({&vars_[static_cast<size_t>(d)], 1}, iv);
        EmitLoopNest(item, k + 1);
      });
    }
    if (kind_.lanes == 0) return f_.scopes.Block([&] { Update({}); });
    const int64_t extent = updates_.dimensions(lane_dim_);
    const absl::Span<const VarId> lane_var(&vars_[static_cast<size_t>(lane_dim_)], 1);
    Value* begin = f_.b.CreateMul(item, f_.Number(kind_.inner_block));
    Value* end = f_.Min(f_.b.CreateAdd(begin, f_.Number(kind_.inner_block)), f_.Number(extent));
    f_.scopes.Loop(begin, end, kind_.lanes, [&](Value* iv) {
      f_.scopes.Bind(lane_var, iv, static_cast<int>(kind_.lanes));
      Guards tail;
      if (extent % kind_.lanes != 0) tail.push_back(f_.scopes.TailGuard(lane_var));
      Update(tail);
    });
  }

  void Update(const Guards& tail) {
    Guards uniform, inner = tail;
    for (const Guard& g : guards_) {
      if (f_.scopes.HasLanes(g.e)) {
        inner.insert(std::lower_bound(inner.begin(), inner.end(), g), g);
      } else {
        uniform.push_back(g);
      }
    }
    if (uniform.empty()) return Apply(tail, inner);
    f_.scopes.If(f_.indices.Mask(uniform), [&] { Apply(tail, inner); });
  }

  // `inner`: the tail and the guards that differ from lane to lane.
  void Apply(const Guards& tail, const Guards& inner) {
    auto array = [&](int64_t i) {
      const PhaseOutput& output = f_.phase.outputs[static_cast<size_t>(i)];
      return ArrayRef{f_.buffers[static_cast<size_t>(output.buffer)], op_.operand(i)->shape().element_type()};
    };
    const Computation& combiner = *op_.called(0);
    Vals args;
    for (int64_t i = 0; i < arrays_; ++i) args.push_back(f_.memory.Load(array(i), address_, inner));
    for (int64_t i = 0; i < arrays_; ++i) {
      args.push_back(f_.body.Eval(op_.operand(arrays_ + 1 + i), update_index_, tail));
    }
    const Vals results =
        f_.body.caller().Call(combiner, args, true, f_.body.caller().ComputeActiveMask(combiner, inner));
    for (int64_t i = 0; i < arrays_; ++i) {
      f_.memory.Store(array(i), address_, results[static_cast<size_t>(i)], inner);
    }
  }

  PhaseFrame& f_;
  const ScatterPhase& kind_;
  const Instruction& op_;
  const int64_t arrays_;     // number of arrays that are updated together
  const Shape& updates_;     // of each array's updates
  const int64_t lane_dim_;   // of the updates; -1: none
  std::vector<VarId> vars_;  // by dimension of the updates; -1: of size one
  Index update_index_;
  std::vector<int64_t> loops_;  // dimensions of the updates, outer to inner, that of the lanes excepted
  Affine address_;
  Guards guards_;
};

}  // namespace

void EmitPhaseBody(PhaseFrame& f, const ScatterPhase& kind) { ScatterLoops(f, kind).Emit(); }

}  // namespace backplane::engine::codegen
