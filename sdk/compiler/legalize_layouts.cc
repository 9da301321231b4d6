#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/passes/order_effects.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "sdk/compiler/legalize.h"

namespace backplane::compiler {
namespace {

bool NeedsOrder(const Shape& s) {
  return s.IsArray() && s.has_layout() && s.rank() > 1 &&
         !std::is_sorted(s.layout().minor_to_major.rbegin(), s.layout().minor_to_major.rend());
}

absl::Status CheckUntiled(const Instruction* i, const Shape& s) {
  if (s.IsArray() && s.has_layout() && !s.layout().tiles.empty()) {
    return absl::UnimplementedError(
        absl::StrCat(i->name(), ": tiled layout ", s.layout().ToString(), " has no row-major form"));
  }
  return absl::OkStatus();
}

Ints MajorToMinor(const Shape& s) { return Ints(s.layout().minor_to_major.rbegin(), s.layout().minor_to_major.rend()); }

Shape Physical(const Shape& s) {
  std::vector<int64_t> dims;
  for (int64_t d : MajorToMinor(s)) dims.push_back(s.dimensions(d));
  return Shape(s.element_type(), dims);
}

Instruction* Transpose(Computation* c, Instruction* x, const Ints& permutation) {
  std::vector<int64_t> dims;
  for (int64_t p : permutation) dims.push_back(x->shape().dimensions(p));
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, permutation);
  return Make(c, x, Opcode::kTranspose, Shape(x->shape().element_type(), dims), {x}, std::move(attrs));
}

Instruction* Bitcast(Computation* c, Instruction* x, const Shape& to) {
  Instruction* b = Make(c, x, Opcode::kBitcast, to, {x});
  b->mutable_shape() = to;
  return b;
}

// Returns a row-major value in the layout of `wanted`.
Instruction* InOrder(Computation* c, Instruction* x, const Shape& wanted) {
  return Bitcast(c, Transpose(c, x, MajorToMinor(wanted)), wanted);
}

// Returns a value of the layout of `layout` as a row-major one.
Instruction* RowMajor(Computation* c, Instruction* x, const Shape& layout) {
  const Ints order = MajorToMinor(layout);
  Ints inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d) inverse[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return Transpose(c, Bitcast(c, x, Physical(layout)), inverse);
}

// Users of the call's tuple get a tuple of its elements instead, whose layouts can then be changed one by one.
bool SplitCallResult(Computation* c, Instruction* call) {
  std::vector<Instruction*> tuple_users;
  for (Instruction* u : call->users()) {
    if (!u->Is(Opcode::kGetTupleElement)) tuple_users.push_back(u);
  }
  if (tuple_users.empty() && !call->IsRoot()) return false;
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < call->shape().tuple_size(); ++k) elements.push_back(MakeElement(c, call, k));
  for (Instruction* e : elements) e->mutable_shape() = e->shape().WithoutLayout();
  Instruction* tuple = Make(c, call, Opcode::kTuple, call->shape(), elements);
  for (Instruction* u : tuple_users) {
    for (int64_t k = 0; k < u->operand_count(); ++k) {
      if (u->operand(k) == call) u->ReplaceOperand(k, tuple);
    }
  }
  if (call->IsRoot()) c->set_root(tuple);
  return true;
}

