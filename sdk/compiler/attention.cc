#include "sdk/compiler/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "core/passes/rewrite.h"
#include "sdk/compiler/strided_view.h"

namespace backplane::compiler {
namespace {

constexpr int kMostOperations = 16;
constexpr int64_t kMostItems = 1 << 16;
constexpr int64_t kLargestIndex = int64_t{1} << 30;  // sums of such numbers do not wrap in s32
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The axes of the scores and, behind them, the depth or width. An array has one for each of its dimensions, kNone for
// dimensions of one element.
using Axis = int;
using Axes = std::vector<Axis>;
constexpr Axis kNone = -1;
constexpr Axis kInner = 1000;

bool IsAttentionType(const Instruction& i) {
  const PrimitiveType t = i.shape().element_type();
  return t == PrimitiveType::kF32 || t == PrimitiveType::kBF16 || t == PrimitiveType::kF16;
}

bool IsPlain(const Instruction& i) {
  return i.shape().IsArray() && !i.shape().HasDynamicDimensions() && i.control_predecessors().empty() &&
         !i.result_accuracy();
}

bool IsConversion(const Instruction& i) {
  return i.Is(Opcode::kConvert) && IsAttentionType(i) && IsAttentionType(*i.operand(0));
}

Instruction* SkipConversions(Instruction* i) {
  while (IsConversion(*i)) i = i->operand(0);
  return i;
}

std::optional<double> UniformValue(const Instruction* i) {
  const Literal* value = FindUniformConstant(i);
  return value == nullptr ? std::nullopt : std::optional(value->GetAsDouble(0));
}

// Moves the axes that are not kNone to the dimensions of another shape that differs only in dimensions of one element.
Axes Regroup(const Axes& axes, const Shape& shape) {
  Axes now;
  size_t next = 0;
  for (int64_t d : shape.dimensions()) {
    while (next < axes.size() && axes[next] == kNone) ++next;
    now.push_back(d == 1 || next == axes.size() ? kNone : axes[next++]);
  }
  return now;
}

// The axes of the operand of a conversion, a transpose or a unit reshape; nullopt for any other instruction.
std::optional<Axes> ToOperand(const Instruction& i, const Axes& axes) {
  if (IsConversion(i)) return axes;
  if (i.Is(Opcode::kReshape) && IsUnitReshape(i)) return Regroup(axes, i.operand(0)->shape());
  if (!i.Is(Opcode::kTranspose)) return std::nullopt;
  Axes operand(axes.size());
  for (size_t d = 0; d < axes.size(); ++d) operand[static_cast<size_t>(i.dimensions()[d])] = axes[d];
  return operand;
}

// Whether the two functions here accept it.
bool OnlyMoves(const Instruction& i) {
  return IsConversion(i) || i.Is(Opcode::kTranspose) || (i.Is(Opcode::kReshape) && IsUnitReshape(i));
}

std::optional<Axes> FromOperand(const Instruction& i, const Axes& axes) {
  if (IsConversion(i)) return axes;
  if (i.Is(Opcode::kReshape) && IsUnitReshape(i)) return Regroup(axes, i.shape());
  if (!i.Is(Opcode::kTranspose)) return std::nullopt;
  Axes now;
  for (int64_t d : i.dimensions()) now.push_back(axes[static_cast<size_t>(d)]);
  return now;
}

// What a dot does with the dimensions of one operand.
struct DotSide {
  Instruction* operand;
  const Ints& batch;
  const Ints& contracting;
  Ints free;
  DotSide(const Instruction& dot, int64_t k)
      : operand(dot.operand(k)),
        batch(k == 0 ? dot.dot_dims().lhs_batch : dot.dot_dims().rhs_batch),
        contracting(k == 0 ? dot.dot_dims().lhs_contracting : dot.dot_dims().rhs_contracting) {
    for (int64_t d = 0; d < operand->shape().rank(); ++d) {
      if (!absl::c_linear_search(batch, d) && !absl::c_linear_search(contracting, d)) free.push_back(d);
    }
  }
};

// An algorithm that asks for products less exact, or more, than those of the operands' types is not ours.
bool IsPlainProduct(const Instruction& dot) {
  if (!IsPlain(dot) || !IsAttentionType(dot) || !IsAttentionType(*dot.operand(0)) || !IsAttentionType(*dot.operand(1)))
    return false;
  if (!dot.attrs().Has(AttrId::kDotAlgorithm)) return true;
  const DotAlgorithm& a = dot.attrs().Get<DotAlgorithm>(AttrId::kDotAlgorithm);
  return a.primitive_operations == 1 && a.lhs_type == dot.operand(0)->shape().element_type() &&
         a.rhs_type == dot.operand(1)->shape().element_type();
}

class Matcher {
 public:
  explicit Matcher(Instruction* root) : root_(root) {}

