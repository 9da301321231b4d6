// How a wave multiplies what is in shared memory: what its lanes load for a step, the instruction, and where the sums
// lie. One class for each family of matrix instructions.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_WAVE_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_WAVE_H_

#include <memory>
#include <vector>

#include "plugins/hip/compiler/matrix_slice.h"

namespace backplane::hip {

class MatrixWave {
 public:
  using Values = MatrixSlice::Values;

  // `lane`: the number of the thread in its wave. The frame and the step must outlive the object.
  // `right`: the slices of the right operand, which must outlive it, too.
  static std::unique_ptr<MatrixWave> Make(KernelFrame& frame, const MatrixStep& step, const MatrixSlice& right,
                                          llvm::Value* lane);
  virtual ~MatrixWave() = default;

  // Neighbouring chunks of a row that the lanes load together.
  virtual int64_t chunks() const = 0;
  // What the instruction takes, by step along the rows, and for one step after another along k: from the rows (in
  // shared memory) from `row` on, and the chunks from `chunk` on. `row` is equal in all lanes, and a multiple of what
  // the wave has of the tile.
  virtual std::vector<Values> LoadLeft(MatrixSlice& slice, llvm::Value* row, int64_t steps, int64_t chunk) = 0;
  virtual std::vector<Values> LoadRight(MatrixSlice& slice, llvm::Value* row, int64_t steps, int64_t chunk) = 0;
  // The sums after a step. `sums` is a vector of step.sum_elements().
  virtual llvm::Value* Multiply(llvm::Value* left, llvm::Value* right, llvm::Value* sums) = 0;

  // The lane's sums of neighbouring columns: run() of them, as a vector. The row and the first column are
  // those in the tile behind the first row and column of `sums`.
  struct Run {
    llvm::Value *row, *column, *sums;
  };
  // `sums`: those of as many steps, for neighbouring columns, as a run needs.
  virtual std::vector<Run> FindRuns(absl::Span<llvm::Value* const> sums) = 0;
  virtual int64_t steps_of_run() const = 0;
  virtual int64_t run() const = 0;

  // Called before the chunks from `chunk` on are loaded, and when a slice has been multiplied. `all_load`: all threads
  // load parts of both operands.
  virtual void BeginChunks(int64_t chunk) { (void)chunk; }
  virtual void EndSlice(Values& sums, bool all_load) { (void)sums, (void)all_load; }
};

// Of the sums of a step in one lane.
llvm::FixedVectorType* SumVector(llvm::IRBuilder<>& b, const MatrixStep& step);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_WAVE_H_
