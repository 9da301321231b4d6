// BodyEvaluator: elements of reduce-window.
#include <vector>

#include "core/ops/families/run_reducer.h"
#include "sdk/codegen/body/body_evaluator.h"
#include "sdk/codegen/body/carried_values.h"

namespace backplane::codegen {

using compiler::Source;
using llvm::Value;

namespace {

constexpr int64_t kUnrolledWindow = 16;  // positions

}  // namespace

void BodyEvaluator::EmitLoopNest(absl::Span<const VarId> loops, std::vector<Value*>& carried,
                                 const std::function<void(std::vector<Value*>&)>& fn) {
  if (loops.empty()) return fn(carried);
  const int64_t n = vars_.extent(loops[0]);
  llvm::IntegerType* type = indices_.CounterType(n);
  Value* end = llvm::ConstantInt::get(type, static_cast<uint64_t>(n));
  scopes_.Loop(llvm::ConstantInt::get(type, 0), end, 1, carried, [&](Value* iv, std::vector<Value*>& inside) {
    scopes_.Bind(loops.subspan(0, 1), iv);
    EmitLoopNest(loops.subspan(1), inside, fn);
  });
}

// All window positions in order, those in the padding left out.
Val BodyEvaluator::EvalWindow(const Instruction* op, const Index& index, const Guards& guards, int element) {
  const Window& window = op->window();
  const int64_t n = op->operand_count() / 2;
  const int64_t positions = window.CountElements();
  Vals acc = InitialValues(*op, false);
  if (scopes_.HasLanes(index)) {
    for (Val& v : acc) v = e_.Splat(v, scopes_.lanes());
  }
  const DimVector& dims = op->operand(0)->shape().dimensions();
  auto combine_position = [&](const Index& position, Vals& accumulators) {
    Source s;
    if (!compiler::WindowElement(window, dims, index, position, vars_, s.index, s.guards)) return;
    Value* mask = indices_.Mask(s.guards);
    const Guards inner = WithLaneGuards(guards, s.guards);
    const Index existing = MoveToExisting(s.index, dims);
    Vals inputs;
    for (int64_t i = 0; i < n; ++i) inputs.push_back(Eval(op->operand(i), existing, inner));
    const Computation& reducer = *op->called(0);
    Value* active =
        caller_.AndMasks(caller_.ComputeActiveMask(reducer, guards), caller_.ComputeActiveMask(reducer, s.guards));
    const Vals next = combiners_.Combine(*op, accumulators, inputs, positions <= kStepwiseWindow, active);
    for (size_t i = 0; i < next.size(); ++i) {
      accumulators[i] = mask ? e_.Select(mask, next[i], accumulators[i]) : next[i];
    }
  };
  if (positions <= kUnrolledWindow) {
    std::vector<int64_t> at(window.dimensions.size(), 0);
    for (int64_t p = 0; p < positions; ++p) {
      Index position;
      for (int64_t k : at) position.push_back(Affine::Const(k));
      combine_position(position, acc);
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < window.dimensions[d].size) break;
        at[d] = 0;
      }
    }
  } else {
    std::vector<VarId> loops;
    Index position;
    for (const WindowDimension& w : window.dimensions) {
      if (w.size > 1) loops.push_back(vars_.Loop(w.size));
      position.push_back(w.size > 1 ? Affine::Var(loops.back()) : Affine::Const(0));
    }
    std::vector<Value*> carried = GetParts(acc);
    EmitLoopNest(loops, carried, [&](std::vector<Value*>& parts) {
      Vals now = FromParts(acc, parts);
      combine_position(position, now);
      parts = GetParts(now);
    });
    acc = FromParts(acc, carried);
  }
  const PrimitiveType t = op->operand(element)->shape().element_type();
  const Val& result = acc[static_cast<size_t>(element)];
  return IsNarrowFloat(t) ? e_.Round(t, result.v) : result;
}

}  // namespace backplane::codegen
