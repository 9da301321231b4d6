// Rewrites by compilers that change the meaning of some programs. Each is applied to a copy of the program, and the
// result is compared with the meaning of the copy.
#include <algorithm>
#include <functional>
#include <string>

#include "core/passes/rewrite.h"
#include "sdk/cli/fuzz/campaign.h"
#include "sdk/cli/fuzz/compare.h"
#include "sdk/cli/fuzz/explain.h"
#include "sdk/cli/fuzz/shrink.h"

namespace backplane::cli::fuzz {
namespace {

// Each function changes one instruction if it applies, and returns whether it did.
using Rewrite = bool (*)(Computation*, Instruction*);

// a / b^c becomes a * b^-c. An integer to a negative power is 0.
bool DivideByPower(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kDivide) || !i->operand(1)->Is(Opcode::kPower)) return false;
  Instruction *base = i->operand(1)->operand(0), *exponent = i->operand(1)->operand(1);
  Instruction* negated = Make(c, i, Opcode::kNegate, exponent->shape(), {exponent});
  Instruction* power = Make(c, i, Opcode::kPower, i->shape(), {base, negated});
  Replace(i, Make(c, i, Opcode::kMultiply, i->shape(), {i->operand(0), power}));
  return true;
}

// An integer power uses only the low six bits of its exponent.
bool SixBitsOfExponent(Computation* c, Instruction* i) {
  const PrimitiveType type = i->shape().element_type();
  if (!i->Is(Opcode::kPower) || !IsIntegral(type) || BitWidth(type) < 8) return false;
  auto fill = [&](double v) {
    return MakeBroadcast(c, i, MakeConstant(c, i, Literal::Scalar(type, v)), i->shape(), {});
  };
  Instruction* exponent = i->operand(1);
  Instruction* low = Make(c, i, Opcode::kAnd, i->shape(), {exponent, fill(63)});
  if (IsSigned(type)) {
    Attributes attrs;
    attrs.SetEnum(AttrId::kDirection, ComparisonDirection::kLt);
    attrs.SetEnum(AttrId::kComparisonType, ComparisonType::kSigned);
    const Shape flags = i->shape().WithElementType(PrimitiveType::kPred);
    Instruction* negative = Make(c, i, Opcode::kCompare, flags, {exponent, fill(0)}, std::move(attrs));
    low = Make(c, i, Opcode::kSelect, i->shape(), {negative, exponent, low});
  }
  i->ReplaceOperand(1, low);
  return true;
}

// A power of unsigned integers is computed as one of the signed integers with the same bits, so a large exponent is
// negative.
// negative then.
bool SignedPower(Computation* c, Instruction* i) {
  const PrimitiveType type = i->shape().element_type();
  if (!i->Is(Opcode::kPower) || !IsUnsigned(type) || BitWidth(type) < 8) return false;
  const PrimitiveType same = BitWidth(type) == 8    ? PrimitiveType::kS8
                             : BitWidth(type) == 16 ? PrimitiveType::kS16
                             : BitWidth(type) == 32 ? PrimitiveType::kS32
                                                    : PrimitiveType::kS64;
  const Shape shape = i->shape().WithElementType(same);
  auto as_signed = [&](Instruction* x) { return Make(c, i, Opcode::kBitcastConvert, shape, {x}); };
  Instruction* power = Make(c, i, Opcode::kPower, shape, {as_signed(i->operand(0)), as_signed(i->operand(1))});
  Replace(i, Make(c, i, Opcode::kBitcastConvert, i->shape(), {power}));
  return true;
}

