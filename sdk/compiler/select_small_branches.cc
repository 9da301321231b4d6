#include "sdk/compiler/select_small_branches.h"

#include <algorithm>
#include <vector>

#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"

namespace backplane::compiler {
namespace {

constexpr size_t kMaxBranches = 3;
constexpr int kMaxArithmetic = 12;              // operations of all branches but one: they are computed in vain
constexpr int64_t kMaxElements = 1 << 14;       // of an array: beyond, the time of a branch is that of its memory
constexpr int64_t kMaxStateElements = 1 << 15;  // of all results

bool IsFree(const Instruction& i) {
  switch (i.opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kReshape:
    case Opcode::kBroadcast:
    case Opcode::kIota:
      return true;
    default:
      return false;
  }
}

bool IsCheap(const Instruction& i) {
  if (!i.shape().IsArray() || !i.called().empty() || i.HasSideEffect()) return false;
  if (i.Is(Opcode::kSlice)) return true;
  // A quotient of vectors is cheap, of integers it is not.
  if (i.Is(Opcode::kDivide) || i.Is(Opcode::kRemainder)) return IsFloat(i.shape().element_type());
  return i.info().Has(kElementwise) && !i.info().Has(kTranscendental) && !i.Is(Opcode::kPower) &&
         !IsComplex(i.shape().element_type());
}

// Returns the number of operations of the branch, or -1 if it has anything else than cheap ones. `elements` is the size
// of the largest result of the conditional.
int CountArithmetic(const Computation& branch, int64_t elements) {
  int count = 0;
  for (const auto& i : branch.instructions()) {
    if (i->shape().IsArray() && i->shape().num_elements() > elements && !i->Is(Opcode::kParameter)) return -1;
    if (IsFree(*i)) continue;
    if (!IsCheap(*i)) return -1;
    ++count;
  }
  return count;
}

bool IsWorthwhile(const Instruction& conditional) {
  if (conditional.called().size() > kMaxBranches || conditional.HasSideEffect()) return false;
  const Shape& s = conditional.shape();
  int64_t largest = 0, all = 0;
  const int64_t leaves = s.IsTuple() ? s.tuple_size() : 1;
  for (int64_t k = 0; k < leaves; ++k) {
    const Shape& leaf = s.IsTuple() ? s.tuple_shapes(k) : s;
    if (!leaf.IsArray() || !IsArrayType(leaf.element_type())) return false;
    largest = std::max(largest, leaf.num_elements());
    all += leaf.num_elements();
  }
  if (leaves == 0 || largest > kMaxElements || all > kMaxStateElements) return false;
  int total = 0, least = kMaxArithmetic;
  for (const Computation* branch : conditional.called()) {
    const int count = CountArithmetic(*branch, largest);
    if (count < 0) return false;
    total += count;
    least = std::min(least, count);
  }
  return total - least <= kMaxArithmetic;
}

Instruction* MakeSelect(Computation* c, const Instruction* like, Instruction* predicate, Instruction* a,
                        Instruction* b) {
  if (a == b) return a;
  Instruction* p = a->shape().rank() == 0
                       ? predicate
                       : MakeBroadcast(c, like, predicate, a->shape().WithElementType(PrimitiveType::kPred), {});
  return Make(c, like, Opcode::kSelect, a->shape(), {p, a, b});
}

// Of an index, an index out of range selects the last branch.
Instruction* MakeIsBranch(Computation* c, const Instruction* like, Instruction* index, int64_t branch) {
  Attributes attrs;
  attrs.SetEnum(AttrId::kDirection, ComparisonDirection::kEq);
  Instruction* number = MakeConstant(c, like, Literal::ScalarInt(PrimitiveType::kS32, branch));
  return Make(c, like, Opcode::kCompare, Shape::Scalar(PrimitiveType::kPred), {index, number}, std::move(attrs));
}

Instruction* MakeSelects(Instruction* conditional) {
  Computation* c = conditional->parent();
  const size_t n = conditional->called().size();
  const bool is_pred = conditional->operand(0)->shape().element_type() == PrimitiveType::kPred;
  std::vector<Instruction*> results;
  for (size_t k = 0; k < n; ++k) {
    const auto b = static_cast<int64_t>(k);
    results.push_back(Inline(c, conditional->called(b), {conditional->operand(b + 1)}));
  }
  std::vector<Instruction*> predicates;
  for (size_t k = 0; k + 1 < n; ++k) {
    predicates.push_back(is_pred ? conditional->operand(0)
                                 : MakeIsBranch(c, conditional, conditional->operand(0), static_cast<int64_t>(k)));
  }
  auto element = [&](Instruction* x, int64_t k) {
    if (!conditional->shape().IsTuple()) return x;
    return x->Is(Opcode::kTuple) ? x->operand(k) : MakeElement(c, x, k);
  };
  std::vector<Instruction*> leaves;
  const int64_t count = conditional->shape().IsTuple() ? conditional->shape().tuple_size() : 1;
  for (int64_t leaf = 0; leaf < count; ++leaf) {
    Instruction* r = element(results[n - 1], leaf);
    for (size_t k = n - 1; k-- > 0;) r = MakeSelect(c, conditional, predicates[k], element(results[k], leaf), r);
    leaves.push_back(r);
  }
  if (!conditional->shape().IsTuple()) return leaves[0];
  return Make(c, conditional, Opcode::kTuple, conditional->shape(), std::move(leaves));
}

}  // namespace

absl::StatusOr<bool> SelectSmallBranches::Run(Module* module) {
  return RewriteEach(module, [](Computation*, Instruction* i) -> absl::StatusOr<bool> {
    if (!i->Is(Opcode::kConditional) || !IsWorthwhile(*i)) return false;
    Replace(i, MakeSelects(i));
    return true;
  });
}

}  // namespace backplane::compiler
