#include "plugins/tpu_emulator/program/layouts.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/passes/rewrite.h"
#include "core/types/physical_layout.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/program/operation_traits.h"

namespace backplane::tpu {
namespace {

bool SameDims(const Shape& a, const Shape& b) { return a.IsArray() && b.IsArray() && a.dimensions() == b.dimensions(); }

// Whether a value with the layouts of `a` can be used as one with the layouts of `b`.
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

// Returns the dimensions from major to minor.
DimVector MajorToMinor(const Layout& layout) {
  DimVector order(layout.minor_to_major.rbegin(), layout.minor_to_major.rend());
  return order;
}

// Returns which operands may have any order of dimensions, because the kernel does not iterate over them element by
// element. Those are the operands of a contraction, and all operands of instructions that are neither fusions nor
// elementwise.
std::vector<bool> FindOrderFreeOperands(const Instruction& i) {
  std::vector<bool> order_free(static_cast<size_t>(i.operand_count()), false);
  const bool elementwise_order = i.Is(Opcode::kFusion) || i.Is(Opcode::kSort) || i.Is(Opcode::kDynamicUpdateSlice) ||
                                 i.info().Has(OpTrait::kElementwise);
  if (!elementwise_order) order_free.assign(order_free.size(), true);
  if (!i.Is(Opcode::kFusion) || i.attrs().GetEnum<FusionKind>(AttrId::kFusionKind) != FusionKind::kOutput)
    return order_free;
  std::vector<const Instruction*> work;
  for (const auto& inner : i.called(0)->instructions()) {
    if (!IsContraction(*inner)) continue;
    work.assign(inner->operands().begin(), inner->operands().end());
  }
  absl::flat_hash_set<const Instruction*> seen;
  while (!work.empty()) {
    const Instruction* at = work.back();
    work.pop_back();
    if (!seen.insert(at).second) continue;
    if (at->Is(Opcode::kParameter)) order_free[static_cast<size_t>(at->parameter_number())] = true;
    work.insert(work.end(), at->operands().begin(), at->operands().end());
  }
  return order_free;
}

class Assigner {
 public:
  explicit Assigner(TileShape tile) : tile_(tile) {}

  // `parameters` are shapes with layouts. The root is copied to the layout of `result`, unless that is null.
  absl::Status Run(Computation* c, absl::Span<const Shape> parameters, const Shape* result) {
    if (result != nullptr) RecordWantedLayout(c->root(), *result);
    for (Instruction* i : c->Snapshot()) RETURN_IF_ERROR(Assign(c, i, parameters));
    if (result != nullptr) c->set_root(CopyToLayout(c, c->root(), *result));
    c->RemoveDead();
    return absl::OkStatus();
  }

 private:
  Shape WithDefaultLayout(const Shape& s) const {
    if (s.IsTuple()) {
      std::vector<Shape> elements;
      elements.reserve(static_cast<size_t>(s.tuple_size()));
      for (const Shape& e : s.tuple_shapes()) elements.push_back(WithDefaultLayout(e));
      return Shape::Tuple(std::move(elements));
    }
    if (!s.IsArray()) return s;
    Shape out = s.WithoutLayout();
    out.set_layout(DefaultLayout(s.element_type(), s.dimensions(), tile_));
    return out;
  }

  Shape WithOrder(const Shape& s, absl::Span<const int64_t> minor_to_major) const {
    Shape out = s.WithoutLayout();
    out.set_layout(TiledLayout(s.element_type(), s.dimensions(), minor_to_major, tile_));
    return out;
  }

  void RecordWantedLayout(Instruction* i, const Shape& shape) {
    if (shape.IsTuple() && i->Is(Opcode::kTuple)) {
      for (int64_t k = 0; k < i->operand_count(); ++k) RecordWantedLayout(i->operand(k), shape.tuple_shapes(k));
    } else if (shape.IsArray()) {
      wanted_.try_emplace(i, shape);
    }
  }

  bool HasWantedLayout(const Instruction* i, int64_t k) const {
    if (i->shape().IsArray()) return wanted_.contains(i);
    return std::any_of(i->users().begin(), i->users().end(), [&](const Instruction* user) {
      return user->Is(Opcode::kGetTupleElement) && user->tuple_index() == k && wanted_.contains(user);
    });
  }

