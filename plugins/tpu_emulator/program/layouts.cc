#include "plugins/tpu_emulator/program/layouts.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/passes/rewrite.h"
#include "core/types/physical_layout.h"
#include "core/types/status_macros.h"

namespace backplane::tpu {
namespace {

bool SameDims(const Shape& a, const Shape& b) { return a.IsArray() && b.IsArray() && a.dimensions() == b.dimensions(); }

// Whether a value in one layout serves where the other is wanted.
bool SameLayout(const Shape& a, const Shape& b) {
  if (a.IsTuple()) {
    for (int64_t k = 0; k < a.tuple_size(); ++k) {
      if (!SameLayout(a.tuple_shapes(k), b.tuple_shapes(k))) return false;
    }
    return true;
  }
  if (!a.IsArray() || !a.has_layout() || !b.has_layout()) return true;
  return a.layout().minor_to_major == b.layout().minor_to_major && a.layout().tiles == b.layout().tiles;
}

// Dimensions from major to minor.
DimVector MajorToMinor(const Layout& layout) {
  DimVector order(layout.minor_to_major.rbegin(), layout.minor_to_major.rend());
  return order;
}

// Operands that a kernel does not go over element by element: those of its contraction, which takes any order, and of
// what is no fusion and no elementwise operation.
std::vector<bool> AnyOrderTaken(const Instruction& i) {
  std::vector<bool> any(static_cast<size_t>(i.operand_count()), false);
  const bool together = i.Is(Opcode::kFusion) || i.Is(Opcode::kSort) || i.Is(Opcode::kDynamicUpdateSlice) ||
                        i.info().Has(OpTrait::kElementwise);
  if (!together) any.assign(any.size(), true);
  if (!i.Is(Opcode::kFusion) || i.attrs().GetEnum<FusionKind>(AttrId::kFusionKind) != FusionKind::kOutput) return any;
  std::vector<const Instruction*> work;
  for (const auto& inner : i.called(0)->instructions()) {
    if (!inner->Is(Opcode::kDot) && !inner->Is(Opcode::kConvolution)) continue;
    work.assign(inner->operands().begin(), inner->operands().end());
  }
  absl::flat_hash_set<const Instruction*> seen;
  while (!work.empty()) {
    const Instruction* at = work.back();
    work.pop_back();
    if (!seen.insert(at).second) continue;
    if (at->Is(Opcode::kParameter)) any[static_cast<size_t>(at->parameter_number())] = true;
    work.insert(work.end(), at->operands().begin(), at->operands().end());
  }
  return any;
}

class Assigner {
 public:
  explicit Assigner(TileShape tile) : tile_(tile) {}

  // `parameters`: shapes with layouts. `result`: what the root must have; null: whatever comes out.
  absl::Status Run(Computation* c, absl::Span<const Shape> parameters, const Shape* result) {
    if (result != nullptr) Want(c->root(), *result);
    for (Instruction* i : c->Snapshot()) RETURN_IF_ERROR(Assign(c, i, parameters));
    if (result != nullptr) c->set_root(Relaid(c, c->root(), *result));
    c->RemoveDead();
    return absl::OkStatus();
  }

 private:
  Shape WithDefault(const Shape& s) const {
    if (s.IsTuple()) {
      std::vector<Shape> elements;
      elements.reserve(static_cast<size_t>(s.tuple_size()));
      for (const Shape& e : s.tuple_shapes()) elements.push_back(WithDefault(e));
      return Shape::Tuple(std::move(elements));
    }
    if (!s.IsArray()) return s;
    Shape out = s.WithoutLayout();
    out.set_layout(DefaultLayout(s.element_type(), s.dimensions(), tile_));
    return out;
  }

  Shape InOrder(const Shape& s, absl::Span<const int64_t> minor_to_major) const {
    Shape out = s.WithoutLayout();
    out.set_layout(TiledLayout(s.element_type(), s.dimensions(), minor_to_major, tile_));
    return out;
  }

