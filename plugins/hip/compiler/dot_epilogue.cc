#include "plugins/hip/compiler/dot_epilogue.h"

#include <algorithm>

#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/kernel_plan.h"

namespace backplane::hip {
namespace {

constexpr int64_t kMaxArrays = 32;  // of the kernel: its sums need most of the registers

// What the kernel can compute for several neighbouring elements at a time.
bool IsPlain(const Instruction& i) {
  if (i.Is(Opcode::kTuple)) return true;
  if (!i.shape().IsArray() || IsComplex(i.shape().element_type()) || IsSubByte(i.shape().element_type())) return false;
  return i.called().empty() && (i.info().Has(OpTrait::kElementwise) || i.Is(Opcode::kParameter) ||
                                i.Is(Opcode::kConstant) || i.Is(Opcode::kBroadcast) || i.Is(Opcode::kIota));
}

// The operand of the fusion that is a product which its kernel can compute; -1 if there is none.
int64_t FindProduct(const Instruction& fusion) {
  if (!fusion.Is(Opcode::kFusion) || FindDot(fusion)) return -1;
  const Computation& body = *fusion.called(0);
  if (fusion.operand_count() + static_cast<int64_t>(ListKernelResults(body).size()) >= kMaxArrays ||
      !std::all_of(body.instructions().begin(), body.instructions().end(), [](const auto& i) { return IsPlain(*i); }))
    return -1;
  for (int64_t k = 0; k < fusion.operand_count(); ++k) {
    const Instruction* product = fusion.operand(k);
    if (product->IsRoot() || product->users().size() != 1 ||
        std::count(fusion.operands().begin(), fusion.operands().end(), product) != 1)
      continue;
    const std::optional<DotSite> site = FindDot(*product);
    if (site && site->body == nullptr && site->parts == 1 && MakeDotProblem(*site).ok() &&
        ReadsOnlyOwnElement(body, body.parameter(k)))
      return k;
  }
  return -1;
}

void Merge(Computation* c, Instruction* fusion, int64_t product_operand) {
  Instruction* product = fusion->operand(product_operand);
  Computation* body = c->parent()->AddComputation("fused_product");
  body->set_is_fusion(true);
  std::vector<Instruction*> operands, arguments;
  auto add_parameter = [&](Instruction* operand) {
    Attributes number;
    number.Set(AttrId::kParameterNumber, static_cast<int64_t>(operands.size()));
    operands.push_back(operand);
    return Make(body, nullptr, Opcode::kParameter, operand->shape(), {}, std::move(number));
  };
  const std::vector<Instruction*> factors = {add_parameter(product->operand(0)), add_parameter(product->operand(1))};
  for (int64_t k = 0; k < fusion->operand_count(); ++k)
    arguments.push_back(k == product_operand ? nullptr : add_parameter(fusion->operand(k)));
  arguments[static_cast<size_t>(product_operand)] = product->Is(Opcode::kFusion)
                                                        ? Inline(body, product->called(0), factors)
                                                        : body->AddClone(product, product->shape(), factors);
  body->set_root(Inline(body, fusion->called(0), arguments));
  Attributes attrs;
  attrs.SetEnum(AttrId::kFusionKind, FusionKind::kLoop);
  Replace(fusion, Make(c, fusion, Opcode::kFusion, fusion->shape(), operands, std::move(attrs), {body}));
}

}  // namespace

absl::StatusOr<bool> FuseDotEpilogues::Run(Module* module) {
  return RewriteEach(module, [](Computation* c, Instruction* i) {
    const int64_t product = FindProduct(*i);
    if (product < 0) return false;
    Merge(c, i, product);
    return true;
  });
}

}  // namespace backplane::hip
