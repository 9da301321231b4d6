#include "plugins/hip/compiler/split_reductions.h"

#include <algorithm>
#include <vector>

#include "core/passes/make_reducer.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/integer_division.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "plugins/hip/compiler/split_selections.h"
#include "sdk/codegen/body/combiner.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/compiler/index_map.h"

namespace backplane::hip {
namespace {

constexpr int64_t kBlocks = 1024;        // that a large GPU should have
constexpr int64_t kMinElements = 16384;  // of a block's part: fewer are not worth more kernels
constexpr int64_t kMinParts = 4;

using Dims = std::vector<int64_t>;

Dims GetDims(const Instruction* i) { return {i->shape().dimensions().begin(), i->shape().dimensions().end()}; }

// The dimension that is divided: the one in which all reduced ones are, if they are neighbours, else the largest.
struct Divided {
  Instruction* operand = nullptr;  // with neighbours made one
  Dims reduced;                    // of it
  int64_t dim = 0;
};

Divided ChooseDimension(Computation* c, Instruction* operand, Dims reduced) {
  const bool neighbours = reduced.back() - reduced.front() + 1 == static_cast<int64_t>(reduced.size());
  if (neighbours) {
    const Dims old = GetDims(operand);
    Dims dims(old.begin(), old.begin() + reduced.front());
    dims.push_back(1);
    for (const int64_t d : reduced) dims.back() *= old[static_cast<size_t>(d)];
    dims.insert(dims.end(), old.begin() + reduced.back() + 1, old.end());
    if (dims != old)
      operand = Make(c, operand, Opcode::kReshape, Shape(operand->shape().element_type(), dims), {operand});
    return {operand, {reduced.front()}, reduced.front()};
  }
  Divided d{operand, std::move(reduced), 0};
  d.dim = *std::max_element(d.reduced.begin(), d.reduced.end(), [&](int64_t a, int64_t b) {
    return operand->shape().dimensions(a) < operand->shape().dimensions(b);
  });
  return d;
}

// Computes in the type, if that is another.
Instruction* Convert(Computation* c, Instruction* x, PrimitiveType type) {
  if (x->shape().element_type() == type) return x;
  return Make(c, x, Opcode::kConvert, Shape(type, x->shape().dimensions()), {x});
}

// A value that may be combined any number of times: an identity, or the initial value where repetition does not matter.
Instruction* MakeNeutral(Computation* c, const Instruction* reduce, Opcode op, Instruction* initial) {
  const PrimitiveType type = initial->shape().element_type();
  switch (op) {
    case Opcode::kAdd:
      return MakeConstant(c, reduce, Literal::Scalar(type, IsFloat(type) ? -0.0 : 0));
    case Opcode::kMultiply:
      return MakeConstant(c, reduce, Literal::Scalar(type, 1));
    case Opcode::kXor:
      return MakeConstant(c, reduce, Literal::Scalar(type, 0));
    default:
      return initial;
  }
}

using Values = std::vector<Instruction*>;

// Makes a reduction of several arrays. Returns its results.
Values Reduce(Computation* c, const Instruction* like, const Values& operands, const Values& initials,
              const Dims& reduced, Computation* reducer) {
  std::vector<Shape> shapes;
  for (const Instruction* operand : operands) {
    Dims kept;
    for (int64_t d = 0; d < operand->shape().rank(); ++d) {
      if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(operand->shape().dimensions(d));
    }
    shapes.emplace_back(operand->shape().element_type(), kept);
  }
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints(reduced.begin(), reduced.end()));
  Values inputs = operands;
  inputs.insert(inputs.end(), initials.begin(), initials.end());
  if (operands.size() == 1) return {Make(c, like, Opcode::kReduce, shapes[0], inputs, std::move(attrs), {reducer})};
  Instruction* reduce = Make(c, like, Opcode::kReduce, Shape::Tuple(shapes), inputs, std::move(attrs), {reducer});
  Values results;
  for (size_t k = 0; k < operands.size(); ++k) results.push_back(MakeElement(c, reduce, static_cast<int64_t>(k)));
  return results;
}

// Makes a reducer that applies each operation to values of one type.
Computation* MakeReducerOf(Module* module, const std::vector<Opcode>& ops, const std::vector<PrimitiveType>& types) {
  if (ops.size() == 1) return MakeReducer(module, "combine_parts", ops[0], types[0]);
  Computation* reducer = module->AddComputation("combine_parts");
  Values parameters, results;
  std::vector<Shape> shapes;
  for (size_t k = 0; k < 2 * ops.size(); ++k) {
    Attributes number;
    number.Set(AttrId::kParameterNumber, static_cast<int64_t>(k));
    parameters.push_back(
        Make(reducer, nullptr, Opcode::kParameter, Shape(types[k % ops.size()], {}), {}, std::move(number)));
  }
  for (size_t k = 0; k < ops.size(); ++k) {
    shapes.emplace_back(types[k], Dims{});
    results.push_back(Make(reducer, nullptr, ops[k], shapes.back(), {parameters[k], parameters[k + ops.size()]}));
  }
  reducer->set_root(Make(reducer, nullptr, Opcode::kTuple, Shape::Tuple(shapes), results));
  return reducer;
}

// The number of parts; 1: the reduction stays as it is.
int64_t ChooseParts(const Instruction& reduce, const Dims& reduced) {
  int64_t elements = 1;
  for (const int64_t d : reduced) elements *= reduce.operand(0)->shape().dimensions(d);
  int64_t rows = 1;
  for (int64_t d = 0; d < reduce.operand(0)->shape().rank(); ++d) {
    if (!compiler::IsReducedDim(reduce, d)) rows *= reduce.operand(0)->shape().dimensions(d);
  }
  const int64_t group = ChooseRowsOfGroup(reduce);
  if (rows == 0) return 1;
  const int64_t blocks = CeilDiv(rows, group);
  const int64_t parts = std::min(kBlocks / blocks, elements * group / kMinElements);
  return parts < kMinParts ? 1 : parts;
}

bool Split(Computation* c, Instruction* reduce) {
  if (!IsSharedByBlock(*reduce)) return false;
  const Dims reduced = compiler::SortedDims(*reduce);
  const int64_t wanted = ChooseParts(*reduce, reduced);
  if (wanted == 1) return false;
  const codegen::Combiner combiner = codegen::AnalyzeCombiner(*reduce->called(0));
  if (combiner.selects_by_index) return SplitSelection(c, reduce, wanted);
  const std::vector<Opcode>& ops = combiner.ops;
  const size_t count = ops.size();
  if (count == 0 || static_cast<int64_t>(2 * count) != reduce->operand_count()) return false;
  std::vector<PrimitiveType> types;
  for (size_t k = 0; k < count; ++k) {
    const Shape& result = count == 1 ? reduce->shape() : reduce->shape().tuple_shapes(static_cast<int64_t>(k));
    const PrimitiveType type = result.element_type();
    if (IsComplex(type) || reduce->operand(static_cast<int64_t>(k))->shape().element_type() != type) return false;
    const bool rounds = codegen::IsNarrowFloat(type) && (ops[k] == Opcode::kAdd || ops[k] == Opcode::kMultiply);
    types.push_back(rounds ? PrimitiveType::kF32 : type);
  }

  Values operands, initials, neutrals;
  Dims inner;
  int64_t part_dim = 0;
  for (size_t k = 0; k < count; ++k) {
    initials.push_back(Convert(c, reduce->operand(static_cast<int64_t>(k + count)), types[k]));
    neutrals.push_back(MakeNeutral(c, reduce, ops[k], initials.back()));
    // All operands have the same dimensions, so they are divided alike.
    Divided d = ChooseDimension(c, Convert(c, reduce->operand(static_cast<int64_t>(k)), types[k]), reduced);
    Dims dims = GetDims(d.operand);
    int64_t& size = dims[static_cast<size_t>(d.dim)];
    const int64_t each = CeilDiv(size, std::min(wanted, size)), parts = CeilDiv(size, each);
    if (parts * each != size) {
      PaddingConfig padding(dims.size());
      padding[static_cast<size_t>(d.dim)].high = parts * each - size;
      Attributes attrs;
      attrs.Set(AttrId::kPadding, std::move(padding));
      size = parts * each;
      d.operand = Make(c, reduce, Opcode::kPad, Shape(types[k], dims), {d.operand, neutrals.back()}, std::move(attrs));
    }
    size = each;
    dims.insert(dims.begin() + d.dim, parts);
    operands.push_back(Make(c, reduce, Opcode::kReshape, Shape(types[k], dims), {d.operand}));
    // All reduced dimensions but that of the parts; those behind it have moved.
    inner.clear();
    part_dim = d.dim;
    for (const int64_t dim : d.reduced) {
      inner.push_back(dim >= d.dim ? dim + 1 : dim);
      part_dim -= dim < d.dim ? 1 : 0;
    }
  }
  Computation* reducer = MakeReducerOf(c->parent(), ops, types);
  const Values partial = Reduce(c, reduce, operands, neutrals, inner, reducer);
  Values totals = Reduce(c, reduce, partial, initials, {part_dim}, reducer);
  if (count == 1) {
    Replace(reduce, Convert(c, totals[0], reduce->shape().element_type()));
    return true;
  }
  for (size_t k = 0; k < count; ++k)
    totals[k] = Convert(c, totals[k], reduce->shape().tuple_shapes(static_cast<int64_t>(k)).element_type());
  ReplaceResults(c, reduce, totals);
  return true;
}

}  // namespace

absl::StatusOr<bool> SplitReductions::Run(Module* module) {
  return RewriteEach(module, [](Computation* c, Instruction* i) { return i->Is(Opcode::kReduce) && Split(c, i); });
}

}  // namespace backplane::hip
