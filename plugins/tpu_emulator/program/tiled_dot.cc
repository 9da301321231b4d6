#include "plugins/tpu_emulator/program/tiled_dot.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/passes/rewrite.h"
#include "plugins/tpu_emulator/array/contraction.h"

namespace backplane::tpu {
namespace {

// A dimension of an operand of the new dot: a digit, or a part of one, of a dimension of the old operand.
struct Atom {
  int64_t dim, divisor, size;
};

using SplitPoints = std::vector<std::set<int64_t>>;  // by dimension, the divisors at which its index is split

std::vector<TileView::Digit> GetDigits(const TileView* view, absl::Span<const int64_t> dims, int64_t dim) {
  if (view != nullptr) return view->digits[static_cast<size_t>(dim)];
  const int64_t size = dims[static_cast<size_t>(dim)];
  if (size == 1) return {};
  return {{1, size, dim}};
}

// Returns the atoms in memory order, or nullopt if a split point does not divide a digit evenly.
std::optional<std::vector<Atom>> SplitDigits(const TileView* view, absl::Span<const int64_t> dims,
                                             const SplitPoints& splits) {
  std::vector<std::pair<int64_t, std::vector<Atom>>> by_memory_dim;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    for (const TileView::Digit& digit : GetDigits(view, dims, d)) {
      std::vector<Atom> atoms;
      int64_t previous_divisor = digit.divisor * digit.size;
      const std::set<int64_t>& here = splits[static_cast<size_t>(d)];
      for (auto c = here.rbegin(); c != here.rend(); ++c) {
        if (*c <= digit.divisor || *c >= digit.divisor * digit.size) continue;
        if (previous_divisor % *c != 0 || *c % digit.divisor != 0) return std::nullopt;
        atoms.push_back({d, *c, previous_divisor / *c});
        previous_divisor = *c;
      }
      atoms.push_back({d, digit.divisor, previous_divisor / digit.divisor});
      by_memory_dim.emplace_back(digit.memory_dim, std::move(atoms));
    }
  }
  std::sort(by_memory_dim.begin(), by_memory_dim.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Atom> all;
  for (auto& [memory_dim, atoms] : by_memory_dim) all.insert(all.end(), atoms.begin(), atoms.end());
  return all;
}

struct DotPlan {
  std::vector<int64_t> lhs_dims, rhs_dims;
  std::vector<Atom> lhs, rhs;
};

std::optional<DotPlan> PlanTiledDot(const Instruction& dot, const TileView* lhs, const TileView* rhs) {
  const DotDimensions& d = dot.dot_dims();
  DotPlan plan;
  auto dims_of = [&](int k, const TileView* view) {
    if (view != nullptr) return view->dims;
    const DimVector& dims = dot.operand(k)->shape().dimensions();
    return std::vector<int64_t>(dims.begin(), dims.end());
  };
  plan.lhs_dims = dims_of(0, lhs);
  plan.rhs_dims = dims_of(1, rhs);
  SplitPoints left(plan.lhs_dims.size()), right(plan.rhs_dims.size());
  auto split_alike = [&](const Ints& l, const Ints& r) {
    for (size_t k = 0; k < l.size(); ++k) {
      if ((lhs != nullptr && lhs->HasPadding(l[k])) || (rhs != nullptr && rhs->HasPadding(r[k]))) return false;
      std::set<int64_t> divisors;
      for (const TileView::Digit& digit : GetDigits(lhs, plan.lhs_dims, l[k])) divisors.insert(digit.divisor);
      for (const TileView::Digit& digit : GetDigits(rhs, plan.rhs_dims, r[k])) divisors.insert(digit.divisor);
      left[static_cast<size_t>(l[k])] = right[static_cast<size_t>(r[k])] = std::move(divisors);
    }
    return true;
  };
  if (!split_alike(d.lhs_batch, d.rhs_batch) || !split_alike(d.lhs_contracting, d.rhs_contracting)) return std::nullopt;
  std::optional<std::vector<Atom>> l = SplitDigits(lhs, plan.lhs_dims, left),
                                   r = SplitDigits(rhs, plan.rhs_dims, right);
  if (!l.has_value() || !r.has_value()) return std::nullopt;
  plan.lhs = *std::move(l);
  plan.rhs = *std::move(r);
  return plan;
}

Instruction* ReshapeToAtoms(Computation* c, const std::vector<Atom>& atoms, Instruction* x) {
  std::vector<int64_t> dims;
  for (const Atom& a : atoms) dims.push_back(a.size);
  const Shape shape(x->shape().element_type(), dims);
  return x->shape().dimensions() == shape.dimensions() ? x : Make(c, x, Opcode::kReshape, shape, {x});
}

// Returns the positions in `atoms` of the atoms of a dimension, major first.
Ints FindAtoms(const std::vector<Atom>& atoms, int64_t dim) {
  Ints positions;
  for (size_t k = 0; k < atoms.size(); ++k) {
    if (atoms[k].dim == dim) positions.push_back(static_cast<int64_t>(k));
  }
  std::sort(positions.begin(), positions.end(), [&](int64_t a, int64_t b) {
    return atoms[static_cast<size_t>(a)].divisor > atoms[static_cast<size_t>(b)].divisor;
  });
  return positions;
}

Ints FindAtoms(const std::vector<Atom>& atoms, const Ints& dims) {
  Ints positions;
  for (int64_t d : dims) {
    const Ints some = FindAtoms(atoms, d);
    positions.insert(positions.end(), some.begin(), some.end());
  }
  return positions;
}

}  // namespace

bool CanTileDot(const Instruction& dot, const TileView* lhs, const TileView* rhs) {
  return dot.Is(Opcode::kDot) && CheckArraySupports(dot).ok() && PlanTiledDot(dot, lhs, rhs).has_value();
}

Instruction* MakeTiledDot(Computation* c, const Instruction& dot, const DotOperand& lhs, const DotOperand& rhs) {
  const DotDimensions& old = dot.dot_dims();
  const DotPlan plan = *PlanTiledDot(dot, lhs.view, rhs.view);
  DotDimensions d;
  d.lhs_batch = FindAtoms(plan.lhs, old.lhs_batch);
  d.rhs_batch = FindAtoms(plan.rhs, old.rhs_batch);
  d.lhs_contracting = FindAtoms(plan.lhs, old.lhs_contracting);
  d.rhs_contracting = FindAtoms(plan.rhs, old.rhs_contracting);

  // The result of the new dot: its sizes, and the dimensions of it that make up each dimension of the old result.
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
      if (!absl::c_linear_search(batch, a.dim) && !absl::c_linear_search(contracting, a.dim)) free.push_back(a);
    }
    const int64_t first = static_cast<int64_t>(sizes.size());
    for (const Atom& a : free) sizes.push_back(a.size);
    for (int64_t dim = 0; dim < static_cast<int64_t>(dims.size()); ++dim) {
      if (absl::c_linear_search(batch, dim) || absl::c_linear_search(contracting, dim)) continue;
      int64_t size = 1;
      for (int64_t at : FindAtoms(free, dim)) {
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
  Instruction* out =
      Make(c, &dot, Opcode::kDot, Shape(type, sizes),
           {ReshapeToAtoms(c, plan.lhs, lhs.value), ReshapeToAtoms(c, plan.rhs, rhs.value)}, std::move(attrs));
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
