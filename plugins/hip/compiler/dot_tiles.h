// The tiles of a product's result, which the blocks of a grid share: the same for every kind of product kernel.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_DOT_TILES_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_DOT_TILES_H_

#include <functional>
#include <vector>

#include "core/types/integer_division.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/kernel_frame.h"

namespace backplane::hip {

// The problem and the frame must outlive the object.
class DotTiles {
 public:
  // A tile has `rows` x `columns` elements.
  DotTiles(KernelFrame& frame, const DotProblem& problem, int64_t rows, int64_t columns)
      : f_(frame), p_(problem), rows_(rows), columns_(columns) {
    for (const DotProblem::BatchDim& d : p_.batch) batch_.push_back(f_.vars.Loop(d.size));
  }

  // Runs `body` for each tile of the block with its first row and column. Call it once.
  void ForEach(const std::function<void(llvm::Value* row, llvm::Value* column)>& body) {
    const int64_t across = CeilDiv(p_.n, columns_), down = CeilDiv(p_.m, rows_);
    const codegen::VarId tile_row = f_.vars.Loop(down), tile_column = f_.vars.Loop(across);
    std::vector<codegen::VarId> all = batch_;
    all.push_back(tile_row), all.push_back(tile_column);
    f_.ForEachBlock(p_.batch_size() * down * across, [&](llvm::Value* tile) {
      f_.scopes.Bind(all, tile);
      body(f_.indices.Uniform(compiler::Affine::Var(tile_row).Times(rows_)),
           f_.indices.Uniform(compiler::Affine::Var(tile_column).Times(columns_)));
    });
  }

  // Whether a block computes several tiles, one after another.
  bool HasSeveralForBlock() const {
    return p_.batch_size() * CeilDiv(p_.m, rows_) * CeilDiv(p_.n, columns_) > f_.plan.blocks;
  }

  // Returns the variables that count the batch dimensions.
  const std::vector<codegen::VarId>& batch() const { return batch_; }
  // Returns the position of the tile's batch in an array with these strides.
  compiler::Affine BatchOffset(int64_t DotProblem::BatchDim::*stride) const {
    compiler::Affine sum;
    for (size_t d = 0; d < batch_.size(); ++d) sum.Add(compiler::Affine::Var(batch_[d]), p_.batch[d].*stride);
    return sum;
  }

 private:
  KernelFrame& f_;
  const DotProblem& p_;
  const int64_t rows_, columns_;
  std::vector<codegen::VarId> batch_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_DOT_TILES_H_
