// Patterns over instructions: the precondition of a rewrite as one expression instead of nested conditions.
//
//   using namespace match;
//   Instruction *x, *y;
//   const Literal* k;
//   if (Matches(i, Binary(Opcode::kAdd, Any(&x), Uniform(&k)))) ...            // x + k, in this order
//   if (Matches(i, Commutative(Opcode::kAdd, Any(&x), UniformValue(0)))) ...   // x + 0 or 0 + x
//   if (Matches(i, Op(Opcode::kReverse, Op(Opcode::kReverse, Any(&x))))) ...   // a reverse of a reverse
//   if (Matches(i, Op(Opcode::kSlice, OneUser(Elementwise(&y))))) ...          // y has no other user
//   if (Matches(i, Op(Opcode::kSelect, Any(&p), Op(Opcode::kSelect, Same(&p), Any(&x), Any()), Any(&y)))) ...
//
// A pattern is a small object that tests one instruction at a time. It allocates nothing and can be reused. Patterns
// nest: the operands of a pattern are patterns.
//
// Captures. A pattern constructed with the address of a pointer stores the instruction that it matched. Captures are
// valid only if Matches() returned true: a pattern that fails late has already stored the matches of its first
// operands.
//
// Order. Operands are matched from left to right, so Same(&x) may follow the Any(&x) that stores x. Commutative(op, p,
// q) tries the operands in order, then swapped, and keeps the first match; it does not backtrack if an enclosing
// pattern fails later. AnyOf(p, q) behaves likewise.
//
// Cost. A match visits at most as many instructions as the pattern has nodes. Uniform() and UniformValue() also compare
// the elements of an array constant.
//
// There are no patterns for dimension numbers, shapes and attributes. Where() takes any predicate.
#ifndef BACKPLANE_CORE_PASSES_MATCH_H_
#define BACKPLANE_CORE_PASSES_MATCH_H_

#include <cmath>
#include <tuple>
#include <utility>

#include "core/passes/rewrite.h"

namespace backplane::match {

// Whether the pattern matches the instruction.
template <typename Pattern>
bool Matches(Instruction* i, const Pattern& pattern) {
  return pattern.Match(i);
}

// Matches an instruction that satisfies a predicate. The patterns below without operands are built on it.
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

// Matches any instruction.
inline auto Any(Instruction** capture = nullptr) {
  return Where([](const Instruction*) { return true; }, capture);
}

// Matches the instruction that *captured points to: one that an earlier part of the pattern stored, or the caller.
inline auto Same(Instruction* const* captured) {
  return Where([captured](const Instruction* i) { return i == *captured; });
}

// Matches an elementwise operation.
inline auto Elementwise(Instruction** capture = nullptr) {
  return Where([](const Instruction* i) { return i->info().Has(kElementwise); }, capture);
}

// Matches a constant.
inline auto Constant(Instruction** capture = nullptr) {
  return Where([](const Instruction* i) { return i->Is(Opcode::kConstant) && i->shape().IsArray(); }, capture);
}

// Matches a scalar constant and stores its value.
inline auto ScalarConstant(const Literal** value = nullptr) {
  return Where([value](const Instruction* i) {
    if (!i->Is(Opcode::kConstant) || !i->shape().IsScalar()) return false;
    if (value != nullptr) *value = &i->literal();
    return true;
  });
}

// Matches a constant with equal elements, or a broadcast of a scalar constant. Stores the literal whose first element
// is the value.
inline auto Uniform(const Literal** value = nullptr) {
  return Where([value](const Instruction* i) {
    const Literal* l = FindUniformConstant(i);
    if (l == nullptr) return false;
    if (value != nullptr) *value = l;
    return true;
  });
}

// Like Uniform, for one value, which must be exact in the element type. 0 does not match -0. Complex constants never
// match.
inline auto UniformValue(double value) {
  return Where([value](const Instruction* i) {
    const Literal* l = FindUniformConstant(i);
    if (l == nullptr || IsComplex(l->shape().element_type())) return false;
    const double v = l->GetAsDouble(0);
    return v == value && std::signbit(v) == std::signbit(value);
  });
}

// Matches an instruction with this opcode and exactly as many operands as there are patterns, operand by operand.
template <typename... Operands>
struct OpPattern {
  Opcode opcode;
  std::tuple<Operands...> operands;
  Instruction** capture = nullptr;

  // Returns this pattern, which also stores the matched instruction in *where.
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

// Matches an instruction with this opcode and two operands that match in either order.
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

// BroadcastOf(p) matches a broadcast, with any dimensions, of an instruction that `p` matches. Splat(p) matches a
// broadcast of a scalar that `p` matches, and also that scalar itself.
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

// Matches an instruction that has one user and is not the root.
template <typename P>
auto OneUser(P p) {
  return Where([p = std::move(p)](Instruction* i) { return i->users().size() == 1 && !i->IsRoot() && p.Match(i); });
}

// AnyOf matches if at least one of two patterns does; only the first match stores captures. AllOf matches if both do.
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