  void Want(Instruction* i, const Shape& shape) {
    if (shape.IsTuple() && i->Is(Opcode::kTuple)) {
      for (int64_t k = 0; k < i->operand_count(); ++k) Want(i->operand(k), shape.tuple_shapes(k));
    } else if (shape.IsArray()) {
      wanted_.try_emplace(i, shape);
    }
  }

  bool IsWanted(const Instruction* i, int64_t k) const {
    if (i->shape().IsArray()) return wanted_.contains(i);
    return std::any_of(i->users().begin(), i->users().end(), [&](const Instruction* user) {
      return user->Is(Opcode::kGetTupleElement) && user->tuple_index() == k && wanted_.contains(user);
    });
  }

  // What the root wants of leaf k of i, or the default.
  Shape Wished(const Instruction* i, int64_t k, const Shape& leaf) const {
    if (auto at = wanted_.find(i); at != wanted_.end() && i->shape().IsArray()) return at->second;
    if (i->shape().IsTuple()) {
      for (const Instruction* user : i->users()) {
        if (!user->Is(Opcode::kGetTupleElement) || user->tuple_index() != k) continue;
        if (auto at = wanted_.find(user); at != wanted_.end()) return at->second;
      }
    }
    return WithDefault(leaf);
  }

  // The order of an operand of the same sizes, or the one that the root wishes, whichever makes others copy least; of
  // equal ones the wish, then the first operand's.
  Shape LeafOf(const Instruction* i, int64_t k, const Shape& leaf, const std::vector<bool>& any_order) const {
    if (!leaf.IsArray()) return leaf;
    Shape wish = Wished(i, k, leaf);
    if (leaf.rank() < 2 || leaf.num_elements() <= 1) return wish;
    struct Candidate {
      const DimVector* order;
      int64_t bits;  // an element of all arrays that lie in it
    };
    std::vector<Candidate> candidates = {{&wish.layout().minor_to_major, 0}};
    if (IsWanted(i, k)) candidates[0].bits = BitWidth(leaf.element_type());
    for (int64_t n = 0; n < i->operand_count(); ++n) {
      const Instruction* o = i->operand(n);
      if (any_order[static_cast<size_t>(n)] && (i->Is(Opcode::kFusion) || n > 0)) continue;
      if (!SameDims(o->shape(), leaf) || !o->shape().has_layout()) continue;
      const DimVector& order = o->shape().layout().minor_to_major;
      auto at =
          std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) { return *c.order == order; });
      if (at == candidates.end()) at = candidates.insert(at, {&order, 0});
      at->bits += BitWidth(o->shape().element_type());
    }
    const Candidate* best = &candidates[0];
    for (const Candidate& c : candidates) {
      if (c.bits > best->bits) best = &c;
    }
    return best == &candidates[0] ? wish : InOrder(leaf, *best->order);
  }

  Shape OutputsOf(const Instruction* i, const std::vector<bool>& any_order) const {
    if (!i->shape().IsTuple()) return LeafOf(i, 0, i->shape(), any_order);
    std::vector<Shape> elements;
    for (int64_t k = 0; k < i->shape().tuple_size(); ++k) {
      const Shape& e = i->shape().tuple_shapes(k);
      elements.push_back(e.IsTuple() ? WithDefault(e) : LeafOf(i, k, e, any_order));
    }
    return Shape::Tuple(std::move(elements));
  }

  // The value in the wanted layout: itself, or a copy.
  Instruction* Relaid(Computation* c, Instruction* i, const Shape& wanted, Instruction* before = nullptr) {
    if (SameLayout(i->shape(), wanted)) return i;
    if (!i->shape().IsTuple()) {
      InstructionSpec spec;
      spec.opcode = Opcode::kCopy;
      spec.shape = wanted;
      spec.operands = {i};
      spec.metadata = i->metadata();
      return before != nullptr ? c->AddBefore(before, std::move(spec)) : c->Add(std::move(spec));
    }
    InstructionSpec tuple;
    tuple.opcode = Opcode::kTuple;
    std::vector<Shape> shapes;
    for (int64_t k = 0; k < i->shape().tuple_size(); ++k) {
      Instruction* element = nullptr;
      if (i->Is(Opcode::kTuple)) {
        element = i->operand(k);
      } else {
        InstructionSpec gte;
        gte.opcode = Opcode::kGetTupleElement;
        gte.shape = i->shape().tuple_shapes(k);
        gte.operands = {i};
        gte.attrs.Set(AttrId::kTupleIndex, k);
        element = before != nullptr ? c->AddBefore(before, std::move(gte)) : c->Add(std::move(gte));
      }
      tuple.operands.push_back(Relaid(c, element, wanted.tuple_shapes(k), before));
      shapes.push_back(tuple.operands.back()->shape());
    }
    tuple.shape = Shape::Tuple(std::move(shapes));
    return before != nullptr ? c->AddBefore(before, std::move(tuple)) : c->Add(std::move(tuple));
  }

