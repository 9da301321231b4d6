#include "core/passes/algebra/rules.h"
#include "core/passes/match.h"

namespace backplane::algebra {
namespace {

using namespace match;

// Returns the number of significand bits of a float type, or 0 for a type that the rules do not handle.
int SignificandBits(PrimitiveType t) {
  switch (t) {
    case PrimitiveType::kF16:
      return 11;
    case PrimitiveType::kBF16:
      return 8;
    case PrimitiveType::kF32:
      return 24;
    case PrimitiveType::kF64:
      return 53;
    default:
      return 0;
  }
}

bool IsIntegerOrPred(PrimitiveType t) { return (IsIntegral(t) && BitWidth(t) >= 8) || t == PrimitiveType::kPred; }

// Whether `to` represents every value of `from` exactly.
bool RepresentsAll(PrimitiveType from, PrimitiveType to) {
  if (from == to) return true;
  if (from == PrimitiveType::kPred) return IsIntegerOrPred(to) || SignificandBits(to) > 0;
  if (to == PrimitiveType::kPred) return false;
  if (IsIntegerOrPred(from) && IsIntegerOrPred(to)) {
    if (IsSigned(from) == IsSigned(to)) return BitWidth(from) <= BitWidth(to);
    return IsUnsigned(from) && BitWidth(from) < BitWidth(to);
  }
  if (IsIntegerOrPred(from)) return BitWidth(from) - (IsSigned(from) ? 1 : 0) <= SignificandBits(to);
  if (from == PrimitiveType::kF16 || from == PrimitiveType::kBF16)
    return to == PrimitiveType::kF32 || to == PrimitiveType::kF64;
  return from == PrimitiveType::kF32 && to == PrimitiveType::kF64;
}

Instruction* ConvertNothing(Instruction* i, Rewriter&) {
  return i->operand(0)->shape().element_type() == i->shape().element_type() ? i->operand(0) : nullptr;
}

// Integers wrap but floats saturate, so a conversion to a narrower integer must not go through a float, and vice versa.
Instruction* ConvertChain(Instruction* i, Rewriter& to) {
  Instruction* x;
  if (!Matches(i, Op(Opcode::kConvert, Op(Opcode::kConvert, Any(&x))))) return nullptr;
  const PrimitiveType first = x->shape().element_type(), between = i->operand(0)->shape().element_type(),
                      last = i->shape().element_type();
  if (!RepresentsAll(first, between) || (!IsIntegerOrPred(last) && SignificandBits(last) == 0)) return nullptr;
  if (IsIntegerOrPred(first) && !IsIntegerOrPred(between) && IsIntegerOrPred(last) && !RepresentsAll(first, last))
    return nullptr;
  return first == last ? x : to.Make(Opcode::kConvert, i->shape(), {x});
}

}  // namespace

void AddConversionRules(RuleSet* r) {
  r->Add({{Opcode::kConvert}, "convert-nothing", "conversion to the same type", &ConvertNothing});
  r->Add({{Opcode::kConvert}, "convert-chain", "conversion through a type that represents every value", &ConvertChain});
}

}  // namespace backplane::algebra
