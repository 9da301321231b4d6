// How a wave multiplies slices in shared memory: the values that its lanes load for a step, the instruction, and the
// order of the sums. Each family of matrix instructions has a class of its own.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_WAVE_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_WAVE_H_

#include <memory>
#include <vector>

#include "plugins/hip/compiler/matrix_slice.h"

namespace backplane::hip {

class MatrixWave {
 public:
  using Values = MatrixSlice::Values;

  // `lane` is the number of the thread in its wave, and `right` has the slices of the right operand. The frame, the
  // step and `right` must outlive the object.
  static std::unique_ptr<MatrixWave> Make(KernelFrame& frame, const MatrixStep& step, const MatrixSlice& right,
                                          llvm::Value* lane);
  virtual ~MatrixWave() = default;

  // Returns how many neighbouring chunks of a row the lanes load together.
  virtual int64_t chunks() const = 0;
  // Load operands of the instruction: for each of `steps` steps along the rows the values of one step after another
  // along k. They come from the rows in shared memory from `row` on and the chunks from `chunk` on. `row` is equal in
  // all lanes, and a multiple of the rows that the wave has of the tile.
  virtual std::vector<Values> LoadLeft(MatrixSlice& slice, llvm::Value* row, int64_t steps, int64_t chunk) = 0;
  virtual std::vector<Values> LoadRight(MatrixSlice& slice, llvm::Value* row, int64_t steps, int64_t chunk) = 0;
  // Returns the sums after a step. `sums` is a vector of step.sum_elements().
  virtual llvm::Value* Multiply(llvm::Value* left, llvm::Value* right, llvm::Value* sums) = 0;

  // The lane's sums of run() neighbouring columns, as a vector. The row and the first column count from the first row
  // and column of the sums that FindRuns was given.
  struct Run {
    llvm::Value *row, *column, *sums;
  };
  // `sums` are those of steps_of_run() steps for neighbouring columns.
  virtual std::vector<Run> FindRuns(absl::Span<llvm::Value* const> sums) = 0;
  virtual int64_t steps_of_run() const = 0;
  virtual int64_t run() const = 0;

  // Called before the chunks from `chunk` on are loaded, and after a slice has been multiplied. `all_load` tells
  // whether all threads load parts of both operands.
  virtual void BeginChunks(int64_t chunk) { (void)chunk; }
  virtual void EndSlice(Values& sums, bool all_load) { (void)sums, (void)all_load; }
};

// Returns the type of the sums of a step in one lane.
llvm::FixedVectorType* SumVector(llvm::IRBuilder<>& b, const MatrixStep& step);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_WAVE_H_
