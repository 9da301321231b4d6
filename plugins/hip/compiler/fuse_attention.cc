#include "plugins/hip/compiler/fuse_attention.h"

#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/attention_plan.h"

namespace backplane::hip {
namespace {

using compiler::Attention;

Instruction* AddParameter(Computation* c, const Shape& shape, int64_t number) {
  Attributes attrs;
  attrs.Set(AttrId::kParameterNumber, number);
  return Make(c, nullptr, Opcode::kParameter, shape, {}, std::move(attrs));
}

// Makes a scalar that tells whether all elements of an array are finite.
Instruction* MakeAllFinite(Computation* c, Instruction* array) {
  const Shape scalar(PrimitiveType::kPred, {});
  Computation* both = c->parent()->AddComputation("both");
  Instruction *x = AddParameter(both, scalar, 0), *y = AddParameter(both, scalar, 1);
  both->set_root(Make(both, nullptr, Opcode::kAnd, scalar, {x, y}));
  const Shape& shape = array->shape();
  Instruction* finite = Make(c, array, Opcode::kIsFinite, Shape(PrimitiveType::kPred, shape.dimensions()), {array});
  Instruction* yes = MakeConstant(c, array, Literal::Scalar(PrimitiveType::kPred, 1));
  Ints all;
  for (int64_t d = 0; d < shape.rank(); ++d) all.push_back(d);
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, std::move(all));
  return Make(c, array, Opcode::kReduce, scalar, {finite, yes}, std::move(attrs), {both});
}

// Makes the same fusion with one operand more, which its body does not read.
Instruction* AddOperand(Computation* c, Instruction* fusion, Instruction* operand) {
  AddParameter(fusion->called(0), operand->shape(), fusion->operand_count());
  std::vector<Instruction*> operands(fusion->operands().begin(), fusion->operands().end());
  operands.push_back(operand);
  Attributes attrs;
  attrs.SetEnum(AttrId::kFusionKind, FusionKind::kCustom);
  return Make(c, fusion, Opcode::kFusion, fusion->shape(), operands, std::move(attrs), {fusion->called(0)});
}

}  // namespace

absl::StatusOr<bool> FuseAttention::Run(Module* module) {
  return RewriteEach(module, [this](Computation* c, Instruction* dot) -> absl::StatusOr<bool> {
    if (!dot->Is(Opcode::kDot) || (dot->users().empty() && dot != c->root())) return false;
    Instruction* root = compiler::FindAttentionRoot(dot);
    const std::optional<Attention> attention = compiler::MatchAttention(root);
    if (!attention || !IsFasterAsOneKernel(*attention, target_) || compiler::HasOtherUsers(root, *attention))
      return false;
    Instruction* fusion = compiler::MakeAttentionFusion(c, root, *attention);
    const std::optional<Attention> fused = compiler::AsAttention(*fusion);
    if (!fused || !PlanAttention(*fused, target_).ok()) {  // the kernel is made from what is found there
      Computation* body = fusion->called(0);
      RETURN_IF_ERROR(c->Remove(fusion));
      c->parent()->RemoveComputation(body);
      return false;
    }
    if (MaySkipKeys(*attention, target_)) {
      Instruction* with_finite = AddOperand(c, fusion, MakeAllFinite(c, attention->value.base));
      RETURN_IF_ERROR(c->Remove(fusion));
      fusion = with_finite;
    }
    Replace(root, fusion);
    return true;
  });
}

}  // namespace backplane::hip
