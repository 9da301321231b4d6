#include "plugins/hip/compiler/split_contractions.h"

#include <algorithm>

#include "core/passes/make_reducer.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/integer_division.h"
#include "plugins/hip/compiler/convolution_problem.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/compiler/dot_strides.h"

namespace backplane::hip {
namespace {

constexpr int64_t kBlocks = 256;        // that a large GPU should have at least
constexpr int64_t kMinTerms = 512;      // of a part: fewer are not worth the partial sums
constexpr int64_t kMostParts = 16;      // that a thread then adds
constexpr int64_t kPartsMultiple = 64;  // of the terms of a part, so that its rows stay aligned

bool IsSplittable(PrimitiveType type) {
  return (IsFloat(type) && !IsComplex(type)) || type == PrimitiveType::kS32 || type == PrimitiveType::kU32;
}

int64_t ChooseParts(const DotProblem& p) {
  const int64_t tiles = p.batch_size() * CeilDiv(p.m, int64_t{64}) * CeilDiv(p.n, int64_t{64});
  int64_t parts = 1;
  while (parts < kMostParts && tiles * parts * 2 <= kBlocks && p.k / (parts * 2) >= kMinTerms &&
         p.k % (parts * 2 * kPartsMultiple) == 0)
    parts *= 2;
  return parts;
}

// The operand with the dimension divided into parts and what is left of it.
Instruction* Divide(Computation* c, Instruction* operand, int64_t dim, int64_t parts) {
  std::vector<int64_t> dims(operand->shape().dimensions().begin(), operand->shape().dimensions().end());
  dims[static_cast<size_t>(dim)] /= parts;
  dims.insert(dims.begin() + dim, parts);
  return Make(c, operand, Opcode::kReshape, Shape(operand->shape().element_type(), dims), {operand});
}

// Replaces the contraction by the sum of its parts, which are the first dimension of `partial`.
void AddParts(Computation* c, Instruction* contraction, Instruction* partial, PrimitiveType sum) {
  Attributes dimension;
  dimension.Set(AttrId::kDimensions, Ints{0});
  Instruction* total = Make(c, contraction, Opcode::kReduce, Shape(sum, contraction->shape().dimensions()),
                            {partial, MakeConstant(c, contraction, Literal::Scalar(sum, 0))}, std::move(dimension),
                            {MakeReducer(c->parent(), "add_parts", Opcode::kAdd, sum)});
  if (sum != contraction->shape().element_type())
    total = Make(c, contraction, Opcode::kConvert, contraction->shape(), {total});
  Replace(contraction, total);
}

// The parts of a convolution's sums are a fusion that pads its result with zeros, one for each further part: their sum
// is the same, and the kernel is free to spread the terms over all parts.
bool SplitConvolution(Computation* c, Instruction* conv) {
  const PrimitiveType type = conv->shape().element_type();
  if (!IsSplittable(type) || !IsConvolutionProduct(*conv)) return false;
  const int64_t parts = ChooseConvolutionParts(*conv);
  if (parts == 1) return false;
  const PrimitiveType sum = codegen::IsNarrowFloat(type) ? PrimitiveType::kF32 : type;
  Computation* body = c->parent()->AddComputation("parts_of_convolution");
  body->set_is_fusion(true);
  std::vector<Instruction*> operands;
  for (Instruction* operand : conv->operands()) {
    Attributes number;
    number.Set(AttrId::kParameterNumber, static_cast<int64_t>(operands.size()));
    operands.push_back(Make(body, nullptr, Opcode::kParameter, operand->shape(), {}, std::move(number)));
  }
  std::vector<int64_t> dims = {1};
  dims.insert(dims.end(), conv->shape().dimensions().begin(), conv->shape().dimensions().end());
  Instruction* value = body->AddClone(conv, conv->shape().WithElementType(sum), operands);
  value = Make(body, conv, Opcode::kReshape, Shape(sum, dims), {value});
  PaddingConfig padding(dims.size());
  padding[0] = {0, parts - 1, 0};
  dims[0] = parts;
  Attributes attrs;
  attrs.Set(AttrId::kPadding, std::move(padding));
  body->set_root(Make(body, conv, Opcode::kPad, Shape(sum, dims),
                      {value, MakeConstant(body, conv, Literal::Scalar(sum, 0))}, std::move(attrs)));
  Attributes kind;
  kind.SetEnum(AttrId::kFusionKind, FusionKind::kCustom);
  Instruction* partial =
      Make(c, conv, Opcode::kFusion, Shape(sum, dims), {conv->operand(0), conv->operand(1)}, std::move(kind), {body});
  AddParts(c, conv, partial, sum);
  return true;
}

bool Split(Computation* c, Instruction* dot) {
  const DotDimensions& d = dot->dot_dims();
  const PrimitiveType type = dot->shape().element_type();
  if (d.lhs_contracting.size() != 1 || !IsSplittable(type)) return false;
  const absl::StatusOr<DotProblem> problem = MakeDotProblem(*FindDot(*dot));
  if (!problem.ok()) return false;
  const int64_t parts = ChooseParts(*problem);
  if (parts == 1) return false;

  const int64_t left = d.lhs_contracting[0], right = d.rhs_contracting[0];
  DotDimensions divided;
  divided.lhs_batch = {left}, divided.rhs_batch = {right};
  auto moved = [](int64_t dim, int64_t at) { return dim >= at ? dim + 1 : dim; };
  for (const int64_t dim : d.lhs_batch) divided.lhs_batch.push_back(moved(dim, left));
  for (const int64_t dim : d.rhs_batch) divided.rhs_batch.push_back(moved(dim, right));
  divided.lhs_contracting = {left + 1}, divided.rhs_contracting = {right + 1};
  const PrimitiveType sum = codegen::IsNarrowFloat(type) ? PrimitiveType::kF32 : type;
  std::vector<int64_t> dims = {parts};
  dims.insert(dims.end(), dot->shape().dimensions().begin(), dot->shape().dimensions().end());
  Attributes attrs = dot->attrs();
  attrs.Set(AttrId::kDotDims, std::move(divided));
  Instruction* partial =
      Make(c, dot, Opcode::kDot, Shape(sum, dims),
           {Divide(c, dot->operand(0), left, parts), Divide(c, dot->operand(1), right, parts)}, std::move(attrs));
  AddParts(c, dot, partial, sum);
  return true;
}

}  // namespace

absl::StatusOr<bool> SplitContractions::Run(Module* module) {
  return RewriteEach(module, [](Computation* c, Instruction* i) {
    return i->Is(Opcode::kDot) ? Split(c, i) : i->Is(Opcode::kConvolution) && SplitConvolution(c, i);
  });
}

}  // namespace backplane::hip
