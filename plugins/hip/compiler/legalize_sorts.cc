#include "plugins/hip/compiler/legalize_sorts.h"

#include <cstring>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ir/builder.h"
#include "core/ir/ops/indexing.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/sort_kernel.h"
#include "plugins/hip/compiler/sort_order.h"
#include "plugins/hip/compiler/top_k_kernel.h"

namespace backplane::hip {
namespace {

constexpr int64_t kPart = 2048;     // elements of a row that a top-k sorts at first
constexpr int64_t kMinSide = 16;    // of a matrix that is transposed to sort its columns
constexpr int64_t kMaxPartOfK = 4;  // k is at most this fraction of a part

int64_t SortDimension(const Instruction& sort) {
  return sort.dimensions().empty() ? sort.operand(0)->shape().rank() - 1 : sort.dimensions()[0];
}

absl::StatusOr<Value> Sort(Builder& b, std::vector<Value> operands, Computation* comparator, int64_t dimension) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dimension});
  attrs.Set(AttrId::kIsStable, false);
  return b.Op(Opcode::kSort, std::move(operands), std::move(attrs), {comparator});
}

// ---- Stable sorts.

PrimitiveType PositionType(int64_t length) {
  return length <= std::numeric_limits<int32_t>::max() ? PrimitiveType::kS32 : PrimitiveType::kS64;
}

// The operand that numbers the elements of each row, or -1.
int64_t FindPositions(const Instruction& sort) {
  const int64_t d = SortDimension(sort);
  for (int64_t k = 0; k < sort.operand_count(); ++k) {
    const Instruction* x = sort.operand(k);
    const PrimitiveType t = x->shape().element_type();
    if (!x->Is(Opcode::kIota) || x->attrs().GetInt(AttrId::kIotaDimension) != d || !IsIntegral(t)) continue;
    const int bits = BitWidth(t) - (IsSigned(t) ? 1 : 0);
    if (bits >= 63 || x->shape().dimensions(d) <= int64_t{1} << bits) return k;
  }
  return -1;
}

// Orders by `comparator`, and equal elements by operand `positions`. Precedes(a, b) is not Precedes(b, a) if a has the
// smaller position, so one call of the comparator decides.
absl::StatusOr<Computation*> StableComparator(Module* module, const Instruction& sort,
                                              const std::vector<Value>& operands, size_t positions) {
  Builder b(module, "stable");
  std::vector<Value> left, right;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Shape scalar = Shape::Scalar(operands[k]->shape().element_type());
    ASSIGN_OR_RETURN(Value x, b.Parameter(static_cast<int64_t>(2 * k), scalar));
    ASSIGN_OR_RETURN(Value y, b.Parameter(static_cast<int64_t>(2 * k + 1), scalar));
    left.push_back(x);
    right.push_back(y);
  }
  ASSIGN_OR_RETURN(Value before, b.Compare(left[positions], right[positions], ComparisonDirection::kLt));
  std::vector<Instruction*> arguments;
  for (size_t k = 0; k < static_cast<size_t>(sort.operand_count()); ++k) {
    ASSIGN_OR_RETURN(Value later, b.Select(before, right[k], left[k]));
    ASSIGN_OR_RETURN(Value earlier, b.Select(before, left[k], right[k]));
    arguments.push_back(later);
    arguments.push_back(earlier);
  }
  ASSIGN_OR_RETURN(Value root, b.Binary(Opcode::kXor, Inline(b.computation(), sort.called(0), arguments), before));
  return b.Build(root);
}

absl::StatusOr<Value> StableSort(Builder& b, const Instruction& sort, std::vector<Value> x) {
  if (x[0]->shape().rank() == 0) return x.size() == 1 ? x[0] : b.Tuple(x);
  if (!sort.attrs().GetBool(AttrId::kIsStable) || DistinguishesAll(sort) || KeepsOrderOfEquals(sort)) return nullptr;
  const int64_t d = SortDimension(sort);
  const size_t count = x.size();
  int64_t positions = FindPositions(sort);
  if (positions < 0) {
    const Shape& shape = x[0]->shape();
    ASSIGN_OR_RETURN(Value iota, b.Iota(shape.WithElementType(PositionType(shape.dimensions(d))), d));
    positions = static_cast<int64_t>(count);
    x.push_back(iota);
  }
  ASSIGN_OR_RETURN(Computation * comparator, StableComparator(b.module(), sort, x, static_cast<size_t>(positions)));
  ASSIGN_OR_RETURN(Value sorted, Sort(b, x, comparator, d));
  if (x.size() == count) return sorted;
  std::vector<Value> results;
  for (size_t k = 0; k < count; ++k) {
    ASSIGN_OR_RETURN(Value r, b.GetTupleElement(sorted, static_cast<int64_t>(k)));
    results.push_back(r);
  }
  return count == 1 ? results[0] : b.Tuple(results);
}

