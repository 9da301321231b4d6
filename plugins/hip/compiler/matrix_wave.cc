#include "plugins/hip/compiler/matrix_wave.h"

#include "absl/strings/str_cat.h"

namespace backplane::hip {

using llvm::Value;

namespace {

// MFMA and WMMA. A step gets the right operand as its left factor, so that a lane's sums are those of neighbouring
// columns.
class AmdWave : public MatrixWave {
 public:
  AmdWave(KernelFrame& frame, const MatrixStep& step, Value* lane)
      : f_(frame), b_(frame.b), machine_(frame), step_(step) {
    lane_in_step_ = b_.CreateAnd(lane, b_.getInt32(15));
    part_ = b_.CreateLShr(lane, b_.getInt32(4));
  }

  // For MFMA a lane loads one of four neighbouring chunks. Parts of it serve one step after another, in the same way
  // for both operands, so it does not matter which elements of k a step multiplies. For WMMA a lane loads both of two
  // neighbouring chunks, or, for bytes, one after the other.
  int64_t chunks() const override { return is_wmma() ? 2 : 4; }
  std::vector<Values> LoadLeft(MatrixSlice& slice, Value* row, int64_t steps, int64_t chunk) override {
    std::vector<Values> factors;
    for (int64_t s = 0; s < steps; ++s)
      factors.push_back(LoadParts(slice, b_.CreateAdd(row, Number(s * step_.rows())), chunk));
    return factors;
  }
  std::vector<Values> LoadRight(MatrixSlice& slice, Value* row, int64_t steps, int64_t chunk) override {
    return LoadLeft(slice, row, steps, chunk);  // steps have as many columns as rows
  }

  Value* Multiply(Value* left, Value* right, Value* sums) override {
    llvm::Type* vector = SumVector(b_, step_);
    std::vector<llvm::Type*> types = {right->getType(), left->getType(), vector};
    std::vector<Value*> arguments = {right, left, sums};
    std::string name = step_.instruction;
    if (is_wmma() && step_.operand == PrimitiveType::kS8) {
      absl::StrAppend(&name, ".v8i32.v4i32");
      Value *is_signed = b_.getTrue(), *saturates = b_.getFalse();
      llvm::Type* flag = b_.getInt1Ty();
      types = {flag, right->getType(), flag, left->getType(), vector, flag};
      arguments = {is_signed, right, is_signed, left, sums, saturates};
    } else if (is_wmma()) {
      absl::StrAppend(&name, ".v8f32.v16", step_.operand == PrimitiveType::kF16 ? "f16" : "i16");
    } else {
      for (int k = 0; k < 3; ++k) types.push_back(b_.getInt32Ty()), arguments.push_back(b_.getInt32(0));
    }
    return b_.CreateCall(f_.elements.module()->getOrInsertFunction(name, llvm::FunctionType::get(vector, types, false)),
                         arguments);
  }

  int64_t run() const override { return CountColumnsOfRun(step_); }
  int64_t steps_of_run() const override { return run() / step_.sum_elements(); }
  std::vector<Run> FindRuns(absl::Span<Value* const> sums) override {
    Value* all = sums.size() == 2 ? b_.CreateShuffleVector(sums[0], sums[1], {0, 1, 2, 3, 4, 5, 6, 7}) : sums[0];
    return {{lane_in_step_, b_.CreateMul(part_, Number(CountColumnsOfRun(step_))), all}};
  }

  // All chunks of WMMA at once would not leave registers for the loads that are under way.
  void BeginChunks(int64_t chunk) override {
    if (is_wmma() && chunk == kRowChunks / 2) machine_.KeepOrder();
  }
  // Makes the compiler compute the sums here. LLVM 19 moves matrix instructions to where their only user is, behind the
  // branches of the threads that store something. Then they would all wait for these, and WMMA needs all lanes of its
  // wave.
  void EndSlice(Values& sums, bool all_load) override {
    if (!is_wmma() && all_load) return;
    for (Value*& sum : sums) sum = machine_.Hide(sum, /*stays=*/true);
  }

 private:
  bool is_wmma() const { return step_.family == MatrixFamily::kWmma; }
  Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }

  // Returns the operands of the intrinsic for one step after another, from the lane's row behind `row` in shared
  // memory.
  Values LoadParts(MatrixSlice& slice, Value* row, int64_t chunk) {
    row = b_.CreateAdd(row, lane_in_step_);
    if (is_wmma() && step_.operand == PrimitiveType::kS8) {
      return {slice.LoadChunk(row, Number(chunk)), slice.LoadChunk(row, Number(chunk + 1))};
    }
    if (is_wmma()) {
      llvm::Type* half = OperandVector(8);
      Value* low = b_.CreateBitCast(slice.LoadChunk(row, Number(chunk)), half);
      Value* high = b_.CreateBitCast(slice.LoadChunk(row, Number(chunk + 1)), half);
      return {b_.CreateShuffleVector(low, high, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})};
    }
    Value* loaded = slice.LoadChunk(row, b_.CreateAdd(part_, Number(chunk)));
    const int count = step_.operand_elements();
    Values parts;
    for (int at = 0; at < CountChunkElements(step_); at += count) {
      if (step_.operand == PrimitiveType::kS8) {
        Value* words = b_.CreateBitCast(loaded, llvm::FixedVectorType::get(b_.getInt64Ty(), 2));
        parts.push_back(b_.CreateExtractElement(words, static_cast<uint64_t>(at / count)));
      } else if (count == 1) {
        llvm::Type* elements = OperandVector(static_cast<unsigned>(CountChunkElements(step_)));
        parts.push_back(b_.CreateExtractElement(b_.CreateBitCast(loaded, elements), static_cast<uint64_t>(at)));
      } else {
        parts.push_back(
            b_.CreateShuffleVector(b_.CreateBitCast(loaded, OperandVector(8)), {at, at + 1, at + 2, at + 3}));
      }
    }
    return parts;
  }

  llvm::Type* OperandVector(unsigned count) const {
    llvm::Type* element = step_.operand == PrimitiveType::kF16    ? b_.getHalfTy()
                          : step_.operand == PrimitiveType::kBF16 ? b_.getInt16Ty()
                          : step_.operand == PrimitiveType::kF64  ? b_.getDoubleTy()
                                                                  : b_.getFloatTy();
    return llvm::FixedVectorType::get(element, count);
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  MatrixMachine machine_;
  const MatrixStep& step_;
  Value *lane_in_step_ = nullptr, *part_ = nullptr;  // the row or column in a step; which part of k or of the sums
};

// gpu.multiply, and the sums of gpu.group.multiply. Lane l loads chunk l % 4 of four neighbours, of row l / 4, and of
// the left operand also of row l / 4
// + 8. Two words of each chunk serve a step: which elements of k these are does not matter if both operands do the
// same. So word w of thread t in step s is that of elements 8 t + 4 s + 2 w and the next one (of 16 bits) of the 32
// that the chunks have, and transposing loads take these.
class MmaWave : public MatrixWave {
 public:
  MmaWave(KernelFrame& frame, const MatrixStep& step, const MatrixSlice& right, Value* lane)
      : f_(frame), b_(frame.b), machine_(frame), step_(step), right_(right) {
    row_ = b_.CreateLShr(b_.CreateAnd(lane, Number(31)), Number(2));
    if (step.family == MatrixFamily::kGroup)
      row_ = b_.CreateAdd(row_, b_.CreateMul(b_.CreateLShr(lane, Number(5)), Number(16)));
    part_ = b_.CreateAnd(lane, Number(3));
    matrix_ = b_.CreateLShr(lane, Number(3));
    Value *in_matrix = b_.CreateAnd(lane, Number(7)), *pair = b_.CreateLShr(in_matrix, Number(1));
    k_ = b_.CreateAdd(b_.CreateMul(pair, Number(8)), b_.CreateAnd(in_matrix, Number(1)));
  }

  int64_t chunks() const override { return 4; }
  std::vector<Values> LoadLeft(MatrixSlice& slice, Value* row, int64_t steps, int64_t chunk) override {
    std::vector<Values> factors;
    for (int64_t s = 0; s < steps; ++s) {
      const int64_t more = s * step_.rows();
      if (slice.IsTransposed()) {
        // Matrices: the upper rows, the lower rows, both of the other word.
        factors.push_back(LoadTransposed(slice, row, b_.CreateAnd(matrix_, Number(1)),
                                         b_.CreateLShr(matrix_, Number(1)), more, chunk));
        continue;
      }
      Value *upper = Load(slice, row, more, chunk), *lower = Load(slice, row, more + 8, chunk);
      const int words = static_cast<int>(WordsOfChunk());
      Values& parts = factors.emplace_back();
      for (int w = 0; w < words; w += 2)
        parts.push_back(b_.CreateShuffleVector(upper, lower, {w, words + w, w + 1, words + w + 1}));
    }
    return factors;
  }

  std::vector<Values> LoadRight(MatrixSlice& slice, Value* row, int64_t steps, int64_t chunk) override {
    std::vector<Values> factors;
    for (int64_t s = 0; s < steps; ++s) {
      const int64_t more = s * step_.columns();
      if (slice.IsTransposed()) {
        // Matrices: both words of a step, both of the next one.
        const Values both = LoadTransposed(slice, row, b_.CreateLShr(matrix_, Number(1)),
                                           b_.CreateAnd(matrix_, Number(1)), more, chunk);
        for (const int first : {0, 2}) {
          Values& parts = factors.emplace_back();
          for (Value* words : both) parts.push_back(b_.CreateShuffleVector(words, {first, first + 1}));
        }
        ++s;
        continue;
      }
      Value* loaded = Load(slice, row, more, chunk);
      Values& parts = factors.emplace_back();
      for (int w = 0; w < static_cast<int>(WordsOfChunk()); w += 2)
        parts.push_back(b_.CreateShuffleVector(loaded, {w, w + 1}));
    }
    return factors;
  }

