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
  // A tile has `rows` x `columns` elements. Blocks that run at the same time have neighbouring numbers. With a `band`,
  // these go down a band of so many rows of tiles before they go to the next column, so that few rows and few columns
  // of the operands serve them all.
  DotTiles(KernelFrame& frame, const DotProblem& problem, int64_t rows, int64_t columns, int64_t band = 1)
      : f_(frame), p_(problem), rows_(rows), columns_(columns), band_(ShortenBand(CeilDiv(problem.m, rows), band)) {
    for (const DotProblem::BatchDim& d : p_.batch) batch_.push_back(f_.vars.Loop(d.size));
  }

  // Runs `body` for each tile of the block with its first row and column. Call it once.
  void ForEach(const std::function<void(llvm::Value* row, llvm::Value* column)>& body) {
    const int64_t across = CeilDiv(p_.n, columns_), down = CeilDiv(p_.m, rows_);
    const codegen::VarId band = f_.vars.Loop(down / band_), tile_column = f_.vars.Loop(across),
                         in_band = f_.vars.Loop(band_);
    std::vector<codegen::VarId> all = batch_;
    all.insert(all.end(), {band, tile_column, in_band});
    f_.ForEachBlock(p_.batch_size() * down * across, [&](llvm::Value* tile) {
      f_.scopes.Bind(all, tile);
      body(f_.indices.Uniform(
               compiler::Affine::Var(band).Times(band_ * rows_).Plus(compiler::Affine::Var(in_band), rows_)),
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
  // Returns the largest number of at most `band` that divides the rows of tiles.
  static int64_t ShortenBand(int64_t down, int64_t band) {
    while (down % band != 0) --band;
    return band;
  }

  KernelFrame& f_;
  const DotProblem& p_;
  const int64_t rows_, columns_, band_;
  std::vector<codegen::VarId> batch_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_DOT_TILES_H_