  // Arrays that a kernel goes over together lie in one order.
  void AlignOperands(Computation* c, Instruction* i, const Shape& leaf, const std::vector<bool>& any_order) {
    if (!leaf.IsArray() || leaf.rank() < 2) return;
    for (int64_t k = 0; k < i->operand_count(); ++k) {
      Instruction* o = i->operand(k);
      if (any_order[static_cast<size_t>(k)] || !SameDims(o->shape(), leaf) ||
          o->shape().layout().minor_to_major == leaf.layout().minor_to_major)
        continue;
      if (o->shape().num_elements() <= 1) continue;
      Instruction* copy = Relaid(c, o, InOrder(o->shape(), leaf.layout().minor_to_major), i);
      for (int64_t other = 0; other < i->operand_count(); ++other) {
        if (i->operand(other) == o && !any_order[static_cast<size_t>(other)]) i->ReplaceOperand(other, copy);
      }
    }
  }

  Instruction* Bitcast(Computation* c, Instruction* i, Layout layout) {
    InstructionSpec spec;
    spec.opcode = Opcode::kBitcast;
    spec.shape = i->shape().WithoutLayout();
    spec.shape.set_layout(std::move(layout));
    spec.operands = {i->operand(0)};
    spec.metadata = i->metadata();
    Instruction* made = c->AddBefore(i, std::move(spec));
    if (auto at = wanted_.find(i); at != wanted_.end()) {
      Shape wanted = at->second;
      wanted_.emplace(made, std::move(wanted));
    }
    i->ReplaceAllUsesWith(made);
    return made;
  }

