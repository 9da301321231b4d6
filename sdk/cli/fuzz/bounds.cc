#include "sdk/cli/fuzz/bounds.h"

#include <cmath>
#include <limits>

#include "core/eval/evaluator.h"
#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/bounds_util.h"

namespace backplane::cli::fuzz {
namespace {

struct Format {
  int mantissa, least_exponent;
  double max;
};

Format FormatOf(PrimitiveType type) {
  switch (ComplexPart(type)) {
    case PrimitiveType::kF64:
      return {52, -1022, std::numeric_limits<double>::max()};
    case PrimitiveType::kF32:
      return {23, -126, static_cast<double>(std::numeric_limits<float>::max())};
    case PrimitiveType::kBF16:
      return {7, -126, 0x1.fep127};
    case PrimitiveType::kF16:
      return {10, -14, 65504};
    case PrimitiveType::kF8E5M2:
      return {2, -14, 57344};
    case PrimitiveType::kF8E4M3:
      return {3, -6, 240};
    case PrimitiveType::kF8E4M3FN:
      return {3, -6, 448};
    case PrimitiveType::kF8E4M3B11FNUZ:
      return {3, -10, 30};
    case PrimitiveType::kF8E5M2FNUZ:
      return {2, -15, 57344};
    case PrimitiveType::kF8E4M3FNUZ:
      return {3, -7, 240};
    case PrimitiveType::kF8E3M4:
      return {4, -2, 15.5};
    case PrimitiveType::kF8E8M0FNU:
      return {0, -127, 0x1p127};
    case PrimitiveType::kF6E2M3FN:
      return {3, 0, 7.5};
    case PrimitiveType::kF6E3M2FN:
      return {2, -2, 28};
    case PrimitiveType::kF4E2M1FN:
      return {1, 0, 6};
    default:
      return {-1, 0, 0};
  }
}

BoundedValue CopyBounds(const BoundedValue& from) { return from; }

// Operations that move elements. Their bounds move in the same way. Operands from `first_index` on are indices.
absl::StatusOr<BoundedValue> BoundMovement(const Instruction& i, absl::Span<const BoundedValue* const> ops,
                                           size_t first_index, size_t index_count) {
  ASSIGN_OR_RETURN(const Literal value, EvaluateValue(i, ops));
  bool places_known = true, exact = true;
  for (size_t k = 0; k < ops.size(); ++k) {
    const bool index = k >= first_index && k < first_index + index_count;
    if (index && !ops[k]->exact()) places_known = false;
    if (!index && !ops[k]->exact()) exact = false;
  }
  if (!places_known) return BoundedValue::Undecided(value);
  BoundedValue j = BoundedValue::Exact(value);
  if (exact) return j;
  for (Literal BoundedValue::*bound : {&BoundedValue::seen, &BoundedValue::used}) {
    std::vector<Literal> moved;
    for (size_t k = 0; k < ops.size(); ++k) {
      const bool index = k >= first_index && k < first_index + index_count;
      moved.push_back(index ? ops[k]->value : ExpandBounds(ops[k]->*bound, ops[k]->value.shape()));
    }
    ASSIGN_OR_RETURN(j.*bound, EvaluateInF64(i, moved));
    Drop(j.*bound);
  }
  return j;
}
}  // namespace

BoundedValue MakeBoundedValue(const Literal& value, bool exact) {
  if (!value.shape().IsTuple()) return exact ? BoundedValue::Exact(value) : BoundedValue::Undecided(value);
  BoundedValue j;
  j.is_tuple = true;
  for (const Literal& e : value.elements()) j.elements.push_back(MakeBoundedValue(e, exact));
  return j;
}

absl::StatusOr<Literal> EvaluateValue(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  std::vector<Literal> values;
  for (const BoundedValue* j : ops) values.push_back(j->ToLiteral());
  std::vector<const Literal*> pointers;
  for (const Literal& v : values) pointers.push_back(&v);
  return EvaluateInstruction(i, pointers);
}

double ComputeUnitInLastPlace(PrimitiveType type, double v) {
  const Format f = FormatOf(type);
  if (f.mantissa < 0) return 0;
  v = std::abs(v);
  if (!(v < kInf)) return 0;
  const int exponent = v == 0 ? f.least_exponent : std::max(std::ilogb(v), f.least_exponent);
  return std::ldexp(1.0, exponent - f.mantissa);
}

double GetEpsilon(PrimitiveType type) {
  const Format f = FormatOf(type);
  return f.mantissa < 0 ? 0 : std::ldexp(1.0, -f.mantissa);
}

double MaxFinite(PrimitiveType type) { return FormatOf(type).max; }

bool HasNegativeZero(PrimitiveType type) {
  return type != PrimitiveType::kF8E5M2FNUZ && type != PrimitiveType::kF8E4M3FNUZ &&
         type != PrimitiveType::kF8E4M3B11FNUZ && type != PrimitiveType::kF8E8M0FNU;
}

bool HasNanValues(PrimitiveType type) {
  return type != PrimitiveType::kF4E2M1FN && type != PrimitiveType::kF6E2M3FN && type != PrimitiveType::kF6E3M2FN;
}

bool BoundedValue::exact() const {
  for (const BoundedValue& e : elements) {
    if (!e.exact()) return false;
  }
  return !seen.valid() && !used.valid();
}

Literal BoundedValue::ToLiteral() const {
  if (!is_tuple) return value;
  std::vector<Literal> parts;
  for (const BoundedValue& e : elements) parts.push_back(e.ToLiteral());
  return Literal::Tuple(std::move(parts));
}

BoundedValue BoundedValue::Exact(Literal value) {
  BoundedValue j;
  if (value.shape().IsTuple()) return MakeBoundedValue(value, true);
  j.value = std::move(value);
  return j;
}

BoundedValue BoundedValue::Undecided(Literal value) {
  if (value.shape().IsTuple()) return MakeBoundedValue(value, false);
  BoundedValue j;
  if (value.shape().IsArray() && value.num_elements() > 0) {
    j.seen = Zeros(value.shape());
    for (double& e : j.seen.mutable_data<double>()) e = kInf;
    j.used = j.seen;
  }
  j.value = std::move(value);
  return j;
}

absl::StatusOr<Literal> EvaluateInF64(const Instruction& like, absl::Span<const Literal> operands, PrimitiveType result,
                                      std::optional<Opcode> combiner) {
  Module module("shadow");
  Builder b(&module, "main");
  std::vector<Value> values;
  std::vector<const Literal*> pointers;
  for (const Literal& o : operands) {
    ASSIGN_OR_RETURN(const Value v, b.Parameter(static_cast<int64_t>(values.size()), o.shape()));
    values.push_back(v);
    pointers.push_back(&o);
  }
  std::vector<Computation*> called;
  if (combiner.has_value()) {
    ASSIGN_OR_RETURN(Computation * c, MakeScalarBinaryComputation(&module, *combiner, result));
    called.push_back(c);
  }
  Shape declared;
  if (like.info().Has(kDeclared)) declared = Shape(result, like.shape().dimensions());
  ASSIGN_OR_RETURN(const Value v, b.Op(like.opcode(), values, like.attrs(), called, declared));
  return EvaluateInstruction(*v, pointers);
}

Literal Zeros(const Shape& like) { return Literal(Shape(PrimitiveType::kF64, like.dimensions())); }

Literal ExpandBounds(const Literal& bound, const Shape& like) { return bound.valid() ? bound : Zeros(like); }

Literal ComputeMagnitudes(const Literal& value) {
  Literal out = Zeros(value.shape());
  absl::Span<double> to = out.mutable_data<double>();
  const bool complex = IsComplex(value.shape().element_type());
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t k = static_cast<int64_t>(i);
    to[i] = complex ? std::abs(value.GetAsComplex(k)) : std::abs(value.GetAsDouble(k));
  }
  return out;
}