  // Returns leaf k of i with the layout that the root needs, or with the default layout.
  Shape PreferredShape(const Instruction* i, int64_t k, const Shape& leaf) const {
    if (auto at = wanted_.find(i); at != wanted_.end() && i->shape().IsArray()) return at->second;
    if (i->shape().IsTuple()) {
      for (const Instruction* user : i->users()) {
        if (!user->Is(Opcode::kGetTupleElement) || user->tuple_index() != k) continue;
        if (auto at = wanted_.find(user); at != wanted_.end()) return at->second;
      }
    }
    return WithDefaultLayout(leaf);
  }

  // Returns leaf k of i with the order that saves most copies: that of an operand with the same dimensions, or the
  // preferred one. Ties are decided in favor of the preferred order, then of the first operand.
  Shape ChooseLeafShape(const Instruction* i, int64_t k, const Shape& leaf, const std::vector<bool>& order_free) const {
    if (!leaf.IsArray()) return leaf;
    Shape preferred = PreferredShape(i, k, leaf);
    if (leaf.rank() < 2 || leaf.num_elements() <= 1) return preferred;
    struct Candidate {
      const DimVector* order;
      int64_t bits;  // sum over the arrays with this order, in bits per element
    };
    std::vector<Candidate> candidates = {{&preferred.layout().minor_to_major, 0}};
    if (HasWantedLayout(i, k)) candidates[0].bits = BitWidth(leaf.element_type());
    for (int64_t n = 0; n < i->operand_count(); ++n) {
      const Instruction* o = i->operand(n);
      if (order_free[static_cast<size_t>(n)] && (i->Is(Opcode::kFusion) || n > 0)) continue;
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
    return best == &candidates[0] ? preferred : WithOrder(leaf, *best->order);
  }

  Shape ChooseResultShape(const Instruction* i, const std::vector<bool>& order_free) const {
    if (!i->shape().IsTuple()) return ChooseLeafShape(i, 0, i->shape(), order_free);
    std::vector<Shape> elements;
    for (int64_t k = 0; k < i->shape().tuple_size(); ++k) {
      const Shape& e = i->shape().tuple_shapes(k);
      elements.push_back(e.IsTuple() ? WithDefaultLayout(e) : ChooseLeafShape(i, k, e, order_free));
    }
    return Shape::Tuple(std::move(elements));
  }

  // Returns the value in the wanted layout, with a copy if necessary.
  Instruction* CopyToLayout(Computation* c, Instruction* i, const Shape& wanted, Instruction* before = nullptr) {
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
      tuple.operands.push_back(CopyToLayout(c, element, wanted.tuple_shapes(k), before));
      shapes.push_back(tuple.operands.back()->shape());
    }
    tuple.shape = Shape::Tuple(std::move(shapes));
    return before != nullptr ? c->AddBefore(before, std::move(tuple)) : c->Add(std::move(tuple));
  }

  // Copies operands that the kernel iterates over to the order of `leaf`.
  void AlignOperands(Computation* c, Instruction* i, const Shape& leaf, const std::vector<bool>& order_free) {
    if (!leaf.IsArray() || leaf.rank() < 2) return;
    for (int64_t k = 0; k < i->operand_count(); ++k) {
      Instruction* o = i->operand(k);
      if (order_free[static_cast<size_t>(k)] || !SameDims(o->shape(), leaf) ||
          o->shape().layout().minor_to_major == leaf.layout().minor_to_major)
        continue;
      if (o->shape().num_elements() <= 1) continue;
      Instruction* copy = CopyToLayout(c, o, WithOrder(o->shape(), leaf.layout().minor_to_major), i);
      for (int64_t other = 0; other < i->operand_count(); ++other) {
        if (i->operand(other) == o && !order_free[static_cast<size_t>(other)]) i->ReplaceOperand(other, copy);
      }
    }
  }

  Instruction* ReplaceWithBitcast(Computation* c, Instruction* i, Layout layout) {
    InstructionSpec spec;
    spec.opcode = Opcode::kBitcast;
    spec.shape = i->shape().WithoutLayout();
    spec.shape.set_layout(std::move(layout));
    spec.operands = {i->operand(0)};
    spec.metadata = i->metadata();
    Instruction* bitcast = c->AddBefore(i, std::move(spec));
    if (auto at = wanted_.find(i); at != wanted_.end()) {
      Shape wanted = at->second;
      wanted_.emplace(bitcast, std::move(wanted));
    }
    i->ReplaceAllUsesWith(bitcast);
    return bitcast;
  }

