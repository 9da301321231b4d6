#include "plugins/hip/program/library_products.h"

#include <algorithm>
#include <limits>

namespace backplane::hip {
namespace {

using BatchDim = DotProblem::BatchDim;

// A matrix in memory by the distances between rows and between columns.
struct StridedMatrix {
  int64_t rows, columns, row_stride, column_stride;
};

// Returns the leading dimension if the columns are contiguous. Where there is a single column, any one will do.
std::optional<int64_t> ColumnMajor(const StridedMatrix& m) {
  if (m.rows > 1 && m.row_stride != 1) return std::nullopt;
  if (m.columns == 1) return m.rows;
  return m.column_stride >= m.rows ? std::optional(m.column_stride) : std::nullopt;
}

StridedMatrix Transpose(const StridedMatrix& m) { return {m.columns, m.rows, m.column_stride, m.row_stride}; }

std::optional<MatrixProduct::Factor> AsFactor(const StridedMatrix& m, int argument) {
  if (const std::optional<int64_t> leading = ColumnMajor(m)) return MatrixProduct::Factor{argument, false, *leading, 0};
  if (const std::optional<int64_t> leading = ColumnMajor(Transpose(m)))
    return MatrixProduct::Factor{argument, true, *leading, 0};
  return std::nullopt;
}

// Returns the dimensions of a batch as one; nullopt if their strides do not permit it.
std::optional<BatchDim> MergeBatch(std::vector<BatchDim> dims) {
  dims.erase(std::remove_if(dims.begin(), dims.end(), [](const BatchDim& d) { return d.size == 1; }), dims.end());
  if (dims.empty()) return BatchDim{1, 0, 0, 0};
  std::sort(dims.begin(), dims.end(), [](const BatchDim& a, const BatchDim& b) { return a.lhs_stride < b.lhs_stride; });
  BatchDim all = dims[0];
  for (size_t d = 1; d < dims.size(); ++d) {
    const BatchDim& outer = dims[d];
    if (outer.lhs_stride != all.size * all.lhs_stride || outer.rhs_stride != all.size * all.rhs_stride ||
        outer.out_stride != all.size * all.out_stride)
      return std::nullopt;
    all.size *= outer.size;
  }
  return all;
}

bool HasLibraryTypes(const DotProblem& p) {
  if (p.lhs_type != p.rhs_type) return false;
  switch (p.lhs_type) {
    case PrimitiveType::kF16:
    case PrimitiveType::kBF16:
      return p.out_type == p.lhs_type || p.out_type == PrimitiveType::kF32;
    case PrimitiveType::kF32:
    case PrimitiveType::kF64:
      return p.out_type == p.lhs_type;
    case PrimitiveType::kS8:
      return p.out_type == PrimitiveType::kS32;
    default:
      return false;
  }
}

}  // namespace

std::optional<MatrixProduct> AsMatrixProduct(const DotProblem& p, bool rounds_to_tf32) {
  if (!HasLibraryTypes(p) || p.lhs_gather || p.rhs_gather || p.parts != 1) return std::nullopt;
  if (p.m < 1 || p.n < 1 || p.k < 1 || p.batch_size() < 1) return std::nullopt;
  const std::optional<BatchDim> batch = MergeBatch(p.batch);
  if (!batch) return std::nullopt;
  const StridedMatrix lhs{p.m, p.k, p.lhs_m_stride, p.lhs_k_stride}, rhs{p.k, p.n, p.rhs_k_stride, p.rhs_n_stride},
      out{p.m, p.n, p.out_m_stride, p.out_n_stride};
  MatrixProduct product;
  product.type = p.lhs_type, product.out_type = p.out_type, product.sum_type = p.sum_type();
  product.rounds_to_tf32 = rounds_to_tf32;
  product.k = p.k, product.batch = batch->size, product.stride = batch->out_stride;
  std::optional<MatrixProduct::Factor> a, b;
  if (const std::optional<int64_t> leading = ColumnMajor(out)) {
    product.m = p.m, product.n = p.n, product.leading = *leading;
    a = AsFactor(lhs, 0), b = AsFactor(rhs, 1);
  } else if (const std::optional<int64_t> transposed = ColumnMajor(Transpose(out))) {
    product.m = p.n, product.n = p.m, product.leading = *transposed;
    a = AsFactor(Transpose(rhs), 1), b = AsFactor(Transpose(lhs), 0);
  }
  if (!a || !b) return std::nullopt;
  for (MatrixProduct::Factor* f : {&*a, &*b}) f->stride = f->argument == 0 ? batch->lhs_stride : batch->rhs_stride;
  product.a = *a, product.b = *b;
  for (const int64_t n :
       {product.m, product.n, product.k, product.batch, product.a.leading, product.b.leading, product.leading}) {
    if (n > std::numeric_limits<int32_t>::max()) return std::nullopt;
  }
  product.lhs_elements = p.batch_size() * p.m * p.k;
  product.rhs_elements = p.batch_size() * p.k * p.n;
  product.out_elements = p.batch_size() * p.m * p.n;
  return product;
}

std::vector<LibraryProduct> FindLibraryProducts(absl::Span<const ProgramKernels::Kernel> kernels) {
  std::vector<LibraryProduct> products;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const auto* dot = std::get_if<DotPlan>(&kernels[k].plan.kind);
    if (dot == nullptr || dot->site.body != nullptr || !dot->site.dot->Is(Opcode::kDot)) continue;
    const absl::StatusOr<DotProblem> problem = MakeDotProblem(dot->site);
    if (!problem.ok()) continue;
    const bool rounds = dot->matrix != nullptr && dot->matrix->rounds_operands;
    const std::optional<MatrixProduct> product = AsMatrixProduct(*problem, rounds);
    if (!product) continue;
    products.push_back({static_cast<int>(k), kernels[k].plan.blocks, kernels[k].plan.threads,
                        kernels[k].instruction->name(), *product});
  }
  return products;
}

}  // namespace backplane::hip
