// Outputs whose operation has loops of its own: updates, scatters, concatenations, scans.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ops/families/run_reducer.h"
#include "core/types/status_macros.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/engine/codegen/classify.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

using backplane::codegen::IsNarrowFloat;
using backplane::codegen::IsSmallFloat;

namespace {

// A cumulative operation whose every result is a window that is reduced in order and rounded at each step: a scan would
// combine in another order, and of narrow floats the last digits are the large ones.
bool IsRoundedStepwise(const Instruction& window, int64_t d) {
  const Shape& s = window.shape();
  if (!IsNarrowFloat(s.element_type()) || s.dimensions(d) > kStepwiseWindow) return false;
  const std::optional<Opcode> op = AnalyzeCombiner(*window.called(0)).op;
  return op != Opcode::kMaximum && op != Opcode::kMinimum;
}

}  // namespace

absl::StatusOr<bool> Planner::PlanSpecial(const PhaseOutput& output, const std::vector<PhaseOutput>& all) {
  const Instruction* op = output.instruction;
  if (op->Is(Opcode::kGetTupleElement) && (op->operand(0)->Is(Opcode::kScatter))) {
    return absl::UnimplementedError(absl::StrCat(op->name(), ": part of a scatter's results"));
  }
  switch (op->opcode()) {
    case Opcode::kDynamicUpdateSlice: {
      if (!IsShared(output.buffer)) {
        RETURN_IF_ERROR(PlanOutputs({{op->operand(0), 0, output.buffer}}));
      }
      if (op->operand(1)->shape().num_elements() == 0) return true;
      PhaseOutput update{op->operand(1), 0, output.buffer};
      update.container = op;
      RETURN_IF_ERROR(PlanOutputs({update}));
      return true;
    }
    case Opcode::kConcatenate: {
      // Part by part, when the parts are long enough for loops of their own.
      int64_t d = op->dimensions()[0], inner = 1;
      if (op->shape().dimensions(d) <= kMaxUnrolled) return false;
      for (int64_t i = d + 1; i < op->shape().rank(); ++i) inner *= op->shape().dimensions(i);
      int64_t smallest = std::numeric_limits<int64_t>::max();
      for (const Instruction* x : op->operands()) smallest = std::min(smallest, x->shape().dimensions(d) * inner);
      if (op->operand_count() > 64 || smallest < 32) return false;
      for (int64_t i = 0; i < op->operand_count(); ++i) {
        PhaseOutput part{op->operand(i), 0, output.buffer};
        part.container = op;
        part.part = static_cast<int>(i);
        RETURN_IF_ERROR(PlanOutputs({part}));
      }
      return true;
    }
    case Opcode::kScatter: {
      // All results of one scatter are made together, with the first of them.
      if (output.element != 0) return true;
      std::vector<PhaseOutput> outputs;
      for (int64_t i = 0; i < (op->operand_count() - 1) / 2; ++i) {
        auto it = std::find_if(all.begin(), all.end(),
                               [&](const PhaseOutput& o) { return o.instruction == op && o.element == i; });
        if (it == all.end()) return absl::UnimplementedError(absl::StrCat(op->name(), ": part of a scatter's results"));
        if (!IsShared(it->buffer)) RETURN_IF_ERROR(PlanOutputs({{op->operand(i), 0, it->buffer}}));
        outputs.push_back(*it);
      }
      PlanScatter(op, std::move(outputs));
      return true;
    }
    case Opcode::kSelectAndScatter:
      PlanSelectAndScatter(output);
      return true;
    case Opcode::kReduceWindow: {
      int64_t d;
      bool reverse;
      if (output.element == 0 && !op->shape().IsTuple() && IsCumulative(*op, &d, &reverse) &&
          op->operand(0)->shape().dimensions(d) > 4 && !IsRoundedStepwise(*op, d)) {
        PlanScan(output, d);
        return true;
      }
      return false;
    }
    default:
      return false;
  }
}

