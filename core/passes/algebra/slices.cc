#include <algorithm>

#include "absl/algorithm/container.h"
#include "core/passes/algebra/rules.h"
#include "core/passes/match.h"
#include "core/types/integer_division.h"

namespace backplane::algebra {
namespace {

using namespace match;

// The rule does not search concatenations with more operands: slicing an array of thousands of parts thousands of times
// would take quadratic time.
constexpr int64_t kMaxOperandsSearched = 256;

int64_t CountOf(const SliceDimension& s) { return CeilDiv(s.limit - s.start, s.stride); }
// Returns the index behind the last element that the slice takes.
int64_t EndOf(const SliceDimension& s) { return s.start + (CountOf(s) - 1) * s.stride + 1; }

bool IsEmpty(const Instruction* i) { return i->shape().num_elements() == 0; }

SliceConfig ShiftSlice(SliceConfig slices, int64_t d, int64_t by) {
  SliceDimension& s = slices[static_cast<size_t>(d)];
  s = {s.start + by, EndOf(s) + by, s.stride};
  return slices;
}

// ---- slice

Instruction* SliceNothing(Instruction* i, Rewriter&) {
  return i->operand(0)->shape() == i->shape() ? i->operand(0) : nullptr;
}

Instruction* SliceOfSlice(Instruction* i, Rewriter& to) {
  Instruction* x;
  if (IsEmpty(i) || !Matches(i, Op(Opcode::kSlice, Op(Opcode::kSlice, Any(&x))))) return nullptr;
  SliceConfig both;
  for (size_t d = 0; d < i->slices().size(); ++d) {
    const SliceDimension &outer = i->slices()[d], &inner = i->operand(0)->slices()[d];
    const int64_t count = CountOf(outer), start = inner.start + outer.start * inner.stride,
                  stride = count == 1 ? 1 : inner.stride * outer.stride;
    both.push_back({start, start + (count - 1) * stride + 1, stride});
  }
  return to.Slice(x, std::move(both));
}

// A slice of a concatenation is a slice of one operand, or a concatenation of slices if nothing else uses the
// concatenation.
Instruction* SliceOfConcatenate(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (IsEmpty(i) || !x->Is(Opcode::kConcatenate) || x->operand_count() > kMaxOperandsSearched) return nullptr;
  const int64_t d = x->dimensions()[0];
  const SliceDimension& s = i->slices()[static_cast<size_t>(d)];
  std::vector<Instruction*> parts;
  int64_t begin = 0, end = 0, first = 0;
  for (Instruction* o : x->operands()) {
    begin = end;
    end += o->shape().dimensions(d);
    if (end <= s.start || begin >= EndOf(s)) continue;
    if (parts.empty()) first = begin;
    parts.push_back(o);
  }
  if (static_cast<int64_t>(parts.size()) == x->operand_count()) return nullptr;
  if (parts.size() > 1 && x->users().size() > 1) return nullptr;
  Instruction* read = parts[0];
  if (parts.size() > 1) {
    Shape shape = x->shape();
    int64_t size = 0;
    for (const Instruction* p : parts) size += p->shape().dimensions(d);
    shape.set_dimension(d, size);
    read = to.Make(Opcode::kConcatenate, shape, std::move(parts), x->attrs());
  }
  return to.Slice(read, ShiftSlice(i->slices(), d, -first));
}

// A slice of a pad that covers only the operand, or only padding.
Instruction* SliceOfPad(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (IsEmpty(i) || !x->Is(Opcode::kPad)) return nullptr;
  SliceConfig slices = i->slices();
  bool within = true;
  for (size_t d = 0; d < slices.size(); ++d) {
    const PaddingDimension& p = x->padding()[d];
    const int64_t size = x->operand(0)->shape().dimensions(static_cast<int64_t>(d)),
                  end = p.low + (size > 0 ? size + (size - 1) * p.interior : 0);
    const SliceDimension& s = slices[d];
    if (EndOf(s) <= p.low || s.start >= end) return to.Fill(x->operand(1), i->shape());
    within &= s.start >= p.low && EndOf(s) <= end && (p.interior == 0 || size == 1);
    slices = ShiftSlice(std::move(slices), static_cast<int64_t>(d), -p.low);
  }
  return within ? to.Slice(x->operand(0), std::move(slices)) : nullptr;
}

Instruction* SliceOfBroadcast(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (IsEmpty(i) || !x->Is(Opcode::kBroadcast)) return nullptr;
  SliceConfig slices;
  for (int64_t d : x->dimensions()) slices.push_back(i->slices()[static_cast<size_t>(d)]);
  return to.Broadcast(to.Slice(x->operand(0), std::move(slices)), i->shape(), x->dimensions());
}

// A slice of an iota is a shorter iota. An integer one is scaled and offset; the arithmetic wraps as that of the iota.
Instruction* SliceOfIota(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (IsEmpty(i) || !x->Is(Opcode::kIota)) return nullptr;
  const PrimitiveType type = i->shape().element_type();
  const int64_t d = x->attrs().GetInt(AttrId::kIotaDimension);
  const SliceDimension& s = i->slices()[static_cast<size_t>(d)];
  const bool strided = s.stride != 1 && CountOf(s) > 1;
  if ((s.start != 0 || strided) && (!IsIntegral(type) || BitWidth(type) < 8)) return nullptr;
  if (BitWidth(type) < 64 && IsIntegral(type) && x->shape().dimensions(d) - 1 > GetLargest(type)) return nullptr;
  Instruction* numbers = to.Make(Opcode::kIota, i->shape(), {}, x->attrs());
  auto with = [&](Opcode opcode, int64_t n) {
    numbers = to.Make(opcode, i->shape(), {numbers, to.Fill(Literal::ScalarInt(type, n), i->shape())});
  };
  if (strided) with(Opcode::kMultiply, s.stride);
  if (s.start != 0) with(Opcode::kAdd, s.start);
  return numbers;
}

// The rules below push a slice into an operand that nothing else uses.
bool IsOnlyReader(const Instruction* i) {
  const Instruction* x = i->operand(0);
  return !IsEmpty(i) && x->users().size() == 1 && !x->IsRoot() && i->shape().num_elements() < x->shape().num_elements();
}

Instruction* SliceOfReverse(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kReverse) || !IsOnlyReader(i)) return nullptr;
  SliceConfig slices = i->slices();
  for (int64_t d : x->dimensions()) {
    SliceDimension& s = slices[static_cast<size_t>(d)];
    const int64_t size = x->shape().dimensions(d);
    s = {size - EndOf(s), size - s.start, s.stride};
  }
  return to.Make(Opcode::kReverse, i->shape(), {to.Slice(x->operand(0), std::move(slices))}, x->attrs());
}

