#include "plugins/hip/compiler/split_selections.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/eval/evaluator.h"
#include "core/passes/rewrite.h"
#include "core/types/integer_division.h"
#include "sdk/codegen/body/combiner.h"

namespace backplane::hip {
namespace {

// One thread combines the results of the parts of a row, because their indices are not known to increase. So their
// number is divided once more.
constexpr int64_t kMostCombined = 64;

struct Candidate {
  Literal value;
  int64_t index;
};

// Returns the index of what the reducer chooses; nullopt if it cannot be evaluated.
std::optional<int64_t> Choose(const Computation& reducer, const Candidate& a, const Candidate& b) {
  const PrimitiveType type = reducer.parameter(1)->shape().element_type();
  const Literal i = Literal::ScalarInt(type, a.index), j = Literal::ScalarInt(type, b.index);
  const Literal* const arguments[] = {&a.value, &i, &b.value, &j};
  const absl::StatusOr<Literal> chosen = EvaluateComputation(reducer, arguments);
  if (!chosen.ok()) return std::nullopt;
  return chosen->elements()[1].GetAsInt(0);
}

// Whether the value is the least or the greatest of its type.
bool IsExtreme(const Literal& value) {
  const PrimitiveType type = value.shape().element_type();
  if (IsFloat(type)) return std::isinf(value.GetAsDouble(0));
  if (!IsIntegral(type) || IsSubByte(type)) return false;
  const int64_t v = value.GetAsInt(0);
  const int bits = 8 * ByteWidth(type);
  if (IsUnsigned(type)) return v == 0 || static_cast<uint64_t>(v) == ~uint64_t{0} >> (64 - bits);
  const int64_t greatest = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return v == greatest || v == -greatest - 1;
}

// Whether every element that differs from the initial value beats it, whether NaN is treated alike in both orders, and
// whether the first of equal elements is chosen. The reducer compares its parameters and does nothing else, so one
// value stands for all.
bool ChoosesFirstBest(const Computation& reducer, const Literal& initial) {
  const PrimitiveType type = initial.shape().element_type();
  std::vector<Literal> values = {initial, Literal::Scalar(type, 1)};
  if (IsFloat(type)) values.push_back(Literal::Scalar(type, std::numeric_limits<double>::quiet_NaN()));
  for (const Literal& v : values) {
    if (Choose(reducer, {v, 3}, {v, 5}) != 3) return false;
  }
  for (size_t k = 1; k < values.size(); ++k) {
    const Literal& v = values[k];
    const std::optional<int64_t> behind = Choose(reducer, {initial, 0}, {v, 3}),
                                 before = Choose(reducer, {v, 3}, {initial, 5});
    if (!behind || !before || (*behind == 3) != (*before == 3)) return false;
    if (k == 1 && *behind != 3) return false;
  }
  return true;
}

// Whether the instruction has the numbers of the elements along a dimension.
bool CountsAlong(const Instruction* i, int64_t dim) {
  if (i->Is(Opcode::kIota)) return i->attrs().GetInt(AttrId::kIotaDimension) == dim;
  return i->Is(Opcode::kBroadcast) && i->operand(0)->Is(Opcode::kIota) && i->operand(0)->shape().rank() == 1 &&
         i->dimensions()[0] == dim;
}

Instruction* MakeIota(Computation* c, const Instruction* like, const Shape& shape, int64_t dim) {
  Attributes attrs;
  attrs.Set(AttrId::kIotaDimension, dim);
  return Make(c, like, Opcode::kIota, shape, {}, std::move(attrs));
}

struct Best {
  Instruction* value;
  Instruction* index;
};

Best Reduce(Computation* c, const Instruction* like, const Best& of, const Best& initial, int64_t dim) {
  std::vector<int64_t> kept(of.value->shape().dimensions().begin(), of.value->shape().dimensions().end());
  kept.erase(kept.begin() + dim);
  const Shape shape =
      Shape::Tuple({Shape(of.value->shape().element_type(), kept), Shape(of.index->shape().element_type(), kept)});
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dim});
  Instruction* reduce = Make(c, like, Opcode::kReduce, shape, {of.value, of.index, initial.value, initial.index},
                             std::move(attrs), {like->called(0)});
  return {MakeElement(c, reduce, 0), MakeElement(c, reduce, 1)};
}

}  // namespace