  absl::Status Assign(Computation* c, Instruction* i, absl::Span<const Shape> parameters) {
    const auto set = [i](Shape shape) { i->mutable_shape() = std::move(shape); };
    switch (i->opcode()) {
      case Opcode::kParameter:
        set(parameters[static_cast<size_t>(i->parameter_number())]);
        return absl::OkStatus();
      case Opcode::kTuple: {
        std::vector<Shape> elements;
        for (const Instruction* o : i->operands()) elements.push_back(o->shape());
        set(Shape::Tuple(std::move(elements)));
        return absl::OkStatus();
      }
      case Opcode::kGetTupleElement:
        set(i->operand(0)->shape().tuple_shapes(i->tuple_index()));
        return absl::OkStatus();
      case Opcode::kOptimizationBarrier:
      case Opcode::kAddDependency:
      case Opcode::kDomain:
        set(i->operand(0)->shape());
        return absl::OkStatus();
      case Opcode::kTranspose:
        Bitcast(c, i, TransposedLayout(*i));
        return absl::OkStatus();
      case Opcode::kReshape:
      case Opcode::kBitcast:
        if (i->operand(0)->shape().element_type() == i->shape().element_type()) {
          if (auto layout = BitcastLayout(i->operand(0)->shape(), i->shape(), tile_)) {
            Bitcast(c, i, *std::move(layout));
            return absl::OkStatus();
          }
        }
        set(Wished(i, 0, i->shape()));
        return absl::OkStatus();
      case Opcode::kWhile: {
        const Shape state = i->operand(0)->shape();
        RETURN_IF_ERROR(Assigner(tile_).Run(i->called(0), {state}, nullptr));
        RETURN_IF_ERROR(Assigner(tile_).Run(i->called(1), {state}, &state));
        set(state);
        return absl::OkStatus();
      }
      case Opcode::kConditional: {
        const Shape result = WithDefault(i->shape());
        for (size_t k = 0; k < i->called().size(); ++k) {
          RETURN_IF_ERROR(Assigner(tile_).Run(i->called(static_cast<int64_t>(k)),
                                              {i->operand(static_cast<int64_t>(k) + 1)->shape()}, &result));
        }
        set(result);
        return absl::OkStatus();
      }
      case Opcode::kCall: {
        std::vector<Shape> operands;
        for (const Instruction* o : i->operands()) operands.push_back(o->shape());
        const Shape result = WithDefault(i->shape());
        RETURN_IF_ERROR(Assigner(tile_).Run(i->called(0), operands, &result));
        set(result);
        return absl::OkStatus();
      }
      case Opcode::kCustomCall:
      case Opcode::kCopy:
        set(i->shape().IsTuple() ? WithDefault(i->shape()) : Wished(i, 0, i->shape()));
        return absl::OkStatus();
      default:
        break;
    }
    if (!i->shape().IsArray() && !i->shape().IsTuple()) return absl::OkStatus();
    const std::vector<bool> any_order = AnyOrderTaken(*i);
    Shape shape = OutputsOf(i, any_order);
    ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) { AlignOperands(c, i, leaf, any_order); });
    set(std::move(shape));
    if (i->Is(Opcode::kFusion)) AssignInside(i);
    return absl::OkStatus();
  }

  static Layout TransposedOrder(const Instruction& i, TileShape tile) {
    const Ints& permutation = i.dimensions();  // result dimension d is operand dimension permutation[d]
    std::vector<int64_t> at(permutation.size());
    for (size_t d = 0; d < permutation.size(); ++d) at[static_cast<size_t>(permutation[d])] = static_cast<int64_t>(d);
    std::vector<int64_t> order;
    for (int64_t d : i.operand(0)->shape().layout().minor_to_major) order.push_back(at[static_cast<size_t>(d)]);
    return TiledLayout(i.shape().element_type(), i.shape().dimensions(), order, tile);
  }
  Layout TransposedLayout(const Instruction& i) const {
    if (i.shape().num_elements() == 0) return Layout::RowMajor(i.shape().rank());
    return TransposedOrder(i, tile_);
  }

  // A fusion's contents: parameters and root as outside, the rest in the order of the first operand of the same sizes.
  void AssignInside(const Instruction* fusion) const {
    Computation* body = fusion->called(0);
    for (const auto& owned : body->instructions()) {
      Instruction* i = owned.get();
      if (i->Is(Opcode::kParameter)) {
        i->mutable_shape() = fusion->operand(i->parameter_number())->shape();
      } else if (i->Is(Opcode::kTranspose)) {
        i->mutable_shape().set_layout(TransposedLayout(*i));
      } else if (i->shape().IsArray()) {
        const Instruction* like = nullptr;
        for (const Instruction* o : i->operands()) {
          if (SameDims(o->shape(), i->shape()) && i->shape().rank() >= 2) {
            like = o;
            break;
          }
        }
        i->mutable_shape() =
            like != nullptr ? InOrder(i->shape(), like->shape().layout().minor_to_major) : WithDefault(i->shape());
      }
    }
    Instruction* root = body->root();
    root->mutable_shape() = fusion->shape();
    if (!root->Is(Opcode::kTuple)) return;
    for (int64_t k = 0; k < root->operand_count(); ++k) {
      if (!root->operand(k)->Is(Opcode::kParameter))
        root->operand(k)->mutable_shape() = fusion->shape().tuple_shapes(k);
    }
  }

  const TileShape tile_;
  absl::flat_hash_map<const Instruction*, Shape> wanted_;
};

}  // namespace

int64_t PaddedElements(const Shape& shape) {
  if (!shape.IsArray()) return 0;
  absl::StatusOr<PhysicalLayout> layout = PhysicalLayout::Of(shape);
  return layout.ok() ? layout->num_elements() : shape.num_elements();
}

