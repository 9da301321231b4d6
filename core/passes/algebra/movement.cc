#include <algorithm>

#include "absl/algorithm/container.h"
#include "core/passes/algebra/rules.h"
#include "core/passes/match.h"

namespace backplane::algebra {
namespace {

using namespace match;

// ---- reshape

Instruction* ReshapeNothing(Instruction* i, Rewriter&) {
  return i->operand(0)->shape() == i->shape() ? i->operand(0) : nullptr;
}

Instruction* ReshapeOfReshape(Instruction* i, Rewriter& to) {
  Instruction* x;
  if (!Matches(i, Op(Opcode::kReshape, Op(Opcode::kReshape, Any(&x))))) return nullptr;
  return to.Reshape(x, i->shape());
}

Instruction* ReshapeOfSplat(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  return x->Is(Opcode::kBroadcast) && x->operand(0)->shape().IsScalar() ? to.Fill(x->operand(0), i->shape()) : nullptr;
}

Instruction* ReshapeOfConstant(Instruction* i, Rewriter& to) {
  if (!Matches(i, Op(Opcode::kReshape, Constant()))) return nullptr;
  absl::StatusOr<Literal> l = i->operand(0)->literal().Reshape(i->shape().dimensions());
  return l.ok() ? to.Constant(*std::move(l)) : nullptr;
}

// ---- transpose

Instruction* TransposeNothing(Instruction* i, Rewriter&) {
  return IsIdentity(i->dimensions()) ? i->operand(0) : nullptr;
}

Instruction* TransposeOfTranspose(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kTranspose)) return nullptr;
  Ints both;
  for (int64_t d : i->dimensions()) both.push_back(x->dimensions()[static_cast<size_t>(d)]);
  return to.Transpose(x->operand(0), std::move(both));
}

// Maps each dimension of the operand to the dimension of the transposed value.
Ints InversePermutation(const Ints& permutation) {
  Ints places(permutation.size());
  for (size_t d = 0; d < permutation.size(); ++d) places[static_cast<size_t>(permutation[d])] = static_cast<int64_t>(d);
  return places;
}

// A transpose of a broadcast is a broadcast along other dimensions, if that keeps the dimensions of the operand in
// order.
Instruction* TransposeOfBroadcast(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kBroadcast)) return nullptr;
  const Ints places = InversePermutation(i->dimensions());
  Ints dims;
  for (int64_t d : x->dimensions()) dims.push_back(places[static_cast<size_t>(d)]);
  return std::is_sorted(dims.begin(), dims.end()) ? to.Broadcast(x->operand(0), i->shape(), std::move(dims)) : nullptr;
}

Instruction* TransposeOfIota(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kIota)) return nullptr;
  Attributes attrs;
  attrs.Set(AttrId::kIotaDimension,
            InversePermutation(i->dimensions())[static_cast<size_t>(x->attrs().GetInt(AttrId::kIotaDimension))]);
  return to.Make(Opcode::kIota, i->shape(), {}, std::move(attrs));
}

// If only dimensions of size 1 move, the transpose keeps the order of the elements and is a reshape.
Instruction* TransposeOfSizeOne(Instruction* i, Rewriter& to) {
  Ints moving;
  for (int64_t d : i->dimensions()) {
    if (i->operand(0)->shape().dimensions(d) != 1) moving.push_back(d);
  }
  return std::is_sorted(moving.begin(), moving.end()) ? to.Make(Opcode::kReshape, i->shape(), {i->operand(0)})
                                                      : nullptr;
}

// ---- broadcast

Instruction* BroadcastNothing(Instruction* i, Rewriter&) {
  return i->operand(0)->shape() == i->shape() && IsIdentity(i->dimensions()) ? i->operand(0) : nullptr;
}

Instruction* BroadcastOfBroadcast(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kBroadcast)) return nullptr;
  Ints dims;
  for (int64_t d : x->dimensions()) dims.push_back(i->dimensions()[static_cast<size_t>(d)]);
  return to.Broadcast(x->operand(0), i->shape(), std::move(dims));
}

Instruction* BroadcastOfUniform(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kConstant) || x->shape().IsScalar() || x->shape().num_elements() == 0) return nullptr;
  if (!x->literal().IsAllEqual()) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  absl::StatusOr<Literal> l =
      Literal::FromBytes(Shape::Scalar(type), {x->literal().bytes(), static_cast<size_t>(ByteWidth(type))});
  return l.ok() ? to.Broadcast(to.Constant(*std::move(l)), i->shape(), {}) : nullptr;
}

Instruction* BroadcastOfAllElements(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  const bool moves_nothing = x->shape().num_elements() == i->shape().num_elements() &&
                             std::is_sorted(i->dimensions().begin(), i->dimensions().end());
  return moves_nothing ? to.Make(Opcode::kReshape, i->shape(), {x}) : nullptr;
}

// Dimensions of size 1 are dropped from the operand, so that the reshape may become a plain broadcast.
Instruction* BroadcastOfReshapedScalar(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  return x->Is(Opcode::kReshape) && x->operand(0)->shape().IsScalar() ? to.Broadcast(x->operand(0), i->shape(), {})
                                                                      : nullptr;
}

