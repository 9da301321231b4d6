#include "core/passes/partition/factors.h"

#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"

namespace backplane {
namespace {

Ints MakeIota(int64_t n) {
  Ints list(static_cast<size_t>(n));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

// Maps each dimension of the first `operands` operands to the same dimension of the result, if `is_mapped(dim)`.
template <typename IsMapped>
Factors MapDims(const Instruction& i, int64_t operands, IsMapped is_mapped) {
  Factors f;
  f.is_pass_through = true;
  const int64_t rank = i.operand(0)->shape().rank();
  Ints dims(static_cast<size_t>(rank), -1);
  for (int64_t d = 0; d < rank; ++d) {
    if (is_mapped(d)) dims[static_cast<size_t>(d)] = d;
  }
  f.result = dims;
  f.operands.assign(static_cast<size_t>(i.operand_count()), Ints());
  for (int64_t k = 0; k < operands; ++k) f.operands[static_cast<size_t>(k)] = dims;
  return f;
}

std::optional<Factors> GetElementwiseFactors(const Instruction& i) {
  Factors f;
  f.is_pass_through = true;
  f.result = MakeIota(i.shape().rank());
  for (const Instruction* o : i.operands()) {
    const bool same = o->shape().IsArray() && o->shape().dimensions() == i.shape().dimensions();
    if (!same && !o->shape().IsScalar()) return std::nullopt;
    f.operands.push_back(same ? f.result : Ints());
  }
  return f;
}

// Splits the dimensions of both shapes into runs of equal products. Maps the outermost dimensions of each run, because
// only their tiles are contiguous in the run.
std::optional<Factors> GetReshapeFactors(const Instruction& i) {
  const Shape &in = i.operand(0)->shape(), &out = i.shape();
  if (in.num_elements() == 0) return std::nullopt;
  Factors f;
  f.is_pass_through = true;
  Ints from(static_cast<size_t>(in.rank()), -1);
  f.result.assign(static_cast<size_t>(out.rank()), -1);
  int64_t a = 0, b = 0, run = 0;
  while (a < in.rank() || b < out.rank()) {
    int64_t outer_a = a, outer_b = b, product_a = 1, product_b = 1;
    do {
      if (a < in.rank() && (product_a <= product_b || b == out.rank()))
        product_a *= in.dimensions(a++);
      else
        product_b *= out.dimensions(b++);
    } while (product_a != product_b);
    while (outer_a < a && in.dimensions(outer_a) == 1) ++outer_a;
    while (outer_b < b && out.dimensions(outer_b) == 1) ++outer_b;
    if (outer_a == a || outer_b == b) continue;
    from[static_cast<size_t>(outer_a)] = f.result[static_cast<size_t>(outer_b)] = run++;
  }
  f.operands.push_back(std::move(from));
  return f;
}

std::optional<Factors> GetReduceFactors(const Instruction& i) {
  const int64_t inputs = i.operand_count() / 2;
  Factors f;
  const int64_t rank = i.operand(0)->shape().rank();
  for (int64_t d = 0; d < rank; ++d) {
    if (!absl::c_linear_search(i.dimensions(), d)) f.result.push_back(d);
  }
  f.operands.assign(static_cast<size_t>(2 * inputs), Ints());
  for (int64_t k = 0; k < inputs; ++k) f.operands[static_cast<size_t>(k)] = MakeIota(rank);
  return f;
}

std::optional<Factors> GetDotFactors(const Instruction& i) {
  const DotDimensions& d = i.dot_dims();
  const int64_t nb = static_cast<int64_t>(d.lhs_batch.size()), nc = static_cast<int64_t>(d.lhs_contracting.size());
  Factors f;
  int64_t next = nb + nc;
  auto number = [&](const Shape& shape, const Ints& batch, const Ints& contracting) {
    Ints at(static_cast<size_t>(shape.rank()), -1);
    for (int64_t k = 0; k < nb; ++k) at[static_cast<size_t>(batch[static_cast<size_t>(k)])] = k;
    for (int64_t k = 0; k < nc; ++k) at[static_cast<size_t>(contracting[static_cast<size_t>(k)])] = nb + k;
    for (int64_t& n : at) {
      if (n < 0) n = next++;
    }
    return at;
  };
  f.operands.push_back(number(i.operand(0)->shape(), d.lhs_batch, d.lhs_contracting));
  f.operands.push_back(number(i.operand(1)->shape(), d.rhs_batch, d.rhs_contracting));
  f.result = MakeIota(nb);
  for (int64_t k = nb + nc; k < next; ++k) f.result.push_back(k);
  return f;
}

std::optional<Factors> GetConvolutionFactors(const Instruction& i) {
  if (i.attrs().GetInt(AttrId::kBatchGroupCount, 1) > 1) return std::nullopt;
  const ConvolutionDimensions& d = i.conv_dims();
  Factors f;
  f.operands.assign(2, Ints());
  f.operands[0].assign(static_cast<size_t>(i.operand(0)->shape().rank()), -1);
  f.operands[1].assign(static_cast<size_t>(i.operand(1)->shape().rank()), -1);
  f.result.assign(static_cast<size_t>(i.shape().rank()), -1);
  f.operands[0][static_cast<size_t>(d.input_batch)] = f.result[static_cast<size_t>(d.output_batch)] = 0;
  if (i.attrs().GetInt(AttrId::kFeatureGroupCount, 1) > 1) return f;
  f.operands[1][static_cast<size_t>(d.kernel_output_feature)] = f.result[static_cast<size_t>(d.output_feature)] = 1;
  return f;
}

std::optional<Factors> GetGatherFactors(const Instruction& i) {
  const GatherDimensions& g = i.gather_dims();
  const Shape &operand = i.operand(0)->shape(), &indices = i.operand(1)->shape();
  const Ints& sizes = i.attrs().GetInts(AttrId::kSliceSizes);
  Factors f;
  f.result = MakeIota(i.shape().rank());
  Ints of_operand(static_cast<size_t>(operand.rank()), -1), of_indices(static_cast<size_t>(indices.rank()), -1);
  size_t window = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (absl::c_linear_search(g.collapsed_slice_dims, d) || absl::c_linear_search(g.operand_batching_dims, d)) continue;
    const int64_t at = g.offset_dims[window++];
    if (sizes[static_cast<size_t>(d)] == operand.dimensions(d)) of_operand[static_cast<size_t>(d)] = at;
  }
  Ints batch;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    if (!absl::c_linear_search(g.offset_dims, d)) batch.push_back(d);
  }
  size_t next = 0;
  for (int64_t d = 0; d < indices.rank(); ++d) {
    if (d != g.index_vector_dim) of_indices[static_cast<size_t>(d)] = batch[next++];
  }
  for (size_t k = 0; k < g.operand_batching_dims.size(); ++k) {
    of_operand[static_cast<size_t>(g.operand_batching_dims[k])] =
        of_indices[static_cast<size_t>(g.start_indices_batching_dims[k])];
  }
  f.operands = {std::move(of_operand), std::move(of_indices)};
  return f;
}

// Covers window dimensions that span the operand, and batching dimensions.
std::optional<Factors> GetScatterFactors(const Instruction& i) {
  const ScatterDimensions& g = i.scatter_dims();
  if (i.operand_count() != 3) return std::nullopt;
  const Shape &operand = i.operand(0)->shape(), &indices = i.operand(1)->shape(), &updates = i.operand(2)->shape();
  Factors f;
  Ints of_operand(static_cast<size_t>(operand.rank()), -1), of_updates(static_cast<size_t>(updates.rank()), -1);
  size_t window = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (absl::c_linear_search(g.inserted_window_dims, d) || absl::c_linear_search(g.input_batching_dims, d)) continue;
    const int64_t u = g.update_window_dims[window++];
    if (absl::c_linear_search(g.scatter_dims_to_operand_dims, d) || updates.dimensions(u) != operand.dimensions(d))
      continue;
    of_operand[static_cast<size_t>(d)] = of_updates[static_cast<size_t>(u)] = d;
  }
  // Batching dimensions occur in all three operands. The updates list them in the order of the scatter dimensions.
  Ints of_indices(static_cast<size_t>(indices.rank()), -1);
  for (size_t k = 0; k < g.input_batching_dims.size(); ++k) {
    const int64_t d = g.input_batching_dims[k], at = g.scatter_indices_batching_dims[k];
    of_operand[static_cast<size_t>(d)] = of_indices[static_cast<size_t>(at)] = d;
    int64_t scatter = at > g.index_vector_dim ? at - 1 : at;
    for (int64_t u = 0; u < updates.rank(); ++u) {
      if (!absl::c_linear_search(g.update_window_dims, u) && scatter-- == 0) of_updates[static_cast<size_t>(u)] = d;
    }
  }
  f.result = of_operand;
  f.operands = {std::move(of_operand), std::move(of_indices), std::move(of_updates)};
  return f;
}

