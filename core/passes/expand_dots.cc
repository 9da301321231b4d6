// Expands ragged and scaled dots to plain dots.
//
// A ragged dot becomes a loop over blocks of the ragged dimension. A block belongs to one group, so an iteration is one
// dot of a block of rows with the matrix of the group. There are about rows / block + groups iterations, which wastes
// little work.
#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/passes/loop_builder.h"
#include "core/passes/order_effects.h"
#include "core/passes/passes.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

int64_t ProductOf(const Shape& s, const Ints& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= s.dimensions(d);
  return n;
}

// One operand. Its dimensions are collected into groups, and each group becomes one dimension.
absl::StatusOr<Value> GroupDimensions(Builder& b, Value x, const std::vector<Ints>& groups) {
  Ints order;
  std::vector<int64_t> dims;
  for (const Ints& g : groups) {
    order.insert(order.end(), g.begin(), g.end());
    dims.push_back(ProductOf(x->shape(), g));
  }
  ASSIGN_OR_RETURN(Value t, b.Transpose(x, order));
  return b.Reshape(t, dims);
}

class RaggedDot {
 public:
  explicit RaggedDot(const Instruction* i)
      : i_(i),
        dims_(i->attrs().Get<RaggedDotDimensions>(AttrId::kRaggedDotDims)),
        b_(i->parent()->parent(), "ragged_dot") {
    b_.set_metadata(i->metadata());
  }

  absl::StatusOr<const Computation*> Run() {
    std::vector<Value> x;
    for (int64_t k = 0; k < 3; ++k) {
      ASSIGN_OR_RETURN(Value p, b_.Parameter(k, i_->operand(k)->shape().WithoutLayout()));
      x.push_back(p);
    }
    const int64_t ragged = dims_.lhs_ragged[0];
    limit_ = x[0]->shape().dimensions(ragged);
    groups_ = x[2]->shape().dimensions(x[2]->shape().rank() - 1);
    const bool contracting = absl::c_linear_search(dims_.dot.lhs_contracting, ragged);
    type_ = i_->shape().element_type();
    Value root = nullptr;
    if (i_->shape().num_elements() == 0 || limit_ == 0 || groups_ == 0) {
      ASSIGN_OR_RETURN(root, Fill(b_, type_, 0, i_->shape().dimensions()));
    } else {
      RETURN_IF_ERROR(FindEnds(x[2]));
      if (absl::c_linear_search(dims_.dot.lhs_batch, ragged)) {
        ASSIGN_OR_RETURN(root, InBatch(x[0], x[1]));
      } else {
        ASSIGN_OR_RETURN(root, contracting ? Contracting(x[0], x[1]) : Free(x[0], x[1]));
      }
    }
    return b_.Build(root);
  }

 private:
  absl::StatusOr<Value> Number(Builder& b, int64_t n) { return IndexConstant(b, n); }

