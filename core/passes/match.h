// Patterns over instructions: what a rewrite looks for, said in one expression instead of a ladder of ifs.
//
//   using namespace match;
//   Instruction *x, *y;
//   const Literal* k;
//   if (Matches(i, Binary(Opcode::kAdd, Any(&x), Uniform(&k)))) ...            // x + k, in this order
//   if (Matches(i, Commutative(Opcode::kAdd, Any(&x), UniformValue(0)))) ...   // x + 0 or 0 + x
//   if (Matches(i, Op(Opcode::kReverse, Op(Opcode::kReverse, Any(&x))))) ...   // a reverse of a reverse
//   if (Matches(i, Op(Opcode::kSlice, OneUser(Elementwise(&y))))) ...          // nobody else reads y
//   if (Matches(i, Op(Opcode::kSelect, Any(&p), Op(Opcode::kSelect, Same(&p), Any(&x), Any()), Any(&y)))) ...
//
// A pattern is a small object that is asked about one instruction at a time. It holds no memory, and may be kept and
// used as often as wanted. Patterns nest: where a pattern takes operands, each of them is a pattern.
//
// Captures. A pattern that is given the address of a pointer stores there what it matched. Captures mean something only
// when Matches() said true: a pattern that fails late has already stored what its first parts matched.
//
// Order. Operands are matched from left to right, so Same(&x) may stand behind the Any(&x) that stores x.
// Commutative(op, p, q) tries the operands as they stand, then swapped, and stays with the first that fits: a pattern
// around it does not make it try again. AnyOf(p, q) is the same for patterns.
//
// Cost. Matching looks at as many instructions as the pattern has parts, never further. Uniform() and UniformValue()
// also compare the elements of an array constant.
//
// What is not here: numbers of dimensions, shapes and attributes other than through Where(), which takes any predicate.
#ifndef BACKPLANE_CORE_PASSES_MATCH_H_
#define BACKPLANE_CORE_PASSES_MATCH_H_

#include <cmath>
#include <tuple>
#include <utility>

#include "core/passes/rewrite.h"

namespace backplane::match {

// Whether the instruction is what the pattern describes.
template <typename Pattern>
bool Matches(Instruction* i, const Pattern& pattern) {
  return pattern.Match(i);
}

// An instruction of which a predicate holds. All the patterns below without operands are made of it.
template <typename Predicate>
struct WherePattern {
  Predicate predicate;
  Instruction** capture;
  bool Match(Instruction* i) const {
    if (!predicate(i)) return false;
    if (capture != nullptr) *capture = i;
    return true;
  }
};
template <typename Predicate>
WherePattern<Predicate> Where(Predicate predicate, Instruction** capture = nullptr) {
  return {std::move(predicate), capture};
}

// Any instruction.
inline auto Any(Instruction** capture = nullptr) {
  return Where([](const Instruction*) { return true; }, capture);
}

// The instruction that an earlier part of the pattern stored in *captured, or that stood there before.
inline auto Same(Instruction* const* captured) {
  return Where([captured](const Instruction* i) { return i == *captured; });
}

// An operation that makes one element of its result of the same element of each operand.
inline auto Elementwise(Instruction** capture = nullptr) {
  return Where([](const Instruction* i) { return i->info().Has(kElementwise); }, capture);
}

// A constant array or scalar.
inline auto Constant(Instruction** capture = nullptr) {
  return Where([](const Instruction* i) { return i->Is(Opcode::kConstant) && i->shape().IsArray(); }, capture);
}

// A scalar constant; its value.
inline auto ScalarConstant(const Literal** value = nullptr) {
  return Where([value](const Instruction* i) {
    if (!i->Is(Opcode::kConstant) || !i->shape().IsScalar()) return false;
    if (value != nullptr) *value = &i->literal();
    return true;
  });
}

// A constant of equal elements or a broadcast of one; the literal that holds the value as its first element.
inline auto Uniform(const Literal** value = nullptr) {
  return Where([value](const Instruction* i) {
    const Literal* l = UniformConstant(i);
    if (l == nullptr) return false;
    if (value != nullptr) *value = l;
    return true;
  });
}

// The same with this value in every element, which is then exact in its type. 0 is not -0; complex numbers never match.
inline auto UniformValue(double value) {
  return Where([value](const Instruction* i) {
    const Literal* l = UniformConstant(i);
    if (l == nullptr || IsComplex(l->shape().element_type())) return false;
    const double v = l->GetAsDouble(0);
    return v == value && std::signbit(v) == std::signbit(value);
  });
}

// An instruction with this opcode and exactly as many operands as there are patterns, each matched by its own.
template <typename... Operands>
struct OpPattern {
  Opcode opcode;
  std::tuple<Operands...> operands;
  Instruction** capture = nullptr;

