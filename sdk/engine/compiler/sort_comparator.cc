#include "sdk/engine/compiler/sort_comparator.h"

#include <cmath>

#include "core/types/literal.h"

namespace backplane::engine {
namespace {

// A number that a comparison looks at.
struct Leaf {
  int64_t parameter = 0;
  Opcode part = Opcode::kCopy;  // or kReal, kImag
  PrimitiveType type = PrimitiveType::kInvalid;
  bool zeros_equal = false, nans_equal = false;
  bool SameNumber(const Leaf& o) const { return parameter == o.parameter && part == o.part; }
};

bool IsScalarConstant(const Instruction* i) {
  return i->Is(Opcode::kConstant) && i->shape().IsScalar() && IsFloat(i->shape().element_type());
}
bool IsPositiveZero(const Instruction* i) {
  return IsScalarConstant(i) && i->literal().GetAsDouble(0) == 0 && !std::signbit(i->literal().GetAsDouble(0));
}
bool IsZero(const Instruction* i) { return IsScalarConstant(i) && i->literal().GetAsDouble(0) == 0; }
bool IsPositiveNan(const Instruction* i) {
  return IsScalarConstant(i) && std::isnan(i->literal().GetAsDouble(0)) && !std::signbit(i->literal().GetAsDouble(0));
}

bool WidensExactly(PrimitiveType from, PrimitiveType to) {
  using enum PrimitiveType;
  if (from == kBF16 || from == kF16) return to == kF32 || to == kF64;
  return from == kF32 && to == kF64;
}

std::optional<Leaf> LeafOf(const Instruction* i);

std::optional<Leaf> SelectLeaf(const Instruction* i) {
  const Instruction* pred = i->operand(0);
  if (!pred->Is(Opcode::kCompare)) return std::nullopt;
  auto compared = LeafOf(pred->operand(0));
  const ComparisonDirection direction = pred->direction();
  const Instruction *replacement = i->operand(1), *kept = i->operand(2);
  if (direction == ComparisonDirection::kNe && IsZero(pred->operand(1))) std::swap(replacement, kept);
  auto rest = LeafOf(kept);
  if (!compared || !rest || !compared->SameNumber(*rest)) return std::nullopt;
  if (pred->attrs().GetEnum<ComparisonType>(AttrId::kComparisonType, ComparisonType::kFloat) != ComparisonType::kFloat)
    return std::nullopt;
  if (IsZero(pred->operand(1)) && IsPositiveZero(replacement) &&
      (direction == ComparisonDirection::kEq || direction == ComparisonDirection::kNe)) {
    rest->zeros_equal = true;
    return rest;
  }
  auto other = LeafOf(pred->operand(1));
  if (direction == ComparisonDirection::kNe && other && other->SameNumber(*compared) && IsPositiveNan(replacement)) {
    rest->nans_equal = true;
    return rest;
  }
  return std::nullopt;
}

std::optional<Leaf> LeafOf(const Instruction* i) {
  switch (i->opcode()) {
    case Opcode::kParameter:
      return Leaf{i->parameter_number(), Opcode::kCopy, i->shape().element_type()};
    case Opcode::kCopy:
      return LeafOf(i->operand(0));
    case Opcode::kReal:
    case Opcode::kImag: {
      auto leaf = LeafOf(i->operand(0));
      if (!leaf || !IsComplex(leaf->type)) return std::nullopt;
      leaf->part = i->opcode();
      leaf->type = ComplexPart(leaf->type);
      return leaf;
    }
    case Opcode::kConvert: {
      auto leaf = LeafOf(i->operand(0));
      if (!leaf || !WidensExactly(i->operand(0)->shape().element_type(), i->shape().element_type()))
        return std::nullopt;
      return leaf;
    }
    case Opcode::kSelect:
      return SelectLeaf(i);
    default:
      return std::nullopt;
  }
}

struct Comparison {
  ComparisonDirection direction;
  SortKey key;  // of "left before right"
};

std::optional<Comparison> ComparisonOf(const Instruction* i) {
  if (!i->Is(Opcode::kCompare)) return std::nullopt;
  auto a = LeafOf(i->operand(0)), b = LeafOf(i->operand(1));
  if (!a || !b || a->parameter == b->parameter || a->parameter / 2 != b->parameter / 2 || a->part != b->part ||
      a->zeros_equal != b->zeros_equal || a->nans_equal != b->nans_equal) {
    return std::nullopt;
  }
  const bool total =
      IsFloat(a->type) && i->attrs().GetEnum<ComparisonType>(AttrId::kComparisonType, ComparisonType::kFloat) ==
                              ComparisonType::kTotalOrder;
  if (total && a->zeros_equal != a->nans_equal) return std::nullopt;
  const ComparisonDirection d = i->direction();
  const bool descending = (d == ComparisonDirection::kGt) != (a->parameter > b->parameter);
  auto format = FindKeyFormat(a->type, descending, total && !a->zeros_equal);
  if (!format) return std::nullopt;
  return Comparison{
      d, SortKey{static_cast<int>(a->parameter / 2), a->part == Opcode::kImag ? ByteWidth(a->type) : 0, *format}};
}

bool IsStrict(const std::optional<Comparison>& c) {
  return c && (c->direction == ComparisonDirection::kLt || c->direction == ComparisonDirection::kGt);
}

bool SameKey(SortKey a, SortKey b) {
  a.format.descending = b.format.descending = false;
  return a == b;
}

std::optional<std::vector<SortKey>> Less(const Instruction* i) {
  if (auto c = ComparisonOf(i); IsStrict(c)) return std::vector<SortKey>{c->key};
  // `first` decides; where `equal` (or, negated, not `unequal`) holds, `rest` does.
  auto chain = [](const Instruction* first, const Instruction* tie, ComparisonDirection kind,
                  const Instruction* rest) -> std::optional<std::vector<SortKey>> {
    auto f = ComparisonOf(first), e = ComparisonOf(tie);
    if (!IsStrict(f) || !e || e->direction != kind || !SameKey(f->key, e->key)) return std::nullopt;
    auto keys = Less(rest);
    if (keys) keys->insert(keys->begin(), f->key);
    return keys;
  };
  if (i->Is(Opcode::kOr)) {
    for (int swap : {0, 1}) {
      const Instruction *first = i->operand(swap), *both = i->operand(1 - swap);
      if (!both->Is(Opcode::kAnd)) continue;
      for (int k : {0, 1}) {
        if (auto keys = chain(first, both->operand(k), ComparisonDirection::kEq, both->operand(1 - k))) return keys;
      }
    }
  }
  if (i->Is(Opcode::kSelect)) {
    if (auto keys = chain(i->operand(2), i->operand(0), ComparisonDirection::kEq, i->operand(1))) return keys;
    if (auto keys = chain(i->operand(1), i->operand(0), ComparisonDirection::kNe, i->operand(2))) return keys;
  }
  return std::nullopt;
}

}  // namespace

std::optional<KeyFormat> FindKeyFormat(PrimitiveType type, bool descending, bool total_order) {
  KeyFormat f;
  f.bytes = ByteWidth(type);
  f.descending = descending;
  if (IsSigned(type)) {
    f.kind = KeyKind::kSigned;
  } else if (IsUnsigned(type) || type == PrimitiveType::kPred) {
    f.kind = KeyKind::kUnsigned;
  } else {
    f.kind = total_order ? KeyKind::kFloatTotal : KeyKind::kFloatCanonical;
    switch (type) {
      case PrimitiveType::kF16:
        f.infinity = 0x7c00;
        break;
      case PrimitiveType::kBF16:
        f.infinity = 0x7f80;
        break;
      case PrimitiveType::kF32:
        f.infinity = 0x7f800000;
        break;
      case PrimitiveType::kF64:
        f.infinity = 0x7ff0000000000000;
        break;
      default:
        return std::nullopt;
    }
  }
  return f;
}

std::optional<std::vector<SortKey>> ComparatorKeys(const Computation& comparator) {
  return comparator.instruction_count() > 1000 ? std::nullopt : Less(comparator.root());
}

}  // namespace backplane::engine
