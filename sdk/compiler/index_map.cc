#include "sdk/compiler/index_map.h"

#include <algorithm>

#include "sdk/compiler/affine.h"

namespace backplane::compiler {

bool MovesElements(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kReverse:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGather:
      return true;
    default:
      return false;
  }
}

bool AddGuard(const VarTable& vars, Guards& guards, const Affine& e, int64_t lo, int64_t hi) {
  auto [from, to] = vars.Range(e);
  if (from >= lo && to < hi) return true;
  if (to < lo || from >= hi) return false;
  Guard g{e, lo, hi};
  if (std::find(guards.begin(), guards.end(), g) == guards.end()) {
    guards.insert(std::lower_bound(guards.begin(), guards.end(), g), g);
  }
  return true;
}

namespace {

// (e - low) / (interior + 1) where it divides; with the guards for what lies between and outside.
bool UndilatedIndex(VarTable& vars, const Affine& shifted, int64_t dilation, int64_t dim, Affine& result,
                    Guards& guards) {
  if (dilation == 1) {
    result = shifted;
    return AddGuard(vars, guards, shifted, 0, dim);
  }
  if (!AddGuard(vars, guards, shifted, 0, (dim - 1) * dilation + 1)) return false;
  if (!AddGuard(vars, guards, vars.Mod(shifted, dilation), 0, 1)) return false;
  result = vars.FloorDiv(shifted, dilation);
  return true;
}

Index GatherIndex(const Instruction& gather, const Index& index, VarTable& vars) {
  const GatherDimensions& g = gather.gather_dims();
  const Shape& operand = gather.operand(0)->shape();
  const Shape& indices = gather.operand(1)->shape();
  const Ints& sizes = gather.attrs().GetInts(AttrId::kSliceSizes);
  std::vector<int64_t> batch;  // output dims that are batch dims
  for (int64_t d = 0; d < gather.shape().rank(); ++d) {
    if (std::find(g.offset_dims.begin(), g.offset_dims.end(), d) == g.offset_dims.end()) batch.push_back(d);
  }
  auto start = [&](int64_t k) {  // index of element k of the index vector
    Index r;
    size_t next = 0;
    for (int64_t d = 0; d < indices.rank(); ++d) {
      r.push_back(d == g.index_vector_dim ? Affine::Const(k) : index[batch[next++]]);
    }
    return r;
  };
  Index result(operand.rank());
  size_t next_offset = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    bool collapsed =
        std::find(g.collapsed_slice_dims.begin(), g.collapsed_slice_dims.end(), d) != g.collapsed_slice_dims.end();
    auto batching = std::find(g.operand_batching_dims.begin(), g.operand_batching_dims.end(), d);
    if (batching != g.operand_batching_dims.end()) {
      int64_t indices_dim = g.start_indices_batching_dims[batching - g.operand_batching_dims.begin()];
      int64_t position = indices_dim - (indices_dim > g.index_vector_dim ? 1 : 0);
      result[d] = index[batch[position]];
      continue;
    }
    if (!collapsed) result[d] = index[g.offset_dims[next_offset++]];
    auto mapped = std::find(g.start_index_map.begin(), g.start_index_map.end(), d);
    if (mapped != g.start_index_map.end()) {
      result[d].Add(vars.Runtime(gather.operand(1), start(mapped - g.start_index_map.begin()), 0,
                                 operand.dimensions(d) - sizes[d]));
    }
  }
  return result;
}

// The start of a dynamic slice or update in dimension `d`; starts are scalars, or one vector in older programs.
Affine DynamicStart(const Instruction& op, int64_t first_start, int64_t d, int64_t hi, VarTable& vars) {
  const Instruction* s = op.operand(first_start);
  if (s->shape().rank() == 1) return vars.Runtime(s, {Affine::Const(d)}, 0, hi);
  return vars.Runtime(op.operand(first_start + d), {}, 0, hi);
}

}  // namespace