  // ends_: s32[cells, groups], the end of each group.
  absl::Status FindEnds(Value sizes) {
    cells_ = sizes->shape().num_elements() / groups_;
    if (limit_ > std::numeric_limits<int32_t>::max() / 2)  // row indices are 32 bits wide
      return absl::UnimplementedError(absl::StrCat("groups of ", limit_, " rows"));
    ASSIGN_OR_RETURN(Value s, b_.Reshape(sizes, {cells_, groups_}));
    auto fill = [&](PrimitiveType t, int64_t v) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(Value scalar, b_.Constant(Literal::ScalarInt(t, v)));
      return b_.BroadcastInDim(scalar, {cells_, groups_}, {});
    };
    const PrimitiveType t = sizes->shape().element_type();
    if (IsSigned(t)) {
      ASSIGN_OR_RETURN(Value zero, fill(t, 0));
      ASSIGN_OR_RETURN(s, b_.Binary(Opcode::kMaximum, s, zero));
    }
    // Clamps sizes to the limit so that their sums do not overflow.
    const PrimitiveType wide = IsUnsigned(t) ? PrimitiveType::kU64 : PrimitiveType::kS64;
    ASSIGN_OR_RETURN(s, b_.Convert(s, wide));
    ASSIGN_OR_RETURN(Value most, fill(wide, limit_));
    ASSIGN_OR_RETURN(s, b_.Binary(Opcode::kMinimum, s, most));
    ASSIGN_OR_RETURN(Computation * add, MakeScalarBinaryComputation(b_.module(), Opcode::kAdd, wide));
    ASSIGN_OR_RETURN(Value zero, b_.Constant(Literal::ScalarInt(wide, 0)));
    Window window;
    window.dimensions.resize(2);
    window.dimensions[1].size = groups_;
    window.dimensions[1].padding_low = groups_ - 1;
    Attributes attrs;
    attrs.Set(AttrId::kWindow, std::move(window));
    ASSIGN_OR_RETURN(s, b_.Op(Opcode::kReduceWindow, {s, zero}, std::move(attrs), {add}));
    ASSIGN_OR_RETURN(s, b_.Binary(Opcode::kMinimum, s, most));
    ASSIGN_OR_RETURN(ends_, b_.Convert(s, PrimitiveType::kS32));
    return absl::OkStatus();
  }

  int64_t Block() const {
    int64_t block = 16;
    while (block < 128 && block * groups_ < limit_) block *= 2;
    return std::min(block, limit_);
  }

  // The position of an iteration.
  struct BlockPosition {
    Value zero, cell, start, group;  // s32[]; start: first row of the block
    Value next_cell, next_row;
    Value rows;  // pred[block]: rows of this group that no earlier iteration computed
  };

  absl::StatusOr<BlockPosition> FindBlock(Builder& b, Value cell, Value row, Value ends, int64_t block) {
    BlockPosition p;
    p.cell = cell;
    ASSIGN_OR_RETURN(p.zero, Number(b, 0));
    ASSIGN_OR_RETURN(Value one, Number(b, 1));
    ASSIGN_OR_RETURN(Value mine, SliceAt(b, ends, {cell, p.zero}, {1, groups_}));
    ASSIGN_OR_RETURN(mine, b.Reshape(mine, {groups_}));
    ASSIGN_OR_RETURN(Value here, b.BroadcastInDim(row, {groups_}, {}));
    ASSIGN_OR_RETURN(Value over, b.Compare(mine, here, ComparisonDirection::kLe));
    ASSIGN_OR_RETURN(over, b.Convert(over, PrimitiveType::kS32));
    ASSIGN_OR_RETURN(Computation * add, MakeScalarBinaryComputation(b.module(), Opcode::kAdd, PrimitiveType::kS32));
    ASSIGN_OR_RETURN(Computation * most,
                     MakeScalarBinaryComputation(b.module(), Opcode::kMaximum, PrimitiveType::kS32));
    ASSIGN_OR_RETURN(Value group, b.Reduce({over}, {p.zero}, add, {0}));
    ASSIGN_OR_RETURN(Value total, b.Reduce({mine}, {p.zero}, most, {0}));
    ASSIGN_OR_RETURN(Value last, Number(b, groups_ - 1));
    ASSIGN_OR_RETURN(p.group, b.Binary(Opcode::kMinimum, group, last));
    ASSIGN_OR_RETURN(Value end, SliceAt(b, mine, {p.group}, {1}));
    ASSIGN_OR_RETURN(end, b.Reshape(end, {}));
    ASSIGN_OR_RETURN(Value last_start, Number(b, limit_ - block));
    ASSIGN_OR_RETURN(p.start, b.Binary(Opcode::kMinimum, row, last_start));
    ASSIGN_OR_RETURN(Value size, Number(b, block));
    ASSIGN_OR_RETURN(Value behind, b.Binary(Opcode::kAdd, p.start, size));
    ASSIGN_OR_RETURN(end, b.Binary(Opcode::kMinimum, end, behind));
    ASSIGN_OR_RETURN(Value numbers, b.Iota(Shape(PrimitiveType::kS32, {block}), 0));
    auto broadcast = [&](Value v) { return b.BroadcastInDim(v, {block}, {}); };
    ASSIGN_OR_RETURN(Value from, broadcast(p.start));
    ASSIGN_OR_RETURN(numbers, b.Binary(Opcode::kAdd, numbers, from));
    ASSIGN_OR_RETURN(Value low, broadcast(row));
    ASSIGN_OR_RETURN(Value high, broadcast(end));
    ASSIGN_OR_RETURN(low, b.Compare(numbers, low, ComparisonDirection::kGe));
    ASSIGN_OR_RETURN(high, b.Compare(numbers, high, ComparisonDirection::kLt));
    ASSIGN_OR_RETURN(p.rows, b.Binary(Opcode::kAnd, low, high));
    ASSIGN_OR_RETURN(Value done, b.Compare(end, total, ComparisonDirection::kGe));
    ASSIGN_OR_RETURN(Value next, b.Binary(Opcode::kAdd, cell, one));
    ASSIGN_OR_RETURN(p.next_cell, b.Select(done, next, cell));
    ASSIGN_OR_RETURN(p.next_row, b.Select(done, p.zero, end));
    return p;
  }

  Ints FreeDims(const Shape& s, const Ints& batch, const Ints& contracting, absl::Span<const int64_t> other) const {
    Ints free;
    for (int64_t d = 0; d < s.rank(); ++d) {
      if (!absl::c_linear_search(batch, d) && !absl::c_linear_search(contracting, d) &&
          !absl::c_linear_search(other, d))
        free.push_back(d);
    }
    return free;
  }

  // Returns the array, whose dimensions are numbered by `order`, with the dimensions in the order of the result.
  absl::StatusOr<Value> RestoreOrder(Value x, const Ints& order) {
    std::vector<int64_t> dims;
    for (int64_t d : order) dims.push_back(i_->shape().dimensions(d));
    ASSIGN_OR_RETURN(Value r, b_.Reshape(x, dims));
    Ints back(order.size());
    for (size_t k = 0; k < order.size(); ++k) back[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
    return b_.Transpose(r, back);
  }

  absl::StatusOr<Value> Cells() { return Number(b_, cells_); }

  // lhs [B, rows, F, K], rhs [G, B, K, N], result [B, rows, F, N].
  absl::StatusOr<Value> Free(Value lhs, Value rhs) {
    const DotDimensions& d = dims_.dot;
    const Ints f = FreeDims(lhs->shape(), d.lhs_batch, d.lhs_contracting, dims_.lhs_ragged);
    const Ints n = FreeDims(rhs->shape(), d.rhs_batch, d.rhs_contracting, dims_.rhs_group);
    ASSIGN_OR_RETURN(Value l, GroupDimensions(b_, lhs, {d.lhs_batch, dims_.lhs_ragged, f, d.lhs_contracting}));
    ASSIGN_OR_RETURN(Value r, GroupDimensions(b_, rhs, {dims_.rhs_group, d.rhs_batch, d.rhs_contracting, n}));
    const int64_t batch = l->shape().dimensions(0), others = l->shape().dimensions(2), k = l->shape().dimensions(3),
                  columns = r->shape().dimensions(3);
    const int64_t mine = batch / cells_, block = Block();
    ASSIGN_OR_RETURN(Value out, Fill(b_, type_, 0, {batch, limit_, others, columns}));
    ASSIGN_OR_RETURN(Value row, Number(b_, 0));
    ASSIGN_OR_RETURN(Value limit, Cells());
    auto iterate = [&](LoopIteration& it) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(BlockPosition p, FindBlock(it.b, it.count, it.state[0], it.constants[2], block));
      ASSIGN_OR_RETURN(Value a,
                       SliceAt(it.b, it.constants[0], {p.cell, p.start, p.zero, p.zero}, {mine, block, others, k}));
      ASSIGN_OR_RETURN(Value m,
                       SliceAt(it.b, it.constants[1], {p.group, p.cell, p.zero, p.zero}, {1, mine, k, columns}));
      ASSIGN_OR_RETURN(m, it.b.Reshape(m, {mine, k, columns}));
      ASSIGN_OR_RETURN(Value product, it.b.Dot(a, m, DotDimensions{{0}, {0}, {3}, {1}}, type_, Precision()));
      ASSIGN_OR_RETURN(Value old,
                       SliceAt(it.b, it.state[1], {p.cell, p.start, p.zero, p.zero}, {mine, block, others, columns}));
      ASSIGN_OR_RETURN(Value rows, it.b.BroadcastInDim(p.rows, {mine, block, others, columns}, {1}));
      ASSIGN_OR_RETURN(Value now, it.b.Select(rows, product, old));
      ASSIGN_OR_RETURN(it.state[1], UpdateAt(it.b, it.state[1], now, {p.cell, p.start, p.zero, p.zero}));
      it.state[0] = p.next_row;
      return p.next_cell;
    };
    ASSIGN_OR_RETURN(std::vector<Value> after, MakeLoop(b_, "ragged_dot", limit, {l, r, ends_}, {row, out}, iterate));
    // The result has the free dimensions of lhs in order, including the ragged one.
    Ints order;
    const int64_t batches = static_cast<int64_t>(d.lhs_batch.size());
    for (int64_t i = 0; i < batches; ++i) order.push_back(i);
    int64_t before = 0;
    for (int64_t i : f) before += i < dims_.lhs_ragged[0] ? 1 : 0;
    order.push_back(batches + before);
    for (int64_t i = 0; i < static_cast<int64_t>(f.size()); ++i) order.push_back(batches + i + (i >= before ? 1 : 0));
    for (int64_t i = batches + 1 + static_cast<int64_t>(f.size()); i < i_->shape().rank(); ++i) order.push_back(i);
    return RestoreOrder(after[1], order);
  }

  // lhs [B, rows, K, M], rhs [B, rows, K, N], result [G, B, M, N]: adds up the blocks of each group.
  absl::StatusOr<Value> Contracting(Value lhs, Value rhs) {
    const DotDimensions& d = dims_.dot;
    const size_t position = static_cast<size_t>(
        std::find(d.lhs_contracting.begin(), d.lhs_contracting.end(), dims_.lhs_ragged[0]) - d.lhs_contracting.begin());
    Ints lk = d.lhs_contracting, rk = d.rhs_contracting;
    const Ints right = {rk[position]};
    lk.erase(lk.begin() + static_cast<int64_t>(position));
    rk.erase(rk.begin() + static_cast<int64_t>(position));
    ASSIGN_OR_RETURN(Value l, GroupDimensions(b_, lhs,
                                              {d.lhs_batch, dims_.lhs_ragged, lk,
                                               FreeDims(lhs->shape(), d.lhs_batch, d.lhs_contracting, {})}));
    ASSIGN_OR_RETURN(
        Value r,
        GroupDimensions(b_, rhs, {d.rhs_batch, right, rk, FreeDims(rhs->shape(), d.rhs_batch, d.rhs_contracting, {})}));
    const int64_t batch = l->shape().dimensions(0), k = l->shape().dimensions(2), m = l->shape().dimensions(3),
                  n = r->shape().dimensions(3);
    const int64_t mine = batch / cells_, block = Block();
    const bool narrow = IsFloat(type_) && BitWidth(type_) < 32;
    const PrimitiveType sum = narrow ? PrimitiveType::kF32 : type_;
    ASSIGN_OR_RETURN(Value out, Fill(b_, sum, 0, {groups_, batch, m, n}));
    ASSIGN_OR_RETURN(Value row, Number(b_, 0));
    ASSIGN_OR_RETURN(Value limit, Cells());
    auto iterate = [&](LoopIteration& it) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(BlockPosition p, FindBlock(it.b, it.count, it.state[0], it.constants[2], block));
      std::vector<Value> sides;
      for (int side = 0; side < 2; ++side) {
        const std::vector<int64_t> sizes = {mine, block, k, side == 0 ? m : n};
        ASSIGN_OR_RETURN(
            Value a, SliceAt(it.b, it.constants[static_cast<size_t>(side)], {p.cell, p.start, p.zero, p.zero}, sizes));
        ASSIGN_OR_RETURN(Value zero, Fill(it.b, a->shape().element_type(), 0, sizes));
        ASSIGN_OR_RETURN(Value rows, it.b.BroadcastInDim(p.rows, sizes, {1}));
        ASSIGN_OR_RETURN(a, it.b.Select(rows, a, zero));
        sides.push_back(a);
      }
      ASSIGN_OR_RETURN(Value product,
                       it.b.Dot(sides[0], sides[1], DotDimensions{{0}, {0}, {1, 2}, {1, 2}}, sum, Precision()));
      ASSIGN_OR_RETURN(product, it.b.Reshape(product, {1, mine, m, n}));
      ASSIGN_OR_RETURN(Value old, SliceAt(it.b, it.state[1], {p.group, p.cell, p.zero, p.zero}, {1, mine, m, n}));
      ASSIGN_OR_RETURN(Value now, it.b.Binary(Opcode::kAdd, old, product));
      ASSIGN_OR_RETURN(it.state[1], UpdateAt(it.b, it.state[1], now, {p.group, p.cell, p.zero, p.zero}));
      it.state[0] = p.next_row;
      return p.next_cell;
    };
    ASSIGN_OR_RETURN(std::vector<Value> after, MakeLoop(b_, "ragged_dot", limit, {l, r, ends_}, {row, out}, iterate));
    ASSIGN_OR_RETURN(Value result, b_.Convert(after[1], type_));
    return b_.Reshape(result, i_->shape().dimensions());
  }

  // If the ragged dimension is a batch dimension: a plain dot, with zeros in rows that belong to no group.
  absl::StatusOr<Value> InBatch(Value lhs, Value rhs) {
    const Ints& batch = dims_.dot.lhs_batch;
    const int64_t position = std::find(batch.begin(), batch.end(), dims_.lhs_ragged[0]) - batch.begin();
    ASSIGN_OR_RETURN(Value product, b_.Dot(lhs, rhs, dims_.dot, type_, Precision()));
    ASSIGN_OR_RETURN(Computation * most,
                     MakeScalarBinaryComputation(b_.module(), Opcode::kMaximum, PrimitiveType::kS32));
    ASSIGN_OR_RETURN(Value zero, Number(b_, 0));
    ASSIGN_OR_RETURN(Value total, b_.Reduce({ends_}, {zero}, most, {0, 1}));
    ASSIGN_OR_RETURN(Value numbers, b_.Iota(Shape(PrimitiveType::kS32, {limit_}), 0));
    ASSIGN_OR_RETURN(total, b_.BroadcastInDim(total, {limit_}, {}));
    ASSIGN_OR_RETURN(Value used, b_.Compare(numbers, total, ComparisonDirection::kLt));
    ASSIGN_OR_RETURN(used, b_.BroadcastInDim(used, i_->shape().dimensions(), {position}));
    ASSIGN_OR_RETURN(Value nothing, Fill(b_, type_, 0, i_->shape().dimensions()));
    return b_.Select(used, product, nothing);
  }

  const Precisions& Precision() const { return i_->attrs().Get<Precisions>(AttrId::kOperandPrecision); }

  const Instruction* i_;
  const RaggedDotDimensions& dims_;
  Builder b_;
  Value ends_ = nullptr;
  int64_t limit_ = 0, groups_ = 0, cells_ = 1;
  PrimitiveType type_ = PrimitiveType::kInvalid;
};