// ---- reverse

Instruction* ReverseAlong(Instruction* x, Ints dimensions, Rewriter& to) {
  if (dimensions.empty()) return x;
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, std::move(dimensions));
  return to.Make(Opcode::kReverse, x->shape(), {x}, std::move(attrs));
}

// Reversing has no effect along dimensions of size 1 and along those that a broadcast added.
Instruction* ReverseOfEqual(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  Ints kept;
  for (int64_t d : i->dimensions()) {
    const bool equal =
        i->shape().dimensions(d) == 1 || (x->Is(Opcode::kBroadcast) && !absl::c_linear_search(x->dimensions(), d));
    if (!equal) kept.push_back(d);
  }
  return kept.size() == i->dimensions().size() ? nullptr : ReverseAlong(x, std::move(kept), to);
}

Instruction* ReverseOfReverse(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kReverse)) return nullptr;
  Ints once;
  for (int64_t d = 0; d < i->shape().rank(); ++d) {
    if (absl::c_linear_search(i->dimensions(), d) != absl::c_linear_search(x->dimensions(), d)) once.push_back(d);
  }
  return ReverseAlong(x->operand(0), std::move(once), to);
}

// ---- concatenate

Instruction* ConcatenateOf(const Instruction* i, std::vector<Instruction*> parts, Rewriter& to) {
  return parts.size() == 1 ? parts[0] : to.Make(Opcode::kConcatenate, i->shape(), std::move(parts), i->attrs());
}

Instruction* ConcatenateOne(Instruction* i, Rewriter&) { return i->operand_count() == 1 ? i->operand(0) : nullptr; }

Instruction* ConcatenateWithoutEmpty(Instruction* i, Rewriter& to) {
  std::vector<Instruction*> parts;
  for (Instruction* o : i->operands()) {
    if (o->shape().dimensions(i->dimensions()[0]) != 0) parts.push_back(o);
  }
  if (parts.empty() || static_cast<int64_t>(parts.size()) == i->operand_count()) return nullptr;
  return ConcatenateOf(i, std::move(parts), to);
}

Instruction* ConcatenateOfSplats(Instruction* i, Rewriter& to) {
  Instruction* scalar;
  if (!Matches(i->operand(0), BroadcastOf(Any(&scalar))) || !scalar->shape().IsScalar()) return nullptr;
  for (Instruction* o : i->operands()) {
    if (!Matches(o, BroadcastOf(Same(&scalar)))) return nullptr;
  }
  return to.Fill(scalar, i->shape());
}

// Merges nested concatenations along one dimension. The inner ones must have no other users.
Instruction* ConcatenateOfConcatenate(Instruction* i, Rewriter& to) {
  std::vector<Instruction*> parts;
  for (Instruction* o : i->operands()) {
    // Only once among the operands, or each level of concatenations of two equal ones would double their number.
    const bool flat = o->Is(Opcode::kConcatenate) && o->dimensions() == i->dimensions() && o->users().size() == 1 &&
                      std::count(i->operands().begin(), i->operands().end(), o) == 1;
    if (flat) {
      parts.insert(parts.end(), o->operands().begin(), o->operands().end());
    } else {
      parts.push_back(o);
    }
  }
  return static_cast<int64_t>(parts.size()) == i->operand_count() ? nullptr : ConcatenateOf(i, std::move(parts), to);
}

// Whether slice `next` starts along dimension d where slice `part` of the same operand ends.
bool AreAdjacent(const Instruction* part, const Instruction* next, int64_t d) {
  if (!part->Is(Opcode::kSlice) || !next->Is(Opcode::kSlice) || part->operand(0) != next->operand(0)) return false;
  for (int64_t k = 0; k < part->shape().rank(); ++k) {
    const SliceDimension &a = part->slices()[static_cast<size_t>(k)], &b = next->slices()[static_cast<size_t>(k)];
    if (k != d ? !(a == b) : a.stride != 1 || b.stride != 1 || b.start != a.limit) return false;
  }
  return true;
}

Instruction* ConcatenateOfAdjacentSlices(Instruction* i, Rewriter& to) {
  const int64_t d = i->dimensions()[0];
  std::vector<Instruction*> parts;
  bool joined = false;
  for (int64_t first = 0, next; first < i->operand_count(); first = next) {
    next = first + 1;
    while (next < i->operand_count() && AreAdjacent(i->operand(next - 1), i->operand(next), d)) ++next;
    if (next == first + 1) {
      parts.push_back(i->operand(first));
      continue;
    }
    SliceConfig slices = i->operand(first)->slices();
    slices[static_cast<size_t>(d)].limit = i->operand(next - 1)->slices()[static_cast<size_t>(d)].limit;
    parts.push_back(to.Slice(i->operand(first)->operand(0), std::move(slices)));
    joined = true;
  }
  return joined ? ConcatenateOf(i, std::move(parts), to) : nullptr;
}

// ---- pad

Instruction* PadNothing(Instruction* i, Rewriter&) {
  return std::all_of(i->padding().begin(), i->padding().end(),
                     [](const PaddingDimension& p) { return p == PaddingDimension{}; })
             ? i->operand(0)
             : nullptr;
}