std::vector<Source> FindSources(const Instruction& op, const Index& index, VarTable& vars) {
  const Instruction* x = op.operand(0);
  const Shape& in = x->shape();
  Index r(in.rank());
  switch (op.opcode()) {
    case Opcode::kBroadcast: {
      const Ints& dims = op.dimensions();
      for (int64_t i = 0; i < in.rank(); ++i) r[i] = in.dimensions(i) == 1 ? Affine::Const(0) : index[dims[i]];
      return {{x, r, {}}};
    }
    case Opcode::kReshape:
    case Opcode::kBitcast:
      return {{x, Delinearize(vars, Linearize(index, op.shape().dimensions()), in.dimensions()), {}}};
    case Opcode::kTranspose: {
      const Ints& p = op.dimensions();
      for (int64_t i = 0; i < in.rank(); ++i) r[p[i]] = index[i];
      return {{x, r, {}}};
    }
    case Opcode::kSlice: {
      const SliceConfig& s = op.slices();
      for (int64_t i = 0; i < in.rank(); ++i) r[i] = index[i].Times(s[i].stride).Plus(s[i].start);
      return {{x, r, {}}};
    }
    case Opcode::kReverse: {
      const Ints& dims = op.dimensions();
      for (int64_t i = 0; i < in.rank(); ++i) {
        bool flip = std::find(dims.begin(), dims.end(), i) != dims.end();
        r[i] = flip ? index[i].Times(-1).Plus(in.dimensions(i) - 1) : index[i];
      }
      return {{x, r, {}}};
    }
    case Opcode::kPad: {
      const PaddingConfig& p = op.padding();
      Guards guards;
      bool possible = in.num_elements() > 0;
      for (int64_t i = 0; possible && i < in.rank(); ++i) {
        possible = UndilatedIndex(vars, index[i].Plus(-p[i].low), p[i].interior + 1, in.dimensions(i), r[i], guards);
      }
      std::vector<Source> sources;
      if (possible) sources.push_back({x, r, guards});
      if (!possible || !guards.empty()) sources.push_back({op.operand(1), {}, {}});
      return sources;
    }
    case Opcode::kConcatenate: {
      int64_t d = op.dimensions()[0], offset = 0;
      std::vector<Source> sources;
      auto [from, to] = vars.Range(index[d]);
      for (const Instruction* part : op.operands()) {
        int64_t n = part->shape().dimensions(d);
        if (n > 0 && from < offset + n && to >= offset) {
          Source s{part, index, {}};
          s.index[d] = index[d].Plus(-offset);
          AddGuard(vars, s.guards, s.index[d], 0, n);
          sources.push_back(std::move(s));
        }
        offset += n;
      }
      return sources;
    }
    case Opcode::kDynamicSlice: {
      const Ints& sizes = op.attrs().GetInts(AttrId::kDynamicSliceSizes);
      for (int64_t i = 0; i < in.rank(); ++i) {
        r[i] = index[i].Plus(DynamicStart(op, 1, i, in.dimensions(i) - sizes[i], vars));
      }
      return {{x, r, {}}};
    }
    case Opcode::kDynamicUpdateSlice: {
      const Instruction* update = op.operand(1);
      if (update->shape().num_elements() == 0) return {{x, index, {}}};
      Guards guards;
      for (int64_t i = 0; i < in.rank(); ++i) {
        int64_t n = update->shape().dimensions(i);
        r[i] = index[i].Plus(DynamicStart(op, 2, i, in.dimensions(i) - n, vars), -1);
        if (n == in.dimensions(i)) continue;
        AddGuard(vars, guards, r[i], 0, n);
      }
      std::vector<Source> sources{{update, r, guards}};
      if (!guards.empty()) sources.push_back({x, index, {}});
      return sources;
    }
    case Opcode::kGather:
      return {{x, GatherIndex(op, index, vars), {}}};
    default:
      return {};
  }
}

bool WindowElement(const Window& window, absl::Span<const int64_t> operand_dims, const Index& index,
                   const Index& window_index, VarTable& vars, Index& operand_index, Guards& guards) {
  operand_index.assign(operand_dims.size(), {});
  for (size_t i = 0; i < operand_dims.size(); ++i) {
    const WindowDimension& w = window.dimensions[i];
    if (operand_dims[i] == 0) return false;
    Affine position = w.window_reversal ? window_index[i].Times(-1).Plus(w.size - 1) : window_index[i];
    Affine e = index[i].Times(w.stride).Plus(position, w.window_dilation).Plus(-w.padding_low);
    if (!UndilatedIndex(vars, e, w.base_dilation, operand_dims[i], operand_index[i], guards)) return false;
  }
  return true;
}

namespace {

// -1: not in the list.
int64_t PositionIn(const Ints& list, int64_t d) {
  const auto it = std::find(list.begin(), list.end(), d);
  return it == list.end() ? int64_t{-1} : static_cast<int64_t>(it - list.begin());
}

}  // namespace

std::vector<int64_t> ScatterUpdateDims(const Instruction& scatter) {
  std::vector<int64_t> dims;
  const Shape& updates = scatter.operand((scatter.operand_count() - 1) / 2 + 1)->shape();
  for (int64_t d = 0; d < updates.rank(); ++d) {
    if (PositionIn(scatter.scatter_dims().update_window_dims, d) < 0) dims.push_back(d);
  }
  return dims;
}

