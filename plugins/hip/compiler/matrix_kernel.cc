// Matrix products by matrix instructions.
//
// A block computes kTileM x kTileN elements of the result. Its threads copy a slice of both operands to shared memory,
// rows of the left and columns of the right operand one after another, so that a lane reads its part of a row or column
// as one vector. Each wave computes a rectangle of the tile with sums in registers.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/dot_tiles.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/compiler/matrix_step.h"

namespace backplane::hip {

using codegen::LoopScopes;
using codegen::VarId;
using compiler::Affine;
using llvm::Value;

namespace {

constexpr int64_t kSide = 16;          // of the matrix that one step computes
constexpr int64_t kSliceBytes = 64;    // of a row in shared memory: what is loaded at a time
constexpr int64_t kPaddingBytes = 16;  // behind each row: lanes that read the same part of several rows use other banks

class MatrixEmitter {
 public:
  MatrixEmitter(KernelFrame& frame, DotProblem problem)
      : f_(frame),
        b_(frame.b),
        p_(std::move(problem)),
        step_(*frame.plan.matrix),
        width_(ByteWidth(step_.operand)),
        slice_(kSliceBytes / width_),
        pitch_(slice_ + kPaddingBytes / width_),
        waves_(frame.plan.threads / step_.wave_size()),
        wave_rows_(kTileM * 2 / waves_),
        element_(frame.elements.StorageType(step_.operand)),
        tiles_(frame, p_) {}

  void Emit() {
    lhs_tile_ = AddTile(kTileM);
    rhs_tile_ = AddTile(kTileN);
    Value* wave = b_.CreateUDiv(f_.thread(), b_.getInt32(static_cast<uint32_t>(step_.wave_size())));
    lane_ = b_.CreateURem(f_.thread(), b_.getInt32(static_cast<uint32_t>(step_.wave_size())));
    // Two columns of waves, waves_ / 2 rows of them.
    wave_row_ = b_.CreateMul(b_.CreateLShr(wave, b_.getInt32(1)), b_.getInt32(static_cast<uint32_t>(wave_rows_)));
    wave_column_ = b_.CreateMul(b_.CreateAnd(wave, b_.getInt32(1)), b_.getInt32(kTileN / 2));
    tiles_.ForEach([this](Value* row, Value* column) { EmitTile(row, column); });
  }

 private:
  int64_t steps_down() const { return wave_rows_ / kSide; }
  static constexpr int64_t steps_across() { return kTileN / 2 / kSide; }

  Value* AddTile(int64_t rows) {
    // Whole words: AddShared counts four bytes for each element of a narrow type.
    return f_.AddShared(PrimitiveType::kS32, rows * pitch_ * width_ / 4);
  }

  llvm::Type* SumVector() const {
    llvm::Type* sum = step_.sum == PrimitiveType::kS32 ? b_.getInt32Ty() : b_.getFloatTy();
    return llvm::FixedVectorType::get(sum, static_cast<unsigned>(step_.sum_elements()));
  }

  Value* Like(Value* v, Value* like) { return b_.CreateZExtOrTrunc(v, like->getType()); }
  Value* Number(Value* like, int64_t n) { return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(n)); }

  void EmitTile(Value* row, Value* column) {
    LoopScopes::Values sums(static_cast<size_t>(steps_down() * steps_across()),
                            llvm::Constant::getNullValue(SumVector()));
    const int64_t end = CeilDiv(p_.k, slice_) * slice_;
    llvm::IntegerType* type = f_.indices.CounterType(end + slice_);
    f_.scopes.Loop(llvm::ConstantInt::get(type, 0), llvm::ConstantInt::get(type, static_cast<uint64_t>(end)), slice_,
                   sums, [&](Value* k, LoopScopes::Values& now) {
                     CopySlice(lhs_tile_, kTileM, {f_.array(0), p_.lhs_type}, row, p_.m, p_.lhs_m_stride, k,
                               p_.lhs_k_stride, tiles_.BatchOffset(&DotProblem::BatchDim::lhs_stride));
                     CopySlice(rhs_tile_, kTileN, {f_.array(1), p_.rhs_type}, column, p_.n, p_.rhs_n_stride, k,
                               p_.rhs_k_stride, tiles_.BatchOffset(&DotProblem::BatchDim::rhs_stride));
                     f_.EmitBarrier();
                     MultiplySlices(now);
                     f_.EmitBarrier();
                   });
    for (int64_t i = 0; i < steps_down(); ++i) {
      for (int64_t j = 0; j < steps_across(); ++j)
        StoreSums(row, column, i, j, sums[static_cast<size_t>(i * steps_across() + j)]);
    }
  }