  // `side`: the operand of the second product that has the softmax.
  std::optional<Attention> Match(int64_t side) {
    Instruction* second = root_;
    while (!second->Is(Opcode::kDot)) {
      if (!IsPlain(*second) || !OnlyMoves(*second)) return std::nullopt;
      second = second->operand(0);
    }
    if (!IsPlainProduct(*second) || !IsAttentionType(*root_)) return std::nullopt;
    a_.product = second;
    Instruction* quotient = second->operand(side);
    while (IsPlain(*quotient) && OnlyMoves(*quotient)) quotient = quotient->operand(0);
    if (!quotient->Is(Opcode::kDivide) || !MatchSoftmax(*quotient) || !MatchScores() || !MatchValues(*second, side) ||
        !Resolve())
      return std::nullopt;
    return std::move(a_);
  }

 private:
  // quotient = exp(x - max(x)) / sum(exp(x - max(x)))
  bool MatchSoftmax(const Instruction& quotient) {
    if (!IsPlain(quotient) || !IsAttentionType(quotient)) return false;
    exponential_ = SkipConversions(quotient.operand(0));
    if (!exponential_->Is(Opcode::kExp) || !IsPlain(*exponential_) || !IsAttentionType(*exponential_)) return false;
    const Instruction* difference = exponential_->operand(0);
    if (!difference->Is(Opcode::kSubtract) || !IsPlain(*difference)) return false;
    for (int64_t d : exponential_->shape().dimensions()) {
      score_axes_.push_back(d == 1 ? kNone : static_cast<Axis>(sizes_.size()));
      if (d != 1) sizes_.push_back(d);
    }
    return MatchReduction(difference->operand(1), difference->operand(0), Opcode::kMaximum) &&
           MatchReduction(quotient.operand(1), exponential_, Opcode::kAdd);
  }

  // `broadcast` has in each row the maximum or sum of that row of x.
  bool MatchReduction(Instruction* broadcast, Instruction* x, Opcode opcode) {
    if (!broadcast->Is(Opcode::kBroadcast)) return false;
    const Instruction* i = broadcast->operand(0);
    while (!i->Is(Opcode::kReduce)) {
      if (!IsPlain(*i)) return false;
      if (i->Is(Opcode::kMaximum) && opcode == Opcode::kMaximum) {  // with -inf
        const bool first = UniformValue(i->operand(0)) == -kInfinity;
        if (!first && UniformValue(i->operand(1)) != -kInfinity) return false;
        i = i->operand(first ? 1 : 0);
        continue;
      }
      if (!IsConversion(*i) && !(i->Is(Opcode::kReshape) && IsUnitReshape(*i))) return false;
      i = i->operand(0);
    }
    if (!IsPlain(*i) || i->operand_count() != 2 || !IsAttentionType(*i)) return false;
    // The reduced array and x are moves of the same array.
    Axes row_axes = score_axes_;
    while (IsPlain(*x) && OnlyMoves(*x)) {
      row_axes = *ToOperand(*x, row_axes);
      x = x->operand(0);
    }
    std::vector<const Instruction*> moves;
    const Instruction* reduced_array = i->operand(0);
    while (reduced_array != x && IsPlain(*reduced_array) && OnlyMoves(*reduced_array)) {
      moves.push_back(reduced_array);
      reduced_array = reduced_array->operand(0);
    }
    if (reduced_array != x) return false;
    for (auto m = moves.rbegin(); m != moves.rend(); ++m) row_axes = *FromOperand(**m, row_axes);
    const double identity = opcode == Opcode::kAdd ? 0 : -kInfinity;
    if (UniformValue(i->operand(1)) != identity) return false;
    const Instruction* combined = i->called(0)->root();
    if (!combined->Is(opcode) || !combined->operand(0)->Is(Opcode::kParameter) ||
        !combined->operand(1)->Is(Opcode::kParameter) || combined->operand(0) == combined->operand(1))
      return false;
    // All elements of a row, and nothing else, belong to one result.
    Axes axes;
    Axis reduced = kNone;
    for (size_t d = 0; d < row_axes.size(); ++d) {
      if (!absl::c_linear_search(i->dimensions(), static_cast<int64_t>(d))) {
        axes.push_back(row_axes[d]);
      } else if (row_axes[d] != kNone) {
        if (reduced != kNone) return false;
        reduced = row_axes[d];
      }
    }
    if (reduced == kNone || (key_axis_ != kNone && key_axis_ != reduced)) return false;
    key_axis_ = reduced;
    axes = Regroup(axes, broadcast->operand(0)->shape());
    Axes broadcast_axes(score_axes_.size(), kNone);
    for (size_t k = 0; k < broadcast->dimensions().size(); ++k)
      broadcast_axes[static_cast<size_t>(broadcast->dimensions()[k])] = axes[k];
    for (size_t d = 0; d < score_axes_.size(); ++d) {
      if (broadcast_axes[d] != (score_axes_[d] == key_axis_ ? kNone : score_axes_[d])) return false;
    }
    return true;
  }

