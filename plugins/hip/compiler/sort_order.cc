#include "plugins/hip/compiler/sort_order.h"

#include <optional>

namespace backplane::hip {
namespace {

constexpr int kMaxDepth = 64;

// Whether x is computed from the elements of one side as y is from those of the other. Sets *side to that of x.
bool AreMirrored(const Instruction* x, const Instruction* y, std::optional<int64_t>* side, int depth = 0) {
  if (depth > kMaxDepth || x->opcode() != y->opcode() || x->shape() != y->shape()) return false;
  if (x->Is(Opcode::kParameter)) {
    const int64_t own = x->parameter_number() % 2;
    if (x->parameter_number() / 2 != y->parameter_number() / 2 || x == y) return false;
    if (side->has_value()) return **side == own;
    *side = own;
    return true;
  }
  if (x->Is(Opcode::kConstant)) return x == y || x->literal() == y->literal();
  if (!x->called().empty() || x->HasSideEffect() || x->operand_count() != y->operand_count() ||
      !(x->attrs() == y->attrs()))
    return false;
  for (int64_t k = 0; k < x->operand_count(); ++k) {
    if (!AreMirrored(x->operand(k), y->operand(k), side, depth + 1)) return false;
  }
  return true;
}

bool IsTotal(const Instruction& compare) {
  const PrimitiveType t = compare.operand(0)->shape().element_type();
  if (IsComplex(t)) return false;
  return !IsFloat(t) || compare.attrs().GetEnum<ComparisonType>(AttrId::kComparisonType, ComparisonType::kFloat) ==
                            ComparisonType::kTotalOrder;
}

ComparisonDirection DirectionOf(const Instruction& compare) {
  return compare.attrs().GetEnum<ComparisonDirection>(AttrId::kDirection);
}

bool ComparesKeys(const Instruction* i) {
  std::optional<int64_t> side;
  return i->Is(Opcode::kCompare) && IsTotal(*i) && AreMirrored(i->operand(0), i->operand(1), &side) && side.has_value();
}

bool IsOrder(const Instruction* i, int depth = 0) {
  if (depth > kMaxDepth) return false;
  if (ComparesKeys(i)) {
    const ComparisonDirection d = DirectionOf(*i);
    return d == ComparisonDirection::kLt || d == ComparisonDirection::kGt;
  }
  // first or (equal and rest)
  if (!i->Is(Opcode::kOr)) return false;
  for (const int64_t k : {0, 1}) {
    const Instruction *first = i->operand(k), *both = i->operand(1 - k);
    if (!ComparesKeys(first) || !IsOrder(first) || !both->Is(Opcode::kAnd)) continue;
    for (const int64_t e : {0, 1}) {
      const Instruction *equal = both->operand(e), *rest = both->operand(1 - e);
      if (!ComparesKeys(equal) || DirectionOf(*equal) != ComparisonDirection::kEq) continue;
      const bool same = (equal->operand(0) == first->operand(0) && equal->operand(1) == first->operand(1)) ||
                        (equal->operand(0) == first->operand(1) && equal->operand(1) == first->operand(0));
      if (same && IsOrder(rest, depth + 1)) return true;
    }
  }
  return false;
}

}  // namespace

bool DistinguishesAll(const Instruction& sort) {
  const Instruction* root = sort.called(0)->root();
  if (sort.operand_count() != 1 || !root->Is(Opcode::kCompare)) return false;
  const Instruction *x = root->operand(0), *y = root->operand(1);
  if (!x->Is(Opcode::kParameter) || !y->Is(Opcode::kParameter) || x == y) return false;
  return IsTotal(*root);
}

bool IsStrictWeakOrder(const Computation& comparator) { return IsOrder(comparator.root()); }

}  // namespace backplane::hip
