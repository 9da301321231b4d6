// Where the sums of a product go: into the array of its result, or through the elementwise operations that are fused
// behind it.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_DOT_OUTPUT_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_DOT_OUTPUT_H_

#include <optional>
#include <vector>

#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/dot_tiles.h"
#include "plugins/hip/compiler/kernel_frame.h"

namespace backplane::hip {

// Serves one kernel. The frame, the tiles and the instruction must outlive it.
class DotOutput {
 public:
  DotOutput(KernelFrame& frame, const DotTiles& tiles, const DotProblem& problem, const DotSite& site);

  // Return the arrays of the operands of the dot.
  llvm::Value* lhs() const { return f_.array(static_cast<size_t>(site_.lhs)); }
  llvm::Value* rhs() const { return f_.array(static_cast<size_t>(site_.rhs)); }

  // Stores sums of `row` in the type problem.sum_type(). If `lanes` is 0, stores one sum, that of `column`; otherwise
  // those of `lanes` neighbouring columns from `column` on, all of which exist.
  void Store(llvm::Value* row, llvm::Value* column, int lanes, const Val& sums);

 private:
  struct Result {
    KernelResult what;
    ArrayRef array;
  };

  void IndexConvolution();

  KernelFrame& f_;
  const DotTiles& tiles_;
  const DotProblem& p_;
  const DotSite& site_;
  codegen::VarId row_ = 0, column_ = 0;  // used if the site is a dot without a body
  // Used if it has one, or is a convolution: the dimensions of which row and column consist, and the element's index.
  std::vector<codegen::VarId> rows_, columns_;
  codegen::Index index_;
  std::vector<Result> results_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_DOT_OUTPUT_H_
