// Recipes: elementwise operations, alone and in chains.
#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

// The elementwise operations without attributes that have so many operands, in the order of the operation table.
std::vector<Opcode> WithOperands(int count) {
  std::vector<Opcode> ops;
  for (const OpInfo& info : Operations()) {
    if (info.operand_types && info.arity == count) ops.push_back(info.opcode);
  }
  return ops;
}

const std::vector<Opcode>& Unaries() {
  static const auto* const ops = new std::vector<Opcode>(WithOperands(1));
  return *ops;
}

const std::vector<Opcode>& Binaries() {
  static const auto* const ops = new std::vector<Opcode>(WithOperands(2));
  return *ops;
}

}  // namespace

std::vector<Generator::Recipe> Generator::ElementwiseRecipes() {
  return {
      {40, Unaries(), &Generator::Unary, true},
      {50, Binaries(), &Generator::Binary, true},
      {8, {Opcode::kCompare}, &Generator::Compare, true},
      {8, {Opcode::kSelect}, &Generator::Select, true},
      {5, {Opcode::kClamp}, &Generator::Clamp, true},
      {12, {Opcode::kConvert}, &Generator::Convert, true},
      {5, {Opcode::kBitcastConvert}, &Generator::BitcastConvert},
      {4, {Opcode::kReducePrecision}, &Generator::ReducePrecision, true},
      {4, {Opcode::kMap}, &Generator::Map},
      {14, {Opcode::kAdd, Opcode::kMultiply, Opcode::kTanh}, &Generator::Chain, true},
      {4, {Opcode::kReal, Opcode::kImag, Opcode::kComplex}, &Generator::ComplexParts, true},
  };
}

Value Generator::Unary(Scope& s) {
  const Opcode op = PickOne(Unaries());
  Kind kind = Kind::kFloat;
  switch (*Info(op).operand_types) {
    case OperandTypes::kInteger:
    case OperandTypes::kBits:
      kind = Kind::kBits;
      break;
    case OperandTypes::kNumber:
      kind = Kind::kNumber;
      break;
    default:
      if (random_.Chance(15)) kind = Kind::kComplex;
      break;
  }
  const Value x = Any(s, kind);
  return x == nullptr ? nullptr : Add(s, s.b.Unary(op, x));
}

Value Generator::Binary(Scope& s) {
  const Opcode op = PickOne(Binaries());
  Kind kind = Kind::kNumber;
  switch (*Info(op).operand_types) {
    case OperandTypes::kBits:
      kind = Kind::kBits;
      break;
    case OperandTypes::kInteger:
      kind = Kind::kInteger;
      break;
    case OperandTypes::kFloat:
    case OperandTypes::kInexact:
    case OperandTypes::kComplexPart:
      kind = Kind::kFloat;
      break;
    case OperandTypes::kAny:
      if (op == Opcode::kMaximum || op == Opcode::kMinimum) {  // complex numbers have no order
        kind = random_.Chance(10) ? Kind::kPred : Kind::kReal;
      } else if (random_.Chance(5)) {
        kind = Kind::kPred;
      }
      break;
    default:
      break;
  }
  const Value x = Any(s, kind);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  if (op == Opcode::kPower && IsIntegral(type) && random_.Chance(60)) {
    // Small exponents, so that the results are not always meaningless.
    const Value y = MakeFreshValue(s, x->shape().WithoutLayout(), Fill::kWhole);
    return y == nullptr ? nullptr : Add(s, s.b.Binary(op, x, y));
  }
  const Value y = Like(s, type, x->shape().dimensions());
  if (y == nullptr) return nullptr;
  return random_.Chance(50) ? Add(s, s.b.Binary(op, x, y)) : Add(s, s.b.Binary(op, y, x));
}

Value Generator::Compare(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const Value y = Like(s, type, x->shape().dimensions());
  if (y == nullptr) return nullptr;
  const auto direction = static_cast<ComparisonDirection>(random_.Below(6));
  std::optional<ComparisonType> how;
  if (IsFloat(type) && random_.Chance(20)) how = ComparisonType::kTotalOrder;
  return Add(s, s.b.Compare(x, y, direction, how));
}

Value Generator::Select(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  const Shape shape = x->shape();
  const Value y = Like(s, shape.element_type(), shape.dimensions());
  const bool scalar = random_.Chance(15);
  const Value p = scalar ? Like(s, PrimitiveType::kPred, {}) : Like(s, PrimitiveType::kPred, shape.dimensions());
  return p == nullptr || y == nullptr ? nullptr : Add(s, s.b.Select(p, x, y));
}

Value Generator::Clamp(Scope& s) {
  const Value x = Any(s, Kind::kReal);
  if (x == nullptr) return nullptr;
  const Shape shape = x->shape();
  auto bound = [&] {
    return random_.Chance(50) ? MakeFreshValue(s, Shape(shape.element_type(), {}))
                              : Like(s, shape.element_type(), shape.dimensions());
  };
  const Value low = bound(), high = bound();
  return low == nullptr || high == nullptr ? nullptr : Add(s, hlo::Clamp(s.b, low, x, high));
}

Value Generator::Convert(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  return Add(s, s.b.Convert(x, AnyType(random_.Chance(50) ? Kind::kAny : Kind::kNumber)));
}