double FindGreatest(const Literal& bound) {
  double most = 0;
  if (!bound.valid()) return most;
  for (const double e : bound.data<double>()) most = e > most || std::isnan(e) ? (std::isnan(e) ? kInf : e) : most;
  return most;
}

void Drop(Literal& bound) {
  if (!bound.valid()) return;
  bool any = false;
  for (double& e : bound.mutable_data<double>()) {
    if (std::isnan(e)) e = kInf;
    any = any || e != 0;
  }
  if (!any) bound = Literal();
}

bool HasNan(const Literal& value) {
  if (!value.shape().IsArray() || !IsFloat(ComplexPart(value.shape().element_type()))) return false;
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    const std::complex<double> v =
        IsComplex(value.shape().element_type()) ? value.GetAsComplex(i) : value.GetAsDouble(i);
    if (std::isnan(v.real()) || std::isnan(v.imag())) return true;
  }
  return false;
}

bool HasNoUnderflow(PrimitiveType type, int granule) { return granule >= std::ilogb(ComputeUnitInLastPlace(type, 0)); }

int GetLowestBitExponent(const Literal& value) {
  int least = 4096;
  auto add = [&](double v) {
    if (v == 0 || !std::isfinite(v)) return;
    int exponent;
    const double m = std::frexp(v, &exponent);
    const int64_t bits = static_cast<int64_t>(std::ldexp(m, 53));
    least = std::min(least, exponent - 53 + __builtin_ctzll(static_cast<uint64_t>(bits)));
  };
  const bool complex = IsComplex(value.shape().element_type());
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    if (complex) {
      const std::complex<double> c = value.GetAsComplex(i);
      add(c.real());
      add(c.imag());
    } else {
      add(value.GetAsDouble(i));
    }
  }
  return least;
}

std::optional<Opcode> FindBinary(const Computation& body, int64_t component, int64_t components) {
  const Instruction* root = body.root();
  if (components > 1) {
    if (!root->Is(Opcode::kTuple) || root->operand_count() != components) return std::nullopt;
    root = root->operand(component);
  }
  if (root->operand_count() != 2 || !root->info().Has(kElementwise)) return std::nullopt;
  const Instruction *a = body.parameter(component), *c = body.parameter(components + component);
  const bool ours =
      (root->operand(0) == a && root->operand(1) == c) || (root->operand(0) == c && root->operand(1) == a);
  return ours ? std::optional<Opcode>(root->opcode()) : std::nullopt;
}

