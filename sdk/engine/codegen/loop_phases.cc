// Phases whose loops follow the elements of the outputs: LoopPhase and RowPhase.
#include <numeric>

#include "core/types/integer_division.h"
#include "sdk/codegen/body/computed_bytes.h"
#include "sdk/engine/codegen/phase_frame.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

bool IsUnrolledWhole(const PhaseFrame& f, const LoopPhase& kind) {
  int64_t elements = 1;
  for (int64_t n : kind.nest.extents) elements *= n;
  return IsBetterInScalars(elements) && elements * f.instruction_count() <= kMaxInlineInstructions;
}

}  // namespace

void EmitPhaseBody(PhaseFrame& f, const LoopPhase& kind) {
  for (const PartialReduction& p : kind.partials) {
    PartialResults partials;
    for (int buffer : p.buffers) partials.bases.push_back(f.buffers[static_cast<size_t>(buffer)]);
    partials.count = p.count;
    partials.elements = p.elements;
    f.body.SetPartials(p.reduce, std::move(partials));
  }
  for (const MultiOutput& reduces : kind.multi_output) f.body.SetMultiOutput(reduces);
  const PhaseLoops loops = MakeLoops(f.vars, kind.nest);
  if (f.unrolls_short_loops() && IsUnrolledWhole(f, kind)) {
    std::vector<int> all(kind.nest.extents.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<Affine> positions = UnrolledPositions(f.vars, loops, all);
    return f.scopes.Block([&] { f.EvalAndStore(positions, {}); });
  }
  const std::vector<Affine> positions = UnrolledPositions(f.vars, loops, kind.unrolled);
  const PhaseFrame::Tail tail = !kind.masked_tail       ? PhaseFrame::Tail::kOverlap
                                : kind.unrolled.empty() ? PhaseFrame::Tail::kMask
                                                        : PhaseFrame::Tail::kSeparate;
  auto store = [&](const Guards& guards) {
    if (kind.unrolled.empty()) return f.EvalAndStore(loops, guards, false);
    f.EvalAndStore(positions, guards);
  };
  if (kind.item_groups == 0) {
    Value *begin = f.begin(), *end = f.end();
    if (kind.lanes > 1) {
      begin = f.b.CreateMul(begin, f.Number(kind.lanes));
      end = f.b.CreateMul(end, f.Number(kind.lanes));
    }
    return f.LaneLoop(loops.groups[0], kind.lanes, tail, begin, end, store);
  }
  const int64_t n = f.ExtentOf(loops.groups.back());
  f.ForEachItem([&](Value* item) {
    Value *begin = f.Number(0), *end = f.Number(n);
    if (kind.inner_block > 0) {
      begin = f.b.CreateMul(f.Take(item, CeilDiv(n, kind.inner_block)), f.Number(kind.inner_block));
      end = f.Min(end, f.b.CreateAdd(begin, f.Number(kind.inner_block)));
    }
    f.BindGroups(loops, item, kind.item_groups);
    f.LoopNestOver(loops, static_cast<size_t>(kind.item_groups), kind.lanes, tail, begin, end, store);
  });
}

void EmitPhaseBody(PhaseFrame& f, const RowPhase& kind) {
  for (const Instruction* x : kind.staged) {
    const int64_t bytes = kind.row_length * backplane::codegen::ComputedBytes(x->shape().element_type());
    f.hooks.Stage(x, f.Scratch(RoundUp(bytes + 256, 64)), kind.row_length);
  }
  for (const MultiOutput& reduces : kind.multi_output) f.body.SetMultiOutput(reduces);
  const PhaseLoops loops = MakeLoops(f.vars, kind.nest);
  const int64_t n = f.ExtentOf(loops.groups.back());
  const PhaseFrame::Tail tail = kind.masked_tail ? PhaseFrame::Tail::kMask : PhaseFrame::Tail::kOverlap;
  f.ForEachItem([&](Value* item) {
    f.BindGroups(loops, item, kind.item_groups);
    // First what has one element for each row: the row may be overwritten by the loops that follow.
    f.EvalAndStore(loops, {}, true);
    f.LoopNestOver(loops, static_cast<size_t>(kind.item_groups), kind.lanes, tail, f.Number(0), f.Number(n),
                   [&](const Guards& guards) { f.EvalAndStore(loops, guards, false); });
  });
}

}  // namespace backplane::engine::codegen
