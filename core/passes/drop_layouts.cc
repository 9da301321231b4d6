// The meaning of a program does not depend on the layouts of its instructions. They record how the arrays were stored
// where the program was built, or what the frontend's compiler preferred, and a backend that followed them would
// misread arguments. What does depend on a layout is expressed without layouts if possible: the operands of a custom
// call are transposed to the requested layout, and a bitcast between layouts becomes a reshape between transposes.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

bool IsOrdered(const Layout& layout) {
  return std::is_sorted(layout.minor_to_major.rbegin(), layout.minor_to_major.rend());
}

bool IsPlain(const Shape& s) { return !s.has_layout() || (IsOrdered(s.layout()) && s.layout().tiles.empty()); }

// Whether dropping the layouts changes the shape.
bool DropLayout(Shape* shape) {
  if (shape->IsTuple()) {
    bool changed = false;
    for (int64_t k = 0; k < shape->tuple_size(); ++k) {
      changed |= DropLayout(&shape->mutable_tuple_shapes()[static_cast<size_t>(k)]);
    }
    return changed;
  }
  if (IsPlain(*shape)) return false;
  const int64_t memory_space = shape->layout().memory_space;
  shape->clear_layout();
  if (memory_space != 0) {
    Layout layout = Layout::RowMajor(shape->rank());
    layout.memory_space = memory_space;
    shape->set_layout(std::move(layout));
  }
  return true;
}

Ints DimensionsMajorFirst(const Shape& s) {
  if (!s.has_layout()) {
    Ints order;
    for (int64_t d = 0; d < s.rank(); ++d) order.push_back(d);
    return order;
  }
  return Ints(s.layout().minor_to_major.rbegin(), s.layout().minor_to_major.rend());
}

Instruction* TransposeBy(Computation* c, Instruction* x, const Ints& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  std::vector<int64_t> dims;
  for (int64_t p : permutation) dims.push_back(x->shape().dimensions(p));
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, permutation);
  return Make(c, x, Opcode::kTranspose, Shape(x->shape().element_type(), dims), {x}, std::move(attrs));
}

// Transposes the operand to the order of its bytes, reshapes it to the byte order of the result, and transposes to the
// result's dimensions. Returns null if no transpose describes the byte order (a change of element type, or tilings).
Instruction* ExpandBitcast(Computation* c, Instruction* bitcast) {
  Instruction* x = bitcast->operand(0);
  const Shape& to = bitcast->shape();
  if (x->shape().element_type() != to.element_type()) return nullptr;
  for (const Shape* s : {&x->shape(), &to}) {
    if (s->has_layout() && !s->layout().tiles.empty()) return nullptr;
  }
  const Ints order = DimensionsMajorFirst(to);
  std::vector<int64_t> physical;
  Ints back(order.size());
  for (size_t d = 0; d < order.size(); ++d) {
    physical.push_back(to.dimensions(order[d]));
    back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  }
  Instruction* bytes = TransposeBy(c, x, DimensionsMajorFirst(x->shape()));
  Instruction* reshaped = Make(c, bitcast, Opcode::kReshape, Shape(to.element_type(), physical), {bytes});
  return TransposeBy(c, reshaped, back);
}

}  // namespace

absl::StatusOr<bool> DropLayouts::Run(Module* module) {
  bool changed = false;
  for (const auto& owned : module->computations()) {
    Computation* c = owned.get();
    bool rewritten = false;
    // Bitcasts that cannot be expressed otherwise, and their operands: these keep their layouts.
    absl::flat_hash_set<const Instruction*> with_layout;
    // Visits users first: once a bitcast is rewritten it has no layout for the next one to refer to. Removes only
    // bitcasts, because the partitioner may need other dead instructions.
    std::vector<Instruction*> order = c->Snapshot();
    std::reverse(order.begin(), order.end());
    for (Instruction* i : order) {
      if (!i->Is(Opcode::kBitcast)) continue;
      if (!i->users().empty() || i->IsRoot()) {
        Instruction* r = with_layout.contains(i) ? nullptr : ExpandBitcast(c, i);
        if (r == nullptr) {
          with_layout.insert(i);
          with_layout.insert(i->operand(0));
          continue;
        }
        Replace(i, r);
      }
      RETURN_IF_ERROR(c->Remove(i));
      rewritten = true;
    }
    if (rewritten) c->SortTopologically();
    changed |= rewritten;
    for (const auto& i : c->instructions()) {
      const bool asks = i->Is(Opcode::kCustomCall) && i->attrs().Has(AttrId::kOperandLayouts);
      if (asks || with_layout.contains(i.get())) continue;
      changed |= DropLayout(&i->mutable_shape());
    }
  }
  return changed;
}

}  // namespace backplane
