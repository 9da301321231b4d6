// Phases whose loops follow the elements of the outputs: LoopPhase and RowPhase.
#include <algorithm>
#include <functional>
#include <numeric>

#include "core/types/integer_division.h"
#include "sdk/codegen/body/computed_bytes.h"
#include "sdk/engine/codegen/phase_frame.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

constexpr double kCheapInScalars = 1.5;  // cycles of the costly operations of an element
constexpr int64_t kMaxScalars = 9, kMaxRowElements = 64;

int64_t CountElements(const LoopNest& nest) {
  return std::accumulate(nest.extents.begin(), nest.extents.end(), int64_t{1}, std::multiplies<>());
}

// Whether the kernel combines elements of several rows, as a product of matrices does. Vectors over rows without regard
// to their ends then read elements at all kinds of places.
bool CombinesRows(const PhaseFrame& f, const LoopPhase& kind) {
  const auto& all = f.computation().instructions();
  return kind.nest.extents.size() > 1 &&
         std::any_of(all.begin(), all.end(), [](const auto& i) { return i->Is(Opcode::kReduce); });
}

// Whether operations of vectors cost so much less than those of their elements that even vectors with gaps are better.
bool IsCostlyInScalars(const PhaseFrame& f) {
  double cycles = 0;
  for (const auto& i : f.computation().instructions()) {
    const double cost = CostPerElement(*i);
    if (cost >= 0.5 && FirstShape(*i).num_elements() > 1 && i->info().Has(kElementwise)) cycles += cost;
  }
  return cycles > kCheapInScalars;
}

bool IsUnrolledWhole(const PhaseFrame& f, const LoopPhase& kind) {
  const int64_t n = CountElements(kind.nest);
  if (n * f.computation().instruction_count() > kMaxInlineInstructions) return false;
  if (!IsBetterInScalars(n) && !(n <= kMaxScalars && CombinesRows(f, kind))) return false;
  return n < 4 || !IsCostlyInScalars(f);
}

// Whether a flat phase over rows of a few elements is better computed row by row, each in a vector.
bool IsBetterByRows(const PhaseFrame& f, const LoopPhase& kind) {
  if (kind.item_groups > 0 || kind.nest.groups.size() != 1 || !kind.unrolled.empty() || kind.nest.whole_extent > 0)
    return false;
  const int64_t n = CountElements(kind.nest), row = kind.nest.extents.empty() ? 1 : kind.nest.extents.back();
  return row > kMaxUnrolled && row <= kind.lanes / 2 && n <= kMaxRowElements && CombinesRows(f, kind) &&
         n / row * f.computation().instruction_count() <= kMaxInlineInstructions;
}

LoopPhase MakePhaseOfRows(const LoopPhase& flat) {
  LoopPhase rows = flat;
  const int last = static_cast<int>(flat.nest.extents.size()) - 1;
  rows.nest.groups = {{last}};
  rows.unrolled.resize(static_cast<size_t>(last));
  std::iota(rows.unrolled.begin(), rows.unrolled.end(), 0);
  rows.lanes = LanesAlong(flat.nest.extents.back(), flat.lanes);
  return rows;
}

}  // namespace

void EmitPhaseBody(PhaseFrame& f, const LoopPhase& planned) {
  const LoopPhase kind = f.unrolls_short_loops() && !IsUnrolledWhole(f, planned) && IsBetterByRows(f, planned)
                             ? MakePhaseOfRows(planned)
                             : planned;
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
  const int64_t n = f.ComputeExtent(loops.groups.back());
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

namespace {

constexpr int64_t kCacheLine = 64, kSmallestRow = 1 << 10, kLargestRow = 1 << 18, kLargestRowInL1 = 1 << 14;  // bytes
constexpr int64_t kLargeArray = 1 << 21;  // bytes, beyond the second-level cache of most processors

// Fetches the part of the next row that lies below the vector of the outputs, of each large argument. The first pass
// over a row waits for memory, and the last one for arithmetic; so the memory works while the last pass computes.
void PrefetchNextRow(PhaseFrame& f, const RowPhase& kind, const PhaseLoops& loops) {
  const auto output =
      std::find_if(f.phase.outputs.begin(), f.phase.outputs.end(), [](const PhaseOutput& o) { return !o.per_row; });
  if (output == f.phase.outputs.end()) return;
  const int64_t elements = f.phase.work_items * kind.row_length;
  Value* position = nullptr;
  for (const Instruction* p : f.computation().parameters()) {
    if (!p->shape().IsArray() || p->shape().num_elements() != elements) continue;
    const int64_t width = p->shape().byte_size() / elements, row = kind.row_length * width;
    if (row < kSmallestRow || row > kLargestRow || p->shape().byte_size() < kLargeArray) continue;
    if (position == nullptr)
      position = f.indices.Uniform(StoreAddress(f.vars, *output, OutputIndex(f.vars, loops, *output)));
    Value* offset = f.b.CreateMul(f.b.CreateZExtOrTrunc(position, f.b.getInt64Ty()), f.Number(width));
    Value* base = f.buffers[static_cast<size_t>(p->parameter_number())];
    for (int64_t at = 0; at < std::max<int64_t>(kind.lanes, 1) * width; at += kCacheLine) {
      Value* address = f.b.CreateGEP(f.b.getInt8Ty(), base, f.b.CreateAdd(offset, f.Number(row + at)));
      constexpr int kRead = 0, kData = 1, kL1 = 3, kL2 = 2;
      f.b.CreateIntrinsic(
          llvm::Intrinsic::prefetch, {address->getType()},
          {address, f.b.getInt32(kRead), f.b.getInt32(row <= kLargestRowInL1 ? kL1 : kL2), f.b.getInt32(kData)});
    }
  }
}

}  // namespace

void EmitPhaseBody(PhaseFrame& f, const RowPhase& kind) {
  for (const Instruction* x : kind.staged) {
    const int64_t bytes = kind.row_length * backplane::codegen::ComputedBytes(x->shape().element_type());
    f.hooks.Stage(x, f.AllocateScratch(RoundUp(bytes + 256, 64)), kind.row_length);
  }
  for (const MultiOutput& reduces : kind.multi_output) f.body.SetMultiOutput(reduces);
  const PhaseLoops loops = MakeLoops(f.vars, kind.nest);
  const int64_t n = f.ComputeExtent(loops.groups.back());
  const PhaseFrame::Tail tail = kind.masked_tail ? PhaseFrame::Tail::kMask : PhaseFrame::Tail::kOverlap;
  f.ForEachItem([&](Value* item) {
    f.BindGroups(loops, item, kind.item_groups);
    // First what has one element for each row: the row may be overwritten by the loops that follow.
    f.EvalAndStore(loops, {}, true);
    f.LoopNestOver(loops, static_cast<size_t>(kind.item_groups), kind.lanes, tail, f.Number(0), f.Number(n),
                   [&](const Guards& guards) {
                     PrefetchNextRow(f, kind, loops);
                     f.EvalAndStore(loops, guards, false);
                   });
  });
}

}  // namespace backplane::engine::codegen