  Value* Multiply(Value* left, Value* right, Value* sums) override {
    auto* type = llvm::FunctionType::get(sums->getType(), {left->getType(), right->getType(), sums->getType()}, false);
    llvm::FunctionCallee callee = f_.elements.module()->getOrInsertFunction(step_.instruction, type);
    llvm::cast<llvm::Function>(callee.getCallee())->setConvergent();
    return b_.CreateCall(callee, {left, right, sums});
  }

  // A step's sums are those of two neighbouring columns, of two rows. Columns that are copied as they are in memory
  // cannot be permuted to longer runs.
  int64_t run() const override { return right_.IsTransposed() ? 2 : CountColumnsOfRun(step_); }
  int64_t steps_of_run() const override { return run() / 2; }
  std::vector<Run> FindRuns(absl::Span<Value* const> sums) override {
    Value* column = b_.CreateMul(part_, Number(run()));
    std::vector<Run> runs;
    for (int lower = 0; lower < 2; ++lower) {
      auto* type = llvm::FixedVectorType::get(SumVector(b_, step_)->getElementType(), static_cast<unsigned>(run()));
      Value* of_row = llvm::PoisonValue::get(type);
      for (size_t k = 0; k < 2 * sums.size(); ++k) {
        Value* sum = b_.CreateExtractElement(sums[k / 2], static_cast<uint64_t>(2 * lower) + k % 2);
        of_row = b_.CreateInsertElement(of_row, sum, k);
      }
      runs.push_back({b_.CreateAdd(row_, Number(lower * 8)), column, of_row});
    }
    return runs;
  }

 private:
  // Words: of four bytes, of f64 eight.
  int64_t WordsOfChunk() const { return step_.operand == PrimitiveType::kF64 ? 2 : 4; }

  Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }

  Value* Load(MatrixSlice& slice, Value* row, int64_t more, int64_t chunk) {
    Value* loaded = slice.LoadChunk(b_.CreateAdd(row, row_), part_, more, chunk);
    if (step_.rounds_operands && slice.IsCopiedAsync()) {
      for (uint64_t w = 0; w < 4; ++w)
        loaded = b_.CreateInsertElement(loaded, machine_.RoundToTf32(b_.CreateExtractElement(loaded, w)), w);
    }
    if (step_.operand != PrimitiveType::kF64) return loaded;
    return b_.CreateBitCast(loaded, llvm::FixedVectorType::get(b_.getDoubleTy(), 2));
  }

  // Of each step: four matrices of 8 elements of k by 8 rows. The lane's are those of the `group`-th rows and of the
  // word `word`.
  Values LoadTransposed(MatrixSlice& slice, Value* row, Value* group, Value* word, int64_t more, int64_t chunk) {
    Value* k = b_.CreateAdd(k_, b_.CreateMul(word, Number(2)));
    group = b_.CreateAdd(b_.CreateLShr(row, Number(3)), group);
    Values steps;
    for (int64_t s = 0; s < 2; ++s)
      steps.push_back(slice.LoadTransposed(k, group, chunk * CountChunkElements(step_) + 4 * s, more / 8));
    return steps;
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  MatrixMachine machine_;
  const MatrixStep& step_;
  const MatrixSlice& right_;
  Value *row_ = nullptr, *part_ = nullptr;  // of the lane's chunk
  Value *matrix_ = nullptr, *k_ = nullptr;  // of transposing loads: the lane's matrix, its element of k for word 0
};

}  // namespace

std::unique_ptr<MatrixWave> MatrixWave::Make(KernelFrame& frame, const MatrixStep& step, const MatrixSlice& right,
                                             Value* lane) {
  if (step.is_nvidia()) return std::make_unique<MmaWave>(frame, step, right, lane);
  return std::make_unique<AmdWave>(frame, step, lane);
}

llvm::FixedVectorType* SumVector(llvm::IRBuilder<>& b, const MatrixStep& step) {
  llvm::Type* sum = step.sum == PrimitiveType::kS32   ? b.getInt32Ty()
                    : step.sum == PrimitiveType::kF64 ? b.getDoubleTy()
                                                      : b.getFloatTy();
  return llvm::FixedVectorType::get(sum, static_cast<unsigned>(step.sum_elements()));
}

}  // namespace backplane::hip
