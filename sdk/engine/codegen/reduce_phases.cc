// Phases whose outputs have the shape of a reduction's result.
#include <utility>

#include "core/types/integer_division.h"
#include "sdk/codegen/body/computed_bytes.h"
#include "sdk/codegen/body/reduce_nest.h"
#include "sdk/engine/codegen/phase_frame.h"

namespace backplane::engine::codegen {

using backplane::codegen::AnalyzeReduce;
using backplane::codegen::ComputedBytes;
using backplane::codegen::ReduceNest;
using llvm::Value;

namespace {

PrimitiveType ResultType(const Instruction& reduce, size_t result) {
  return reduce.operand(static_cast<int64_t>(result))->shape().element_type();
}

// Where a part's results go in the temporaries: one array of all results for each part.
Affine PartialAddress(const Instruction& reduce, const Index& index, VarId part, int64_t elements) {
  return Linearize(index, FirstShape(reduce).dimensions()).Plus(Affine::Var(part), elements);
}

// The loops of a phase whose work items are blocks of columns, with accumulators in scratch memory, which stays in the
// first-level cache; the rows pass by.
class ColumnLoops {
 public:
  // `split`: null when each work item sees all rows.
  ColumnLoops(PhaseFrame& f, const ColumnReducePhase& kind, const ReductionSplit* split)
      : f_(f), kind_(kind), split_(split), loops_(MakeLoops(f.vars, kind.nest)) {
    columns_ = f_.ComputeExtent(loops_.groups.back());
    for (const Instruction* r : kind_.reduces) {
      accumulators_.emplace_back();
      for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
        const int bytes = ComputedBytes(r->operand(i)->shape().element_type());
        accumulators_.back().push_back(f_.AllocateScratch(RoundUp(kind_.column_block * bytes + 64, 64)));
      }
    }
    part_ = f_.vars.Loop(split_ ? split_->blocks : 1);
  }

  void Emit() {
    f_.ForEachItem([&](Value* item) {
      if (split_) {
        part_number_ = f_.Take(item, split_->blocks);
        f_.scopes.Bind({&part_, 1}, part_number_);
      }
      const int64_t width = kind_.column_block;
      low_ = f_.b.CreateMul(f_.Take(item, CeilDiv(columns_, width)), f_.Number(width));
      high_ = f_.Min(f_.b.CreateAdd(low_, f_.Number(width)), f_.Number(columns_));
      f_.BindGroups(loops_, item, static_cast<int>(loops_.groups.size()) - 1);
      Start();
      index_ = f_.ComputeReductionIndex(loops_, kind_.reduces[0]);
      AddRows();
      split_ ? StorePartials() : StoreOutputs();
    });
  }

 private:
  // For each vector of the block: its position among the accumulators, and the guards of the tail.
  void ForEachVector(const std::function<void(const Affine& slot, const Guards& tail)>& fn) {
    const int64_t lanes = kind_.lanes;
    const VarId slot = f_.vars.Loop(kind_.column_block);
    const std::vector<VarId>& column_vars = loops_.groups.back();
    f_.scopes.Loop(low_, high_, lanes, [&](Value* iv) {
      const bool moves_back = columns_ > lanes && columns_ % lanes != 0;
      Value* start = moves_back ? f_.Min(iv, f_.Number(columns_ - lanes)) : iv;
      f_.scopes.Bind({&slot, 1}, f_.b.CreateSub(iv, low_), static_cast<int>(lanes));
      f_.scopes.Bind(column_vars, start, static_cast<int>(lanes));
      Guards tail;
      if (columns_ < lanes) tail.push_back(f_.scopes.TailGuard(column_vars));
      fn(Affine::Var(slot), tail);
    });
  }

  Vals Load(size_t k, const Affine& slot) {
    Vals r;
    for (size_t i = 0; i < accumulators_[k].size(); ++i) {
      Val v = f_.memory.LoadComputed(accumulators_[k][i], slot, ResultType(*kind_.reduces[k], i));
      v.stored = nullptr;
      r.push_back(v);
    }
    return r;
  }
  void Store(size_t k, const Affine& slot, const Vals& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      f_.memory.StoreComputed(accumulators_[k][i], slot, ResultType(*kind_.reduces[k], i),
                              f_.e.Splat(values[i], static_cast<int>(kind_.lanes)));
    }
  }

  void Start() {
    ForEachVector([&](const Affine& slot, const Guards&) {
      for (size_t k = 0; k < kind_.reduces.size(); ++k) {
        const Instruction& r = *kind_.reduces[k];
        Store(k, slot, f_.body.InitialValues(r, f_.body.combiners().HasIdentities(r)));
      }
    });
  }

