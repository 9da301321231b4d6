#include "plugins/hip/compiler/split_linear_algebra.h"

#include <limits>
#include <utility>
#include <vector>

#include "core/ir/builder.h"
#include "core/passes/loop_builder.h"
#include "core/passes/replace_each.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/linear_algebra_kernels.h"

namespace backplane::hip {
namespace {

int64_t SizeOf(Value matrices) { return matrices->shape().dimensions(matrices->shape().rank() - 1); }

// Where a matrix of size n is divided: the first part is a multiple of the size that fits.
int64_t SplitPoint(int64_t n, int64_t largest) { return largest * CeilDiv(CeilDiv(n, largest), 2); }

// Rows [row, row_limit) and columns [column, column_limit) of each matrix.
absl::StatusOr<Value> SlicePart(Builder& b, Value x, int64_t row, int64_t row_limit, int64_t column,
                                int64_t column_limit) {
  const Shape& shape = x->shape();
  SliceConfig slices;
  for (const int64_t n : shape.dimensions()) slices.push_back({0, n, 1});
  slices[slices.size() - 2] = {row, row_limit, 1};
  slices[slices.size() - 1] = {column, column_limit, 1};
  return b.Slice(x, std::move(slices));
}

absl::StatusOr<Value> Conjugate(Builder& b, Value x) {
  if (!IsComplex(x->shape().element_type())) return x;
  ASSIGN_OR_RETURN(Value real, b.Unary(Opcode::kReal, x));
  ASSIGN_OR_RETURN(Value imaginary, b.Unary(Opcode::kImag, x));
  ASSIGN_OR_RETURN(imaginary, b.Unary(Opcode::kNegate, imaginary));
  return b.Binary(Opcode::kComplex, real, imaginary);
}

// x - op(y) op(z), where op transposes what is so marked.
absl::StatusOr<Value> SubtractProduct(Builder& b, Value x, Value y, bool y_transposed, Value z, bool z_transposed) {
  const int64_t rank = x->shape().rank();
  DotDimensions dims;
  for (int64_t d = 0; d + 2 < rank; ++d) {
    dims.lhs_batch.push_back(d);
    dims.rhs_batch.push_back(d);
  }
  dims.lhs_contracting = {y_transposed ? rank - 2 : rank - 1};
  dims.rhs_contracting = {z_transposed ? rank - 1 : rank - 2};
  ASSIGN_OR_RETURN(Value product, b.Dot(y, z, std::move(dims), x->shape().element_type()));
  return b.Binary(Opcode::kSubtract, x, product);
}

struct Solve {
  bool left = true, lower = true, unit_diagonal = false;
  TriangularTranspose transpose = TriangularTranspose::kNoTranspose;