Instruction* SliceOfTranspose(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kTranspose) || !IsOnlyReader(i)) return nullptr;
  SliceConfig slices(i->slices().size());
  for (size_t d = 0; d < slices.size(); ++d) slices[static_cast<size_t>(x->dimensions()[d])] = i->slices()[d];
  return to.Transpose(to.Slice(x->operand(0), std::move(slices)), x->dimensions());
}

Instruction* SliceOfReduce(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (!x->Is(Opcode::kReduce) || x->operand_count() != 2 || !IsOnlyReader(i)) return nullptr;
  SliceConfig slices;
  const Shape& from = x->operand(0)->shape();
  for (int64_t d = 0, kept = 0; d < from.rank(); ++d) {
    if (absl::c_linear_search(x->dimensions(), d)) {
      slices.push_back({0, from.dimensions(d), 1});
    } else {
      slices.push_back(i->slices()[static_cast<size_t>(kept++)]);
    }
  }
  return to.Clone(x, i->shape(), {to.Slice(x->operand(0), std::move(slices)), x->operand(1)});
}

// Whether the operand of the slice can be sliced instead at no extra cost.
bool IsCheapToSlice(const Instruction* i) {
  switch (i->opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kGetTupleElement:
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kSlice:
    case Opcode::kConcatenate:
    case Opcode::kPad:
      return true;
    default:
      return i->info().Has(kElementwise) && i->users().size() == 1;
  }
}