// Returns how many leading dimensions a Fourier transform, a factorization or a solution of triangular equations leaves
// alone: it works on each element of these batch dimensions independently.
int64_t CountBatchDims(const Instruction& i) {
  const int64_t rank = i.operand(0)->shape().rank();
  if (i.Is(Opcode::kFft)) return rank - static_cast<int64_t>(i.attrs().GetInts(AttrId::kFftLength).size());
  return rank - 2;
}

}  // namespace

Ints MatchDims(const Ints& of, const Ints& in) {
  Ints matching;
  for (const int64_t factor : of) {
    const auto at = absl::c_find(in, factor);
    matching.push_back(factor < 0 || at == in.end() ? -1 : at - in.begin());
  }
  return matching;
}

std::optional<Factors> GetFactors(const Instruction& i) {
  if (i.operand_count() == 0 || !i.operand(0)->shape().IsArray()) return std::nullopt;
  const Shape &in = i.operand(0)->shape(), &out = i.shape();
  const bool array = out.IsArray();
  switch (i.opcode()) {
    case Opcode::kBroadcast: {
      Factors f;
      f.operands = {i.dimensions()};
      f.result = MakeIota(out.rank());
      return f;
    }
    case Opcode::kTranspose: {
      Factors f;
      f.is_pass_through = true;
      f.operands = {MakeIota(in.rank())};
      f.result = i.dimensions();
      return f;
    }
    case Opcode::kReshape:
      return GetReshapeFactors(i);
    case Opcode::kReduce:
      return GetReduceFactors(i);
    case Opcode::kDot:
      return GetDotFactors(i);
    case Opcode::kConvolution:
      return GetConvolutionFactors(i);
    case Opcode::kGather:
      return GetGatherFactors(i);
    case Opcode::kScatter:
      return GetScatterFactors(i);
    case Opcode::kReverse: {
      Factors f = MapDims(i, 1, [](int64_t) { return true; });
      f.permuted = i.dimensions();
      return f;
    }
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
      return MapDims(i, 1, [&](int64_t d) { return out.dimensions(d) == in.dimensions(d); });
    case Opcode::kPad:
      return MapDims(i, 1, [&](int64_t d) { return i.padding()[static_cast<size_t>(d)] == PaddingDimension{}; });
    case Opcode::kDynamicUpdateSlice: {
      Factors f = MapDims(i, 2, [](int64_t) { return true; });
      for (int64_t d = 0; d < in.rank(); ++d) {
        if (i.operand(1)->shape().dimensions(d) != in.dimensions(d)) f.operands[1][static_cast<size_t>(d)] = -1;
      }
      return f;
    }
    case Opcode::kConcatenate:
      return MapDims(i, i.operand_count(), [&](int64_t d) { return !absl::c_linear_search(i.dimensions(), d); });
    case Opcode::kSort:
      return MapDims(i, i.operand_count(), [&](int64_t d) { return !absl::c_linear_search(i.dimensions(), d); });
    case Opcode::kFft:
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
      return MapDims(i, i.operand_count(), [&](int64_t d) { return d < CountBatchDims(i); });
    case Opcode::kTopK:
      return MapDims(i, 1, [&](int64_t d) { return d < in.rank() - 1; });
    case Opcode::kReduceWindow:
      return MapDims(i, i.operand_count() / 2,
                     [&](int64_t d) { return i.window().dimensions[static_cast<size_t>(d)] == WindowDimension{}; });
    default:
      return array && i.info().Has(kElementwise) ? GetElementwiseFactors(i) : std::nullopt;
  }
}

}  // namespace backplane
