#include "core/passes/replace_each.h"
#include "core/types/status_macros.h"
#include "sdk/compiler/legalize.h"

namespace backplane::compiler {
namespace {

// The type in which factorizations are computed: those of LAPACK.
PrimitiveType FactorType(PrimitiveType t) { return IsFloat(t) && BitWidth(t) < 32 ? PrimitiveType::kF32 : t; }

absl::StatusOr<Value> Bits(Builder& b, Value x, PrimitiveType to, absl::Span<const int64_t> dims) {
  if (x->shape().element_type() == to) return x;
  return b.Op(Opcode::kBitcastConvert, {x}, {}, {}, Shape(to, dims));
}

// ---- One replacement for each operation. The builder has the parameters in `x`; null: stays as it is.

absl::StatusOr<Value> Factorization(Builder& b, const Instruction& i, std::vector<Value> x) {
  const PrimitiveType t = i.shape().element_type(), wide = FactorType(t);
  if (t == wide) return nullptr;
  for (Value& v : x) {
    ASSIGN_OR_RETURN(v, b.Convert(v, wide));
  }
  ASSIGN_OR_RETURN(Value r, b.Op(i.opcode(), x, i.attrs()));
  return b.Convert(r, t);
}

absl::StatusOr<Value> TopK(Builder& b, const Instruction& i, std::vector<Value> x) {
  const PrimitiveType t = x[0]->shape().element_type();
  if (!IsFloat(t) || BitWidth(t) >= 16) return nullptr;
  ASSIGN_OR_RETURN(Value wide, b.Convert(x[0], PrimitiveType::kF32));
  ASSIGN_OR_RETURN(Value both, b.Op(Opcode::kTopK, {wide}, i.attrs()));
  ASSIGN_OR_RETURN(Value values, b.GetTupleElement(both, 0));
  ASSIGN_OR_RETURN(Value indices, b.GetTupleElement(both, 1));
  ASSIGN_OR_RETURN(values, b.Convert(values, t));
  return b.Tuple({values, indices});
}

// Of a random byte the low bits are an element's.
absl::StatusOr<Value> RandomBits(Builder& b, const Instruction& i, std::vector<Value> x) {
  const Shape& shape = i.shape().tuple_shapes(1);
  const PrimitiveType t = shape.element_type();
  if (!IsSubByte(t) || UnsignedOfWidth(BitWidth(t)) == PrimitiveType::kInvalid) return nullptr;
  const Shape bytes = shape.WithElementType(PrimitiveType::kU8);
  ASSIGN_OR_RETURN(Value both,
                   b.Op(Opcode::kRngBitGenerator, x, i.attrs(), {}, Shape::Tuple({i.shape().tuple_shapes(0), bytes})));
  ASSIGN_OR_RETURN(Value state, b.GetTupleElement(both, 0));
  ASSIGN_OR_RETURN(Value values, b.GetTupleElement(both, 1));
  ASSIGN_OR_RETURN(values, b.Convert(values, UnsignedOfWidth(BitWidth(t))));
  ASSIGN_OR_RETURN(values, Bits(b, values, t, shape.dimensions()));
  return b.Tuple({state, values});
}

absl::StatusOr<Value> RandomNumbers(Builder& b, const Instruction& i, std::vector<Value> x) {
  const PrimitiveType t = i.shape().element_type();
  const bool small_float = IsFloat(t) && BitWidth(t) < 16, small_integer = IsSubByte(t) && !IsFloat(t);
  if (!small_float && !small_integer) return nullptr;
  const PrimitiveType wide = small_float ? PrimitiveType::kF32 : IsSigned(t) ? PrimitiveType::kS8 : PrimitiveType::kU8;
  std::vector<Value> bounds;
  for (Value v : x) {
    ASSIGN_OR_RETURN(v, b.Convert(v, wide));
    bounds.push_back(v);
  }
  ASSIGN_OR_RETURN(Value r, b.Op(Opcode::kRng, bounds, i.attrs(), {}, i.shape().WithElementType(wide)));
  ASSIGN_OR_RETURN(r, b.Convert(r, t));
  if (!small_float || i.attrs().GetEnum<RandomDistribution>(AttrId::kRandomDistribution) == RandomDistribution::kNormal)
    return r;
  // Rounding may reach the open end of the interval.
  ASSIGN_OR_RETURN(Value low, b.BroadcastInDim(x[0], i.shape().dimensions(), {}));
  ASSIGN_OR_RETURN(Value high, b.BroadcastInDim(x[1], i.shape().dimensions(), {}));
  ASSIGN_OR_RETURN(Value beyond, b.Compare(r, high, ComparisonDirection::kGe));
  return b.Select(beyond, low, r);
}

absl::StatusOr<Value> PartsOf(Builder& b, Value x, int64_t d, int64_t which) {
  SliceConfig slices;
  std::vector<int64_t> dims;
  for (int64_t k = 0; k < x->shape().rank(); ++k) {
    slices.push_back(k == d ? SliceDimension{which, which + 1, 1} : SliceDimension{0, x->shape().dimensions(k), 1});
    if (k != d) dims.push_back(x->shape().dimensions(k));
  }
  ASSIGN_OR_RETURN(Value s, b.Slice(x, slices));
  return b.Reshape(s, dims);
}

// Real and imaginary part as a further, last dimension.
absl::StatusOr<Value> StackComplexParts(Builder& b, Value x) {
  std::vector<Value> parts;
  std::vector<int64_t> dims(x->shape().dimensions().begin(), x->shape().dimensions().end());
  dims.push_back(1);
  for (Opcode o : {Opcode::kReal, Opcode::kImag}) {
    ASSIGN_OR_RETURN(Value p, b.Unary(o, x));
    ASSIGN_OR_RETURN(p, b.Reshape(p, dims));
    parts.push_back(p);
  }
  return b.Concatenate(parts, static_cast<int64_t>(dims.size()) - 1);
}

absl::StatusOr<Value> ComplexBits(Builder& b, const Instruction& i, Value x) {
  ASSIGN_OR_RETURN(Value parts, StackComplexParts(b, x));  // [..., 2]
  const PrimitiveType to = ComplexPart(i.shape().element_type());
  std::vector<int64_t> dims(parts->shape().dimensions().begin(), parts->shape().dimensions().end());
  if (BitWidth(to) > BitWidth(parts->shape().element_type())) {
    dims.pop_back();
  } else {
    dims.push_back(2);
  }
  ASSIGN_OR_RETURN(parts, Bits(b, parts, to, dims));
  const int64_t last = parts->shape().rank() - 1;
  ASSIGN_OR_RETURN(Value re, PartsOf(b, parts, last, 0));
  ASSIGN_OR_RETURN(Value im, PartsOf(b, parts, last, 1));
  return b.Binary(Opcode::kComplex, re, im);
}

absl::StatusOr<Value> BitcastConvert(Builder& b, const Instruction& i, std::vector<Value> x) {
  const Shape &from = x[0]->shape(), &to = i.shape();
  const int a = BitWidth(from.element_type()), c = BitWidth(to.element_type());
  if (a == c) return nullptr;
  if (IsComplex(from.element_type())) return ComplexBits(b, i, x[0]);
  if (a >= 8 && c >= 8) return nullptr;
  const PrimitiveType narrow = UnsignedOfWidth(std::min(a, c)), wide = UnsignedOfWidth(std::max(a, c));
  if (narrow == PrimitiveType::kInvalid || wide == PrimitiveType::kInvalid) return nullptr;
  const Shape& parts = a < c ? from : to;  // has one dimension more
  const int64_t last = parts.rank() - 1;
  ASSIGN_OR_RETURN(Value shifts, b.Iota(Shape(wide, parts.dimensions()), last));
  ASSIGN_OR_RETURN(Value step, b.Constant(Literal::ScalarInt(wide, std::min(a, c))));
  ASSIGN_OR_RETURN(step, b.BroadcastInDim(step, parts.dimensions(), {}));
  ASSIGN_OR_RETURN(shifts, b.Binary(Opcode::kMultiply, shifts, step));
  if (a < c) {
    ASSIGN_OR_RETURN(Value v, Bits(b, x[0], narrow, from.dimensions()));
    ASSIGN_OR_RETURN(v, b.Convert(v, wide));
    ASSIGN_OR_RETURN(v, b.Binary(Opcode::kShiftLeft, v, shifts));
    ASSIGN_OR_RETURN(Computation * join, MakeScalarBinaryComputation(b.module(), Opcode::kOr, wide));
    ASSIGN_OR_RETURN(Value zero, b.Constant(Literal::ScalarInt(wide, 0)));
    const int64_t dims[] = {last};
    ASSIGN_OR_RETURN(v, b.Reduce({v}, {zero}, join, dims));
    return Bits(b, v, to.element_type(), to.dimensions());
  }
  ASSIGN_OR_RETURN(Value v, Bits(b, x[0], wide, from.dimensions()));
  Ints kept;
  for (int64_t d = 0; d < last; ++d) kept.push_back(d);
  ASSIGN_OR_RETURN(v, b.BroadcastInDim(v, to.dimensions(), kept));
  ASSIGN_OR_RETURN(v, b.Binary(Opcode::kShiftRightLogical, v, shifts));
  ASSIGN_OR_RETURN(v, b.Convert(v, narrow));
  return Bits(b, v, to.element_type(), to.dimensions());
}

// A body may combine in a wider type than that of the inputs, which are then converted when they come in.
absl::StatusOr<Value> Promoted(Builder& b, const Instruction& i, std::vector<Value> x) {
  bool changed = false;
  auto widen = [&](size_t k, PrimitiveType to) -> absl::Status {
    if (x[k]->shape().element_type() == to) return absl::OkStatus();
    ASSIGN_OR_RETURN(x[k], b.Convert(x[k], to));
    changed = true;
    return absl::OkStatus();
  };
  if (i.Is(Opcode::kScatter)) {
    const size_t n = (x.size() - 1) / 2;
    for (size_t k = 0; k < n; ++k) {
      const PrimitiveType t = i.called(0)->parameter(static_cast<int64_t>(k))->shape().element_type();
      RETURN_IF_ERROR(widen(k, t));
      RETURN_IF_ERROR(widen(n + 1 + k, t));
    }
  } else if (i.Is(Opcode::kSelectAndScatter)) {
    const PrimitiveType from = x[0]->shape().element_type(), to = i.shape().element_type();
    if (from == to) return nullptr;
    RETURN_IF_ERROR(widen(0, to));
    RETURN_IF_ERROR(widen(1, to));
    Builder select(b.module(), "select");
    std::vector<Value> narrow;
    for (int64_t k = 0; k < 2; ++k) {
      ASSIGN_OR_RETURN(Value p, select.Parameter(k, Shape::Scalar(to)));
      ASSIGN_OR_RETURN(p, select.Convert(p, from));
      narrow.push_back(p);
    }
    ASSIGN_OR_RETURN(Value chosen, select.Call(i.called(0), narrow));
    ASSIGN_OR_RETURN(Computation * wide, select.Build(chosen));
    return b.Op(i.opcode(), x, i.attrs(), {wide, i.called(1)}, i.shape());
  } else {
    for (size_t k = 0; k < x.size() / 2; ++k) RETURN_IF_ERROR(widen(k, x[x.size() / 2 + k]->shape().element_type()));
  }
  if (!changed) return nullptr;
  return b.Op(i.opcode(), x, i.attrs(), {i.called().begin(), i.called().end()}, i.shape());
}

using Rule = absl::StatusOr<Value> (*)(Builder&, const Instruction&, std::vector<Value>);

// Returns null for operations whose types are never changed.
Rule FindRule(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
      return Factorization;
    case Opcode::kTopK:
      return TopK;
    case Opcode::kRngBitGenerator:
      return RandomBits;
    case Opcode::kRng:
      return RandomNumbers;
    case Opcode::kBitcastConvert:
      return BitcastConvert;
    default:
      return Info(opcode).ReducesLocally() ? Promoted : nullptr;
  }
}

}  // namespace

absl::StatusOr<bool> LegalizeTypes::Run(Module* module) {
  auto matches = [](const Instruction& i) { return FindRule(i.opcode()) != nullptr; };
  return ReplaceEach(module, "legal", matches, [](Builder& b, const Instruction& i, std::vector<Value> x) {
    return FindRule(i.opcode())(b, i, std::move(x));
  });
}

}  // namespace backplane::compiler