Instruction* PadOfEmpty(Instruction* i, Rewriter& to) {
  return i->operand(0)->shape().num_elements() == 0 ? to.Fill(i->operand(1), i->shape()) : nullptr;
}

// Padding that only removes elements is a slice.
Instruction* PadNegative(Instruction* i, Rewriter& to) {
  SliceConfig slices;
  for (size_t d = 0; d < i->padding().size(); ++d) {
    const PaddingDimension& p = i->padding()[d];
    const int64_t size = i->operand(0)->shape().dimensions(static_cast<int64_t>(d));
    if (p.low > 0 || p.high > 0 || p.interior != 0 || size + p.low + p.high <= 0) return nullptr;
    slices.push_back({-p.low, size + p.high, 1});
  }
  return to.Slice(i->operand(0), std::move(slices));
}

// Merges two pads with the same padding value. The inner one must not remove elements, and only the outer one may have
// interior padding.
Instruction* PadOfPad(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kPad) || x->operand(1) != i->operand(1)) return nullptr;
  PaddingConfig both = i->padding();
  for (size_t d = 0; d < both.size(); ++d) {
    const PaddingDimension& inner = x->padding()[d];
    if (inner.low < 0 || inner.high < 0 || both[d].low < 0 || both[d].high < 0) return nullptr;
    if (both[d].interior != 0 && inner != PaddingDimension{}) return nullptr;
    both[d] = {both[d].low + inner.low, both[d].high + inner.high, std::max(both[d].interior, inner.interior)};
  }
  Attributes attrs;
  attrs.Set(AttrId::kPadding, std::move(both));
  return to.Make(Opcode::kPad, i->shape(), {x->operand(0), i->operand(1)}, std::move(attrs));
}

}  // namespace

void AddMovementRules(RuleSet* r) {
  const std::vector<Opcode> reshape = {Opcode::kReshape}, transpose = {Opcode::kTranspose},
                            broadcast = {Opcode::kBroadcast}, reverse = {Opcode::kReverse},
                            concatenate = {Opcode::kConcatenate}, pad = {Opcode::kPad};
  r->Add({reshape, "reshape-nothing", "a reshape to the same shape", &ReshapeNothing});
  r->Add({reshape, "reshape-of-reshape", "the last of several reshapes", &ReshapeOfReshape});
  r->Add({reshape, "reshape-of-splat", "a broadcast scalar has any shape", &ReshapeOfSplat});
  r->Add({reshape, "reshape-of-constant", "a constant in its new shape", &ReshapeOfConstant});
  r->Add({transpose, "transpose-nothing", "an identity permutation", &TransposeNothing});
  r->Add({transpose, "transpose-of-transpose", "both permutations in one", &TransposeOfTranspose});
  r->Add({transpose, "transpose-of-broadcast", "a broadcast along other dimensions", &TransposeOfBroadcast});
  r->Add({transpose, "transpose-of-iota", "an iota along another dimension", &TransposeOfIota});
  r->Add({transpose, "transpose-of-size-one", "a reshape, where only dimensions of size 1 move", &TransposeOfSizeOne});
  r->Add({broadcast, "broadcast-nothing", "a broadcast to the same shape", &BroadcastNothing});
  r->Add({broadcast, "broadcast-of-broadcast", "both in one", &BroadcastOfBroadcast});
  r->Add({broadcast, "broadcast-of-uniform", "a constant of equal elements becomes a scalar", &BroadcastOfUniform});
  r->Add({broadcast, "broadcast-of-all-elements", "a reshape, where no element is repeated", &BroadcastOfAllElements});
  r->Add({broadcast, "broadcast-of-reshaped-scalar", "a broadcast of the scalar", &BroadcastOfReshapedScalar});
  r->Add({reverse, "reverse-of-equal", "dimensions of equal elements need no reversing", &ReverseOfEqual});
  r->Add({reverse, "reverse-of-reverse", "reversing twice has no effect", &ReverseOfReverse});
  r->Add({concatenate, "concatenate-one", "a concatenation of one operand", &ConcatenateOne});
  r->Add({concatenate, "concatenate-without-empty", "operands without elements are dropped", &ConcatenateWithoutEmpty});
  r->Add({concatenate, "concatenate-of-splats", "a broadcast scalar", &ConcatenateOfSplats});
  r->Add({concatenate, "concatenate-of-concatenate", "both in one, if the inner one has no other user",
          &ConcatenateOfConcatenate});
  r->Add({concatenate, "concatenate-of-adjacent-slices", "neighbouring slices of one operand are one slice",
          &ConcatenateOfAdjacentSlices});
  r->Add({pad, "pad-nothing", "no padding", &PadNothing});
  r->Add({pad, "pad-of-empty", "only padding", &PadOfEmpty});
  r->Add({pad, "pad-negative", "padding that only removes elements is a slice", &PadNegative});
  r->Add({pad, "pad-of-pad", "both in one, with the same value", &PadOfPad});
}

}  // namespace backplane::algebra