int64_t PaddedBytes(const Shape& shape) {
  if (!shape.IsArray()) return 0;
  absl::StatusOr<PhysicalLayout> layout = PhysicalLayout::Of(shape);
  return layout.ok() ? layout->byte_size() : shape.byte_size();
}

int64_t UnpaddedBytes(const Shape& shape) {
  return shape.IsArray() ? (shape.num_elements() * BitWidth(shape.element_type()) + 7) / 8 : 0;
}

std::optional<Layout> BitcastLayout(const Shape& from, const Shape& to, TileShape tile) {
  if (from.num_elements() == 0 || to.num_elements() == 0 || !from.has_layout()) return std::nullopt;
  if (from.dimensions() == to.dimensions()) return from.layout();
  // Dimensions of size 1 apart, runs of dimensions become runs of dimensions with the same product.
  struct Run {
    std::vector<int64_t> from, to;
  };
  std::vector<Run> runs;
  int64_t f = 0, t = 0;
  const auto skip_ones = [](const Shape& s, int64_t& d) {
    while (d < s.rank() && s.dimensions(d) == 1) ++d;
  };
  for (skip_ones(from, f), skip_ones(to, t); f < from.rank() || t < to.rank(); skip_ones(from, f), skip_ones(to, t)) {
    Run run;
    int64_t a = 1, b = 1;
    do {
      int64_t& d = a <= b ? f : t;
      const Shape& s = a <= b ? from : to;
      if (d >= s.rank()) return std::nullopt;
      (a <= b ? run.from : run.to).push_back(d);
      (a <= b ? a : b) *= s.dimensions(d);
      ++d;
      skip_ones(s, d);
    } while (a != b);
    runs.push_back(std::move(run));
  }
  // In memory, a run that is more than one dimension must stand together and in order.
  std::vector<int64_t> order;  // of `to`, major to minor
  for (int64_t d = 0; d < to.rank(); ++d) {
    if (to.dimensions(d) == 1) order.push_back(d);
  }
  DimVector physical;
  for (int64_t d : MajorToMinor(from.layout())) {
    if (from.dimensions(d) != 1) physical.push_back(d);
  }
  for (size_t p = 0; p < physical.size();) {
    const Run* run = nullptr;
    for (const Run& r : runs) {
      if (r.from[0] == physical[p]) run = &r;
    }
    if (run == nullptr || p + run->from.size() > physical.size()) return std::nullopt;
    for (size_t k = 0; k < run->from.size(); ++k) {
      if (physical[p + k] != run->from[k]) return std::nullopt;
    }
    order.insert(order.end(), run->to.begin(), run->to.end());
    p += run->from.size();
  }
  std::reverse(order.begin(), order.end());
  Shape out = to.WithoutLayout();
  out.set_layout(TiledLayout(to.element_type(), to.dimensions(), order, tile));
  if (PaddedBytes(from) != PaddedBytes(out)) return std::nullopt;
  if (PackedElements(from.element_type()) > 1 && (from.rank() < 2) != (to.rank() < 2)) return std::nullopt;

  // Tiles: columns stay, and rows stay or are whole tiles on both sides.
  const auto minor = [](const Shape& s, size_t n) {
    return n < s.layout().minor_to_major.size() ? s.dimensions(s.layout().minor_to_major[n]) : 1;
  };
  const auto rows = [](const Shape& s) {
    return s.rank() < 2 || s.layout().tiles.empty() ? int64_t{1} : s.layout().tiles[0].dims[0];
  };
  if (minor(from, 0) != minor(out, 0) || rows(from) != rows(out)) return std::nullopt;
  if (minor(from, 1) != minor(out, 1) && (minor(from, 1) % rows(from) != 0 || minor(out, 1) % rows(out) != 0)) {
    return std::nullopt;
  }
  return out.layout();
}

absl::Status AssignLayouts(Module* module, TileShape tile) {
  const ModuleConfig& config = module->config();
  RETURN_IF_ERROR(Assigner(tile).Run(module->entry(), config.parameter_layouts, &config.result_layout));
  return absl::OkStatus();
}

}  // namespace backplane::tpu
