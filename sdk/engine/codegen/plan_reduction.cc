// Phases whose outputs have the reduced shape: along which loops vectors run, and whether one reduction is cut into
// parts for several threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

ReductionChoice ChooseReduction(GroupWalk& w, const AccessWalk::ArraySet& materialized,
                                const std::vector<const Instruction*>& reduces, const Index* index, int width,
                                const jit::HostInfo& host) {
  constexpr int64_t kFewItems = 16, kWorthCutting = 32768;
  ReductionChoice choice;
  choice.groups = MergeVars(w.vars, w.loops.vars, w.observed);
  if (!choice.groups.empty()) choice.columns = ComputeExtent(w.vars, choice.groups.back());
  for (size_t i = 0; i + 1 < choice.groups.size(); ++i) choice.outer *= ComputeExtent(w.vars, choice.groups[i]);

  // Whether the large arrays are contiguous along the reduced elements, or along the kept ones.
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
  bool parallel = true;  // each block has accumulators of its own
  for (const Instruction* r : reduces) {
    parallel = parallel && MayReorder(*r, AnalyzeCombiner(*r->called(0)));
    int64_t n = 1;
    for (int64_t d : SortedDims(*r)) n *= r->operand(0)->shape().dimensions(d);
    largest = std::max(largest, n);
  }
  if (largest <= 16 && kept >= 16) return choice;  // lanes over the results
  // Cuts the outermost reduced loop, of n elements, into about so many blocks.
  auto cut = [&](int64_t n, int64_t blocks, int64_t multiple) {
    choice.block_size = RoundUp(CeilDiv(n, blocks), multiple);
    choice.block_extent = n;
    choice.blocks = CeilDiv(n, choice.block_size);
    choice.split = parallel && choice.blocks > 1;
  };
  if (along_kept <= along_reduced || choice.columns < 4) {
    choice.form = ReductionChoice::kElements;
    if (index == nullptr || kept >= kFewItems || largest < kWorthCutting) return choice;
    ReduceNest nest = AnalyzeReduce(w.vars, materialized, reduces, *index);
    if (nest.groups.empty()) return choice;
    cut(ComputeExtent(w.vars, nest.groups[0]), std::min<int64_t>(64, CeilDiv(nest.total, 16384)),
        nest.groups.size() == 1 ? 64 : 1);
    return choice;
  }
  if (index == nullptr) return choice;
  choice.form = ReductionChoice::kColumns;
  ReduceNest nest = AnalyzeReduce(w.vars, materialized, reduces, *index);
  choice.lanes = LanesFor(host, width);
  if (choice.columns < choice.lanes)
    choice.lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(choice.columns)));
  // Wide blocks read memory in long pieces; the accumulators must stay in the first-level cache.
  int64_t block = std::max<int64_t>(16384 / width / static_cast<int64_t>(reduces.size()), 256);
  choice.column_block = RoundUp(std::min(block, choice.columns), choice.lanes);
  if (nest.groups.empty()) return ReductionChoice{ReductionChoice::kLoop, false, choice.groups};
  int64_t rows_inside = ComputeExtent(w.vars, nest.groups.back());
  if (nest.body_size <= 12) choice.unroll = rows_inside % 4 == 0 ? 4 : rows_inside % 2 == 0 ? 2 : 1;
  int64_t items = choice.outer * CeilDiv(choice.columns, choice.column_block);
  int64_t combined = nest.total * choice.columns;
  if (items < kFewItems && combined >= 2 * kWorthCutting) {
    cut(ComputeExtent(w.vars, nest.groups[0]), std::min<int64_t>(32, CeilDiv(combined, kWorthCutting)),
        nest.groups.size() == 1 ? choice.unroll : 1);
  }
  return choice;
}