// Sorts along the last dimension between two transposes. Otherwise a block would read memory with strides.
absl::StatusOr<Value> SortAlongLast(Builder& b, const Instruction& sort, std::vector<Value> x) {
  const Shape& shape = x[0]->shape();
  const int64_t d = SortDimension(sort), last = shape.rank() - 1;
  if (shape.rank() < 2 || d == last || shape.num_elements() == 0) return nullptr;
  int64_t stride = 1;
  for (int64_t e = d + 1; e <= last; ++e) stride *= shape.dimensions(e);
  if (stride < kMinSide || shape.dimensions(d) < kMinSide) return nullptr;
  Ints order;
  for (int64_t e = 0; e <= last; ++e) order.push_back(e);
  std::swap(order[static_cast<size_t>(d)], order.back());
  for (Value& v : x) {
    ASSIGN_OR_RETURN(v, b.Transpose(v, order));
  }
  Attributes attrs = sort.attrs();
  attrs.Set(AttrId::kDimensions, Ints{last});
  ASSIGN_OR_RETURN(Value sorted, b.Op(Opcode::kSort, x, std::move(attrs), {sort.called(0)}));
  if (x.size() == 1) return b.Transpose(sorted, order);
  std::vector<Value> results;
  for (size_t k = 0; k < x.size(); ++k) {
    ASSIGN_OR_RETURN(Value r, b.GetTupleElement(sorted, static_cast<int64_t>(k)));
    ASSIGN_OR_RETURN(r, b.Transpose(r, order));
    results.push_back(r);
  }
  return b.Tuple(results);
}

// ---- Top-k.

// The value that no other follows: floats in total order.
Literal LastValue(PrimitiveType t, bool largest) {
  Literal value(Shape::Scalar(t));
  if (IsFloat(t)) {
    // All ones is the NaN that precedes all; without the sign, the one that follows all.
    std::memset(value.mutable_bytes(), 0xff, static_cast<size_t>(value.byte_size()));
    if (!largest) value.mutable_bytes()[value.byte_size() - 1] = std::byte{0x7f};
    return value;
  }
  const int bits = t == PrimitiveType::kPred ? 1 : BitWidth(t);
  const bool is_signed = IsSigned(t);
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (largest) return Literal::ScalarInt(t, is_signed ? -static_cast<int64_t>(all >> 1) - 1 : 0);
  return Literal::ScalarInt(t, static_cast<int64_t>(is_signed ? all >> 1 : all));
}

absl::StatusOr<Computation*> TopKComparator(Module* module, PrimitiveType t, bool largest) {
  Builder b(module, "top_k");
  std::vector<Value> p;
  for (int64_t k = 0; k < 4; ++k) {
    ASSIGN_OR_RETURN(Value v, b.Parameter(k, Shape::Scalar(k < 2 ? t : PrimitiveType::kS32)));
    p.push_back(v);
  }
  std::optional<ComparisonType> type;
  if (IsFloat(t)) type = ComparisonType::kTotalOrder;
  ASSIGN_OR_RETURN(Value precedes,
                   b.Compare(p[0], p[1], largest ? ComparisonDirection::kGt : ComparisonDirection::kLt, type));
  ASSIGN_OR_RETURN(Value equal, b.Compare(p[0], p[1], ComparisonDirection::kEq, type));
  ASSIGN_OR_RETURN(Value before, b.Compare(p[2], p[3], ComparisonDirection::kLt));
  ASSIGN_OR_RETURN(Value tie, b.Binary(Opcode::kAnd, equal, before));
  ASSIGN_OR_RETURN(Value root, b.Binary(Opcode::kOr, precedes, tie));
  return b.Build(root);
}

