#include <algorithm>
#include <bit>

#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

ReductionChoice ChooseReduction(GroupWalk& w, const AccessWalk::ArraySet& materialized,
                                const std::vector<const Instruction*>& reduces, const Index* index, int width,
                                const jit::HostInfo& host) {
  constexpr int64_t kFewUnits = 16, kWorthSplitting = 32768;
  ReductionChoice choice;
  auto extent = [&](const std::vector<VarId>& g) {
    int64_t n = 1;
    for (VarId v : g) n *= w.vars.extent(v);
    return n;
  };
  choice.groups = MergeVars(w.vars, w.loops.vars, w.observed);
  for (const auto& g : choice.groups) choice.columns = extent(g);
  for (size_t i = 0; i + 1 < choice.groups.size(); ++i) choice.outer *= extent(choice.groups[i]);
  if (choice.groups.empty()) choice.columns = 1;

  // Which way the large arrays lie: along the reduced elements, or along the kept ones.
  double along_reduced = 0, along_kept = 0;
  for (const Access& a : w.accesses) {
    if (a.reduce_depth == 0) continue;
    double size = static_cast<double>(FirstShape(*a.array).num_elements());
    for (const Term& t : a.address.terms) {
      if (std::abs(t.coef) != 1 || w.vars.def(t.var).kind != VarKind::kLoop) continue;
      bool root = std::find(w.loops.vars.begin(), w.loops.vars.end(), t.var) != w.loops.vars.end();
      (root ? along_kept : along_reduced) += size;
    }
  }
  int64_t kept = choice.outer * choice.columns;
  int64_t largest = 1;
  bool parallel = true;  // each block starts anew
  for (const Instruction* r : reduces) {
    parallel = parallel && MayReorder(*r, AnalyzeCombiner(*r->called(0)));
    int64_t n = 1;
    for (int64_t d : SortedDims(*r)) n *= r->operand(0)->shape().dimensions(d);
    largest = std::max(largest, n);
  }
  if (largest <= 16 && kept >= 16) return choice;  // lanes over the results
  bool rows = along_kept <= along_reduced || choice.columns < 4;
  if (rows) {
    choice.form = ReductionChoice::kScalars;
    if (index == nullptr || kept >= kFewUnits || largest < kWorthSplitting) return choice;
    ReduceNest nest = AnalyzeReduce(w.vars, materialized, reduces, *index);
    if (nest.groups.empty()) return choice;
    int64_t n = extent(nest.groups[0]);
    int64_t blocks = std::min<int64_t>(64, CeilDiv(nest.total, 16384));
    choice.block_size = RoundUp(CeilDiv(n, blocks), nest.groups.size() == 1 ? 64 : 1);
    choice.block_extent = n;
    choice.blocks = CeilDiv(n, choice.block_size);
    choice.split = parallel && choice.blocks > 1;
    return choice;
  }
  if (index == nullptr) return choice;
  choice.form = ReductionChoice::kColumns;
  ReduceNest nest = AnalyzeReduce(w.vars, materialized, reduces, *index);
  choice.lanes = LanesFor(host, width);
  if (choice.columns < choice.lanes) choice.lanes = std::bit_ceil(static_cast<uint64_t>(choice.columns));
  // Wide blocks read memory in long pieces; the accumulators must stay in the first-level cache.
  int64_t block = std::max<int64_t>(16384 / width / static_cast<int64_t>(reduces.size()), 256);
  choice.column_block = RoundUp(std::min(block, choice.columns), choice.lanes);
  if (nest.groups.empty()) return ReductionChoice{ReductionChoice::kLoop, false, choice.groups};
  int64_t rows_inside = extent(nest.groups.back());
  if (nest.body_size <= 12) choice.unroll = rows_inside % 4 == 0 ? 4 : rows_inside % 2 == 0 ? 2 : 1;
  int64_t units = choice.outer * CeilDiv(choice.columns, choice.column_block);
  if (units < kFewUnits && nest.total * choice.columns >= 2 * kWorthSplitting) {
    int64_t n = extent(nest.groups[0]);
    int64_t blocks = std::min<int64_t>(32, CeilDiv(nest.total * choice.columns, kWorthSplitting));
    choice.block_size = RoundUp(CeilDiv(n, blocks), nest.groups.size() == 1 ? choice.unroll : 1);
    choice.block_extent = n;
    choice.blocks = CeilDiv(n, choice.block_size);
    choice.split = parallel && choice.blocks > 1;
  }
  return choice;
}

namespace {

// A transpose and nothing else, of elements of `width` bytes; false where a side is too short for registers.
bool PlanStaged(Phase& phase, const GroupWalk& w, VarId row, VarId column, int64_t rows, int64_t columns,
                int64_t others, int width, const jit::HostInfo& host) {
  if (rows < 16 / width || columns < 16 / width) return false;
  VarTable vars = w.vars;
  const Target& target = phase.targets[0];
  const Affine store = StoreAddress(vars, target, TargetIndex(vars, phase, w.loops, target));
  phase.turn =
      ::backplane::PlanTranspose(width, rows, columns, w.accesses[0].address.CoefOf(column) * width,
                                 store.CoefOf(row) * width, rows * columns * others * width, host.target.vector_bytes);
  phase.tile_rows = phase.turn.tile_rows;
  phase.tile_columns = phase.turn.tile_columns;
  phase.work_units = phase.turn.row_tiles() * phase.turn.column_tiles() * others;
  phase.scratch_bytes = phase.turn.scratch_bytes;
  phase.staged = true;
  return true;
}

}  // namespace

