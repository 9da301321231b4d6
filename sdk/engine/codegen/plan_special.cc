// Outputs whose operation has loops of its own: updates, scatters, concatenations, scans.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ops/families/run_reducer.h"
#include "core/types/status_macros.h"
#include "sdk/engine/codegen/classify.h"
#include "sdk/engine/codegen/elements.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {
namespace {

// A cumulative operation whose every result is a window folded in order and rounded at each step: a scan would combine
// in another order, and of narrow floats the last digits are the large ones.
bool IsRoundedStepwise(const Instruction& window, int64_t d) {
  const Shape& s = window.shape();
  if (!IsNarrowFloat(s.element_type()) || s.dimensions(d) > kStepwiseWindow) return false;
  const std::optional<Opcode> op = AnalyzeCombiner(*window.called(0)).op;
  return op != Opcode::kMaximum && op != Opcode::kMinimum;
}

}  // namespace

absl::StatusOr<bool> Planner::PlanSpecial(const Target& t, const std::vector<Target>& outputs) {
  const Instruction* op = t.instruction;
  if (op->Is(Opcode::kGetTupleElement) && (op->operand(0)->Is(Opcode::kScatter))) {
    return absl::UnimplementedError(absl::StrCat(op->name(), ": part of a scatter's results"));
  }
  switch (op->opcode()) {
    case Opcode::kDynamicUpdateSlice: {
      if (!IsShared(t.buffer)) {
        RETURN_IF_ERROR(PlanTargets({{op->operand(0), 0, t.buffer}}));
      }
      if (op->operand(1)->shape().num_elements() == 0) return true;
      Target update{op->operand(1), 0, t.buffer};
      update.window = op;
      RETURN_IF_ERROR(PlanTargets({update}));
      return true;
    }
    case Opcode::kConcatenate: {
      // Part by part, when the parts are long enough for loops of their own.
      int64_t d = op->dimensions()[0], inner = 1;
      for (int64_t i = d + 1; i < op->shape().rank(); ++i) inner *= op->shape().dimensions(i);
      int64_t smallest = std::numeric_limits<int64_t>::max();
      for (const Instruction* x : op->operands()) smallest = std::min(smallest, x->shape().dimensions(d) * inner);
      if (op->operand_count() > 64 || smallest < 32) return false;
      for (int64_t i = 0; i < op->operand_count(); ++i) {
        Target part{op->operand(i), 0, t.buffer};
        part.window = op;
        part.part = static_cast<int>(i);
        RETURN_IF_ERROR(PlanTargets({part}));
      }
      return true;
    }
    case Opcode::kScatter: {
      // All results of one scatter are made together, with the first of them.
      if (t.element != 0) return true;
      Phase phase;
      phase.kind = PhaseKind::kScatter;
      phase.special = op;
      int64_t n = (op->operand_count() - 1) / 2;
      for (int64_t i = 0; i < n; ++i) {
        const Target* out = nullptr;
        for (const Target& o : outputs) {
          if (o.instruction == op && o.element == i) out = &o;
        }
        if (out == nullptr) return absl::UnimplementedError(absl::StrCat(op->name(), ": part of a scatter's results"));
        if (!IsShared(out->buffer)) RETURN_IF_ERROR(PlanTargets({{op->operand(i), 0, out->buffer}}));
        phase.targets.push_back(*out);
      }
      return PlanScatter(std::move(phase));
    }
    case Opcode::kSelectAndScatter:
      return PlanSelectAndScatter(t);
    case Opcode::kReduceWindow: {
      int64_t d;
      bool reverse;
      if (t.element == 0 && !op->shape().IsTuple() && IsCumulative(*op, &d, &reverse) &&
          op->operand(0)->shape().dimensions(d) > 4 && !IsRoundedStepwise(*op, d)) {
        return PlanScan(t, d);
      }
      return false;
    }
    default:
      return false;
  }
}

