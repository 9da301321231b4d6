// Matrix products in tiles, for every element type.
//
// A block computes kTileM x kTileN elements of the result. In each step its threads copy kTileK columns of the left and
// as many rows of the right operand to shared memory, in the type of the sums. A thread keeps a square of sums in
// registers; its rows and columns lie apart in the tile, so that neighbouring threads read neighbouring words.
#include "core/types/integer_division.h"
#include "plugins/hip/compiler/dot_output.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/dot_tiles.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/codegen/body/carried_values.h"

namespace backplane::hip {

using codegen::LoopScopes;
using codegen::VarId;
using compiler::Affine;
using llvm::Value;

namespace {

constexpr int64_t kThreadsAcross = 16;  // 16 x 16 threads
constexpr int64_t kRowsOfThread = kTileM / kThreadsAcross, kColumnsOfThread = kTileN / kThreadsAcross;

class DotEmitter {
 public:
  DotEmitter(KernelFrame& frame, DotProblem problem, const DotSite& site)
      : f_(frame),
        e_(frame.elements),
        b_(frame.b),
        p_(std::move(problem)),
        sum_(p_.sum_type()),
        tiles_(frame, p_, kTileM, kTileN),
        output_(frame, tiles_, p_, site) {}

  void Emit() {
    lhs_tile_ = f_.AddShared(sum_, kTileM * kTileK);
    rhs_tile_ = f_.AddShared(sum_, kTileK * kTileN);
    zero_ = e_.Constant(Literal::Scalar(sum_, 0), 0);
    row_of_thread_ = b_.CreateLShr(f_.thread(), b_.getInt32(4));
    column_of_thread_ = b_.CreateAnd(f_.thread(), b_.getInt32(kThreadsAcross - 1));
    tiles_.ForEach([this](Value* row, Value* column) { EmitTile(row, column); });
  }

 private:
  void EmitTile(Value* row, Value* column) {
    Vals sums(static_cast<size_t>(kRowsOfThread * kColumnsOfThread), zero_);
    LoopScopes::Values carried = codegen::PartsOf(sums);
    const int64_t steps = CeilDiv(p_.k, kTileK);
    llvm::IntegerType* type = f_.indices.CounterType(steps * kTileK);
    if (steps > 0)  // a loop runs at least once
      f_.scopes.Loop(llvm::ConstantInt::get(type, 0),
                     llvm::ConstantInt::get(type, static_cast<uint64_t>(steps * kTileK)), kTileK, carried,
                     [&](Value* k, LoopScopes::Values& now) {
                       CopyTile(lhs_tile_, kTileM, kTileK, {output_.lhs(), p_.lhs_type}, row, p_.m, p_.lhs_m_stride, k,
                                p_.k, p_.lhs_k_stride, tiles_.BatchOffset(&DotProblem::BatchDim::lhs_stride));
                       CopyTile(rhs_tile_, kTileK, kTileN, {output_.rhs(), p_.rhs_type}, k, p_.k, p_.rhs_k_stride,
                                column, p_.n, p_.rhs_n_stride, tiles_.BatchOffset(&DotProblem::BatchDim::rhs_stride));
                       f_.EmitBarrier();
                       MultiplyTiles(sums, now);
                       f_.EmitBarrier();
                     });
    sums = codegen::FromParts(sums, carried);
    for (int64_t i = 0; i < kRowsOfThread; ++i) {
      for (int64_t j = 0; j < kColumnsOfThread; ++j)
        StoreSum(row, column, i, j, sums[static_cast<size_t>(i * kColumnsOfThread + j)]);
    }
  }

  Value* Extend(Value* v, Value* like) { return b_.CreateZExtOrTrunc(v, like->getType()); }
  Value* Number(Value* like, int64_t n) { return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(n)); }

  // Fills a tile of `rows` x `columns` in shared memory with the elements from (first_row, first_column) on, zeros
  // beyond the matrix.
  void CopyTile(Value* tile, int64_t rows, int64_t columns, const ArrayRef& array, Value* first_row,
                int64_t matrix_rows, int64_t row_stride, Value* first_column, int64_t matrix_columns,
                int64_t column_stride, const Affine& offset) {
    const VarId position = f_.vars.Loop(rows * columns), r = f_.vars.Loop(matrix_rows),
                c = f_.vars.Loop(matrix_columns);
    // Neighbouring threads read neighbouring memory.
    const bool by_columns = row_stride < column_stride;
    for (int64_t part = 0; part < rows * columns / (kThreadsAcross * kThreadsAcross); ++part) {
      f_.scopes.Block([&] {
        Value* number =
            b_.CreateAdd(f_.thread(), b_.getInt32(static_cast<uint32_t>(part * kThreadsAcross * kThreadsAcross)));
        const int64_t inner = by_columns ? rows : columns;
        Value* outer_at = b_.CreateUDiv(number, Number(number, inner));
        Value* inner_at = b_.CreateURem(number, Number(number, inner));
        Value* in_row = by_columns ? inner_at : outer_at;
        Value* in_column = by_columns ? outer_at : inner_at;
        Value* row = b_.CreateAdd(Extend(in_row, first_row), first_row);
        Value* column = b_.CreateAdd(Extend(in_column, first_column), first_column);
        Value* exists = b_.CreateAnd(b_.CreateICmpSLT(row, Number(row, matrix_rows)),
                                     b_.CreateICmpSLT(column, Number(column, matrix_columns)));
        // An element that does not exist is replaced by one that does, and its value by zero.
        f_.scopes.Bind({&r, 1}, b_.CreateSelect(exists, row, Number(row, 0)));
        f_.scopes.Bind({&c, 1}, b_.CreateSelect(exists, column, Number(column, 0)));
        f_.scopes.Bind({&position, 1}, b_.CreateAdd(b_.CreateMul(in_row, Number(in_row, columns)), in_column));
        const Affine address = offset.Plus(Affine::Var(r), row_stride).Plus(Affine::Var(c), column_stride);
        Val value = e_.Convert(f_.memory.Load(array, address, {}), array.type, sum_);
        value.stored = nullptr;
        f_.memory.StoreComputed(tile, Affine::Var(position), sum_, e_.Select(exists, value, zero_));
      });
    }
  }