void ReplaceResults(Computation* c, Instruction* reduce, const std::vector<Instruction*>& results) {
  const std::vector<Instruction*> users(reduce->users().begin(), reduce->users().end());
  for (Instruction* user : users) {
    if (user->Is(Opcode::kGetTupleElement)) Replace(user, results[static_cast<size_t>(user->tuple_index())]);
  }
  Replace(reduce, Make(c, reduce, Opcode::kTuple, reduce->shape(), results));
}

bool SplitSelection(Computation* c, Instruction* reduce, int64_t wanted) {
  if (reduce->operand_count() != 4 || reduce->dimensions().size() != 1) return false;
  const Computation& reducer = *reduce->called(0);
  const int64_t dim = reduce->dimensions()[0], size = reduce->operand(0)->shape().dimensions(dim);
  const PrimitiveType index_type = reduce->operand(1)->shape().element_type();
  const Literal* value = FindUniformConstant(reduce->operand(2));
  const Literal* index = FindUniformConstant(reduce->operand(3));
  if (value == nullptr || index == nullptr || index->GetAsInt(0) != 0 || !IsExtreme(*value) ||
      !codegen::AnalyzeCombiner(reducer).selects_by_index || !CountsAlong(reduce->operand(1), dim) ||
      ByteWidth(index_type) < 4 || !ChoosesFirstBest(reducer, *value))
    return false;

  // Parts are first combined in groups.
  const int64_t groups = wanted < kMostCombined ? 1 : static_cast<int64_t>(std::sqrt(static_cast<double>(wanted)));
  const int64_t of_group = wanted / groups, each = CeilDiv(size, groups * of_group), padded = groups * of_group * each;
  if (padded > std::numeric_limits<int32_t>::max()) return false;
  const Best initial{reduce->operand(2), reduce->operand(3)};
  Instruction* x = reduce->operand(0);
  std::vector<int64_t> dims(x->shape().dimensions().begin(), x->shape().dimensions().end());
  const PrimitiveType type = x->shape().element_type();
  if (padded != size) {
    PaddingConfig padding(dims.size());
    padding[static_cast<size_t>(dim)].high = padded - size;
    Attributes attrs;
    attrs.Set(AttrId::kPadding, std::move(padding));
    dims[static_cast<size_t>(dim)] = padded;
    x = Make(c, reduce, Opcode::kPad, Shape(type, dims), {x, initial.value}, std::move(attrs));
  }
  dims[static_cast<size_t>(dim)] = each;
  dims.insert(dims.begin() + dim, {groups, of_group});
  x = Make(c, reduce, Opcode::kReshape, Shape(type, dims), {x});
  Best best = Reduce(c, reduce, {x, MakeIota(c, reduce, Shape(index_type, dims), dim + 2)}, initial, dim + 2);

  // The indices were those within a part.
  const Shape& parts = best.index->shape();
  const auto scaled = [&](int64_t along, int64_t stride) {
    Instruction* factor =
        MakeBroadcast(c, reduce, MakeConstant(c, reduce, Literal::ScalarInt(index_type, stride)), parts, {});
    return Make(c, reduce, Opcode::kMultiply, parts, {MakeIota(c, reduce, parts, along), factor});
  };
  Instruction* first = Make(c, reduce, Opcode::kAdd, parts, {scaled(dim, of_group * each), scaled(dim + 1, each)});
  best.index = Make(c, reduce, Opcode::kAdd, parts, {best.index, first});
  best = Reduce(c, reduce, best, initial, dim + 1);
  if (groups > 1) {
    best = Reduce(c, reduce, best, initial, dim);
  } else {
    for (const auto& [part, result] : {std::pair(&best.value, 0), std::pair(&best.index, 1)})
      *part = Make(c, reduce, Opcode::kReshape, reduce->shape().tuple_shapes(result), {*part});
  }

  ReplaceResults(c, reduce, {best.value, best.index});
  return true;
}

}  // namespace backplane::hip