  Attributes ToAttributes() const {
    Attributes attrs;
    attrs.Set(AttrId::kLeftSide, left);
    attrs.Set(AttrId::kLower, lower);
    attrs.Set(AttrId::kUnitDiagonal, unit_diagonal);
    attrs.SetEnum(AttrId::kTransposeA, transpose);
    return attrs;
  }
};

// With t = op(a): left, t lower:  t11 x1 = b1,  t22 x2 = b2 - t21 x1.   Left, t upper: from the last part on, with t12.
//                 right, t lower: x2 t22 = b2,  x1 t11 = b1 - x2 t21.   Right, t upper: from the first part on, with
//                 t12.
absl::StatusOr<Value> SplitSolve(Builder& b, const Solve& solve, Value a, Value right_side) {
  const int64_t n = SizeOf(a), rank = a->shape().rank(), largest = FindLargestMatrix(a->shape().element_type());
  if (n <= largest) return b.Op(Opcode::kTriangularSolve, {a, right_side}, solve.ToAttributes());
  const int64_t m = SplitPoint(n, largest);
  const bool transposed = solve.transpose != TriangularTranspose::kNoTranspose;
  ASSIGN_OR_RETURN(Value a11, SlicePart(b, a, 0, m, 0, m));
  ASSIGN_OR_RETURN(Value a22, SlicePart(b, a, m, n, m, n));
  // The part off the diagonal, which op transposes.
  ASSIGN_OR_RETURN(Value off, solve.lower ? SlicePart(b, a, m, n, 0, m) : SlicePart(b, a, 0, m, m, n));
  if (solve.transpose == TriangularTranspose::kAdjoint) {
    ASSIGN_OR_RETURN(off, Conjugate(b, off));
  }
  const int64_t along = solve.left ? rank - 2 : rank - 1;
  const int64_t vectors = right_side->shape().dimensions(solve.left ? rank - 1 : rank - 2);
  auto rows = [&](int64_t from, int64_t to) {
    return solve.left ? SlicePart(b, right_side, from, to, 0, vectors) : SlicePart(b, right_side, 0, vectors, from, to);
  };
  ASSIGN_OR_RETURN(Value b1, rows(0, m));
  ASSIGN_OR_RETURN(Value b2, rows(m, n));
  auto subtract = [&](Value x, Value solved) {
    return solve.left ? SubtractProduct(b, x, off, transposed, solved, false)
                      : SubtractProduct(b, x, solved, false, off, transposed);
  };
  const bool op_lower = solve.lower != transposed;
  Value x1 = nullptr, x2 = nullptr;
  if (op_lower == solve.left) {
    ASSIGN_OR_RETURN(x1, SplitSolve(b, solve, a11, b1));
    ASSIGN_OR_RETURN(b2, subtract(b2, x1));
    ASSIGN_OR_RETURN(x2, SplitSolve(b, solve, a22, b2));
  } else {
    ASSIGN_OR_RETURN(x2, SplitSolve(b, solve, a22, b2));
    ASSIGN_OR_RETURN(b1, subtract(b1, x2));
    ASSIGN_OR_RETURN(x1, SplitSolve(b, solve, a11, b1));
  }
  return b.Concatenate({x1, x2}, along);
}

// Lower: l11 l11^H = a11, l21 l11^H = a21, l22 l22^H = a22 - l21 l21^H. Upper: the adjoint of all that.
absl::StatusOr<Value> SplitCholesky(Builder& b, Value a, bool lower) {
  const int64_t n = SizeOf(a), rank = a->shape().rank(), largest = FindLargestMatrix(a->shape().element_type());
  if (n <= largest) {
    Attributes attrs;
    attrs.Set(AttrId::kLower, lower);
    return b.Op(Opcode::kCholesky, {a}, std::move(attrs));
  }
  const int64_t m = SplitPoint(n, largest);
  ASSIGN_OR_RETURN(Value a11, SlicePart(b, a, 0, m, 0, m));
  ASSIGN_OR_RETURN(Value a22, SlicePart(b, a, m, n, m, n));
  ASSIGN_OR_RETURN(Value off, lower ? SlicePart(b, a, m, n, 0, m) : SlicePart(b, a, 0, m, m, n));
  ASSIGN_OR_RETURN(Value f11, SplitCholesky(b, a11, lower));
  Solve solve;
  solve.left = !lower;
  solve.lower = lower;
  solve.transpose = TriangularTranspose::kAdjoint;
  ASSIGN_OR_RETURN(off, SplitSolve(b, solve, f11, off));
  ASSIGN_OR_RETURN(Value adjoint, Conjugate(b, off));
  ASSIGN_OR_RETURN(a22, lower ? SubtractProduct(b, a22, off, false, adjoint, true)
                              : SubtractProduct(b, a22, adjoint, true, off, false));
  ASSIGN_OR_RETURN(Value f22, SplitCholesky(b, a22, lower));
  DimVector zeros = off->shape().dimensions();
  std::swap(zeros[rank - 2], zeros[rank - 1]);
  ASSIGN_OR_RETURN(Value none, Fill(b, a->shape().element_type(), 0, zeros));
  ASSIGN_OR_RETURN(Value upper_half, b.Concatenate({f11, lower ? none : off}, rank - 1));
  ASSIGN_OR_RETURN(Value lower_half, b.Concatenate({lower ? off : none, f22}, rank - 1));
  return b.Concatenate({upper_half, lower_half}, rank - 2);
}

// A matrix that is not positive definite has no factor: all is NaN. A part without a factor makes all later parts NaN,
// and with them the last element.
absl::StatusOr<Value> BroadcastNan(Builder& b, Value factor) {
  const Shape& shape = factor->shape();
  const int64_t n = SizeOf(factor), rank = shape.rank();
  ASSIGN_OR_RETURN(Value last, SlicePart(b, factor, n - 1, n, n - 1, n));
  DimVector batch = shape.dimensions();
  batch.resize(static_cast<size_t>(rank - 2));
  ASSIGN_OR_RETURN(last, b.Reshape(last, batch));
  ASSIGN_OR_RETURN(Value is_nan, b.Compare(last, last, ComparisonDirection::kNe));
  Ints kept;
  for (int64_t d = 0; d + 2 < rank; ++d) kept.push_back(d);
  ASSIGN_OR_RETURN(is_nan, b.BroadcastInDim(is_nan, shape.dimensions(), kept));
  ASSIGN_OR_RETURN(Value nan,
                   Fill(b, shape.element_type(), std::numeric_limits<double>::quiet_NaN(), shape.dimensions()));
  return b.Select(is_nan, nan, factor);
}

bool IsLarge(const Instruction& i) {
  if (!i.Is(Opcode::kCholesky) && !i.Is(Opcode::kTriangularSolve)) return false;
  return i.shape().num_elements() > 0 && SizeOf(i.operand(0)) > FindLargestMatrix(i.shape().element_type());
}

absl::StatusOr<Value> Split(Builder& b, const Instruction& i, const std::vector<Value>& x) {
  if (i.Is(Opcode::kCholesky)) {
    ASSIGN_OR_RETURN(Value factor, SplitCholesky(b, x[0], i.attrs().GetBool(AttrId::kLower)));
    return BroadcastNan(b, factor);
  }
  Solve solve;
  solve.left = i.attrs().GetBool(AttrId::kLeftSide);
  solve.lower = i.attrs().GetBool(AttrId::kLower);
  solve.unit_diagonal = i.attrs().GetBool(AttrId::kUnitDiagonal);
  solve.transpose = i.attrs().GetEnum<TriangularTranspose>(AttrId::kTransposeA, TriangularTranspose::kNoTranspose);
  return SplitSolve(b, solve, x[0], x[1]);
}

}  // namespace

absl::StatusOr<bool> SplitLinearAlgebra::Run(Module* module) { return ReplaceEach(module, "split", IsLarge, Split); }

}  // namespace backplane::hip