  // The same pattern; stores the instruction itself.
  OpPattern As(Instruction** where) const {
    OpPattern p = *this;
    p.capture = where;
    return p;
  }
  bool Match(Instruction* i) const {
    if (!i->Is(opcode) || i->operand_count() != static_cast<int64_t>(sizeof...(Operands))) return false;
    if (!MatchOperands(i, std::index_sequence_for<Operands...>())) return false;
    if (capture != nullptr) *capture = i;
    return true;
  }

 private:
  template <size_t... Is>
  bool MatchOperands(Instruction* i, std::index_sequence<Is...>) const {
    return (std::get<Is>(operands).Match(i->operand(static_cast<int64_t>(Is))) && ...);
  }
};
template <typename... Operands>
OpPattern<Operands...> Op(Opcode opcode, Operands... operands) {
  return {opcode, std::tuple<Operands...>(std::move(operands)...)};
}
template <typename P, typename Q>
auto Binary(Opcode opcode, P lhs, Q rhs) {
  return Op(opcode, std::move(lhs), std::move(rhs));
}

// An instruction with this opcode and two operands that match in one order or the other.
template <typename P, typename Q>
struct CommutativePattern {
  Opcode opcode;
  P p;
  Q q;
  bool Match(Instruction* i) const {
    if (!i->Is(opcode) || i->operand_count() != 2) return false;
    Instruction *a = i->operand(0), *b = i->operand(1);
    return (p.Match(a) && q.Match(b)) || (p.Match(b) && q.Match(a));
  }
};
template <typename P, typename Q>
CommutativePattern<P, Q> Commutative(Opcode opcode, P p, Q q) {
  return {opcode, std::move(p), std::move(q)};
}

// A broadcast, whatever its dimensions, of what `p` matches; and one of a scalar that `p` matches, or that scalar.
template <typename P>
auto BroadcastOf(P p) {
  return Op(Opcode::kBroadcast, std::move(p));
}
template <typename P>
auto Splat(P p) {
  return Where([p = std::move(p)](Instruction* i) {
    if (i->Is(Opcode::kBroadcast)) i = i->operand(0);
    return i->shape().IsScalar() && p.Match(i);
  });
}

// An instruction that exactly one other reads, and that is not its computation's result.
template <typename P>
auto OneUser(P p) {
  return Where([p = std::move(p)](Instruction* i) { return i->users().size() == 1 && !i->IsRoot() && p.Match(i); });
}

// What matches one of two patterns (the first that fits stores), or both.
template <typename P, typename Q>
auto AnyOf(P p, Q q) {
  return Where([p = std::move(p), q = std::move(q)](Instruction* i) { return p.Match(i) || q.Match(i); });
}
template <typename P, typename Q>
auto AllOf(P p, Q q) {
  return Where([p = std::move(p), q = std::move(q)](Instruction* i) { return p.Match(i) && q.Match(i); });
}

}  // namespace backplane::match

#endif  // BACKPLANE_CORE_PASSES_MATCH_H_
