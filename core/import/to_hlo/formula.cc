#include "core/import/to_hlo/formula.h"

#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::to_hlo {

Term Formula::Number(double value, PrimitiveType type) {
  if (!status_.ok()) return {this, nullptr};
  Value& known = numbers_[{type, std::bit_cast<uint64_t>(value)}];
  if (known != nullptr) return {this, known};
  absl::StatusOr<Value> scalar = builder_->Scalar(type, value);
  absl::StatusOr<Value> all = scalar.ok() ? builder_->BroadcastInDim(*scalar, dims_, {}) : scalar;
  if (!all.ok()) {
    Fail(all.status());
    return {this, nullptr};
  }
  known = *all;
  return {this, known};
}

Term Formula::Op(Opcode opcode, std::initializer_list<Term> operands, Attributes attrs) {
  if (!status_.ok()) return {this, nullptr};
  std::vector<Value> values;
  for (const Term& t : operands) values.push_back(t.value);
  absl::StatusOr<Value> y = builder_->Op(opcode, std::move(values), std::move(attrs));
  if (!y.ok()) {
    Fail(y.status());
    return {this, nullptr};
  }
  return {this, *y};
}

Term Formula::MakeTyped(Opcode opcode, Term x, PrimitiveType to) {
  if (!status_.ok()) return {this, nullptr};
  absl::StatusOr<Value> y = builder_->Op(opcode, {x.value}, {}, {}, x.value->shape().WithElementType(to));
  if (!y.ok()) {
    Fail(y.status());
    return {this, nullptr};
  }
  return {this, *y};
}

Term Like(Term t, double value) { return t.formula->Number(value, t.formula->GetType(t)); }

namespace {

Term One(Opcode opcode, Term a) { return a.formula->Op(opcode, {a}); }
Term Two(Opcode opcode, Term a, Term b) { return a.formula->Op(opcode, {a, b}); }

Term Compare(Term a, Term b, ComparisonDirection direction) {
  Attributes attrs;
  attrs.SetEnum(AttrId::kDirection, direction);
  return a.formula->Op(Opcode::kCompare, {a, b}, std::move(attrs));
}

}  // namespace

Term operator+(Term a, Term b) { return Two(Opcode::kAdd, a, b); }
Term operator-(Term a, Term b) { return Two(Opcode::kSubtract, a, b); }
Term operator*(Term a, Term b) { return Two(Opcode::kMultiply, a, b); }
Term operator/(Term a, Term b) { return Two(Opcode::kDivide, a, b); }
Term operator-(Term a) { return One(Opcode::kNegate, a); }
Term operator+(Term a, double b) { return a + Like(a, b); }
Term operator+(double a, Term b) { return Like(b, a) + b; }
Term operator-(Term a, double b) { return a - Like(a, b); }
Term operator-(double a, Term b) { return Like(b, a) - b; }
Term operator*(Term a, double b) { return a * Like(a, b); }
Term operator*(double a, Term b) { return Like(b, a) * b; }
Term operator/(Term a, double b) { return a / Like(a, b); }
Term operator/(double a, Term b) { return Like(b, a) / b; }

Term operator&(Term a, Term b) { return Two(Opcode::kAnd, a, b); }
Term operator|(Term a, Term b) { return Two(Opcode::kOr, a, b); }
Term operator!(Term a) { return One(Opcode::kNot, a); }

Term Less(Term a, Term b) { return Compare(a, b, ComparisonDirection::kLt); }
Term LessEqual(Term a, Term b) { return Compare(a, b, ComparisonDirection::kLe); }
Term Equal(Term a, Term b) { return Compare(a, b, ComparisonDirection::kEq); }
Term NotEqual(Term a, Term b) { return Compare(a, b, ComparisonDirection::kNe); }
Term Less(Term a, double b) { return Less(a, Like(a, b)); }
Term LessEqual(Term a, double b) { return LessEqual(a, Like(a, b)); }
Term Greater(Term a, double b) { return Compare(a, Like(a, b), ComparisonDirection::kGt); }
Term GreaterEqual(Term a, double b) { return Compare(a, Like(a, b), ComparisonDirection::kGe); }
Term Equal(Term a, double b) { return Equal(a, Like(a, b)); }
Term IsNan(Term a) { return NotEqual(a, a); }

Term SignBit(Term a) {
  PrimitiveType type = a.formula->GetType(a);
  PrimitiveType bits = BitWidth(type) == 16   ? PrimitiveType::kS16
                       : BitWidth(type) == 32 ? PrimitiveType::kS32
                                              : PrimitiveType::kS64;
  return Less(Bitcast(a, bits), 0.0);
}

Term Select(Term pred, Term a, Term b) { return pred.formula->Op(Opcode::kSelect, {pred, a, b}); }
Term Select(Term pred, Term a, double b) { return Select(pred, a, Like(a, b)); }
Term Select(Term pred, double a, Term b) { return Select(pred, Like(b, a), b); }

Term Abs(Term a) { return One(Opcode::kAbs, a); }
Term Ceil(Term a) { return One(Opcode::kCeil, a); }
Term Cos(Term a) { return One(Opcode::kCos, a); }
Term Exp(Term a) { return One(Opcode::kExp, a); }
Term Expm1(Term a) { return One(Opcode::kExpm1, a); }
Term Floor(Term a) { return One(Opcode::kFloor, a); }
Term Log(Term a) { return One(Opcode::kLog, a); }
Term Log1p(Term a) { return One(Opcode::kLog1p, a); }
Term Sign(Term a) { return One(Opcode::kSign, a); }
Term Sin(Term a) { return One(Opcode::kSin, a); }
Term Sqrt(Term a) { return One(Opcode::kSqrt, a); }
Term Atan2(Term y, Term x) { return Two(Opcode::kAtan2, y, x); }
Term Power(Term a, Term b) { return Two(Opcode::kPower, a, b); }
Term Maximum(Term a, Term b) { return Two(Opcode::kMaximum, a, b); }
Term Minimum(Term a, Term b) { return Two(Opcode::kMinimum, a, b); }
Term Hypot(Term a, Term b) { return Abs(Complex(a, b)); }
Term Real(Term a) { return One(Opcode::kReal, a); }
Term Imag(Term a) { return One(Opcode::kImag, a); }
Term Complex(Term re, Term im) { return Two(Opcode::kComplex, re, im); }
Term Convert(Term a, PrimitiveType to) {
  return a.formula->GetType(a) == to ? a : a.formula->MakeTyped(Opcode::kConvert, a, to);
}
Term Bitcast(Term a, PrimitiveType to) { return a.formula->MakeTyped(Opcode::kBitcastConvert, a, to); }

Term CopySign(Term magnitude, Term sign) {
  Term size = Abs(magnitude);
  return Select(SignBit(sign), -size, size);
}

Term Polynomial(Term x, absl::Span<const double> c) {
  Term y = Like(x, c[0]);
  for (double next : c.subspan(1)) y = y * x + next;
  return y;
}

FloatLimits GetLimits(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF16:
      return {65504, std::ldexp(1, -14), std::ldexp(1, -10)};
    case PrimitiveType::kBF16:
      return {std::ldexp(255, 120), std::ldexp(1, -126), std::ldexp(1, -7)};
    case PrimitiveType::kF64:
      return {1.7976931348623157e308, std::ldexp(1, -1022), std::ldexp(1, -52)};
    default:
      return {std::ldexp(16777215, 104), std::ldexp(1, -126), std::ldexp(1, -23)};
  }
}

}  // namespace backplane::to_hlo