namespace {

// Whether functions of the results cost more, one result at a time, than a phase of their own in vectors.
bool IsBetterInVectors(const GroupWalk& w, const std::vector<const Instruction*>& reduces, int64_t results) {
  constexpr int64_t kFewResults = 8;
  constexpr double kCostlyFunction = 1.2;
  if (results < kFewResults) return false;
  // What the reductions read is computed in their loops.
  AccessWalk::ArraySet inside;
  std::vector<const Instruction*> stack(reduces.begin(), reduces.end());
  while (!stack.empty()) {
    const Instruction* x = stack.back();
    stack.pop_back();
    if (!inside.insert(x).second) continue;
    stack.insert(stack.end(), x->operands().begin(), x->operands().end());
  }
  return std::any_of(w.visited.begin(), w.visited.end(), [&](const Instruction* x) {
    return !inside.contains(x) && x->info().Has(kElementwise) && FirstShape(*x).num_elements() >= kFewResults &&
           CostPerElement(*x) >= kCostlyFunction;
  });
}

}  // namespace

bool Planner::PushReduction(const Draft& planned, GroupWalk& w, const std::vector<const ReduceUse*>& uses) {
  Draft draft = planned;
  std::vector<const Instruction*> reduces;
  for (const ReduceUse* u : uses) {
    if (std::find(reduces.begin(), reduces.end(), u->reduce) == reduces.end()) reduces.push_back(u->reduce);
  }
  std::sort(reduces.begin(), reduces.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  draft.multi_output = FindMultiOutput(w, reduces);
  bool together = uses.size() == 1 || (draft.multi_output.size() == 1 &&
                                       draft.multi_output[0].size() == reduces.size() && uses.size() == reduces.size());
  Index index = uses[0]->index;
  int width = ComputeWidth(w.visited, draft.outputs);
  int64_t elements = Product(draft.nest.extents);
  double cycles = EstimateCycles(w.visited, elements);
  ReductionChoice choice = ChooseReduction(w, materialized_, reduces, together ? &index : nullptr, width, host_);
  if (choice.form == ReductionChoice::kLoop) {
    PushLoop(std::move(draft), w, false);
    return true;
  }
  const bool has_epilogue = std::any_of(draft.outputs.begin(), draft.outputs.end(), [](const PhaseOutput& output) {
    return !output.instruction->Is(Opcode::kReduce);
  });
  if (choice.form == ReductionChoice::kElements && !choice.split && has_epilogue &&
      IsBetterInVectors(w, reduces, elements))
    return false;

  Phase phase;
  phase.outputs = draft.outputs;
  phase.cycles = cycles;
  const LoopNest nest = MakeNest(draft, w, choice.groups);
  ReductionSplit split{choice.blocks, choice.block_size, choice.block_extent, {}};
  for (size_t k = 0; choice.split && k < reduces.size(); ++k) {
    const Instruction* r = reduces[k];
    std::vector<int> buffers;
    for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
      buffers.push_back(NewTemp(choice.blocks * elements * ComputedBytes(r->operand(i)->shape().element_type())));
    }
    split.buffers.push_back(buffers);
    draft.partials.push_back({r, buffers, choice.blocks, elements});
  }
  if (choice.form == ReductionChoice::kColumns) {
    ColumnReducePhase columns{nest, reduces, choice.lanes, choice.column_block, choice.unroll};
    phase.work_items = choice.outer * CeilDiv(choice.columns, choice.column_block);
    for (const Instruction* r : reduces) {
      for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
        int bytes = ComputedBytes(r->operand(i)->shape().element_type());
        phase.scratch_bytes += RoundUp(choice.column_block * bytes + 64, 64);
      }
    }
    phase.note = absl::StrCat("columns: ", choice.columns, " in blocks of ", choice.column_block, ", ", choice.unroll,
                              " rows at a time");
    if (choice.split) {
      phase.kind = PartialColumnReducePhase{std::move(columns), std::move(split)};
    } else {
      phase.kind = std::move(columns);
    }
  } else {
    phase.work_items = elements;
    phase.note = absl::StrCat("reductions: ", elements);
    if (choice.split) {
      phase.kind = PartialReducePhase{nest, reduces, std::move(split)};
    } else {
      phase.kind = ReducePhase{nest, draft.multi_output};
    }
  }
  if (!choice.split) {
    Push(std::move(phase));
    return true;
  }
  phase.work_items *= choice.blocks;
  absl::StrAppend(&phase.note, ", cut into ", choice.blocks, " blocks");
  Push(std::move(phase));
  draft.multi_output.clear();
  PushLoop(std::move(draft), w, false);
  plan_.phases.back().cycles = static_cast<double>(elements * choice.blocks) * 2;
  return true;
}

}  // namespace backplane::engine::codegen