  // Copies `rows` rows of the matrix from `first_row` on, the elements from `first_k` on of each, as they are in
  // memory. Zeros stand for what lies beyond the matrix.
  void CopySlice(Value* tile, int64_t rows, const ArrayRef& array, Value* first_row, int64_t matrix_rows,
                 int64_t row_stride, Value* first_k, int64_t k_stride, const Affine& offset) {
    const VarId r = f_.vars.Loop(matrix_rows), k = f_.vars.Loop(p_.k);
    const bool rows_are_near = row_stride < k_stride;  // neighbouring threads read neighbouring memory
    const int64_t count = rows * slice_, threads = f_.plan.threads;
    for (int64_t part = 0; part < count / threads; ++part) {
      f_.scopes.Block([&] {
        Value* number = b_.CreateAdd(f_.thread(), b_.getInt32(static_cast<uint32_t>(part * threads)));
        const int64_t inner = rows_are_near ? rows : slice_;
        Value* outer_at = b_.CreateUDiv(number, Number(number, inner));
        Value* inner_at = b_.CreateURem(number, Number(number, inner));
        Value* in_row = rows_are_near ? inner_at : outer_at;
        Value* in_k = rows_are_near ? outer_at : inner_at;
        Value* row = b_.CreateAdd(Like(in_row, first_row), first_row);
        Value* column = b_.CreateAdd(Like(in_k, first_k), first_k);
        Value* exists = b_.CreateAnd(b_.CreateICmpSLT(row, Number(row, matrix_rows)),
                                     b_.CreateICmpSLT(column, Number(column, p_.k)));
        // An element that does not exist is replaced by one that does, and its value by zero.
        f_.scopes.Bind({&r, 1}, b_.CreateSelect(exists, row, Number(row, 0)));
        f_.scopes.Bind({&k, 1}, b_.CreateSelect(exists, column, Number(column, 0)));
        const Affine address = offset.Plus(Affine::Var(r), row_stride).Plus(Affine::Var(k), k_stride);
        Value* from = b_.CreateGEP(element_, array.base, f_.indices.Uniform(address));
        Value* value = b_.CreateAlignedLoad(element_, from, llvm::Align(static_cast<uint64_t>(width_)));
        value = b_.CreateSelect(exists, value, llvm::Constant::getNullValue(element_));
        Value* at = b_.CreateAdd(b_.CreateMul(in_row, Number(in_row, pitch_)), in_k);
        b_.CreateAlignedStore(value, b_.CreateGEP(element_, tile, at), llvm::Align(static_cast<uint64_t>(width_)));
      });
    }
  }

  // A lane's part of a row: of row first + lane % 16, from element k on.
  Value* LoadOperand(Value* tile, Value* first, int64_t k) {
    const int64_t count = step_.operand_elements();
    Value* row = b_.CreateAdd(first, b_.CreateAnd(lane_, b_.getInt32(kSide - 1)));
    Value* at = b_.CreateAdd(b_.CreateMul(row, b_.getInt32(static_cast<uint32_t>(pitch_))),
                             b_.getInt32(static_cast<uint32_t>(k)));
    if (!step_.is_wmma) {
      Value* part = b_.CreateLShr(lane_, b_.getInt32(4));
      at = b_.CreateAdd(at, b_.CreateMul(part, b_.getInt32(static_cast<uint32_t>(count))));
    }
    const uint64_t bytes = static_cast<uint64_t>(count * width_);
    return b_.CreateAlignedLoad(OperandType(), b_.CreateGEP(element_, tile, at),
                                llvm::Align(std::min<uint64_t>(bytes, 16)));
  }

  // What the intrinsic takes.
  llvm::Type* OperandType() const {
    const unsigned count = static_cast<unsigned>(step_.operand_elements());
    switch (step_.operand) {
      case PrimitiveType::kF16:
        return llvm::FixedVectorType::get(b_.getHalfTy(), count);
      case PrimitiveType::kBF16:
        return llvm::FixedVectorType::get(b_.getInt16Ty(), count);
      case PrimitiveType::kS8:
        return b_.getInt64Ty();
      default:
        return b_.getFloatTy();
    }
  }