bool PlanTranspose(Phase& phase, const GroupWalk& w, const std::vector<std::vector<VarId>>& groups,
                   const jit::HostInfo& host) {
  if (groups.size() < 2 || !w.reduces.empty() || phase.targets.size() > 4) return false;
  for (const Target& t : phase.targets) {
    if (t.row) return false;
  }
  auto extent = [&](const std::vector<VarId>& g) {
    int64_t n = 1;
    for (VarId v : g) n *= w.vars.extent(v);
    return n;
  };
  // The sum moves with a joined group as with one counter; its step, or nothing if it does not.
  auto step = [&](const Affine& e, const std::vector<VarId>& g, int64_t* k) {
    *k = e.CoefOf(g.back());
    int64_t stride = 1;
    for (size_t i = g.size(); i-- > 0;) {
      if (e.CoefOf(g[i]) != *k * stride) return false;
      stride *= w.vars.extent(g[i]);
    }
    return true;
  };
  bool plain = phase.targets.size() == 1 && phase.targets[0].window == nullptr && w.accesses.size() == 1;
  for (const Instruction* x : w.visited) plain = plain && (MovesElements(*x) || x == w.accesses[0].array);
  int source_group = -1;
  int width = 1;
  for (const Access& a : w.accesses) {
    int64_t last;
    if (!step(a.address, groups.back(), &last)) return false;
    if (std::abs(last) <= 1) continue;
    // Read across: some other loop must walk it element by element, and all such arrays must agree on it.
    int found = -1;
    for (size_t g = 0; g + 1 < groups.size(); ++g) {
      int64_t k;
      if (step(a.address, groups[g], &k) && k == 1) found = static_cast<int>(g);
    }
    if (found < 0 || a.guarded || (source_group >= 0 && found != source_group)) continue;
    for (const Term& t : a.address.terms) {
      if (w.vars.def(t.var).kind != VarKind::kLoop) found = -1;
    }
    int bytes = ByteWidth(FirstShape(*a.array).element_type());
    if (found < 0 || bytes > (plain ? 16 : 8) || a.array->Is(Opcode::kConstant)) continue;
    source_group = found;
    width = std::max(width, bytes);
    if (std::find(phase.transposed.begin(), phase.transposed.end(), a.array) == phase.transposed.end()) {
      phase.transposed.push_back(a.array);
    }
  }
  if (source_group < 0 || phase.transposed.size() > 4) {
    phase.transposed.clear();
    return false;
  }
  int64_t rows = extent(groups[source_group]), columns = extent(groups.back());
  phase.kind = PhaseKind::kTranspose;
  phase.transposed_group = source_group;
  int64_t others = 1;
  for (size_t g = 0; g + 1 < groups.size(); ++g) {
    if (static_cast<int>(g) != source_group) others *= extent(groups[g]);
  }
  if (plain &&
      PlanStaged(phase, w, groups[source_group].back(), groups.back().back(), rows, columns, others, width, host))
    return true;
  int64_t square = width == 8 ? 8 : 16;
  while (square > std::min(rows, columns)) square /= 2;
  if (square < 4 || width > 8) {
    phase.kind = PhaseKind::kLoop;
    phase.transposed_group = -1;
    phase.transposed.clear();
    return false;
  }
  int64_t tile_rows = 64, tile_columns = plain ? 256 : 128;
  if (width == 8) tile_rows /= 2;
  if (phase.transposed.size() > 1) tile_rows /= 2;
  phase.tile_square = square;
  phase.tile_rows = std::min(tile_rows, rows / square * square);
  phase.tile_columns = std::min(tile_columns, columns / square * square);
  int computed = 1;
  for (const Instruction* x : w.visited) {
    if (x->shape().IsArray() && x->shape().rank() > 0) {
      PrimitiveType t = x->shape().element_type();
      computed = std::max(computed, RowBytes(IsComplex(t) ? ComplexPart(t) : t));
    }
  }
  phase.lanes = LanesFor(host, computed);
  while (phase.tile_columns % phase.lanes != 0) phase.lanes /= 2;
  phase.scratch_bytes = 0;
  for (const Instruction* a : phase.transposed) {
    phase.scratch_bytes +=
        RoundUp(phase.tile_rows * phase.tile_columns * ByteWidth(FirstShape(*a).element_type()) + 64, 64);
  }
  phase.work_units = CeilDiv(rows, phase.tile_rows) * CeilDiv(columns, phase.tile_columns) * others;
  return true;
}

}  // namespace backplane::engine::codegen