// A scatter whose index vectors have no component, so that every update goes to the same element: updates with the
// operand's shape are combined with it element by element; of other updates the last one is applied.
bool ScatterWithoutComponents(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kScatter) || i->operand_count() != 3) return false;
  const ScatterDimensions& d = i->attrs().Get<ScatterDimensions>(AttrId::kScatterDims);
  if (!d.scatter_dims_to_operand_dims.empty() || !d.input_batching_dims.empty()) return false;
  Instruction *x = i->operand(0), *updates = i->operand(2);
  if (x->shape().dimensions() == updates->shape().dimensions()) {
    Attributes attrs;
    Ints all;
    for (int64_t k = 0; k < x->shape().rank(); ++k) all.push_back(k);
    attrs.Set(AttrId::kDimensions, std::move(all));
    Replace(i, Make(c, i, Opcode::kMap, i->shape(), {x, updates}, std::move(attrs), {i->called(0)}));
    return true;
  }
  auto last = [&](Instruction* from, const std::function<bool(int64_t)>& cut) {
    Shape shape = from->shape().WithoutLayout();
    SliceConfig slices;
    for (int64_t k = 0; k < shape.rank(); ++k) {
      const int64_t size = shape.dimensions(k);
      if (cut(k)) shape.set_dimension(k, std::min<int64_t>(1, size));
      slices.push_back({size - shape.dimensions(k), size, 1});
    }
    Attributes attrs;
    attrs.Set(AttrId::kSlices, std::move(slices));
    return Make(c, i, Opcode::kSlice, shape, {from}, std::move(attrs));
  };
  i->ReplaceOperand(1, last(i->operand(1), [&](int64_t k) { return k != d.index_vector_dim; }));
  i->ReplaceOperand(2, last(updates, [&](int64_t k) {
                      return std::find(d.update_window_dims.begin(), d.update_window_dims.end(), k) ==
                             d.update_window_dims.end();
                    }));
  return true;
}

// (x * c) * d becomes x * (c * d) with one rounding less, for float constants.
bool JoinConstants(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kMultiply) || !IsFloat(i->shape().element_type())) return false;
  auto constant = [](const Instruction* x) {
    return x->Is(Opcode::kConstant) || (x->Is(Opcode::kBroadcast) && x->operand(0)->Is(Opcode::kConstant));
  };
  for (int64_t k = 0; k < 2; ++k) {
    Instruction *inner = i->operand(k), *d = i->operand(1 - k);
    if (!constant(d) || !inner->Is(Opcode::kMultiply)) continue;
    for (int64_t m = 0; m < 2; ++m) {
      if (!constant(inner->operand(m))) continue;
      Instruction* joined = Make(c, i, Opcode::kMultiply, i->shape(), {inner->operand(m), d});
      i->ReplaceOperand(k, inner->operand(1 - m));
      i->ReplaceOperand(1 - k, joined);
      return true;
    }
  }
  return false;
}

// true + true is computed as a sum of bits that wraps, so it is false.
bool AddOfBits(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kAdd) || i->shape().element_type() != PrimitiveType::kPred) return false;
  Replace(i, Make(c, i, Opcode::kXor, i->shape(), {i->operand(0), i->operand(1)}));
  return true;
}

// x / x becomes 1 for integers, whichever way equality is detected, so 0 / 0 is 1.
bool DivideByItself(Computation* c, Instruction* i) {
  const PrimitiveType type = i->shape().element_type();
  if (!i->Is(Opcode::kDivide) || !IsIntegral(type)) return false;
  auto fill = [&](double v) {
    return MakeBroadcast(c, i, MakeConstant(c, i, Literal::Scalar(type, v)), i->shape(), {});
  };
  const Shape flags = i->shape().WithElementType(PrimitiveType::kPred);
  auto is_zero = [&](Instruction* x) {
    Attributes attrs;
    attrs.SetEnum(AttrId::kDirection, ComparisonDirection::kEq);
    attrs.SetEnum(AttrId::kComparisonType, IsSigned(type) ? ComparisonType::kSigned : ComparisonType::kUnsigned);
    return Make(c, i, Opcode::kCompare, flags, {x, fill(0)}, std::move(attrs));
  };
  Instruction* both = Make(c, i, Opcode::kAnd, flags, {is_zero(i->operand(0)), is_zero(i->operand(1))});
  Instruction* quotient = Make(c, i, Opcode::kDivide, i->shape(), {i->operand(0), i->operand(1)});
  Replace(i, Make(c, i, Opcode::kSelect, i->shape(), {both, fill(1), quotient}));
  return true;
}

