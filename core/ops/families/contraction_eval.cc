// Evaluation of dot, ragged dot and scaled dot.
#include <complex>

#include "core/ops/families/elements.h"
#include "core/ops/families/gemm.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

template <typename T>
void Products(int64_t batch, int64_t m, int64_t n, int64_t k, const std::byte* a, const std::byte* b, std::byte* c) {
  for (int64_t i = 0; i < batch; ++i) {
    Gemm<T>(m, n, k, reinterpret_cast<const T*>(a) + i * m * k, k, reinterpret_cast<const T*>(b) + i * k * n, n,
            reinterpret_cast<T*>(c) + i * m * n, n);
  }
}

absl::StatusOr<Literal> DotGeneral(const OpContext& op, const Literal& lhs, const Literal& rhs, const DotDimensions& d,
                                   const Shape& shape) {
  Ints left = d.lhs_batch, right = d.rhs_batch;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  for (int64_t i : d.lhs_batch) batch *= lhs.shape().dimensions(i);
  for (int64_t i = 0; i < lhs.shape().rank(); ++i) {
    if (Contains(d.lhs_batch, i) || Contains(d.lhs_contracting, i)) continue;
    left.push_back(i);
    m *= lhs.shape().dimensions(i);
  }
  for (int64_t i : d.lhs_contracting) {
    left.push_back(i);
    k *= lhs.shape().dimensions(i);
  }
  right.insert(right.end(), d.rhs_contracting.begin(), d.rhs_contracting.end());
  for (int64_t i = 0; i < rhs.shape().rank(); ++i) {
    if (Contains(d.rhs_batch, i) || Contains(d.rhs_contracting, i)) continue;
    right.push_back(i);
    n *= rhs.shape().dimensions(i);
  }
  const PrimitiveType acc =
      SelectAccumulationType(lhs.shape().element_type(), rhs.shape().element_type(), shape.element_type());
  ASSIGN_OR_RETURN(Literal sums, AllocateLiteral(op, shape.WithElementType(acc)));
  if (sums.num_elements() > 0 && k > 0) {
    const std::vector<std::byte> a = PackAs(lhs, left, acc), b = PackAs(rhs, right, acc);
    std::byte* c = sums.mutable_bytes();
    switch (acc) {
      case PrimitiveType::kF32:
        Products<float>(batch, m, n, k, a.data(), b.data(), c);
        break;
      case PrimitiveType::kF64:
        Products<double>(batch, m, n, k, a.data(), b.data(), c);
        break;
      case PrimitiveType::kC64:
        Products<std::complex<float>>(batch, m, n, k, a.data(), b.data(), c);
        break;
      case PrimitiveType::kC128:
        Products<std::complex<double>>(batch, m, n, k, a.data(), b.data(), c);
        break;
      default:
        Products<int64_t>(batch, m, n, k, a.data(), b.data(), c);
    }
  }
  return sums.Convert(shape.element_type());
}

// An algorithm of one component and one product rounds the operands to its types first. Several components or products
// keep the full value: the later products add what the first one loses.
absl::StatusOr<Literal> RoundedOperand(const Literal& x, const DotAlgorithm& a, PrimitiveType type,
                                       int64_t components) {
  const PrimitiveType from = x.shape().element_type();
  if (components != 1 || a.primitive_operations != 1) return x;
  if (!IsFloat(type) || !IsFloat(from) || BitWidth(type) >= BitWidth(from)) return x;
  return x.Convert(type);
}

absl::StatusOr<Literal> Part(const Literal& x, absl::Span<const int64_t> start, absl::Span<const int64_t> size) {
  const DimVector strides = RowMajorStrides(x.shape().dimensions());
  StridedSide source{0, strides};
  for (size_t i = 0; i < start.size(); ++i) source.offset += start[i] * strides[i];
  Literal out(Shape(x.shape().element_type(), size));
  StridedCopy(ByteWidth(x.shape().element_type()), size, x.bytes(), source, out.mutable_bytes(),
              {0, RowMajorStrides(size)});
  return out;
}

