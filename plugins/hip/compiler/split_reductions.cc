#include "plugins/hip/compiler/split_reductions.h"

#include <algorithm>

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

Instruction* Reduce(Computation* c, const Instruction* like, Instruction* operand, Instruction* initial,
                    const Dims& reduced, Computation* reducer) {
  Dims kept;
  for (int64_t d = 0; d < operand->shape().rank(); ++d) {
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(operand->shape().dimensions(d));
  }
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints(reduced.begin(), reduced.end()));
  return Make(c, like, Opcode::kReduce, Shape(operand->shape().element_type(), kept), {operand, initial},
              std::move(attrs), {reducer});
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
  if (reduce->operand_count() == 4) {
    const int64_t parts = ChooseParts(*reduce, compiler::SortedDims(*reduce));
    return parts > 1 && SplitSelection(c, reduce, parts);
  }
  if (reduce->operand_count() != 2) return false;
  const std::optional<Opcode> op = codegen::AnalyzeCombiner(*reduce->called(0)).op;
  const PrimitiveType type = reduce->shape().element_type();
  if (!op || IsComplex(type) || reduce->operand(0)->shape().element_type() != type) return false;
  Dims reduced = compiler::SortedDims(*reduce);
  const int64_t wanted = ChooseParts(*reduce, reduced);
  if (wanted == 1) return false;

  const PrimitiveType wide = codegen::IsNarrowFloat(type) ? PrimitiveType::kF32 : type;
  Instruction* initial = Convert(c, reduce->operand(1), wide);
  Instruction* neutral = MakeNeutral(c, reduce, *op, initial);
  Divided d = ChooseDimension(c, Convert(c, reduce->operand(0), wide), std::move(reduced));
  Dims dims = GetDims(d.operand);
  int64_t& size = dims[static_cast<size_t>(d.dim)];
  const int64_t each = CeilDiv(size, std::min(wanted, size)), parts = CeilDiv(size, each);
  if (parts * each != size) {
    PaddingConfig padding(dims.size());
    padding[static_cast<size_t>(d.dim)].high = parts * each - size;
    Attributes attrs;
    attrs.Set(AttrId::kPadding, std::move(padding));
    size = parts * each;
    d.operand = Make(c, reduce, Opcode::kPad, Shape(wide, dims), {d.operand, neutral}, std::move(attrs));
  }
  size = each;
  dims.insert(dims.begin() + d.dim, parts);
  Instruction* divided = Make(c, reduce, Opcode::kReshape, Shape(wide, dims), {d.operand});
  // All reduced dimensions but that of the parts; those behind it have moved.
  Dims inner;
  int64_t part_dim = d.dim;
  for (const int64_t dim : d.reduced) {
    inner.push_back(dim >= d.dim ? dim + 1 : dim);
    part_dim -= dim < d.dim ? 1 : 0;
  }
  Computation* reducer = MakeReducer(c->parent(), "combine_parts", *op, wide);
  Instruction* partial = Reduce(c, reduce, divided, neutral, inner, reducer);
  Instruction* total = Reduce(c, reduce, partial, initial, {part_dim}, reducer);
  Replace(reduce, Convert(c, total, type));
  return true;
}

}  // namespace

absl::StatusOr<bool> SplitReductions::Run(Module* module) {
  return RewriteEach(module, [](Computation* c, Instruction* i) { return i->Is(Opcode::kReduce) && Split(c, i); });
}

}  // namespace backplane::hip