// The bits of a narrow integer are counted in its extension to a byte.
bool PopcntOfByte(Computation* c, Instruction* i) {
  const PrimitiveType type = i->shape().element_type();
  if (!i->Is(Opcode::kPopcnt) || !IsSubByte(type) || !IsSigned(type)) return false;
  const Shape byte = i->shape().WithElementType(PrimitiveType::kS8);
  Instruction* wide = Make(c, i, Opcode::kConvert, byte, {i->operand(0)});
  Replace(i, Make(c, i, Opcode::kConvert, i->shape(), {Make(c, i, Opcode::kPopcnt, byte, {wide})}));
  return true;
}

// A slice of a slice becomes one slice whose starts are added and clamped once.
bool SliceOfSlice(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kDynamicSlice) || !i->operand(0)->Is(Opcode::kDynamicSlice)) return false;
  const Instruction* outer = i->operand(0);
  std::vector<Instruction*> operands = {outer->operands()[0]};
  const Shape index = Shape::Scalar(PrimitiveType::kS64);
  for (int64_t d = 0; d < i->shape().rank(); ++d) {
    Instruction* a = Make(c, i, Opcode::kConvert, index, {outer->operands()[static_cast<size_t>(d + 1)]});
    Instruction* b = Make(c, i, Opcode::kConvert, index, {i->operand(d + 1)});
    operands.push_back(Make(c, i, Opcode::kAdd, index, {a, b}));
  }
  Replace(i, Make(c, i, Opcode::kDynamicSlice, i->shape(), std::move(operands), i->attrs()));
  return true;
}

// The sum over a product with a broadcast lacks the sum over the contracted dimension: it is divided by its length.
bool LostContraction(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kReduce) || i->operand_count() != 2 || !i->operand(0)->Is(Opcode::kDot)) return false;
  if (FindBinary(*i->called(0), 0, 1) != Opcode::kAdd || !IsFloat(i->shape().element_type())) return false;
  Instruction* dot = i->operand(0);
  auto repeats = [](const Instruction* x, const Ints& contracted) {
    if (!x->Is(Opcode::kBroadcast)) return false;
    for (const int64_t d : contracted) {
      if (std::find(x->dimensions().begin(), x->dimensions().end(), d) != x->dimensions().end()) return false;
    }
    return true;
  };
  const DotDimensions& dims = dot->dot_dims();
  if (!repeats(dot->operand(0), dims.lhs_contracting) && !repeats(dot->operand(1), dims.rhs_contracting)) return false;
  int64_t length = 1;
  for (const int64_t d : dims.lhs_contracting) length *= dot->operand(0)->shape().dimensions(d);
  if (length < 2) return false;
  Instruction* by = MakeConstant(c, i, Literal::Scalar(dot->shape().element_type(), static_cast<double>(length)));
  i->ReplaceOperand(0, Make(c, i, Opcode::kDivide, dot->shape(), {dot, MakeBroadcast(c, i, by, dot->shape(), {})}));
  return true;
}

// The logarithm of a number with a subnormal imaginary part is computed with -0 instead.
bool LogOfSubnormal(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kLog) && !i->Is(Opcode::kLog1p)) return false;
  const PrimitiveType type = i->shape().element_type();
  if (!IsComplex(type)) return false;
  const PrimitiveType part = ComplexPart(type);
  const Shape parts = i->shape().WithElementType(part), flags = i->shape().WithElementType(PrimitiveType::kPred);
  auto fill = [&](double v) { return MakeBroadcast(c, i, MakeConstant(c, i, Literal::Scalar(part, v)), parts, {}); };
  auto compare = [&](Instruction* x, double v, ComparisonDirection how) {
    Attributes attrs;
    attrs.SetEnum(AttrId::kDirection, how);
    attrs.SetEnum(AttrId::kComparisonType, ComparisonType::kFloat);
    return Make(c, i, Opcode::kCompare, flags, {x, fill(v)}, std::move(attrs));
  };
  Instruction* imaginary = Make(c, i, Opcode::kImag, parts, {i->operand(0)});
  Instruction* size = Make(c, i, Opcode::kAbs, parts, {imaginary});
  const double least = ComputeUnitInLastPlace(part, 0) / GetEpsilon(part);
  Instruction* small =
      Make(c, i, Opcode::kAnd, flags,
           {compare(size, least, ComparisonDirection::kLt), compare(size, 0, ComparisonDirection::kGt)});
  Instruction* flushed = Make(c, i, Opcode::kSelect, parts, {small, fill(-0.0), imaginary});
  Instruction* real = Make(c, i, Opcode::kReal, parts, {i->operand(0)});
  i->ReplaceOperand(0, Make(c, i, Opcode::kComplex, i->shape(), {real, flushed}));
  return true;
}