// Each group is one dot of slices. Where group sizes differ between batches, each batch element is a dot of its own.
absl::StatusOr<Literal> RaggedDot(const OpContext& op, Args args) {
  const Literal &lhs = *args[0], &rhs = *args[1], &sizes = *args[2];
  const RaggedDotDimensions& d = op.attrs->Get<RaggedDotDimensions>(AttrId::kRaggedDotDims);
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const int64_t ragged = d.lhs_ragged[0], groups = sizes.shape().dimensions(sizes.shape().rank() - 1);
  auto find = [](const Ints& v, int64_t x) {
    return static_cast<int64_t>(std::find(v.begin(), v.end(), x) - v.begin());
  };
  const bool contracting = Contains(d.dot.lhs_contracting, ragged), in_batch = Contains(d.dot.lhs_batch, ragged);
  const int64_t batches = static_cast<int64_t>(d.dot.lhs_batch.size());
  int64_t free_position = batches;  // of the ragged dim in the result
  for (int64_t i = 0; i < ragged; ++i) {
    if (!Contains(d.dot.lhs_batch, i) && !Contains(d.dot.lhs_contracting, i)) ++free_position;
  }
  DotDimensions dims = d.dot;
  if (!d.rhs_group.empty()) {  // the group dim goes: those behind it move up
    for (Ints* v : {&dims.rhs_batch, &dims.rhs_contracting}) {
      for (int64_t& i : *v) i -= i > d.rhs_group[0] ? 1 : 0;
    }
  }
  const bool per_batch = sizes.shape().rank() > 1;
  DimVector cells;
  for (int64_t i = 0; per_batch && i < batches; ++i) cells.push_back(lhs.shape().dimensions(d.dot.lhs_batch[i]));
  const DimVector out_strides = RowMajorStrides(shape.dimensions());
  Odometer<1> cell(cells, {RowMajorStrides(cells)});
  if (cell.empty() || out.num_elements() == 0) return out;
  do {
    int64_t start = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t limit = lhs.shape().dimensions(ragged);
      const int64_t end = std::clamp<int64_t>(start + sizes.GetAsInt(cell.offset() * groups + g), start, limit);
      DimVector ls(lhs.shape().rank(), 0), ln = lhs.shape().dimensions(), rs(rhs.shape().rank(), 0),
                                           rn = rhs.shape().dimensions();
      DimVector at(shape.rank(), 0);
      const int64_t shift = contracting ? 1 : 0;  // the result's group dim comes first
      for (size_t i = 0; i < cells.size(); ++i) {
        const int64_t index = cell.index()[i];
        ls[d.dot.lhs_batch[i]] = rs[d.dot.rhs_batch[i]] = at[static_cast<int64_t>(i) + shift] = index;
        ln[d.dot.lhs_batch[i]] = rn[d.dot.rhs_batch[i]] = 1;
      }
      ls[ragged] = start;
      ln[ragged] = end - start;
      if (contracting) {
        const int64_t r = d.dot.rhs_contracting[find(d.dot.lhs_contracting, ragged)];
        rs[r] = start;
        rn[r] = end - start;
        at[0] = g;
      } else if (in_batch) {
        const int64_t position = find(d.dot.lhs_batch, ragged), r = d.dot.rhs_batch[position];
        rs[r] = start;
        rn[r] = end - start;
        at[position] = start;
      } else {
        rs[d.rhs_group[0]] = g;
        rn[d.rhs_group[0]] = 1;
        at[free_position] = start;
      }
      ASSIGN_OR_RETURN(Literal a, Part(lhs, ls, ln));
      ASSIGN_OR_RETURN(Literal b, Part(rhs, rs, rn));
      if (!d.rhs_group.empty()) {
        rn.erase(rn.begin() + d.rhs_group[0]);
        ASSIGN_OR_RETURN(b, b.Reshape(rn));
      }
      DimVector part;
      for (int64_t i : dims.lhs_batch) part.push_back(ln[i]);
      for (int64_t i = 0; i < lhs.shape().rank(); ++i) {
        if (!Contains(dims.lhs_batch, i) && !Contains(dims.lhs_contracting, i)) part.push_back(ln[i]);
      }
      for (int64_t i = 0; i < b.shape().rank(); ++i) {
        if (!Contains(dims.rhs_batch, i) && !Contains(dims.rhs_contracting, i)) part.push_back(b.shape().dimensions(i));
      }
      ASSIGN_OR_RETURN(Literal product, DotGeneral(op, a, b, dims, Shape(shape.element_type(), part)));
      if (contracting) part.insert(part.begin(), 1);
      StridedSide target{0, out_strides};
      for (int64_t i = 0; i < shape.rank(); ++i) target.offset += at[i] * out_strides[i];
      StridedCopy(ByteWidth(shape.element_type()), part, product.bytes(), {0, RowMajorStrides(part)},
                  out.mutable_bytes(), target);
      start = end;
    }
  } while (cell.Next());
  return out;
}