void Planner::PlanScatter(const Instruction* op, std::vector<PhaseOutput> outputs) {
  int64_t n = (op->operand_count() - 1) / 2;
  const Shape& updates = op->operand(n + 1)->shape();
  const ScatterDimensions& s = op->scatter_dims();
  if (updates.num_elements() == 0) return;
  const bool window_last = ScattersRows(*op);
  const int64_t rank = op->operand(0)->shape().rank();
  const int64_t extent = window_last ? updates.dimensions(updates.rank() - 1) : 1;
  int width = 1;
  for (int64_t i = 0; i < n; ++i) width = std::max(width, ComputedWidth(op->operand(i)->shape().element_type()));
  ScatterPhase scatter;
  scatter.operation = op;
  scatter.lanes = LanesAlong(extent, LanesFor(host_, width));
  // Work items apply all updates to a part of the window. If windows begin at different elements of that dimension,
  // two items would write to one element, at the same time or in the wrong order.
  const Ints& indexed = s.scatter_dims_to_operand_dims;
  const bool may_shift = window_last && std::find(indexed.begin(), indexed.end(), rank - 1) != indexed.end() &&
                         extent < op->operand(0)->shape().dimensions(rank - 1);
  Phase phase;
  phase.outputs = std::move(outputs);
  phase.work_items = 1;
  if (scatter.lanes > 0) {
    const int64_t block = may_shift ? extent : std::max<int64_t>(scatter.lanes, CeilDiv(extent, 8));
    scatter.inner_block = RoundUp(block, scatter.lanes);
    phase.work_items = CeilDiv(extent, scatter.inner_block);
  }
  phase.cycles = static_cast<double>(updates.num_elements()) * (scatter.lanes > 0 ? 1.0 : 8.0);
  phase.note = absl::StrCat("scatter of ", updates.ToString(), scatter.lanes > 0 ? ", vectors" : ", scalars");
  phase.kind = scatter;
  Push(std::move(phase));
}

void Planner::PlanSelectAndScatter(const PhaseOutput& output) {
  const Instruction* op = output.instruction;
  Draft fill;
  PhaseOutput initial{op->operand(2), 0, output.buffer};
  initial.container = op;  // the scalar fills all of it
  fill.outputs = {initial};
  fill.nest.extents = {op->shape().num_elements()};
  PushFlat(std::move(fill), ComputedBytes(op->shape().element_type()), 0, "fill");

  const Shape& source = op->operand(1)->shape();
  if (source.num_elements() == 0) return;
  SelectAndScatterPhase scatter;
  scatter.operation = op;
  auto plain = [&](int64_t d) {
    const WindowDimension& w = op->window().dimensions[d];
    return w.size == 1 && w.stride == 1 && w.padding_low == 0 && w.padding_high == 0;
  };
  int64_t rank = source.rank();
  Phase phase;
  phase.outputs = {output};
  phase.work_items = 1;
  for (int64_t d = 0; d < rank && plain(d); ++d) {
    if (d == rank - 1) break;
    phase.work_items *= source.dimensions(d);
    scatter.item_dimensions = static_cast<int>(d) + 1;
  }
  if (rank > 0 && plain(rank - 1)) {
    const int width = std::max(ComputedWidth(op->shape().element_type()), 8);
    scatter.lanes = LanesAlong(source.dimensions(rank - 1), LanesFor(host_, width));
  }
  phase.cycles = CostPerElement(*op) * static_cast<double>(source.num_elements()) * (scatter.lanes > 0 ? 2 : 8);
  phase.note = absl::StrCat("select-and-scatter, ", phase.work_items, " work items");
  phase.kind = scatter;
  Push(std::move(phase));
}

void Planner::PlanScan(const PhaseOutput& output, int64_t d) {
  const Instruction* op = output.instruction;
  const Shape& s = op->shape();
  const PrimitiveType type = s.element_type();
  const int width = ComputedWidth(type);
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < d; ++i) outer *= s.dimensions(i);
  for (int64_t i = d + 1; i < s.rank(); ++i) inner *= s.dimensions(i);
  const Combiner c = AnalyzeCombiner(*op->called(0));
  int64_t lanes = LanesFor(host_, width);
  Phase phase;
  if (inner == 1) {
    lanes = c.op && !IsComplex(type) && !IsSmallFloat(type) ? lanes / 2 : 0;
    phase.work_items = outer;
  } else {
    lanes = LanesAlong(inner, lanes);
    phase.work_items = outer * (lanes > 0 ? CeilDiv(inner, lanes) : inner);
  }
  phase.outputs = {output};
  phase.cycles = static_cast<double>(s.num_elements()) * (lanes > 0 ? 0.6 * width / 4 : 5);
  phase.note = absl::StrCat("cumulative along ", s.dimensions(d), lanes > 0 ? ", vectors" : ", scalars");
  phase.kind = ScanPhase{op, lanes};
  Push(std::move(phase));
}

}  // namespace backplane::engine::codegen