  absl::Status Assign(Computation* c, Instruction* i, absl::Span<const Shape> parameters) {
    const auto set = [i](Shape shape) { i->mutable_shape() = std::move(shape); };
    if (i->info().Has(OpTrait::kForwardsOperand)) {
      set(i->operand(0)->shape());
      return absl::OkStatus();
    }
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
      case Opcode::kTranspose:
        ReplaceWithBitcast(c, i, TransposedLayout(*i));
        return absl::OkStatus();
      case Opcode::kReshape:
      case Opcode::kBitcast:
        if (i->operand(0)->shape().element_type() == i->shape().element_type()) {
          if (auto layout = BitcastLayout(i->operand(0)->shape(), i->shape(), tile_)) {
            ReplaceWithBitcast(c, i, *std::move(layout));
            return absl::OkStatus();
          }
        }
        set(PreferredShape(i, 0, i->shape()));
        return absl::OkStatus();
      case Opcode::kWhile: {
        const Shape state = i->operand(0)->shape();
        RETURN_IF_ERROR(Assigner(tile_).Run(i->called(0), {state}, nullptr));
        RETURN_IF_ERROR(Assigner(tile_).Run(i->called(1), {state}, &state));
        set(state);
        return absl::OkStatus();
      }
      case Opcode::kConditional: {
        const Shape result = WithDefaultLayout(i->shape());
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
        const Shape result = WithDefaultLayout(i->shape());
        RETURN_IF_ERROR(Assigner(tile_).Run(i->called(0), operands, &result));
        set(result);
        return absl::OkStatus();
      }
      case Opcode::kCustomCall:
      case Opcode::kCopy:
        set(i->shape().IsTuple() ? WithDefaultLayout(i->shape()) : PreferredShape(i, 0, i->shape()));
        return absl::OkStatus();
      default:
        break;
    }
    if (!i->shape().IsArray() && !i->shape().IsTuple()) return absl::OkStatus();
    const std::vector<bool> order_free = FindOrderFreeOperands(*i);
    Shape shape = ChooseResultShape(i, order_free);
    ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) { AlignOperands(c, i, leaf, order_free); });
    set(std::move(shape));
    if (i->Is(Opcode::kFusion)) AssignInsideFusion(i);
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

  // Assigns layouts inside of a fusion. Parameters and root have the layouts of the fusion's operands and result. Other
  // values have the order of the first operand with the same dimensions.
  void AssignInsideFusion(const Instruction* fusion) const {
    Computation* body = fusion->called(0);
    for (const auto& owned : body->instructions()) {
      Instruction* i = owned.get();
      if (i->Is(Opcode::kParameter)) {
        i->mutable_shape() = fusion->operand(i->parameter_number())->shape();
      } else if (i->Is(Opcode::kTranspose)) {
        i->mutable_shape().set_layout(TransposedLayout(*i));
      } else if (i->shape().IsArray()) {
        const Instruction* model = nullptr;
        for (const Instruction* o : i->operands()) {
          if (SameDims(o->shape(), i->shape()) && i->shape().rank() >= 2) {
            model = o;
            break;
          }
        }
        i->mutable_shape() = model != nullptr ? WithOrder(i->shape(), model->shape().layout().minor_to_major)
                                              : WithDefaultLayout(i->shape());
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

int64_t CountPaddedElements(const Shape& shape) {
  if (!shape.IsArray()) return 0;
  absl::StatusOr<PhysicalLayout> layout = PhysicalLayout::Of(shape);
  return layout.ok() ? layout->num_elements() : shape.num_elements();
}

int64_t PaddedBytes(const Shape& shape) {
  if (!shape.IsArray()) return 0;
  absl::StatusOr<PhysicalLayout> layout = PhysicalLayout::Of(shape);
  return layout.ok() ? layout->byte_size() : shape.byte_size();
}

int64_t ComputeUnpaddedBytes(const Shape& shape) {
  return shape.IsArray() ? (shape.num_elements() * BitWidth(shape.element_type()) + 7) / 8 : 0;
}

std::optional<Layout> BitcastLayout(const Shape& from, const Shape& to, TileShape tile) {
  if (from.num_elements() == 0 || to.num_elements() == 0 || !from.has_layout()) return std::nullopt;
  if (from.dimensions() == to.dimensions()) return from.layout();
  // Ignoring dimensions of size 1, groups of dimensions of `from` map to groups of `to` with the same product.
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
  // A group of more than one dimension must be contiguous and in order in memory.
  std::vector<int64_t> order;  // dimensions of `to`, major to minor
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

  // The tiles must match: the minor dimension stays, and the second-minor one stays or is a multiple of the tile's rows
  // in both shapes.
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