Index ScatterTarget(const Instruction& scatter, const Index& update_index, VarTable& vars, Guards& guards) {
  constexpr int64_t kFar = int64_t{1} << 40;
  const ScatterDimensions& s = scatter.scatter_dims();
  const Instruction* indices = scatter.operand((scatter.operand_count() - 1) / 2);
  const Shape& operand = scatter.operand(0)->shape();
  const Shape& updates = scatter.operand((scatter.operand_count() - 1) / 2 + 1)->shape();
  const std::vector<int64_t> update_dims = ScatterUpdateDims(scatter);
  auto scatter_index = [&](int64_t k) {
    return update_index[static_cast<size_t>(update_dims[static_cast<size_t>(k)])];
  };
  Index target(static_cast<size_t>(operand.rank()));
  size_t window = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    Affine& e = target[static_cast<size_t>(d)];
    if (const int64_t batching = PositionIn(s.input_batching_dims, d); batching >= 0) {
      const int64_t k = s.scatter_indices_batching_dims[static_cast<size_t>(batching)];
      e = scatter_index(k - (k > s.index_vector_dim ? 1 : 0));
      continue;
    }
    int64_t extent = 1;
    if (PositionIn(s.inserted_window_dims, d) < 0) {
      const int64_t from = s.update_window_dims[window++];
      extent = updates.dimensions(from);
      e = update_index[static_cast<size_t>(from)];
    }
    const int64_t mapped = PositionIn(s.scatter_dims_to_operand_dims, d);
    if (mapped < 0) continue;
    Index where;
    int64_t next = 0;
    for (int64_t k = 0; k < indices->shape().rank(); ++k)
      where.push_back(k == s.index_vector_dim ? Affine::Const(mapped) : scatter_index(next++));
    const Affine start = vars.Runtime(indices, where, -kFar, kFar, true);
    AddGuard(vars, guards, start, 0, operand.dimensions(d) - extent + 1);
    e.Add(start);
  }
  return target;
}

std::vector<int64_t> SortedDims(const Instruction& reduce) {
  std::vector<int64_t> dims(reduce.dimensions().begin(), reduce.dimensions().end());
  std::sort(dims.begin(), dims.end());
  return dims;
}