Instruction* SliceOfElementwise(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  if (!x->info().Has(kElementwise) || x->HasSideEffect() || !IsOnlyReader(i)) return nullptr;
  for (const Instruction* o : x->operands()) {
    if (o->shape().HasDynamicDimensions() || !(o->shape().IsScalar() || IsCheapToSlice(o))) return nullptr;
  }
  std::vector<Instruction*> operands;
  for (int64_t k = 0; k < x->operand_count(); ++k) {
    Instruction* o = x->operand(k);
    int64_t twin = 0;
    while (x->operand(twin) != o) ++twin;
    operands.push_back(twin < k                ? operands[static_cast<size_t>(twin)]
                       : o->shape().IsScalar() ? o  // the condition of a select, the bounds of a clamp
                                               : to.Slice(o, i->slices()));
  }
  return to.Clone(x, i->shape(), std::move(operands));
}

// ---- dynamic-slice and dynamic-update-slice

Instruction* DynamicSliceNothing(Instruction* i, Rewriter&) {
  return i->operand(0)->shape() == i->shape() ? i->operand(0) : nullptr;
}

Instruction* DynamicSliceOfSplat(Instruction* i, Rewriter& to) {
  const Instruction* x = i->operand(0);
  return x->Is(Opcode::kBroadcast) && x->operand(0)->shape().IsScalar() ? to.Fill(x->operand(0), i->shape()) : nullptr;
}

// The start index of a dimension that is taken in full has no effect.
Instruction* DynamicSliceAtConstants(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  if (i->operand_count() != x->shape().rank() + 1) return nullptr;
  SliceConfig slices;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    const int64_t size = i->shape().dimensions(d), room = x->shape().dimensions(d) - size;
    int64_t start = 0;
    if (room > 0) {
      const Literal* l;
      if (!Matches(i->operand(d + 1), ScalarConstant(&l))) return nullptr;
      start = ReadClampedStart(*l, 0, room);
    }
    slices.push_back({start, start + size, 1});
  }
  return to.Slice(x, std::move(slices));
}

Instruction* UpdateEverything(Instruction* i, Rewriter&) {
  return i->operand(1)->shape() == i->shape() ? i->operand(1) : nullptr;
}

Instruction* UpdateNothing(Instruction* i, Rewriter&) {
  return i->operand(1)->shape().num_elements() == 0 ? i->operand(0) : nullptr;
}

}  // namespace

void AddSliceRules(RuleSet* r) {
  const std::vector<Opcode> slice = {Opcode::kSlice}, dynamic = {Opcode::kDynamicSlice},
                            update = {Opcode::kDynamicUpdateSlice};
  r->Add({slice, "slice-nothing", "a slice of everything", &SliceNothing});
  r->Add({slice, "slice-of-slice", "both in one", &SliceOfSlice});
  r->Add({slice, "slice-of-concatenate", "a slice of the operands that it reads", &SliceOfConcatenate});
  r->Add({slice, "slice-of-pad", "a slice of the padded array, or of padding alone", &SliceOfPad});
  r->Add({slice, "slice-of-broadcast", "a broadcast of the slice", &SliceOfBroadcast});
  r->Add({slice, "slice-of-iota", "a shorter iota; of integers times the stride, plus the start", &SliceOfIota});
  r->Add({slice, "slice-of-reverse", "the reverse of a slice, if the operand has no other user", &SliceOfReverse});
  r->Add(
      {slice, "slice-of-transpose", "the transpose of a slice, if the operand has no other user", &SliceOfTranspose});
  r->Add({slice, "slice-of-reduce", "the reduction of a slice, if the operand has no other user", &SliceOfReduce});
  r->Add({slice, "slice-of-elementwise", "elementwise operations on slices, if the operand has no other user",
          &SliceOfElementwise});
  r->Add({dynamic, "dynamic-slice-nothing", "a slice of everything", &DynamicSliceNothing});
  r->Add({dynamic, "dynamic-slice-of-splat", "a broadcast scalar", &DynamicSliceOfSplat});
  r->Add({dynamic, "dynamic-slice-at-constants", "a slice, where all starts are known", &DynamicSliceAtConstants});
  r->Add({update, "update-whole", "an update of everything", &UpdateEverything});
  r->Add({update, "update-nothing", "an update without elements", &UpdateNothing});
}

}  // namespace backplane::algebra
