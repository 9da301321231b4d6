#include <cmath>
#include <limits>

#include "core/passes/algebra/rules.h"
#include "core/passes/match.h"

namespace backplane::algebra {
namespace {

using namespace match;

// x + 0 is not x for x = -0, but x + -0 is.
Instruction* AddZero(Instruction* i, Rewriter&) {
  const PrimitiveType type = i->shape().element_type();
  if (IsComplex(type)) return nullptr;
  Instruction* x;
  return Matches(i, Commutative(Opcode::kAdd, Any(&x), UniformValue(IsFloat(type) ? -0.0 : 0.0))) ? x : nullptr;
}

Instruction* SubtractZero(Instruction* i, Rewriter&) {
  Instruction* x;
  return Matches(i, Binary(Opcode::kSubtract, Any(&x), UniformValue(0))) ? x : nullptr;
}

// Not for floats: infinity - infinity and NaN - NaN are NaN.
Instruction* SubtractItself(Instruction* i, Rewriter& to) {
  const PrimitiveType type = i->shape().element_type();
  const bool exact = IsIntegral(type) || (type == PrimitiveType::kPred && i->Is(Opcode::kXor));
  if (!exact || i->operand(0) != i->operand(1)) return nullptr;
  return to.Fill(Literal(Shape::Scalar(type)), i->shape());
}

Instruction* MultiplyOne(Instruction* i, Rewriter&) {
  Instruction* x;
  return Matches(i, Commutative(Opcode::kMultiply, Any(&x), UniformValue(1))) ? x : nullptr;
}

// Not for floats: infinity, NaN and negative numbers.
Instruction* MultiplyZero(Instruction* i, Rewriter&) {
  if (!IsIntegral(i->shape().element_type())) return nullptr;
  Instruction* zero;
  return Matches(i, Commutative(Opcode::kMultiply, AllOf(UniformValue(0), Any(&zero)), Any())) ? zero : nullptr;
}

Instruction* DivideOne(Instruction* i, Rewriter&) {
  Instruction* x;
  return Matches(i, Binary(Opcode::kDivide, Any(&x), UniformValue(1))) ? x : nullptr;
}

// Division by a power of two is multiplication by its reciprocal, exactly.
Instruction* DividePowerOfTwo(Instruction* i, Rewriter& to) {
  const PrimitiveType type = i->shape().element_type();
  if (type != PrimitiveType::kF32 && type != PrimitiveType::kF64 && type != PrimitiveType::kBF16) return nullptr;
  const Literal* l = FindUniformConstant(i->operand(1));
  if (l == nullptr) return nullptr;
  const double v = l->GetAsDouble(0);
  int exponent = 0;
  if (!std::isfinite(v) || v == 0 || std::abs(std::frexp(v, &exponent)) != 0.5 || std::abs(exponent) > 100)
    return nullptr;
  Instruction* factor = to.Fill(Literal::Scalar(type, 1 / v), i->shape());
  return to.Make(Opcode::kMultiply, i->shape(), {i->operand(0), factor});
}

Instruction* PowerSmall(Instruction* i, Rewriter& to) {
  if (!IsFloat(i->shape().element_type())) return nullptr;
  Instruction* x;
  auto power_of = [&](double n) { return Matches(i, Binary(Opcode::kPower, Any(&x), UniformValue(n))); };
  auto multiply = [&](Instruction* a, Instruction* b) { return to.Make(Opcode::kMultiply, i->shape(), {a, b}); };
  if (power_of(1)) return x;
  if (power_of(2)) return multiply(x, x);
  if (power_of(3)) return multiply(multiply(x, x), x);
  if (power_of(-1)) {
    Instruction* one = to.Fill(Literal::Scalar(i->shape().element_type(), 1), i->shape());
    return to.Make(Opcode::kDivide, i->shape(), {one, x});
  }
  return nullptr;
}

// and(x, true), or(x, false): x. and(x, false), or(x, true): the constant.
Instruction* LogicConstant(Instruction* i, Rewriter&) {
  if (i->shape().element_type() != PrimitiveType::kPred) return nullptr;
  Instruction *x, *constant;
  const double neutral = i->Is(Opcode::kAnd) ? 1 : 0;
  if (Matches(i, Commutative(i->opcode(), Any(&x), UniformValue(neutral)))) return x;
  if (Matches(i, Commutative(i->opcode(), AllOf(UniformValue(1 - neutral), Any(&constant)), Any()))) return constant;
  return nullptr;
}

Instruction* EqualOperands(Instruction* i, Rewriter&) {
  return i->operand(0) == i->operand(1) ? i->operand(0) : nullptr;
}

Instruction* CancelTwice(Instruction* i, Rewriter&) {
  Instruction* x;
  return Matches(i, Op(i->opcode(), Op(i->opcode(), Any(&x)))) ? x : nullptr;
}

Instruction* AbsoluteTwice(Instruction* i, Rewriter&) {
  Instruction* x = i->operand(0);
  return x->Is(Opcode::kAbs) && x->shape() == i->shape() ? x : nullptr;
}

Instruction* SelectKnown(Instruction* i, Rewriter&) {
  if (i->operand(1) == i->operand(2)) return i->operand(1);
  if (Matches(i->operand(0), UniformValue(1))) return i->operand(1);
  if (Matches(i->operand(0), UniformValue(0))) return i->operand(2);
  return nullptr;
}

Instruction* SelectOfNot(Instruction* i, Rewriter& to) {
  Instruction *p, *x, *y;
  if (!Matches(i, Op(Opcode::kSelect, Op(Opcode::kNot, Any(&p)), Any(&x), Any(&y)))) return nullptr;
  return to.Make(Opcode::kSelect, i->shape(), {p, y, x});
}

// Inside an arm of the outer select its predicate is known, so the inner select with the same predicate is decided.
Instruction* SelectChain(Instruction* i, Rewriter& to) {
  Instruction *p, *x, *y;
  const bool chained =
      Matches(i, Op(Opcode::kSelect, Any(&p), Op(Opcode::kSelect, Same(&p), Any(&x), Any()), Any(&y))) ||
      Matches(i, Op(Opcode::kSelect, Any(&p), Any(&x), Op(Opcode::kSelect, Same(&p), Any(), Any(&y))));
  return chained ? to.Make(Opcode::kSelect, i->shape(), {p, x, y}) : nullptr;
}

Instruction* SelectOfBooleans(Instruction* i, Rewriter& to) {
  if (i->shape().element_type() != PrimitiveType::kPred || i->operand(0)->shape() != i->shape()) return nullptr;
  Instruction* p;
  if (Matches(i, Op(Opcode::kSelect, Any(&p), UniformValue(1), UniformValue(0)))) return p;
  if (Matches(i, Op(Opcode::kSelect, Any(&p), UniformValue(0), UniformValue(1))))
    return to.Make(Opcode::kNot, i->shape(), {p});
  return nullptr;
}

Instruction* MakePredicate(Instruction* i, bool value, Rewriter& to) {
  return to.Fill(Literal::ScalarInt(PrimitiveType::kPred, value ? 1 : 0), i->shape());
}

// Not for floats: NaN is not even equal to itself.
Instruction* CompareItself(Instruction* i, Rewriter& to) {
  const PrimitiveType type = i->operand(0)->shape().element_type();
  if (i->operand(0) != i->operand(1) || (!IsIntegral(type) && type != PrimitiveType::kPred)) return nullptr;
  const ComparisonDirection d = i->direction();
  return MakePredicate(
      i, d == ComparisonDirection::kEq || d == ComparisonDirection::kLe || d == ComparisonDirection::kGe, to);
}

// An unsigned number is never below zero.
Instruction* CompareUnsignedZero(Instruction* i, Rewriter& to) {
  if (!IsUnsigned(i->operand(0)->shape().element_type())) return nullptr;
  const ComparisonDirection d = i->direction();
  const bool zero_right = Matches(i->operand(1), UniformValue(0)), zero_left = Matches(i->operand(0), UniformValue(0));
  if ((zero_right && d == ComparisonDirection::kGe) || (zero_left && d == ComparisonDirection::kLe))
    return MakePredicate(i, true, to);
  if ((zero_right && d == ComparisonDirection::kLt) || (zero_left && d == ComparisonDirection::kGt))
    return MakePredicate(i, false, to);
  return nullptr;
}

// Inverting a comparison is wrong for floats, because NaN is neither below nor at least any number. Only equal and
// not-equal are opposites.
Instruction* NotOfCompare(Instruction* i, Rewriter& to) {
  Instruction* compare;
  if (!Matches(i, Op(Opcode::kNot, OneUser(Op(Opcode::kCompare, Any(), Any()).As(&compare))))) return nullptr;
  const PrimitiveType type = compare->operand(0)->shape().element_type();
  const ComparisonDirection d = compare->direction();
  const bool equality = d == ComparisonDirection::kEq || d == ComparisonDirection::kNe;
  if (!equality && !IsIntegral(type) && type != PrimitiveType::kPred) return nullptr;
  Attributes attrs = compare->attrs();
  attrs.SetEnum(AttrId::kDirection, InvertDirection(d));
  return to.Make(Opcode::kCompare, i->shape(), {compare->operand(0), compare->operand(1)}, std::move(attrs));
}

Instruction* CopyNothing(Instruction* i, Rewriter&) { return i->operand(0); }

// Replaces get-dimension-size by an s32 constant, unless the size does not fit.
Instruction* ReplaceDimensionSize(Instruction* i, Rewriter& to) {
  const int64_t size = i->operand(0)->shape().dimensions(i->dimensions().empty() ? 0 : i->dimensions()[0]);
  if (size > std::numeric_limits<int32_t>::max()) return nullptr;
  return to.Constant(Literal::ScalarInt(PrimitiveType::kS32, size));
}

}  // namespace

void AddArithmeticRules(RuleSet* r) {
  r->Add({{Opcode::kAdd}, "add-zero", "x + 0 is x; of floats x + -0", &AddZero});
  r->Add({{Opcode::kSubtract}, "subtract-zero", "x - 0 is x", &SubtractZero});
  r->Add(
      {{Opcode::kSubtract, Opcode::kXor}, "subtract-itself", "x - x and x xor x are 0, of integers", &SubtractItself});
  r->Add({{Opcode::kMultiply}, "multiply-one", "x * 1 is x", &MultiplyOne});
  r->Add({{Opcode::kMultiply}, "multiply-zero", "x * 0 is 0, of integers", &MultiplyZero});
  r->Add({{Opcode::kDivide}, "divide-one", "x / 1 is x", &DivideOne});
  r->Add({{Opcode::kDivide}, "divide-power-of-two", "division by a power of two is a product", &DividePowerOfTwo});
  r->Add({{Opcode::kPower}, "power-small", "powers 1, 2, 3 and -1 are products and a quotient", &PowerSmall});
  r->Add({{Opcode::kAnd, Opcode::kOr}, "logic-constant", "and, or with true or false", &LogicConstant});
  r->Add({{Opcode::kAnd, Opcode::kOr, Opcode::kMaximum, Opcode::kMinimum},
          "equal-operands",
          "x and x, x or x, maximum and minimum of x and x are x",
          &EqualOperands});
  r->Add({{Opcode::kNegate, Opcode::kNot}, "negate-twice", "negating twice has no effect", &CancelTwice});
  r->Add({{Opcode::kAbs}, "abs-twice", "the absolute value of an absolute value", &AbsoluteTwice});
  r->Add({{Opcode::kSelect}, "select-known", "select by a constant, or of two equal values", &SelectKnown});
  r->Add({{Opcode::kSelect}, "select-of-not", "select by not p is select by p of the values swapped", &SelectOfNot});
  r->Add({{Opcode::kSelect}, "select-chain", "select by p of a select by p", &SelectChain});
  r->Add({{Opcode::kSelect}, "select-of-booleans", "select of true and false is the condition", &SelectOfBooleans});
  r->Add({{Opcode::kCompare}, "compare-itself", "x compared with x is known, of integers", &CompareItself});
  r->Add({{Opcode::kCompare}, "compare-unsigned-zero", "no unsigned number is below zero", &CompareUnsignedZero});
  r->Add({{Opcode::kNot}, "not-of-compare", "not x = y is x != y; of integers each comparison", &NotOfCompare});
  r->Add({{Opcode::kCopy}, "copy", "a copy is its operand", &CopyNothing});
  r->Add({{Opcode::kGetDimensionSize},
          "known-size",
          "the size of a dimension that is not dynamic",
          &ReplaceDimensionSize});
}

}  // namespace backplane::algebra