absl::StatusOr<bool> CustomCall(Computation* c, Instruction* call) {
  bool changed = false;
  const std::vector<Shape>& wanted = call->attrs().Get<std::vector<Shape>>(AttrId::kOperandLayouts);
  for (int64_t k = 0; k < call->operand_count() && k < static_cast<int64_t>(wanted.size()); ++k) {
    RETURN_IF_ERROR(CheckUntiled(call, wanted[static_cast<size_t>(k)]));
    if (!NeedsOrder(wanted[static_cast<size_t>(k)]) || call->operand(k)->Is(Opcode::kBitcast)) continue;
    call->ReplaceOperand(k, InOrder(c, call->operand(k), wanted[static_cast<size_t>(k)]));
    changed = true;
  }
  const Shape shape = call->shape();
  if (shape.IsTuple() && std::any_of(shape.tuple_shapes().begin(), shape.tuple_shapes().end(), NeedsOrder))
    changed |= SplitCallResult(c, call);
  std::vector<Instruction*> users(call->users().begin(), call->users().end());
  if (shape.IsTuple()) {
    for (Instruction* u : users) {
      if (!u->Is(Opcode::kGetTupleElement)) continue;
      const Shape& element = shape.tuple_shapes(u->tuple_index());
      RETURN_IF_ERROR(CheckUntiled(call, element));
      if (!NeedsOrder(element) || NeedsOrder(u->shape()) || (u->users().empty() && !u->IsRoot())) continue;
      Instruction* fresh = MakeElement(c, call, u->tuple_index());
      fresh->mutable_shape() = element;  // says that its order has been seen to
      Replace(u, RowMajor(c, fresh, element));
      changed = true;
    }
  } else if (NeedsOrder(shape) && (call->IsRoot() || !std::all_of(users.begin(), users.end(), [](const Instruction* u) {
                                     return u->Is(Opcode::kBitcast);
                                   }))) {
    RETURN_IF_ERROR(CheckUntiled(call, shape));
    Instruction* bytes = c->AddClone(call, shape, call->operands());
    Replace(call, RowMajor(c, bytes, shape));
    // One with an effect would stay and happen twice.
    MoveControlDependencies(call, bytes);
    RETURN_IF_ERROR(c->Remove(call));
    changed = true;
  }
  return changed;
}

// The host's layouts of arguments and results: the program itself sees row-major arrays.
absl::StatusOr<bool> Entry(Module* module) {
  bool changed = false;
  Computation* entry = module->entry();
  ModuleConfig& config = module->config();
  for (size_t p = 0; p < config.parameter_layouts.size() && p < entry->parameters().size(); ++p) {
    const Shape wanted = config.parameter_layouts[p];
    Instruction* parameter = entry->parameter(static_cast<int64_t>(p));
    RETURN_IF_ERROR(CheckUntiled(parameter, wanted));
    if (!NeedsOrder(wanted) || NeedsOrder(parameter->shape())) continue;
    std::vector<Instruction*> users(parameter->users().begin(), parameter->users().end());
    const bool root = parameter->IsRoot();
    Instruction* value = RowMajor(entry, parameter, wanted);
    for (Instruction* u : users) {
      for (int64_t k = 0; k < u->operand_count(); ++k) {
        if (u->operand(k) == parameter) u->ReplaceOperand(k, value);
      }
    }
    if (root) entry->set_root(value);
    parameter->mutable_shape().set_layout(wanted.layout());
    changed = true;
  }
  Instruction* root = entry->root();
  auto order = [&](Instruction* x, const Shape& wanted) -> absl::StatusOr<Instruction*> {
    RETURN_IF_ERROR(CheckUntiled(x, wanted));
    if (!NeedsOrder(wanted) || NeedsOrder(x->shape())) return x;
    changed = true;
    return InOrder(entry, x, wanted);
  };
  if (config.result_layout.IsArray()) {
    ASSIGN_OR_RETURN(Instruction * now, order(root, config.result_layout));
    entry->set_root(now);
  } else if (config.result_layout.IsTuple() && root->shape().IsTuple() &&
             config.result_layout.tuple_size() == root->shape().tuple_size()) {
    std::vector<Instruction*> elements;
    std::vector<Shape> shapes;
    bool any = false;
    for (int64_t k = 0; k < root->shape().tuple_size(); ++k) {
      Instruction* e = root->Is(Opcode::kTuple) ? root->operand(k) : MakeElement(entry, root, k);
      const bool before = changed;
      changed = false;
      ASSIGN_OR_RETURN(Instruction * now, order(e, config.result_layout.tuple_shapes(k)));
      any |= changed;
      changed |= before;
      elements.push_back(now);
      shapes.push_back(now->shape());
    }
    if (any) {
      Instruction* tuple = Make(entry, root, Opcode::kTuple, Shape::Tuple(shapes), elements);
      tuple->mutable_shape() = Shape::Tuple(shapes);
      entry->set_root(tuple);
    }
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> LegalizeLayouts::Run(Module* module) {
  // Custom calls first: their results are row-major when the layouts that the host asked for are made.
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kCustomCall)) continue;
      ASSIGN_OR_RETURN(bool here, CustomCall(c, i));
      changed |= here;
    }
    if (changed) {
      c->RemoveDead();
      c->SortTopologically();
    }
  }
  ASSIGN_OR_RETURN(bool entry, Entry(module));
  if (entry) {
    module->entry()->RemoveDead();
    module->entry()->SortTopologically();
  }
  return changed || entry;
}

}  // namespace backplane::compiler