// Rounds values, scales and their products to bf16, then computes a dot.
absl::StatusOr<const Computation*> ScaledDot(const Instruction* i) {
  Builder b(i->parent()->parent(), "scaled_dot");
  b.set_metadata(i->metadata());
  std::vector<Value> x;
  for (int64_t k = 0; k < 4; ++k) {
    ASSIGN_OR_RETURN(Value p, b.Parameter(k, i->operand(k)->shape().WithoutLayout()));
    ASSIGN_OR_RETURN(p, b.Convert(p, PrimitiveType::kBF16));
    x.push_back(p);
  }
  std::vector<Value> sides;
  for (size_t side = 0; side < 2; ++side) {
    const Shape &values = x[side]->shape(), &scales = x[2 + side]->shape();
    std::vector<int64_t> spread, kept;
    for (int64_t d = 0; d < values.rank(); ++d) {
      kept.push_back(static_cast<int64_t>(spread.size()));
      spread.push_back(scales.dimensions(d));
      if (scales.dimensions(d) != values.dimensions(d)) spread.push_back(values.dimensions(d) / scales.dimensions(d));
    }
    ASSIGN_OR_RETURN(Value s, b.BroadcastInDim(x[2 + side], spread, kept));
    ASSIGN_OR_RETURN(s, b.Reshape(s, values.dimensions()));
    ASSIGN_OR_RETURN(s, b.Binary(Opcode::kMultiply, x[side], s));
    sides.push_back(s);
  }
  const PrimitiveType t = i->shape().element_type(), sum = BitWidth(t) < 32 ? PrimitiveType::kF32 : t;
  ASSIGN_OR_RETURN(Value r, b.Dot(sides[0], sides[1], i->attrs().Get<DotDimensions>(AttrId::kDotDims), sum));
  ASSIGN_OR_RETURN(r, b.Convert(r, t));
  return b.Build(r);
}

}  // namespace

absl::StatusOr<bool> ExpandDots::Run(Module* module) {
  return RewriteEach(module, [](Computation*, Instruction* i) -> absl::StatusOr<bool> {
    const Computation* body = nullptr;
    if (i->Is(Opcode::kRaggedDot)) {
      ASSIGN_OR_RETURN(body, RaggedDot(i).Run());
    } else if (i->Is(Opcode::kScaledDot)) {
      ASSIGN_OR_RETURN(body, ScaledDot(i));
    } else {
      return false;
    }
    ReplaceByInlined(i, body);
    return true;
  });
}

}  // namespace backplane