Value Generator::BitcastConvert(Scope& s) {
  const Value x = Any(s, Kind::kReal);
  return x == nullptr ? nullptr : Add(s, hlo::BitcastConvertType(s.b, x, AnyType(Kind::kReal)));
}

Value Generator::ReducePrecision(Scope& s) {
  const Value x = Any(s, Kind::kFloat);
  if (x == nullptr) return nullptr;
  const int mantissa = static_cast<int>(random_.Between(1, 30));
  const int exponent = static_cast<int>(random_.Between(2, 11));
  return Add(s, hlo::ReducePrecision(s.b, x, exponent, mantissa));
}

Value Generator::Map(Scope& s) {
  const Value x = Any(s, Kind::kReal);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const std::vector<int64_t> dims(x->shape().dimensions().begin(), x->shape().dimensions().end());
  std::vector<Value> operands = {x};
  if (random_.Chance(60)) operands.push_back(Like(s, type, dims));
  if (operands.back() == nullptr) return nullptr;
  Builder b(s.b.module(), "map_body");
  std::vector<Value> inside;
  for (size_t k = 0; k < operands.size(); ++k) {
    hlo::Result p = b.Parameter(static_cast<int64_t>(k), Shape(type, {}));
    if (!p.ok()) return nullptr;
    inside.push_back(*p);
  }
  hlo::Result c = b.Constant(MakeValues(random_, Shape(type, {}), Fill::kWhole));
  if (!c.ok()) return nullptr;
  inside.push_back(*c);
  const int64_t steps = random_.Between(1, 5);
  for (int64_t k = 0; k < steps; ++k) {
    const bool binary = random_.Chance(70);
    const Value last = random_.Pick(inside);
    const Value first = binary ? random_.Pick(inside) : last;
    const Opcode op =
        binary ? PickOne({Opcode::kAdd, Opcode::kMultiply, Opcode::kMaximum, Opcode::kMinimum, Opcode::kSubtract})
               : PickOne({Opcode::kNegate, Opcode::kAbs, Opcode::kTanh, Opcode::kExp});
    hlo::Result v = binary ? b.Binary(op, first, last) : b.Unary(op, last);
    if (v.ok()) inside.push_back(*v);
  }
  absl::StatusOr<Computation*> body = b.Build(inside.back());
  if (!body.ok()) return nullptr;
  std::vector<int64_t> all;
  for (size_t d = 0; d < dims.size(); ++d) all.push_back(static_cast<int64_t>(d));
  return Add(s, hlo::Map(s.b, operands, *body, all));
}

// Chains for fusion: many elementwise operations on one shape, with shared operands, broadcasts and conversions.
Value Generator::Chain(Scope& s) {
  Value x = Any(s, random_.Chance(75) ? Kind::kFloat : Kind::kReal);
  if (x == nullptr) return nullptr;
  const std::vector<int64_t> dims(x->shape().dimensions().begin(), x->shape().dimensions().end());
  std::vector<Value> own = {x};
  const int64_t length = random_.Between(3, 9);
  for (int64_t k = 0; k < length; ++k) {
    const PrimitiveType type = x->shape().element_type();
    Value next = nullptr;
    switch (random_.Below(8)) {
      case 0:
      case 1:
        next = Add(s, s.b.Unary(PickOne({Opcode::kTanh, Opcode::kNegate, Opcode::kAbs, Opcode::kLogistic, Opcode::kSin,
                                         Opcode::kSqrt, Opcode::kExp, Opcode::kFloor}),
                                x));
        break;
      case 2: {
        const Value scalar = MakeFreshValue(s, Shape(type, {}));
        if (scalar == nullptr) break;
        const Value wide = Add(s, s.b.BroadcastInDim(scalar, dims, {}));
        if (wide != nullptr)
          next = Add(s, s.b.Binary(PickOne({Opcode::kAdd, Opcode::kMultiply, Opcode::kMaximum}), x, wide));
        break;
      }
      case 3:
        next = Add(s, s.b.Convert(x, AnyType(Kind::kReal)));
        break;
      default: {
        Value y = random_.Pick(own);
        if (y->shape().element_type() != type) y = Like(s, type, dims);
        if (y == nullptr) break;
        next = Add(s, s.b.Binary(PickOne({Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kMaximum,
                                          Opcode::kMinimum, Opcode::kDivide}),
                                 x, y));
        break;
      }
    }
    if (next == nullptr || !IsUseful(GetBoundedValue(s, next))) continue;
    x = next;
    own.push_back(x);
  }
  return own.size() > 1 ? x : nullptr;
}

Value Generator::ComplexParts(Scope& s) {
  const Value x = Any(s, random_.Chance(70) ? Kind::kComplex : Kind::kFloat);
  if (x == nullptr) return nullptr;
  const Value re = Add(s, s.b.Unary(Opcode::kReal, x)), im = Add(s, s.b.Unary(Opcode::kImag, x));
  if (re == nullptr || im == nullptr) return nullptr;
  s.values.push_back(re);
  s.values.push_back(im);
  return Add(s, s.b.Binary(Opcode::kComplex, im, re));
}

}  // namespace backplane::cli::fuzz