  Value* Step(Value* left, Value* right, Value* sums) {
    llvm::Type* vector = SumVector();
    std::vector<llvm::Type*> types = {left->getType(), right->getType(), vector};
    std::vector<Value*> arguments = {left, right, sums};
    std::string name = step_.instruction;
    if (step_.is_wmma) {
      absl::StrAppend(&name, ".v8f32.v16", step_.operand == PrimitiveType::kF16 ? "f16" : "i16");
    } else {
      for (int k = 0; k < 3; ++k) types.push_back(b_.getInt32Ty()), arguments.push_back(b_.getInt32(0));
    }
    return b_.CreateCall(f_.elements.module()->getOrInsertFunction(name, llvm::FunctionType::get(vector, types, false)),
                         arguments);
  }

  void MultiplySlices(LoopScopes::Values& sums) {
    for (int64_t k = 0; k < slice_; k += step_.k) {
      std::vector<Value*> left, right;
      for (int64_t i = 0; i < steps_down(); ++i) {
        left.push_back(
            LoadOperand(lhs_tile_, b_.CreateAdd(wave_row_, b_.getInt32(static_cast<uint32_t>(i * kSide))), k));
      }
      for (int64_t j = 0; j < steps_across(); ++j) {
        right.push_back(
            LoadOperand(rhs_tile_, b_.CreateAdd(wave_column_, b_.getInt32(static_cast<uint32_t>(j * kSide))), k));
      }
      for (int64_t i = 0; i < steps_down(); ++i) {
        for (int64_t j = 0; j < steps_across(); ++j) {
          Value*& sum = sums[static_cast<size_t>(i * steps_across() + j)];
          sum = Step(left[static_cast<size_t>(i)], right[static_cast<size_t>(j)], sum);
        }
      }
    }
  }

  void StoreSums(Value* tile_row, Value* tile_column, int64_t i, int64_t j, Value* sums) {
    Value* high = b_.CreateLShr(lane_, b_.getInt32(4));
    Value* in_column = b_.CreateAdd(b_.CreateAdd(wave_column_, b_.getInt32(static_cast<uint32_t>(j * kSide))),
                                    b_.CreateAnd(lane_, b_.getInt32(kSide - 1)));
    for (int r = 0; r < step_.sum_elements(); ++r) {
      Value* in_step = step_.is_wmma
                           ? b_.CreateAdd(b_.getInt32(static_cast<uint32_t>(2 * r)), high)
                           : b_.CreateAdd(b_.CreateShl(high, b_.getInt32(2)), b_.getInt32(static_cast<uint32_t>(r)));
      Value* in_row = b_.CreateAdd(b_.CreateAdd(wave_row_, b_.getInt32(static_cast<uint32_t>(i * kSide))), in_step);
      Value* row = b_.CreateAdd(tile_row, Like(in_row, tile_row));
      Value* column = b_.CreateAdd(tile_column, Like(in_column, tile_column));
      Value* exists =
          b_.CreateAnd(b_.CreateICmpSLT(row, Number(row, p_.m)), b_.CreateICmpSLT(column, Number(column, p_.n)));
      f_.scopes.If(exists, [&] {
        const VarId m = f_.vars.Loop(p_.m), n = f_.vars.Loop(p_.n);
        f_.scopes.Bind({&m, 1}, row);
        f_.scopes.Bind({&n, 1}, column);
        const Affine address = tiles_.BatchOffset(&DotProblem::BatchDim::out_stride)
                                   .Plus(Affine::Var(m), p_.out_m_stride)
                                   .Plus(Affine::Var(n), p_.out_n_stride);
        const Val sum{b_.CreateExtractElement(sums, static_cast<uint64_t>(r))};
        f_.memory.Store({f_.array(2), p_.out_type}, address, f_.elements.Convert(sum, step_.sum, p_.out_type), {});
      });
    }
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const DotProblem p_;
  const MatrixStep& step_;
  const int64_t width_;      // bytes of an operand's element
  const int64_t slice_;      // elements of k in shared memory
  const int64_t pitch_;      // elements from row to row in shared memory
  const int64_t waves_;      // of a block
  const int64_t wave_rows_;  // of the tile that one wave computes
  llvm::Type* const element_;
  DotTiles tiles_;
  Value *lhs_tile_ = nullptr, *rhs_tile_ = nullptr, *lane_ = nullptr, *wave_row_ = nullptr, *wave_column_ = nullptr;
};

}  // namespace

void EmitMatrixDot(KernelFrame& frame, const Instruction& dot) {
  absl::StatusOr<DotProblem> problem = MakeDotProblem(dot);
  if (!problem.ok()) return frame.elements.Fail(problem.status());
  MatrixEmitter(frame, *std::move(problem)).Emit();
}

}  // namespace backplane::hip
