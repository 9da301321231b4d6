#include "plugins/tpu_emulator/program/tiled_dot.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/passes/rewrite.h"
#include "plugins/tpu_emulator/array/contraction.h"

namespace backplane::tpu {
namespace {

// A dimension of an operand of the new dot: one digit, or a part of one, of a dimension of the old operand.
struct Atom {
  int64_t dim, divisor, size;
};

using Cuts = std::vector<std::set<int64_t>>;  // by dimension, the divisors at which its index is cut

std::vector<TileView::Digit> DigitsOf(const TileView* view, absl::Span<const int64_t> dims, int64_t dim) {
  if (view != nullptr) return view->digits[static_cast<size_t>(dim)];
  const int64_t size = dims[static_cast<size_t>(dim)];
  if (size == 1) return {};
  return {{1, size, dim}};
}

// In the order of memory; none where a cut falls into the middle of a digit.
std::optional<std::vector<Atom>> AtomsOf(const TileView* view, absl::Span<const int64_t> dims, const Cuts& cuts) {
  std::vector<std::pair<int64_t, std::vector<Atom>>> by_place;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    for (const TileView::Digit& digit : DigitsOf(view, dims, d)) {
      std::vector<Atom> atoms;
      int64_t above = digit.divisor * digit.size;
      const std::set<int64_t>& here = cuts[static_cast<size_t>(d)];
      for (auto c = here.rbegin(); c != here.rend(); ++c) {
        if (*c <= digit.divisor || *c >= digit.divisor * digit.size) continue;
        if (above % *c != 0 || *c % digit.divisor != 0) return std::nullopt;
        atoms.push_back({d, *c, above / *c});
        above = *c;
      }
      atoms.push_back({d, digit.divisor, above / digit.divisor});
      by_place.emplace_back(digit.place, std::move(atoms));
    }
  }
  std::sort(by_place.begin(), by_place.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Atom> all;
  for (auto& [place, atoms] : by_place) all.insert(all.end(), atoms.begin(), atoms.end());
  return all;
}

struct Plan {
  std::vector<int64_t> lhs_dims, rhs_dims;
  std::vector<Atom> lhs, rhs;
};

std::optional<Plan> PlanOf(const Instruction& dot, const TileView* lhs, const TileView* rhs) {
  const DotDimensions& d = dot.dot_dims();
  Plan plan;
  auto dims_of = [&](int k, const TileView* view) {
    if (view != nullptr) return view->dims;
    const DimVector& dims = dot.operand(k)->shape().dimensions();
    return std::vector<int64_t>(dims.begin(), dims.end());
  };
  plan.lhs_dims = dims_of(0, lhs);
  plan.rhs_dims = dims_of(1, rhs);
  Cuts left(plan.lhs_dims.size()), right(plan.rhs_dims.size());
  auto share = [&](const Ints& l, const Ints& r) {
    for (size_t k = 0; k < l.size(); ++k) {
      if ((lhs != nullptr && lhs->HasPadding(l[k])) || (rhs != nullptr && rhs->HasPadding(r[k]))) return false;
      std::set<int64_t> divisors;
      for (const TileView::Digit& digit : DigitsOf(lhs, plan.lhs_dims, l[k])) divisors.insert(digit.divisor);
      for (const TileView::Digit& digit : DigitsOf(rhs, plan.rhs_dims, r[k])) divisors.insert(digit.divisor);
      left[static_cast<size_t>(l[k])] = right[static_cast<size_t>(r[k])] = std::move(divisors);
    }
    return true;
  };
  if (!share(d.lhs_batch, d.rhs_batch) || !share(d.lhs_contracting, d.rhs_contracting)) return std::nullopt;
  std::optional<std::vector<Atom>> l = AtomsOf(lhs, plan.lhs_dims, left), r = AtomsOf(rhs, plan.rhs_dims, right);
  if (!l.has_value() || !r.has_value()) return std::nullopt;
  plan.lhs = *std::move(l);
  plan.rhs = *std::move(r);
  return plan;
}

Instruction* Cut(Computation* c, const std::vector<Atom>& atoms, Instruction* x) {
  std::vector<int64_t> dims;
  for (const Atom& a : atoms) dims.push_back(a.size);
  const Shape shape(x->shape().element_type(), dims);
  return x->shape().dimensions() == shape.dimensions() ? x : Make(c, x, Opcode::kReshape, shape, {x});
}

bool Holds(const Ints& list, int64_t x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// The atoms of a dimension, major first: where they stand among `atoms`.
Ints PlacesOf(const std::vector<Atom>& atoms, int64_t dim) {
  Ints places;
  for (size_t k = 0; k < atoms.size(); ++k) {
    if (atoms[k].dim == dim) places.push_back(static_cast<int64_t>(k));
  }
  std::sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
    return atoms[static_cast<size_t>(a)].divisor > atoms[static_cast<size_t>(b)].divisor;
  });
  return places;
}

Ints PlacesOf(const std::vector<Atom>& atoms, const Ints& dims) {
  Ints places;
  for (int64_t d : dims) {
    const Ints some = PlacesOf(atoms, d);
    places.insert(places.end(), some.begin(), some.end());
  }
  return places;
}

}  // namespace