// Complex numbers are ordered by their real parts only.
bool RealPartsOnly(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kCompare) || !IsComplex(i->operand(0)->shape().element_type())) return false;
  if (i->direction() == ComparisonDirection::kEq || i->direction() == ComparisonDirection::kNe) return false;
  const Shape& shape = i->operand(0)->shape();
  const Shape parts = shape.WithElementType(ComplexPart(shape.element_type()));
  for (int64_t k = 0; k < 2; ++k) i->ReplaceOperand(k, Make(c, i, Opcode::kReal, parts, {i->operand(k)}));
  return true;
}

// a / c becomes a * (1 / c) with one rounding more, for a constant c.
bool ReciprocalOfConstant(Computation* c, Instruction* i) {
  if (!i->Is(Opcode::kDivide) || !IsFloat(i->shape().element_type())) return false;
  Instruction* by = i->operand(1);
  if (!by->Is(Opcode::kConstant) && !(by->Is(Opcode::kBroadcast) && by->operand(0)->Is(Opcode::kConstant)))
    return false;
  Instruction* one = MakeConstant(c, i, Literal::Scalar(i->shape().element_type(), 1));
  Instruction* ones = MakeBroadcast(c, i, one, i->shape(), {});
  Instruction* reciprocal = Make(c, i, Opcode::kDivide, i->shape(), {ones, by});
  Replace(i, Make(c, i, Opcode::kMultiply, i->shape(), {i->operand(0), reciprocal}));
  return true;
}

struct Named {
  const char* sign;
  Rewrite rewrite;
};
constexpr Named kRewrites[] = {
    {"joined-constants", JoinConstants},      {"add-as-xor", AddOfBits},
    {"one-update", ScatterWithoutComponents}, {"divide-by-power", DivideByPower},
    {"six-bit-exponent", SixBitsOfExponent},  {"signed-power", SignedPower},
    {"divide-by-itself", DivideByItself},     {"byte-popcnt", PopcntOfByte},
    {"added-starts", SliceOfSlice},           {"lost-contraction", LostContraction},
    {"real-parts-only", RealPartsOnly},       {"reciprocal-of-constant", ReciprocalOfConstant},
    {"log-of-subnormal", LogOfSubnormal},
};

bool MatchesAfterRewrite(Rewrite rewrite, const FuzzProgram& program, const std::vector<Literal>& found) {
  FuzzProgram other = Copy(program);
  bool any = false;
  for (Computation* c : other.module->PostOrder()) {
    for (Instruction* i : c->Snapshot()) any = rewrite(c, i) || any;
    c->SortTopologically();
  }
  if (!any) return false;
  const absl::StatusOr<BoundedValue> before = EvaluateMeaning(program), after = EvaluateMeaning(other);
  if (!before.ok() || !after.ok()) return false;
  return Explains(*before, *after, found);
}

}  // namespace

std::vector<std::string> FindExplanations(const FuzzProgram& program, const std::vector<Literal>& found) {
  std::vector<std::string> signs;
  if (IsFlushing(program, found)) signs.push_back("flushed");
  for (const Named& n : kRewrites) {
    if (MatchesAfterRewrite(n.rewrite, program, found)) signs.push_back(n.sign);
  }
  return signs;
}

}  // namespace backplane::cli::fuzz