// The operand times its scale, each scale repeated over its block, rounded to bf16.
absl::StatusOr<Literal> Scaled(const Literal& x, const Literal& scale) {
  constexpr PrimitiveType kBF16 = PrimitiveType::kBF16, kF32 = PrimitiveType::kF32;
  ASSIGN_OR_RETURN(Literal values, x.Convert(kBF16));
  ASSIGN_OR_RETURN(values, values.Convert(kF32));
  ASSIGN_OR_RETURN(Literal factors, scale.Convert(kBF16));
  ASSIGN_OR_RETURN(factors, factors.Convert(kF32));
  const DimVector strides = RowMajorStrides(scale.shape().dimensions());
  absl::Span<float> v = values.mutable_data<float>();
  const absl::Span<const float> f = factors.data<float>();
  const DimVector none(x.shape().rank(), 0);
  Odometer<1> at(x.shape().dimensions(), {none});
  if (at.empty()) return values.Convert(kBF16);
  size_t i = 0;
  do {
    int64_t from = 0;
    for (int64_t d = 0; d < x.shape().rank(); ++d) {
      from += at.index()[d] / (x.shape().dimensions(d) / scale.shape().dimensions(d)) * strides[d];
    }
    v[i++] *= f[static_cast<size_t>(from)];
  } while (at.Next());
  return values.Convert(kBF16);
}

}  // namespace

absl::StatusOr<Literal> EvaluateContraction(const OpContext& op, Args args, EvalEnv& env) {
  if (op.opcode == Opcode::kRaggedDot) return RaggedDot(op, args);
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const DotDimensions& dims = op.attrs->Get<DotDimensions>(AttrId::kDotDims);
  if (op.opcode == Opcode::kScaledDot) {
    ASSIGN_OR_RETURN(Literal lhs, Scaled(*args[0], *args[2]));
    ASSIGN_OR_RETURN(Literal rhs, Scaled(*args[1], *args[3]));
    return DotGeneral(op, lhs, rhs, dims, shape);
  }
  if (!op.attrs->Has(AttrId::kDotAlgorithm)) return DotGeneral(op, *args[0], *args[1], dims, shape);
  const DotAlgorithm& algorithm = op.attrs->Get<DotAlgorithm>(AttrId::kDotAlgorithm);
  ASSIGN_OR_RETURN(Literal lhs, RoundedOperand(*args[0], algorithm, algorithm.lhs_type, algorithm.lhs_components));
  ASSIGN_OR_RETURN(Literal rhs, RoundedOperand(*args[1], algorithm, algorithm.rhs_type, algorithm.rhs_components));
  return DotGeneral(op, lhs, rhs, dims, shape);
}

}  // namespace backplane