DimVector WithLast(absl::Span<const int64_t> dims, std::initializer_list<int64_t> last) {
  DimVector changed(dims.begin(), dims.end() - 1);
  changed.insert(changed.end(), last.begin(), last.end());
  return changed;
}

// Sorts along the last dimension and keeps the first k.
absl::StatusOr<std::pair<Value, Value>> SortAndKeep(Builder& b, Value values, Value positions, Computation* comparator,
                                                    int64_t k) {
  const Shape& shape = values->shape();
  ASSIGN_OR_RETURN(Value sorted, Sort(b, {values, positions}, comparator, shape.rank() - 1));
  SliceConfig slices;
  for (const int64_t n : shape.dimensions()) slices.push_back({0, n, 1});
  slices.back().limit = k;
  std::vector<Value> kept;
  for (int64_t e = 0; e < 2; ++e) {
    ASSIGN_OR_RETURN(Value v, b.GetTupleElement(sorted, e));
    ASSIGN_OR_RETURN(v, b.Slice(v, slices));
    kept.push_back(v);
  }
  return std::pair(kept[0], kept[1]);
}

absl::StatusOr<Value> PadLast(Builder& b, Value x, int64_t count, Literal fill) {
  if (count == 0) return x;
  ASSIGN_OR_RETURN(Value value, b.Constant(std::move(fill)));
  PaddingConfig config(static_cast<size_t>(x->shape().rank()));
  config.back().high = count;
  return b.Pad(x, value, std::move(config));
}

// Finds the best k of parts of each row, and then the best k of those. Of equal elements the ones of earlier parts come
// first, so the second top-k keeps the order of positions.
absl::StatusOr<Value> TopKOfParts(Builder& b, const Instruction& top_k, Value x) {
  const PrimitiveType t = x->shape().element_type();
  const int64_t k = top_k.attrs().GetInt(AttrId::kK), n = x->shape().dimensions(x->shape().rank() - 1);
  const int64_t rows = x->shape().num_elements() / n, parts = CeilDiv(n, kPart);
  const bool largest = !top_k.attrs().Has(AttrId::kLargest) || top_k.attrs().GetBool(AttrId::kLargest);
  ASSIGN_OR_RETURN(x, b.Reshape(x, {rows, n}));
  ASSIGN_OR_RETURN(x, PadLast(b, x, parts * kPart - n, LastValue(t, largest)));
  ASSIGN_OR_RETURN(x, b.Reshape(x, {rows * parts, kPart}));
  ASSIGN_OR_RETURN(Value first, b.Op(Opcode::kTopK, {x}, top_k.attrs()));
  ASSIGN_OR_RETURN(Value values, b.GetTupleElement(first, 0));
  ASSIGN_OR_RETURN(Value positions, b.GetTupleElement(first, 1));
  ASSIGN_OR_RETURN(values, b.Reshape(values, {rows, parts * k}));
  ASSIGN_OR_RETURN(positions, b.Reshape(positions, {rows, parts, k}));
  const Shape shape = positions->shape();
  ASSIGN_OR_RETURN(Value part, b.Iota(shape, 1));
  ASSIGN_OR_RETURN(Value size, b.Constant(Literal::ScalarInt(PrimitiveType::kS32, kPart)));
  ASSIGN_OR_RETURN(Value sizes, b.BroadcastInDim(size, shape.dimensions(), {}));
  ASSIGN_OR_RETURN(Value offset, b.Binary(Opcode::kMultiply, part, sizes));
  ASSIGN_OR_RETURN(positions, b.Binary(Opcode::kAdd, positions, offset));
  ASSIGN_OR_RETURN(positions, b.Reshape(positions, {rows, parts * k}));
  ASSIGN_OR_RETURN(Value second, b.Op(Opcode::kTopK, {values}, top_k.attrs()));
  ASSIGN_OR_RETURN(values, b.GetTupleElement(second, 0));
  ASSIGN_OR_RETURN(Value chosen, b.GetTupleElement(second, 1));
  ASSIGN_OR_RETURN(chosen, b.Reshape(chosen, {rows, k, 1}));
  GatherDimensions dims;
  dims.collapsed_slice_dims = {1}, dims.start_index_map = {1};
  dims.operand_batching_dims = {0}, dims.start_indices_batching_dims = {0};
  dims.index_vector_dim = 2;
  ASSIGN_OR_RETURN(positions, hlo::Gather(b, positions, chosen, dims, {1, 1}));
  const DimVector result = WithLast(top_k.operand(0)->shape().dimensions(), {k});
  ASSIGN_OR_RETURN(values, b.Reshape(values, result));
  ASSIGN_OR_RETURN(positions, b.Reshape(positions, result));
  return b.Tuple({values, positions});
}