  void MultiplyTiles(const Vals& like, LoopScopes::Values& carried) {
    const VarId k = f_.vars.Loop(kTileK), row = f_.vars.Loop(kThreadsAcross), column = f_.vars.Loop(kThreadsAcross);
    f_.scopes.Loop(b_.getInt32(0), b_.getInt32(kTileK), 1, carried, [&](Value* at, LoopScopes::Values& now) {
      f_.scopes.Bind({&k, 1}, at);
      f_.scopes.Bind({&row, 1}, row_of_thread_);
      f_.scopes.Bind({&column, 1}, column_of_thread_);
      Vals sums = codegen::FromParts(like, now);
      Vals left, right;
      for (int64_t i = 0; i < kRowsOfThread; ++i) {
        left.push_back(f_.memory.LoadComputed(
            lhs_tile_, Affine::Var(row).Plus(i * kThreadsAcross).Times(kTileK).Plus(Affine::Var(k)), sum_));
      }
      for (int64_t j = 0; j < kColumnsOfThread; ++j) {
        right.push_back(f_.memory.LoadComputed(
            rhs_tile_, Affine::Var(k).Times(kTileN).Plus(Affine::Var(column)).Plus(j * kThreadsAcross), sum_));
      }
      for (int64_t i = 0; i < kRowsOfThread; ++i) {
        for (int64_t j = 0; j < kColumnsOfThread; ++j) {
          Val& sum = sums[static_cast<size_t>(i * kColumnsOfThread + j)];
          sum = MultiplyAdd(left[static_cast<size_t>(i)], right[static_cast<size_t>(j)], sum);
        }
      }
      now = codegen::PartsOf(sums);
    });
  }

  Val MultiplyAdd(const Val& x, const Val& y, const Val& sum) {
    if (sum_ == PrimitiveType::kF32 || sum_ == PrimitiveType::kF64)
      return {b_.CreateIntrinsic(llvm::Intrinsic::fma, {x.v->getType()}, {x.v, y.v, sum.v})};
    const bool is_pred = sum_ == PrimitiveType::kPred;
    Val v = e_.Binary(is_pred ? Opcode::kOr : Opcode::kAdd, sum_, sum,
                      e_.Binary(is_pred ? Opcode::kAnd : Opcode::kMultiply, sum_, x, y));
    v.stored = nullptr;
    return v;
  }

  void StoreSum(Value* first_row, Value* first_column, int64_t i, int64_t j, const Val& sum) {
    Value* row =
        b_.CreateAdd(first_row, b_.CreateAdd(Extend(row_of_thread_, first_row), Number(first_row, i * kThreadsAcross)));
    Value* column = b_.CreateAdd(
        first_column, b_.CreateAdd(Extend(column_of_thread_, first_column), Number(first_column, j * kThreadsAcross)));
    Value* exists =
        b_.CreateAnd(b_.CreateICmpSLT(row, Number(row, p_.m)), b_.CreateICmpSLT(column, Number(column, p_.n)));
    f_.scopes.If(exists, [&] { output_.Store(row, column, 0, sum); });
  }

  KernelFrame& f_;
  codegen::ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  const DotProblem p_;
  const PrimitiveType sum_;
  DotTiles tiles_;
  DotOutput output_;
  Val zero_;
  Value *lhs_tile_ = nullptr, *rhs_tile_ = nullptr, *row_of_thread_ = nullptr, *column_of_thread_ = nullptr;
};

}  // namespace

void EmitDot(KernelFrame& frame, const DotSite& dot) {
  absl::StatusOr<DotProblem> problem = MakeDotProblem(dot);
  if (!problem.ok()) return frame.elements.Fail(problem.status());
  DotEmitter(frame, *std::move(problem), dot).Emit();
}

}  // namespace backplane::hip
