// Arithmetic on complex numbers.
#include "absl/strings/str_cat.h"
#include "sdk/codegen/complex_math.h"

namespace backplane::codegen {

using llvm::Value;

namespace {

// A number with its parts as doubles, and back as what they were.
Val PartsAs(llvm::IRBuilder<>& b, const Val& x, llvm::Type* element) {
  auto part = [&](Value* v) {
    const int lanes = ElementEmitter::GetLanes(v);
    return b.CreateFPCast(v, lanes ? llvm::FixedVectorType::get(element, lanes) : element);
  };
  return {part(x.v), part(x.im)};
}

}  // namespace

Val ElementEmitter::UnaryComplex(const Instruction& op, PrimitiveType t, const Val& in) {
  switch (op.opcode()) {
    case Opcode::kAbs:
      return {M(Fn::kHypot, in.v, in.im)};
    case Opcode::kNegate:
      return {b_.CreateFNeg(in.v), b_.CreateFNeg(in.im)};
    default:
      break;
  }
  llvm::Type* element = in.v->getType()->getScalarType();
  ComplexMath math(this, element->isFloatTy());
  const Val x = PartsAs(b_, in, b_.getDoubleTy());
  if (const std::optional<Val> y = math.Unary(op.opcode(), x)) return PartsAs(b_, *y, element);
  Fail(absl::UnimplementedError(
      absl::StrCat(op.name(), ": no kernel can compute ", OpName(op.opcode()), " of ", Name(t))));
  return in;
}

Val ElementEmitter::BinaryComplex(Opcode op, PrimitiveType t, const Val& x, const Val& y) {
  llvm::Type* element = x.v->getType()->getScalarType();
  ComplexMath math(this, element->isFloatTy());
  const auto wide = [&](const Val& z) { return PartsAs(b_, z, b_.getDoubleTy()); };
  const auto rounded = [&](const Val& r) { return PartsAs(b_, r, element); };
  switch (op) {
    case Opcode::kAdd:
      return {b_.CreateFAdd(x.v, y.v), b_.CreateFAdd(x.im, y.im)};
    case Opcode::kSubtract:
      return {b_.CreateFSub(x.v, y.v), b_.CreateFSub(x.im, y.im)};
    case Opcode::kMultiply:
      return math.Mul(x, y);
    case Opcode::kDivide:
      return rounded(math.Div(wide(x), wide(y)));
    case Opcode::kPower:
      return rounded(math.Power(wide(x), wide(y)));
    case Opcode::kAtan2:
      return rounded(math.Atan2(wide(x), wide(y)));
    case Opcode::kMaximum:
    case Opcode::kMinimum: {
      // Lexicographic; a number with a NaN wins, the first of two.
      auto has_nan = [&](const Val& v) { return b_.CreateFCmpUNO(v.v, v.im); };
      auto less = [&](const Val& a, const Val& c) {
        return b_.CreateOr(b_.CreateFCmpOLT(a.v, c.v),
                           b_.CreateAnd(b_.CreateFCmpOEQ(a.v, c.v), b_.CreateFCmpOLT(a.im, c.im)));
      };
      Value* second = op == Opcode::kMaximum ? less(x, y) : less(y, x);
      return Select(has_nan(x), x, Select(b_.CreateOr(has_nan(y), second), y, x));
    }
    default:
      Fail(absl::UnimplementedError(absl::StrCat("no kernel can compute ", OpName(op), " of ", Name(t))));
      return x;
  }
}

}  // namespace backplane::codegen