bool IsReducedDim(const Instruction& reduce, int64_t dim) {
  const Ints& dims = reduce.dimensions();
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

Index ReduceOperandIndex(const Instruction& reduce, const Index& result_index, absl::Span<const Affine> reduced) {
  Index r;
  size_t kept = 0, red = 0;
  for (int64_t d = 0; d < reduce.operand(0)->shape().rank(); ++d) {
    r.push_back(IsReducedDim(reduce, d) ? reduced[red++] : result_index[kept++]);
  }
  return r;
}

const Shape& FirstShape(const Instruction& instruction) {
  const Shape& s = instruction.shape();
  return s.IsTuple() && s.tuple_size() > 0 ? s.tuple_shapes(0) : s;
}

void AccessWalk::Visit(const Instruction* op, const Index& index, int depth, bool guarded) {
  if (nesting_ >= kMaxNesting) visits_ = kMaxVisits;
  if (++visits_ > kMaxVisits) return;
  if (!seen_.emplace(op, std::vector<Affine>(index.begin(), index.end())).second) return;
  instructions_.insert(op);
  ++nesting_;
  Follow(op, index, depth, guarded);
  --nesting_;
}

void AccessWalk::Follow(const Instruction* op, const Index& index, int depth, bool guarded) {
  auto array = [&] {
    Affine address = Linearize(index, FirstShape(*op).dimensions());
    observed_.push_back(address);
    accesses_.push_back({op, std::move(address), index, depth, guarded});
  };
  if (materialized_.contains(op)) return array();
  switch (op->opcode()) {
    case Opcode::kParameter:
      return array();
    case Opcode::kConstant:
      if (op->shape().num_elements() > 1) array();
      return;
    case Opcode::kIota:
      observed_.push_back(index[op->attrs().GetInt(AttrId::kIotaDimension)]);
      return;
    case Opcode::kReduce: {
      reduces_.push_back({op, index, depth});
      std::vector<Affine> reduced;
      for (int64_t d : SortedDims(*op)) {
        int64_t n = op->operand(0)->shape().dimensions(d);
        reduced.push_back(n == 1 ? Affine::Const(0) : Affine::Var(vars_.Loop(n)));
      }
      Index in = ReduceOperandIndex(*op, index, reduced);
      int64_t n = op->operand_count() / 2;
      for (int64_t i = 0; i < n; ++i) Visit(op->operand(i), in, depth + 1, guarded);
      for (int64_t i = 0; i < n; ++i) Visit(op->operand(n + i), {}, depth, guarded);
      return;
    }
    case Opcode::kReduceWindow: {
      int64_t n = op->operand_count() / 2;
      Index position, in;
      for (const WindowDimension& w : op->window().dimensions) {
        position.push_back(w.size == 1 ? Affine::Const(0) : Affine::Var(vars_.Loop(w.size)));
      }
      Guards guards;
      for (int64_t i = 0; i < n; ++i) Visit(op->operand(n + i), {}, depth, guarded);
      if (!WindowElement(op->window(), op->operand(0)->shape().dimensions(), index, position, vars_, in, guards))
        return;
      for (const Guard& g : guards) observed_.push_back(g.e);
      for (int64_t i = 0; i < n; ++i) Visit(op->operand(i), in, depth + 1, true);
      return;
    }
    case Opcode::kGetTupleElement:
      return Visit(op->operand(0), index, depth, guarded);
    case Opcode::kTuple:
    case Opcode::kWhile:
    case Opcode::kConditional:  // over single elements
      for (const Instruction* x : op->operands()) {
        Visit(x, Index(x->shape().IsArray() ? static_cast<size_t>(x->shape().rank()) : 0, Affine::Const(0)), depth,
              guarded);
      }
      return;
    case Opcode::kBitcastConvert: {
      const Instruction* x = op->operand(0);
      Index in = index;
      if (x->shape().rank() < op->shape().rank()) {  // wide to narrow: the last dimension picks the part
        observed_.push_back(in.back());
        in.pop_back();
        return Visit(x, in, depth, guarded);
      }
      if (x->shape().rank() == op->shape().rank()) return Visit(x, in, depth, guarded);
      for (int64_t k = 0; k < x->shape().dimensions().back(); ++k) {
        Index part = index;
        part.push_back(Affine::Const(k));
        Visit(x, part, depth, guarded);
      }
      return;
    }
    default:
      break;
  }
  if (MovesElements(*op)) {
    for (const Source& s : FindSources(*op, index, vars_)) {
      for (const Guard& g : s.guards) {
        observed_.push_back(g.e);
        conditions_.push_back(g);
      }
      Visit(s.instruction, s.index, depth, guarded || !s.guards.empty());
    }
    return;
  }
  for (const Instruction* operand : op->operands()) {
    Visit(operand, operand->shape().rank() == 0 ? Index{} : index, depth, guarded);
  }
}

void AccessWalk::Finish() {
  for (; finished_vars_ < vars_.size() && !too_complex(); ++finished_vars_) {
    VarDef d = vars_.def(finished_vars_);
    if (d.kind == VarKind::kLoop) continue;
    if (d.kind == VarKind::kRuntime) {
      Visit(d.source, d.source_index, 0, true);
    } else {
      observed_.push_back(d.expr);
    }
  }
}

std::vector<std::vector<VarId>> MergeVars(const VarTable& vars, absl::Span<const VarId> order,
                                          absl::Span<const Affine> observed) {
  std::vector<std::vector<VarId>> groups;
  for (VarId v : order) {
    bool merge = !groups.empty();
    if (merge) {
      VarId outer = groups.back().back();
      for (const Affine& e : observed) {
        if (e.GetCoef(outer) != e.GetCoef(v) * vars.extent(v)) {
          merge = false;
          break;
        }
      }
    }
    if (merge) {
      groups.back().push_back(v);
    } else {
      groups.push_back({v});
    }
  }
  return groups;
}

bool ApplySplits(absl::Span<const VarTable::Split> splits, absl::Span<const VarId> vars,
                 std::vector<int64_t>& extents) {
  std::vector<int64_t> result;
  bool changed = false;
  for (size_t i = 0; i < vars.size(); ++i) {
    int64_t inner = 0;
    for (const VarTable::Split& s : splits) {
      if (s.var == vars[i]) {
        inner = s.inner;
        break;
      }
    }
    if (inner > 1 && extents[i] % inner == 0 && inner < extents[i]) {
      result.push_back(extents[i] / inner);
      result.push_back(inner);
      changed = true;
    } else {
      result.push_back(extents[i]);
    }
  }
  if (changed) extents = std::move(result);
  return changed;
}

}  // namespace backplane::compiler