  // Several rows at a time: each has variables of its own.
  void AddRows() {
    std::vector<ReduceNest> rows;
    for (int k = 0; k < kind_.unroll; ++k) {
      rows.push_back(AnalyzeReduce(f_.vars, f_.materialized, kind_.reduces, index_));
    }
    LoopOverRows(rows, 0);
  }
  void LoopOverRows(const std::vector<ReduceNest>& rows, size_t g) {
    const std::vector<std::vector<VarId>>& groups = rows[0].groups;
    if (g == groups.size()) {
      return ForEachVector([&](const Affine& slot, const Guards& tail) { AddVector(rows, slot, tail); });
    }
    Value *begin = f_.Number(0), *end = f_.Number(f_.ComputeExtent(groups[g]));
    if (g == 0 && split_) {
      begin = f_.b.CreateMul(part_number_, f_.Number(split_->block_size));
      end = f_.Min(f_.b.CreateAdd(begin, f_.Number(split_->block_size)), end);
    }
    const bool innermost = g + 1 == groups.size();
    f_.scopes.Loop(begin, end, innermost ? kind_.unroll : 1, [&](Value* iv) {
      for (int k = 0; k < kind_.unroll; ++k) {
        f_.scopes.Bind(rows[static_cast<size_t>(k)].groups[g],
                       innermost && k > 0 ? f_.b.CreateAdd(iv, f_.Number(k)) : iv);
      }
      LoopOverRows(rows, g + 1);
    });
  }
  void AddVector(const std::vector<ReduceNest>& rows, const Affine& slot, const Guards& tail) {
    for (size_t k = 0; k < kind_.reduces.size(); ++k) {
      const Instruction& r = *kind_.reduces[k];
      Vals acc = Load(k, slot);
      for (const ReduceNest& row : rows) {
        const Index in = compiler::ReduceOperandIndex(r, index_, row.reduced);
        Vals inputs;
        for (int64_t i = 0; i < r.operand_count() / 2; ++i) inputs.push_back(f_.body.Eval(r.operand(i), in, tail));
        Value* active = f_.body.caller().ComputeActiveMask(*r.called(0), tail);
        acc = f_.body.combiners().Combine(r, acc, inputs, false, active);
      }
      Store(k, slot, acc);
    }
  }

  void StorePartials() {
    const int64_t blocks = CeilDiv(columns_, kind_.column_block);
    const int64_t elements = f_.phase.work_items / (split_->blocks * blocks) * columns_;
    ForEachVector([&](const Affine& slot, const Guards& tail) {
      for (size_t k = 0; k < kind_.reduces.size(); ++k) {
        const Instruction& r = *kind_.reduces[k];
        const Vals acc = Load(k, slot);
        const Affine at = PartialAddress(r, index_, part_, elements);
        for (size_t i = 0; i < acc.size(); ++i) {
          Value* base = f_.buffers[static_cast<size_t>(split_->buffers[k][i])];
          f_.memory.StoreComputed(base, at, ResultType(r, i), acc[i], tail);
        }
      }
    });
  }
  void StoreOutputs() {
    ForEachVector([&](const Affine& slot, const Guards& tail) {
      for (size_t k = 0; k < kind_.reduces.size(); ++k) {
        const Instruction& r = *kind_.reduces[k];
        Vals acc = Load(k, slot);
        if (f_.body.combiners().HasIdentities(r)) {
          acc = f_.body.combiners().Combine(r, f_.body.InitialValues(r, false), acc);
        }
        acc = f_.body.combiners().Rounded(r, std::move(acc));
        for (size_t i = 0; i < acc.size(); ++i) f_.body.SetValue(&r, static_cast<int>(i), acc[i]);
      }
      f_.EvalAndStore(loops_, tail, false);
    });
  }

  PhaseFrame& f_;
  const ColumnReducePhase& kind_;
  const ReductionSplit* split_;
  const PhaseLoops loops_;
  int64_t columns_ = 1;
  std::vector<std::vector<Value*>> accumulators_;  // for each reduction, for each result
  VarId part_ = 0;                                 // number of the part, with a split
  // In the work item that is being emitted:
  Value* part_number_ = nullptr;
  Value *low_ = nullptr, *high_ = nullptr;  // its columns
  Index index_;                             // of the reductions' results
};

}  // namespace

void EmitPhaseBody(PhaseFrame& f, const ReducePhase& kind) {
  for (const MultiOutput& reduces : kind.multi_output) f.body.SetMultiOutput(reduces);
  const PhaseLoops loops = MakeLoops(f.vars, kind.nest);
  f.ForEachItem([&](Value* item) {
    f.BindGroups(loops, item, static_cast<int>(loops.groups.size()));
    f.EvalAndStore(loops, {}, false);
  });
}

void EmitPhaseBody(PhaseFrame& f, const PartialReducePhase& kind) {
  const ReductionSplit& split = kind.split;
  const PhaseLoops loops = MakeLoops(f.vars, kind.nest);
  const VarId part = f.vars.Loop(split.blocks);
  const int64_t elements = f.phase.work_items / split.blocks;
  f.ForEachItem([&](Value* item) {
    Value* number = f.Take(item, split.blocks);
    f.scopes.Bind({&part, 1}, number);
    f.BindGroups(loops, item, static_cast<int>(loops.groups.size()));
    const Index index = f.ComputeReductionIndex(loops, kind.reduces[0]);
    BodyEvaluator::Range range;
    range.begin = f.b.CreateMul(number, f.Number(split.block_size));
    range.end = f.Min(f.b.CreateAdd(range.begin, f.Number(split.block_size)), f.Number(split.block_extent));
    const std::vector<Vals> results = f.body.ReduceLoops(kind.reduces, index, {}, &range, false);
    for (size_t k = 0; k < kind.reduces.size(); ++k) {
      const Instruction& r = *kind.reduces[k];
      const Affine at = PartialAddress(r, index, part, elements);
      for (size_t i = 0; i < results[k].size(); ++i) {
        f.memory.StoreComputed(f.buffers[static_cast<size_t>(split.buffers[k][i])], at, ResultType(r, i),
                               results[k][i]);
      }
    }
  });
}

void EmitPhaseBody(PhaseFrame& f, const ColumnReducePhase& kind) { ColumnLoops(f, kind, nullptr).Emit(); }

void EmitPhaseBody(PhaseFrame& f, const PartialColumnReducePhase& kind) { ColumnLoops(f, kind, &kind.split).Emit(); }

}  // namespace backplane::engine::codegen