absl::StatusOr<BoundedValue> BoundInstruction(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  if (i.info().Has(kElementwise) && !i.Is(Opcode::kCopy)) {
    if (i.Is(Opcode::kSelect) && ops[1]->is_tuple) {
      const BoundedValue& chosen = ops[0]->value.GetAsInt(0) != 0 ? *ops[1] : *ops[2];
      return ops[0]->exact() ? chosen : MakeBoundedValue(chosen.ToLiteral(), false);
    }
    return BoundElementwise(i, ops);
  }
  if (i.info().Has(kForwardsOperand)) return CopyBounds(*ops[0]);
  switch (i.opcode()) {
    case Opcode::kCopy:
    case Opcode::kAsyncUpdate:
      return CopyBounds(*ops[0]);
    case Opcode::kTuple: {
      BoundedValue j;
      j.is_tuple = true;
      for (const BoundedValue* o : ops) j.elements.push_back(*o);
      return j;
    }
    case Opcode::kGetTupleElement:
      return ops[0]->elements[static_cast<size_t>(i.tuple_index())];
    case Opcode::kBroadcast:
    case Opcode::kConcatenate:
    case Opcode::kPad:
    case Opcode::kReshape:
    case Opcode::kReverse:
    case Opcode::kTranspose:
    case Opcode::kSlice:
      return BoundMovement(i, ops, ops.size(), 0);
    case Opcode::kDynamicSlice:
      return BoundMovement(i, ops, 1, ops.size() - 1);
    case Opcode::kDynamicUpdateSlice:
      return BoundMovement(i, ops, 2, ops.size() - 2);
    case Opcode::kGather:
      return BoundMovement(i, ops, 1, 1);
    case Opcode::kCall:
    case Opcode::kConditional:
    case Opcode::kFusion:
    case Opcode::kMap:
    case Opcode::kScan:
    case Opcode::kWhile:
      return BoundControl(i, ops);
    case Opcode::kAsyncStart: {
      std::vector<BoundedValue> arguments;
      for (const BoundedValue* o : ops) arguments.push_back(*o);
      ASSIGN_OR_RETURN(BoundedValue result, BoundComputation(*i.called(0), arguments));
      ASSIGN_OR_RETURN(const Literal value, EvaluateValue(i, ops));
      BoundedValue j = MakeBoundedValue(value, true);
      j.elements[1] = std::move(result);
      return j;
    }
    case Opcode::kBitcastConvert:
      // The sign and the payload of a NaN are unspecified.
      if (HasNan(ops[0]->value)) {
        ASSIGN_OR_RETURN(const Literal bits, EvaluateValue(i, ops));
        return BoundedValue::Undecided(bits);
      }
      break;
    case Opcode::kAsyncDone:
      return ops[0]->elements[1];
    case Opcode::kCopyStart: {
      ASSIGN_OR_RETURN(const Literal value, EvaluateValue(i, ops));
      BoundedValue j = MakeBoundedValue(value, true);
      j.elements[0] = j.elements[1] = *ops[0];
      return j;
    }
    case Opcode::kCopyDone:
      return ops[0]->elements[0];
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
    case Opcode::kSort:
    case Opcode::kTopK:
      return BoundReduction(i, ops);
    case Opcode::kScatter:
    case Opcode::kSelectAndScatter:
      return BoundScatter(i, ops);
    case Opcode::kDot:
    case Opcode::kRaggedDot:
    case Opcode::kScaledDot:
    case Opcode::kConvolution:
      return BoundContraction(i, ops);
    case Opcode::kFft:
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
    case Opcode::kBatchNormGrad:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormTraining:
      return BoundNumerics(i, ops);
    default:
      break;
  }
  // Constants, iota, bits of generators, sizes, reinterpretation, tokens: exact if the operands are exact.
  ASSIGN_OR_RETURN(const Literal value, EvaluateValue(i, ops));
  return MakeBoundedValue(value, AllExact(ops));
}

absl::StatusOr<BoundedValue> BoundComputation(const Computation& computation, absl::Span<const BoundedValue> arguments,
                                              absl::flat_hash_map<const Instruction*, BoundedValue>* all) {
  absl::flat_hash_map<const Instruction*, BoundedValue> own;
  if (all == nullptr) all = &own;
  for (const auto& i : computation.instructions()) {
    if (i->Is(Opcode::kParameter)) {
      (*all)[i.get()] = arguments[static_cast<size_t>(i->parameter_number())];
      continue;
    }
    std::vector<const BoundedValue*> ops;
    for (const Instruction* o : i->operands()) ops.push_back(&all->at(o));
    ASSIGN_OR_RETURN(BoundedValue j, BoundInstruction(*i, ops));
    (*all)[i.get()] = std::move(j);
  }
  return all->at(computation.root());
}

}  // namespace backplane::cli::fuzz