bool Planner::PlanScatter(Phase phase) {
  const Instruction* op = phase.special;
  int64_t n = (op->operand_count() - 1) / 2;
  const Shape& updates = op->operand(n + 1)->shape();
  const ScatterDimensions& s = op->scatter_dims();
  if (updates.num_elements() == 0) return true;
  // Lanes along the last dimension when it is a window dimension that is contiguous in the output.
  int64_t last = updates.rank() - 1;
  bool window_last = last >= 0 && !s.update_window_dims.empty() && s.update_window_dims.back() == last;
  int64_t rank = op->operand(0)->shape().rank();
  auto in = [](const Ints& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); };
  window_last = window_last && !in(s.inserted_window_dims, rank - 1) && !in(s.input_batching_dims, rank - 1);
  int64_t extent = window_last ? updates.dimensions(last) : 1;
  int width = 1;
  for (int64_t i = 0; i < n; ++i) {
    PrimitiveType t = op->operand(i)->shape().element_type();
    width = std::max(width, RowBytes(IsComplex(t) ? ComplexPart(t) : t));
  }
  int64_t lanes = LanesFor(host_, width);
  if (extent < lanes) lanes = extent >= 4 ? std::bit_ceil(static_cast<uint64_t>(extent)) : 0;
  phase.lanes = lanes;
  phase.masked_tail = true;
  phase.work_units = 1;
  if (lanes > 0) {
    phase.inner_block = RoundUp(std::max<int64_t>(lanes, CeilDiv(extent, 8)), lanes);
    phase.work_units = CeilDiv(extent, phase.inner_block);
  }
  phase.cycles = static_cast<double>(updates.num_elements()) * (lanes > 0 ? 1.0 : 8.0);
  phase.note = absl::StrCat("scatter of ", updates.ToString(), lanes > 0 ? ", vectors" : ", scalars");
  Push(std::move(phase));
  return true;
}

absl::StatusOr<bool> Planner::PlanSelectAndScatter(const Target& t) {
  const Instruction* op = t.instruction;
  Phase fill;
  fill.kind = PhaseKind::kLoop;
  Target init{op->operand(2), 0, t.buffer};
  init.window = op;  // the scalar fills the whole
  fill.targets = {init};
  fill.extents = {op->shape().num_elements()};
  FinishFlat(fill, RowBytes(op->shape().element_type()));
  fill.note = "fill";
  Push(std::move(fill));

  Phase phase;
  phase.kind = PhaseKind::kSelectAndScatter;
  phase.special = op;
  phase.targets = {t};
  const Shape& source = op->operand(1)->shape();
  if (source.num_elements() == 0) return true;
  auto plain = [&](int64_t d) {
    const WindowDimension& w = op->window().dimensions[d];
    return w.size == 1 && w.stride == 1 && w.padding_low == 0 && w.padding_high == 0;
  };
  int64_t rank = source.rank();
  phase.work_units = 1;
  for (int64_t d = 0; d < rank && plain(d); ++d) {
    if (d == rank - 1) break;
    phase.work_units *= source.dimensions(d);
    phase.unit_groups = static_cast<int>(d) + 1;
  }
  if (rank > 0 && plain(rank - 1)) {
    PrimitiveType type = op->shape().element_type();
    int64_t lanes = LanesFor(host_, std::max(RowBytes(IsComplex(type) ? ComplexPart(type) : type), 8));
    int64_t extent = source.dimensions(rank - 1);
    if (extent < lanes) lanes = extent >= 4 ? std::bit_ceil(static_cast<uint64_t>(extent)) : 0;
    phase.lanes = lanes;
  }
  phase.masked_tail = true;
  phase.cycles = CostPerElement(*op) * static_cast<double>(source.num_elements()) * (phase.lanes > 0 ? 2 : 8);
  phase.note = absl::StrCat("select-and-scatter, ", phase.work_units, " units");
  Push(std::move(phase));
  return true;
}

absl::StatusOr<bool> Planner::PlanScan(const Target& t, int64_t d) {
  const Instruction* op = t.instruction;
  const Shape& s = op->shape();
  Phase phase;
  phase.kind = PhaseKind::kScan;
  phase.special = op;
  phase.targets = {t};
  PrimitiveType type = s.element_type();
  int width = RowBytes(IsComplex(type) ? ComplexPart(type) : type);
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < d; ++i) outer *= s.dimensions(i);
  for (int64_t i = d + 1; i < s.rank(); ++i) inner *= s.dimensions(i);
  Combiner c = AnalyzeCombiner(*op->called(0));
  int64_t lanes = LanesFor(host_, width);
  if (inner == 1) {
    lanes = c.op && !IsComplex(type) && !IsSmallFloat(type) ? lanes / 2 : 0;
    phase.work_units = outer;
  } else {
    if (inner < lanes) lanes = inner >= 4 ? std::bit_ceil(static_cast<uint64_t>(inner)) : 0;
    phase.work_units = outer * (lanes > 0 ? CeilDiv(inner, lanes) : inner);
  }
  phase.lanes = lanes;
  phase.cycles = static_cast<double>(s.num_elements()) * (lanes > 0 ? 0.6 * width / 4 : 5);
  phase.note = absl::StrCat("cumulative along ", s.dimensions(d), lanes > 0 ? ", vectors" : ", scalars");
  Push(std::move(phase));
  return true;
}

}  // namespace backplane::engine::codegen
