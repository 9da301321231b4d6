// Phases that read arrays across the outputs' last loop.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {
namespace {

// How far the sum moves with the one counter of a joined group; nothing if it does not move in constant steps.
std::optional<int64_t> GetStep(const VarTable& vars, const Affine& e, const std::vector<VarId>& group) {
  const int64_t k = e.GetCoef(group.back());
  int64_t stride = 1;
  for (size_t i = group.size(); i-- > 0;) {
    if (e.GetCoef(group[i]) != k * stride) return std::nullopt;
    stride *= vars.extent(group[i]);
  }
  return k;
}

// The arrays that are read across, and the loop that they are contiguous along.
struct TransposedArrays {
  std::vector<const Instruction*> arrays;
  int source_group = -1;
  int width = 1;  // bytes of the widest element
};

// Nothing when an address moves with the last loop in no constant steps, or none is read across.
std::optional<TransposedArrays> FindTransposedArrays(const GroupWalk& w, const std::vector<std::vector<VarId>>& groups,
                                                     int widest) {
  TransposedArrays crossed;
  for (const Access& a : w.accesses) {
    if (!GetStep(w.vars, a.address, groups.back())) return std::nullopt;
    // Some other loop must go through the array element by element, and all such arrays must agree on it.
    int found = -1;
    for (size_t g = 0; g + 1 < groups.size(); ++g) {
      if (IsReadAcross(w.vars, a, groups[g], groups.back())) found = static_cast<int>(g);
    }
    if (found < 0 || (crossed.source_group >= 0 && found != crossed.source_group)) continue;
    const int bytes = ByteWidth(FirstShape(*a.array).element_type());
    if (bytes > widest || a.array->Is(Opcode::kConstant)) continue;
    crossed.source_group = found;
    crossed.width = std::max(crossed.width, bytes);
    if (std::find(crossed.arrays.begin(), crossed.arrays.end(), a.array) == crossed.arrays.end()) {
      crossed.arrays.push_back(a.array);
    }
  }
  if (crossed.source_group < 0 || crossed.arrays.size() > 4) return std::nullopt;
  return crossed;
}

}  // namespace

bool IsReadAcross(const VarTable& vars, const Access& a, const std::vector<VarId>& rows,
                  const std::vector<VarId>& columns) {
  if (a.guarded || GetStep(vars, a.address, rows) != 1) return false;
  const std::optional<int64_t> step = GetStep(vars, a.address, columns);
  if (!step || std::abs(*step) <= 1) return false;
  return std::all_of(a.address.terms.begin(), a.address.terms.end(),
                     [&](const Term& t) { return vars.def(t.var).kind == VarKind::kLoop; });
}

std::optional<Phase> PlanTranspose(const Draft& draft, const GroupWalk& w,
                                   const std::vector<std::vector<VarId>>& groups, const jit::HostInfo& host) {
  if (groups.size() < 2 || !w.reduces.empty() || draft.outputs.size() > 4) return std::nullopt;
  // A transpose and nothing else.
  bool plain = draft.outputs.size() == 1 && draft.outputs[0].container == nullptr && w.accesses.size() == 1;
  for (const Instruction* x : w.visited) plain = plain && (MovesElements(*x) || x == w.accesses[0].array);
  const std::optional<TransposedArrays> crossed = FindTransposedArrays(w, groups, plain ? 16 : 8);
  if (!crossed) return std::nullopt;
  const int width = crossed->width;
  const std::vector<VarId>& source = groups[static_cast<size_t>(crossed->source_group)];
  const int64_t rows = ComputeExtent(w.vars, source), columns = ComputeExtent(w.vars, groups.back());
  int64_t others = 1;
  for (size_t g = 0; g + 1 < groups.size(); ++g) {
    if (static_cast<int>(g) != crossed->source_group) others *= ComputeExtent(w.vars, groups[g]);
  }
  Phase phase;
  auto note = [](int64_t tile_rows, int64_t tile_columns) {
    return absl::StrCat("transpose: tiles of ", tile_rows, " x ", tile_columns);
  };
  // The library's copy needs sides that are not too short for registers.
  if (plain && rows >= 16 / width && columns >= 16 / width) {
    VarTable vars = w.vars;
    const PhaseOutput& output = draft.outputs[0];
    const Affine store = StoreAddress(vars, output, OutputIndex(vars, w.loops, output));
    TransposeCopyPhase copy;
    copy.nest = MakeNest(draft, w, groups);
    copy.source_group = crossed->source_group;
    copy.array = crossed->arrays[0];
    copy.tiles = ::backplane::PlanTranspose(
        width, rows, columns, w.accesses[0].address.GetCoef(groups.back().back()) * width,
        store.GetCoef(source.back()) * width, rows * columns * others * width, host.target.vector_bytes);
    phase.work_items = copy.tiles.row_tiles() * copy.tiles.column_tiles() * others;
    phase.scratch_bytes = copy.tiles.scratch_bytes;
    phase.note = note(copy.tiles.tile_rows, copy.tiles.tile_columns);
    phase.kind = std::move(copy);
    return phase;
  }
  int64_t square = width == 8 ? 8 : 16;
  while (square > std::min(rows, columns)) square /= 2;
  if (square < 4 || width > 8) return std::nullopt;
  int64_t tile_rows = 64, tile_columns = plain ? 256 : 128;
  if (width == 8) tile_rows /= 2;
  if (crossed->arrays.size() > 1) tile_rows /= 2;
  TransposePhase transpose;
  transpose.nest = MakeNest(draft, w, groups);
  transpose.source_group = crossed->source_group;
  transpose.arrays = crossed->arrays;
  transpose.tile_square = square;
  transpose.tile_rows = std::min(tile_rows, rows / square * square);
  transpose.tile_columns = std::min(tile_columns, columns / square * square);
  int computed = 1;
  for (const Instruction* x : w.visited) {
    if (x->shape().IsArray() && x->shape().rank() > 0)
      computed = std::max(computed, ComputedWidth(x->shape().element_type()));
  }
  transpose.lanes = LanesFor(host, computed);
  while (transpose.tile_columns % transpose.lanes != 0) transpose.lanes /= 2;
  for (const Instruction* a : transpose.arrays) {
    const int bytes = ByteWidth(FirstShape(*a).element_type());
    phase.scratch_bytes += RoundUp(transpose.tile_rows * transpose.tile_columns * bytes + 64, 64);
  }
  phase.work_items = CeilDiv(rows, transpose.tile_rows) * CeilDiv(columns, transpose.tile_columns) * others;
  phase.note = note(transpose.tile_rows, transpose.tile_columns);
  phase.kind = std::move(transpose);
  return phase;
}

}  // namespace backplane::engine::codegen