  bool MatchScores() {
    const Instruction* difference = exponential_->operand(0);
    return DescendScores(difference->operand(0), score_axes_, 0) && MatchFirstProduct();
  }

  // Follows the scores from the softmax to the first product and collects the operations on the way back.
  bool DescendScores(Instruction* i, Axes axes, int depth) {
    if (depth > kMostOperations || !IsPlain(*i) || !IsAttentionType(*i)) return false;
    if (i->Is(Opcode::kDot)) {
      if (!IsPlainProduct(*i)) return false;
      a_.scores = i;
      product_axes_ = std::move(axes);
      AddRounding(*i);
      return true;
    }
    if (std::optional<Axes> operand = ToOperand(*i, axes)) {
      if (!DescendScores(i->operand(0), *operand, depth + 1)) return false;
      if (IsConversion(*i)) AddRounding(*i);
      return true;
    }
    switch (i->opcode()) {
      case Opcode::kMultiply:
        for (int64_t k : {0, 1}) {
          const std::optional<double> factor = UniformValue(i->operand(k));
          if (!factor || !DescendScores(i->operand(1 - k), axes, depth + 1)) continue;
          AddOperation(ScoreOperation::Kind::kScale, *factor);
          AddRounding(*i);
          return true;
        }
        return false;
      case Opcode::kDivide: {
        const std::optional<double> divisor = UniformValue(i->operand(1));
        if (!divisor || *divisor == 0 || !DescendScores(i->operand(0), axes, depth + 1)) return false;
        AddOperation(ScoreOperation::Kind::kScale, 1 / *divisor);
        AddRounding(*i);
        return true;
      }
      case Opcode::kAdd:
        for (int64_t k : {1, 0}) {
          if (!DescendScores(i->operand(1 - k), axes, depth + 1)) continue;
          AddOperation(ScoreOperation::Kind::kAdd, 0);
          arrays_.push_back({a_.operations.size() - 1, i->operand(k), std::move(axes)});
          AddRounding(*i);
          return IsAttentionType(*i->operand(k));
        }
        return false;
      case Opcode::kSelect: {
        if (i->operand(0)->shape().rank() != i->shape().rank()) return false;
        std::optional<double> value = UniformValue(i->operand(2));
        const bool keep = value.has_value();
        if (!keep) value = UniformValue(i->operand(1));
        if (!value || !DescendScores(i->operand(keep ? 1 : 2), axes, depth + 1)) return false;
        bands_.clear();
        AddMask(i->operand(0), axes, keep, *value, 0);
        for (Band& band : bands_) {
          operations_of_bands_.push_back({a_.operations.size(), band.row, band.mask, band.axes, band.keep});
          a_.operations.push_back(band.operation);
        }
        return true;
      }
      default:
        return false;
    }
  }