bool DotFits(const Instruction& dot, const TileView* lhs, const TileView* rhs) {
  return dot.Is(Opcode::kDot) && TakenByArray(dot).ok() && PlanOf(dot, lhs, rhs).has_value();
}

Instruction* TiledDot(Computation* c, const Instruction& dot, const DotOperand& lhs, const DotOperand& rhs) {
  const DotDimensions& old = dot.dot_dims();
  const Plan plan = *PlanOf(dot, lhs.view, rhs.view);
  DotDimensions d;
  d.lhs_batch = PlacesOf(plan.lhs, old.lhs_batch);
  d.rhs_batch = PlacesOf(plan.rhs, old.rhs_batch);
  d.lhs_contracting = PlacesOf(plan.lhs, old.lhs_contracting);
  d.rhs_contracting = PlacesOf(plan.rhs, old.rhs_contracting);

  // Of the result: sizes as the new dot has them, and which of its dimensions the old one's consist of.
  std::vector<int64_t> sizes, padded;
  Ints order;
  for (int64_t at : d.lhs_batch) {
    order.push_back(static_cast<int64_t>(sizes.size()));
    sizes.push_back(plan.lhs[static_cast<size_t>(at)].size);
  }
  for (int64_t b : old.lhs_batch) padded.push_back(plan.lhs_dims[static_cast<size_t>(b)]);
  auto add_free = [&](const std::vector<Atom>& atoms, const std::vector<int64_t>& dims, const Ints& batch,
                      const Ints& contracting) {
    std::vector<Atom> free;
    for (const Atom& a : atoms) {
      if (!Holds(batch, a.dim) && !Holds(contracting, a.dim)) free.push_back(a);
    }
    const int64_t first = static_cast<int64_t>(sizes.size());
    for (const Atom& a : free) sizes.push_back(a.size);
    for (int64_t dim = 0; dim < static_cast<int64_t>(dims.size()); ++dim) {
      if (Holds(batch, dim) || Holds(contracting, dim)) continue;
      int64_t size = 1;
      for (int64_t at : PlacesOf(free, dim)) {
        order.push_back(first + at);
        size *= free[static_cast<size_t>(at)].size;
      }
      padded.push_back(size);
    }
  };
  add_free(plan.lhs, plan.lhs_dims, old.lhs_batch, old.lhs_contracting);
  add_free(plan.rhs, plan.rhs_dims, old.rhs_batch, old.rhs_contracting);

  const PrimitiveType type = dot.shape().element_type();
  Attributes attrs = dot.attrs();
  attrs.Set(AttrId::kDotDims, std::move(d));
  Instruction* out = Make(c, &dot, Opcode::kDot, Shape(type, sizes),
                          {Cut(c, plan.lhs, lhs.value), Cut(c, plan.rhs, rhs.value)}, std::move(attrs));
  if (!std::is_sorted(order.begin(), order.end())) {
    std::vector<int64_t> permuted;
    for (int64_t p : order) permuted.push_back(sizes[static_cast<size_t>(p)]);
    Attributes permutation;
    permutation.Set(AttrId::kDimensions, order);
    out = Make(c, &dot, Opcode::kTranspose, Shape(type, permuted), {out}, std::move(permutation));
  }
  const Shape with_padding(type, padded);
  if (out->shape().dimensions() != with_padding.dimensions())
    out = Make(c, &dot, Opcode::kReshape, with_padding, {out});
  if (with_padding.dimensions() == dot.shape().dimensions()) return out;
  SliceConfig slices;
  for (int64_t size : dot.shape().dimensions()) slices.push_back({0, size, 1});
  Attributes cut;
  cut.Set(AttrId::kSlices, std::move(slices));
  return Make(c, &dot, Opcode::kSlice, dot.shape(), {out}, std::move(cut));
}

}  // namespace backplane::tpu