absl::StatusOr<Value> TopK(Builder& b, const Instruction& top_k, std::vector<Value> x) {
  const PrimitiveType t = x[0]->shape().element_type();
  const int64_t k = top_k.attrs().GetInt(AttrId::kK);
  const bool largest = !top_k.attrs().Has(AttrId::kLargest) || top_k.attrs().GetBool(AttrId::kLargest);
  ASSIGN_OR_RETURN(Computation * comparator, TopKComparator(b.module(), t, largest));
  Value values = x[0];
  const int64_t last = values->shape().rank() - 1, row = values->shape().dimensions(last);
  if (IsTopKType(t) && values->shape().num_elements() > 0 && k > 0) {
    if (row <= kMaxTopKRow) return nullptr;  // it has a kernel
    if (k * kMaxPartOfK <= kPart && row <= std::numeric_limits<int32_t>::max() - kPart)
      return TopKOfParts(b, top_k, x[0]);
  }
  if (values->shape().dimensions(last) > std::numeric_limits<int32_t>::max()) return nullptr;  // no position fits
  ASSIGN_OR_RETURN(Value positions, b.Iota(values->shape().WithElementType(PrimitiveType::kS32), last));
  for (int64_t n = values->shape().dimensions(last); n > kPart && k * kMaxPartOfK <= kPart;) {
    // Positions past the end lose against all elements.
    const int64_t parts = CeilDiv(n, kPart);
    ASSIGN_OR_RETURN(values, PadLast(b, values, parts * kPart - n, LastValue(t, largest)));
    ASSIGN_OR_RETURN(positions, PadLast(b, positions, parts * kPart - n,
                                        Literal::ScalarInt(PrimitiveType::kS32, std::numeric_limits<int32_t>::max())));
    const DimVector split = WithLast(values->shape().dimensions(), {parts, kPart});
    const DimVector joined = WithLast(values->shape().dimensions(), {parts * k});
    ASSIGN_OR_RETURN(values, b.Reshape(values, split));
    ASSIGN_OR_RETURN(positions, b.Reshape(positions, split));
    ASSIGN_OR_RETURN(std::tie(values, positions), SortAndKeep(b, values, positions, comparator, k));
    ASSIGN_OR_RETURN(values, b.Reshape(values, joined));
    ASSIGN_OR_RETURN(positions, b.Reshape(positions, joined));
    n = parts * k;
  }
  ASSIGN_OR_RETURN(std::tie(values, positions), SortAndKeep(b, values, positions, comparator, k));
  return b.Tuple({values, positions});
}

}  // namespace

absl::StatusOr<bool> LegalizeSorts::Run(Module* module) {
  bool changed = false;
  // The best elements of the parts of a long row may be many again.
  for (bool again = true; again;) {
    auto top_k = [](const Instruction& i) { return i.Is(Opcode::kTopK); };
    ASSIGN_OR_RETURN(again,
                     ReplaceEach(module, "top_k", top_k, [](Builder& b, const Instruction& i, std::vector<Value> x) {
                       return TopK(b, i, std::move(x));
                     }));
    changed |= again;
  }
  auto sort = [](const Instruction& i) { return i.Is(Opcode::kSort); };
  ASSIGN_OR_RETURN(const bool moved, ReplaceEach(module, "sorted_along_last", sort,
                                                 [](Builder& b, const Instruction& i, std::vector<Value> x) {
                                                   return SortAlongLast(b, i, std::move(x));
                                                 }));
  ASSIGN_OR_RETURN(const bool sorts,
                   ReplaceEach(module, "sorted", sort, [](Builder& b, const Instruction& i, std::vector<Value> x) {
                     return StableSort(b, i, std::move(x));
                   }));
  return changed || moved || sorts;
}

}  // namespace backplane::hip