  ScoreOperation& AddOperation(ScoreOperation::Kind kind, double value) {
    a_.operations.push_back({});
    a_.operations.back().kind = kind;
    a_.operations.back().value = value;
    return a_.operations.back();
  }

  // Scores of a narrow type: a term may vanish beside a large negative one, which rows rely on that are masked as a
  // whole.
  void AddRounding(const Instruction& i) {
    if (i.shape().element_type() == PrimitiveType::kF16) AddOperation(ScoreOperation::Kind::kRoundF16, 0);
    if (i.shape().element_type() == PrimitiveType::kBF16) AddOperation(ScoreOperation::Kind::kRoundBf16, 0);
  }

  // A number that is the index along an axis plus an offset, or only the offset.
  struct Index {
    Axis axis = kNone;
    int64_t offset = 0;
  };

  static std::optional<Index> ParseIndex(const Instruction* i, Axes axes, int depth) {
    const PrimitiveType type = i->shape().element_type();
    if (depth > kMostOperations || !IsPlain(*i) || (type != PrimitiveType::kS32 && type != PrimitiveType::kS64))
      return std::nullopt;
    switch (i->opcode()) {
      case Opcode::kBroadcast: {
        Axes operand;
        for (int64_t d : i->dimensions()) operand.push_back(axes[static_cast<size_t>(d)]);
        return ParseIndex(i->operand(0), std::move(operand), depth + 1);
      }
      case Opcode::kReshape:
        if (!IsUnitReshape(*i)) return std::nullopt;
        return ParseIndex(i->operand(0), Regroup(axes, i->operand(0)->shape()), depth + 1);
      case Opcode::kConvert:
        return ParseIndex(i->operand(0), std::move(axes), depth + 1);
      case Opcode::kIota:
        return Index{axes[static_cast<size_t>(i->attrs().GetInt(AttrId::kIotaDimension))], 0};
      case Opcode::kConstant: {
        const Literal& values = i->literal();
        const int64_t count = i->shape().num_elements();
        if (count == 0 || std::abs(values.GetAsDouble(0)) > static_cast<double>(kLargestIndex / 2)) return std::nullopt;
        Index index{kNone, static_cast<int64_t>(values.GetAsDouble(0))};
        if (count == 1 || values.IsAllEqual()) return index;
        for (int64_t k = 1; k < count; ++k) {
          if (values.GetAsDouble(k) != static_cast<double>(index.offset + k)) return std::nullopt;
        }
        for (size_t d = 0; d < axes.size(); ++d) {
          if (i->shape().dimensions(static_cast<int64_t>(d)) == 1) continue;
          if (index.axis != kNone) return std::nullopt;  // of several dimensions
          index.axis = axes[d];
        }
        return index;
      }
      case Opcode::kAdd:
      case Opcode::kSubtract: {
        const std::optional<Index> l = ParseIndex(i->operand(0), axes, depth + 1),
                                   r = ParseIndex(i->operand(1), axes, depth + 1);
        if (!l || !r || (r->axis != kNone && (l->axis != kNone || i->Is(Opcode::kSubtract)))) return std::nullopt;
        const Index sum{l->axis != kNone ? l->axis : r->axis,
                        i->Is(Opcode::kAdd) ? l->offset + r->offset : l->offset - r->offset};
        return std::abs(sum.offset) <= kLargestIndex / 2 ? std::optional(sum) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  struct Band {
    ScoreOperation operation;
    Axis row;  // the axis of the queries
    // The mask itself, for the case that the axis becomes one of the items.
    Instruction* mask;
    Axes axes;
    bool keep;
  };

  // Scores for which the mask is not `keep` are replaced. Arrays are added at once, bands to bands_, because the order
  // of masks with one value does not matter, and bands at the end allow to skip keys.
  void AddMask(Instruction* mask, const Axes& axes, bool keep, double value, int depth) {
    if (depth < kMostOperations) {
      if (mask->Is(Opcode::kBroadcast)) {
        Axes operand;
        for (int64_t d : mask->dimensions()) operand.push_back(axes[static_cast<size_t>(d)]);
        return AddMask(mask->operand(0), operand, keep, value, depth + 1);
      }
      if (mask->Is(Opcode::kReshape) && IsUnitReshape(*mask))
        return AddMask(mask->operand(0), Regroup(axes, mask->operand(0)->shape()), keep, value, depth + 1);
      if (mask->Is(Opcode::kNot)) return AddMask(mask->operand(0), axes, !keep, value, depth + 1);
      if (mask->Is(keep ? Opcode::kAnd : Opcode::kOr)) {
        AddMask(mask->operand(0), axes, keep, value, depth + 1);
        return AddMask(mask->operand(1), axes, keep, value, depth + 1);
      }
    }
    if (std::optional<Band> band = ParseBand(mask, axes, keep, value)) {
      bands_.push_back(*std::move(band));
      return;
    }
    ScoreOperation& operation = AddOperation(ScoreOperation::Kind::kSelect, value);
    operation.keep = keep;
    arrays_.push_back({a_.operations.size() - 1, mask, axes});
  }

  std::optional<Band> ParseBand(Instruction* mask, const Axes& axes, bool keep, double value) const {
    if (!mask->Is(Opcode::kCompare) || !IsPlain(*mask)) return std::nullopt;
    std::optional<Index> l = ParseIndex(mask->operand(0), axes, 0), r = ParseIndex(mask->operand(1), axes, 0);
    if (!l || !r || l->axis == kNone || r->axis == kNone || (l->axis == key_axis_) == (r->axis == key_axis_))
      return std::nullopt;
    ComparisonDirection direction = mask->direction();
    auto replace = [&direction](ComparisonDirection (*f)(ComparisonDirection)) { direction = f(direction); };
    if (!keep) replace(&InvertDirection);
    if (l->axis == key_axis_) {
      std::swap(l, r);
      replace(&Mirrored);
    }
    // query + l.offset <direction> key + r.offset
    const int64_t difference = l->offset - r->offset;
    Band band{{}, l->axis, mask, axes, keep};
    band.operation.kind = ScoreOperation::Kind::kBand;
    band.operation.value = value;
    band.operation.low = -2 * kLargestIndex;
    band.operation.high = 2 * kLargestIndex;
    switch (direction) {
      case ComparisonDirection::kGe:
        band.operation.high = difference;
        return band;
      case ComparisonDirection::kGt:
        band.operation.high = difference - 1;
        return band;
      case ComparisonDirection::kLe:
        band.operation.low = difference;
        return band;
      case ComparisonDirection::kLt:
        band.operation.low = difference + 1;
        return band;
      default:
        return std::nullopt;
    }
  }

  static ComparisonDirection Mirrored(ComparisonDirection d) {
    switch (d) {
      case ComparisonDirection::kGe:
        return ComparisonDirection::kLe;
      case ComparisonDirection::kGt:
        return ComparisonDirection::kLt;
      case ComparisonDirection::kLe:
        return ComparisonDirection::kGe;
      case ComparisonDirection::kLt:
        return ComparisonDirection::kGt;
      default:
        return d;
    }
  }

  // Which axes the dimensions of an operand of a dot have, if those of the result are known. Contracting dimensions
  // have kInner; there must be one of more than one element at most.
  static std::optional<Axes> OperandAxes(const Instruction& dot, const DotSide& side, bool lhs, const Axes& result) {
    Axes axes(static_cast<size_t>(side.operand->shape().rank()), kNone);
    for (size_t b = 0; b < side.batch.size(); ++b) axes[static_cast<size_t>(side.batch[b])] = result[b];
    const size_t first = lhs ? side.batch.size() : result.size() - side.free.size();
    for (size_t f = 0; f < side.free.size(); ++f) axes[static_cast<size_t>(side.free[f])] = result[first + f];
    int inner = 0;
    for (int64_t d : side.contracting) {
      if (side.operand->shape().dimensions(d) == 1) continue;
      axes[static_cast<size_t>(d)] = kInner;
      ++inner;
    }
    return inner > 1 ? std::nullopt : std::optional(axes);
  }

  bool MatchFirstProduct() {
    const Instruction& dot = *a_.scores;
    for (bool lhs : {true, false}) {
      const DotSide keys(dot, lhs ? 0 : 1), queries(dot, lhs ? 1 : 0);
      const std::optional<Axes> k = OperandAxes(dot, keys, lhs, product_axes_),
                                q = OperandAxes(dot, queries, !lhs, product_axes_);
      if (!k || !q) return false;
      bool has_key = false, has_other = false;
      for (int64_t d : keys.free) {
        const Axis axis = (*k)[static_cast<size_t>(d)];
        has_key |= axis == key_axis_;
        has_other |= axis != key_axis_ && axis != kNone;
      }
      if (!has_key) continue;
      if (has_other) return false;
      keys_ = keys.operand;
      key_axes_ = *k;
      queries_ = queries.operand;
      query_axes_ = *q;
      for (int64_t d : queries.free) {
        if ((*q)[static_cast<size_t>(d)] != kNone) rows_.push_back((*q)[static_cast<size_t>(d)]);
      }
      for (int64_t d : keys.contracting) a_.depth *= keys.operand->shape().dimensions(d);
      return true;
    }
    return false;
  }

  bool MatchValues(const Instruction& dot, int64_t weights_side) {
    // The axes of the softmax at the second product.
    std::vector<const Instruction*> path;
    for (Instruction* i = dot.operand(weights_side); !i->Is(Opcode::kDivide); i = i->operand(0)) path.push_back(i);
    Axes axes = score_axes_;
    for (auto i = path.rbegin(); i != path.rend(); ++i) {
      if (!IsPlain(**i)) return false;
      axes = *FromOperand(**i, axes);
    }
    const DotSide weights(dot, weights_side), values(dot, 1 - weights_side);
    value_axes_.assign(static_cast<size_t>(values.operand->shape().rank()), kNone);
    for (size_t b = 0; b < values.batch.size(); ++b) {
      value_axes_[static_cast<size_t>(values.batch[b])] = axes[static_cast<size_t>(weights.batch[b])];
      if (axes[static_cast<size_t>(weights.batch[b])] == key_axis_) return false;
    }
    bool sums_over_keys = false;
    for (size_t c = 0; c < values.contracting.size(); ++c) {
      const Axis axis = axes[static_cast<size_t>(weights.contracting[c])];
      if (axis == kNone) continue;
      if (axis != key_axis_) return false;
      value_axes_[static_cast<size_t>(values.contracting[c])] = axis;
      sums_over_keys = true;
    }
    if (!sums_over_keys) return false;
    int widths = 0;
    for (int64_t d : values.free) {
      if (values.operand->shape().dimensions(d) == 1) continue;
      value_axes_[static_cast<size_t>(d)] = kInner;
      a_.width = values.operand->shape().dimensions(d);
      ++widths;
    }
    if (widths > 1) return false;
    values_ = values.operand;
    // The result: batch, then the free dimensions of the left and the right operand.
    Axes result;
    for (int64_t d : weights.batch) result.push_back(axes[static_cast<size_t>(d)]);
    for (int64_t side : {0, 1}) {
      const DotSide& of = side == weights_side ? weights : values;
      for (int64_t d : of.free)
        result.push_back(side == weights_side ? axes[static_cast<size_t>(d)] : value_axes_[static_cast<size_t>(d)]);
    }
    Axes free_rows;
    for (int64_t d : weights.free) free_rows.push_back(axes[static_cast<size_t>(d)]);
    rows_.erase(
        std::remove_if(rows_.begin(), rows_.end(), [&](Axis r) { return !absl::c_linear_search(free_rows, r); }),
        rows_.end());
    std::vector<const Instruction*> tail;
    for (const Instruction* i = root_; !i->Is(Opcode::kDot); i = i->operand(0)) tail.push_back(i);
    for (auto i = tail.rbegin(); i != tail.rend(); ++i) result = *FromOperand(**i, result);
    out_axes_ = std::move(result);
    return true;
  }

  // Chooses the axis of the queries and computes all strides.
  bool Resolve() {
    for (Axis row : rows_) {
      if (query_axis_ == kNone || sizes_[static_cast<size_t>(row)] >= a_.queries) {
        query_axis_ = row;
        a_.queries = sizes_[static_cast<size_t>(row)];
      }
    }
    a_.keys = sizes_[static_cast<size_t>(key_axis_)];
    for (Axis axis = 0; axis < static_cast<Axis>(sizes_.size()); ++axis) {
      if (axis == query_axis_ || axis == key_axis_) continue;
      item_axes_.push_back(axis);
      a_.items *= sizes_[static_cast<size_t>(axis)];
      if (a_.items > kMostItems) return false;
    }
    for (BandOperation& band : operations_of_bands_) {
      if (band.row == query_axis_) continue;
      ScoreOperation& operation = a_.operations[band.operation];
      operation.kind = ScoreOperation::Kind::kSelect;
      operation.keep = band.keep;
      arrays_.push_back({band.operation, band.mask, band.axes});
    }
    for (ArrayOperation& array : arrays_) {
      if (!SetStrides(FindStridedView(array.array), array.axes, &a_.operations[array.operation].array)) return false;
    }
    StridedView out;
    out.base = root_;
    const DimVector strides = RowMajorStrides(root_->shape().dimensions());
    for (int64_t d = 0; d < root_->shape().rank(); ++d)
      out.dimensions.push_back({root_->shape().dimensions(d), strides[static_cast<size_t>(d)], {}});
    return SetStrides(FindStridedView(queries_), query_axes_, &a_.query) &&
           SetStrides(FindStridedView(keys_), key_axes_, &a_.key) &&
           SetStrides(FindStridedView(values_), value_axes_, &a_.value) && SetStrides(out, out_axes_, &a_.out);
  }

  bool SetStrides(const StridedView& view, const Axes& axes, AttentionView* strided) const {
    strided->base = view.base;
    std::vector<const ViewDimension*> of_item(item_axes_.size(), nullptr);
    for (size_t d = 0; d < axes.size(); ++d) {
      const ViewDimension& dim = view.dimensions[d];
      const Axis axis = axes[d];
      if (axis == kNone) continue;
      if (axis == query_axis_ || axis == key_axis_ || axis == kInner) {
        if (!dim.table.empty()) return false;
        (axis == kInner      ? strided->inner_stride
         : axis == key_axis_ ? strided->key_stride
                             : strided->query_stride) = dim.stride;
        continue;
      }
      of_item[static_cast<size_t>(absl::c_find(item_axes_, axis) - item_axes_.begin())] = &dim;
    }
    strided->offsets.assign(1, view.offset);
    for (size_t k = 0; k < item_axes_.size(); ++k) {
      const int64_t size = sizes_[static_cast<size_t>(item_axes_[k])];
      std::vector<int64_t> now;
      now.reserve(strided->offsets.size() * static_cast<size_t>(size));
      for (int64_t base : strided->offsets) {
        for (int64_t n = 0; n < size; ++n) now.push_back(base + (of_item[k] == nullptr ? 0 : of_item[k]->Offset(n)));
      }
      strided->offsets = std::move(now);
    }
    return true;
  }

  struct ArrayOperation {
    size_t operation;
    Instruction* array;
    Axes axes;
  };
  struct BandOperation {
    size_t operation;
    Axis row;
    Instruction* mask;
    Axes axes;
    bool keep;
  };

  Instruction* root_;
  Attention a_;
  Instruction* exponential_ = nullptr;
  std::vector<int64_t> sizes_;  // of the axes
  Axes score_axes_;             // of the exponentials
  Axis key_axis_ = kNone, query_axis_ = kNone;
  Axes rows_;  // candidates for the axis of the queries: keys and values do not have them
  Axes item_axes_;
  Axes product_axes_, query_axes_, key_axes_, value_axes_, out_axes_;
  Instruction *queries_ = nullptr, *keys_ = nullptr, *values_ = nullptr;
  std::vector<ArrayOperation> arrays_;
  std::vector<BandOperation> operations_of_bands_;
  std::vector<Band> bands_;  // of the mask that is being added
};

class Cloner {
 public:
  Cloner(Computation* body, const std::vector<Instruction*>& operands) : body_(body) {
    for (size_t k = 0; k < operands.size(); ++k) {
      Attributes number;
      number.Set(AttrId::kParameterNumber, static_cast<int64_t>(k));
      copies_[operands[k]] = Make(body, nullptr, Opcode::kParameter, operands[k]->shape(), {}, std::move(number));
    }
  }
  Instruction* Clone(Instruction* i) {
    if (const auto at = copies_.find(i); at != copies_.end()) return at->second;
    std::vector<Instruction*> operands;
    for (Instruction* o : i->operands()) operands.push_back(Clone(o));
    Instruction* copy = body_->AddClone(i, i->shape(), operands);
    copies_[i] = copy;
    return copy;
  }

 private:
  Computation* body_;
  absl::flat_hash_map<Instruction*, Instruction*> copies_;
};

}  // namespace

std::optional<Attention> MatchAttention(Instruction* root) {
  for (int64_t side : {0, 1}) {
    if (std::optional<Attention> attention = Matcher(root).Match(side)) return attention;
  }
  return std::nullopt;
}

Instruction* FindAttentionRoot(Instruction* dot) {
  Instruction *root = dot, *last = dot;
  for (int n = 0; n < kMostOperations && last->users().size() == 1 && !last->IsRoot(); ++n) {
    last = *last->users().begin();
    if (!IsPlain(*last)) break;
    if (!OnlyMoves(*last)) break;
    const bool widens = ByteWidth(last->shape().element_type()) > ByteWidth(last->operand(0)->shape().element_type());
    if (widens) break;                             // less is written without it
    if (!last->Is(Opcode::kReshape)) root = last;  // a reshape at the end costs nothing
  }
  return root;
}

std::vector<Instruction*> AttentionOperands(const Attention& a) {
  std::vector<Instruction*> operands;
  auto add = [&operands](Instruction* i) {
    if (i != nullptr && !absl::c_linear_search(operands, i)) operands.push_back(i);
  };
  add(a.query.base);
  add(a.key.base);
  add(a.value.base);
  for (const ScoreOperation& o : a.operations) add(o.array.base);
  return operands;
}

bool HasOtherUsers(Instruction* root, const Attention& attention) {
  // The instructions of the fusion, operands first, and which of them depend on the scores.
  absl::flat_hash_map<const Instruction*, bool> depends;
  for (const Instruction* operand : AttentionOperands(attention)) depends[operand] = false;
  std::vector<const Instruction*> inside;
  std::vector<std::pair<const Instruction*, bool>> stack = {{root, false}};
  while (!stack.empty()) {
    auto [i, operands_done] = stack.back();
    stack.pop_back();
    if (operands_done) {
      bool d = i == attention.scores;
      for (const Instruction* o : i->operands()) d |= depends.at(o);
      depends[i] = d;
      inside.push_back(i);
      continue;
    }
    if (depends.contains(i)) continue;
    stack.push_back({i, true});
    for (const Instruction* o : i->operands()) {
      if (!depends.contains(o)) stack.push_back({o, false});
    }
  }
  return absl::c_any_of(inside, [&](const Instruction* i) {
    if (i == root || !depends.at(i)) return false;
    return i->IsRoot() || absl::c_any_of(i->users(), [&](const Instruction* user) { return !depends.contains(user); });
  });
}

std::optional<Attention> AsAttention(const Instruction& instruction) {
  if (!instruction.Is(Opcode::kFusion) ||
      instruction.attrs().GetEnum<FusionKind>(AttrId::kFusionKind) != FusionKind::kCustom)
    return std::nullopt;
  std::optional<Attention> attention = MatchAttention(instruction.called(0)->root());
  // Only the parameters are stored.
  auto is_parameter = [](const AttentionView& view) {
    return view.base == nullptr || view.base->Is(Opcode::kParameter);
  };
  if (!attention || !is_parameter(attention->query) || !is_parameter(attention->key) ||
      !is_parameter(attention->value) ||
      !absl::c_all_of(attention->operations, [&](const ScoreOperation& o) { return is_parameter(o.array); }))
    return std::nullopt;
  return attention;
}

Instruction* MakeAttentionFusion(Computation* c, Instruction* root, const Attention& attention) {
  Computation* body = c->parent()->AddComputation("attention");
  body->set_is_fusion(true);
  const std::vector<Instruction*> operands = AttentionOperands(attention);
  body->set_root(Cloner(body, operands).Clone(root));
  Attributes attrs;
  attrs.SetEnum(AttrId::kFusionKind, FusionKind::kCustom);
  return Make(c, root, Opcode::kFusion, root->shape(), operands, std::move(attrs), {body});
}

}  // namespace backplane::compiler
