// How a block computes a tile of a product by matrix instructions: the size of the tile and its waves, and where the
// elements of both operands are in shared memory.
//
// Shared memory holds a slice of each operand: of each row of the left and each column of the right one (both are
// called rows here) the 128 bytes that the loop over k loads at a time, as eight chunks of 16 bytes. A lane reads and
// writes chunks. The chunks of a row are permuted, so that neither the lanes that read a chunk of eight rows nor those
// that write one use the same banks (SwizzleChunk).
//
// The rows of the right operand are permuted too (PermuteColumns), because each lane shall hold sums of neighbouring
// columns, which it then stores as one vector.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_TILE_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_TILE_H_

#include <cstdint>

#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/matrix_step.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

inline constexpr int64_t kChunkBytes = 16;
inline constexpr int64_t kRowChunks = 8;  // of a row in shared memory

struct MatrixTile {
  int64_t rows = 0, columns = 0;
  int waves_down = 0, waves_across = 0;  // each wave computes an equal part
  // The slices in shared memory, to which memory is copied asynchronously (matrix_slice.h); 0: one, to which it is
  // copied through registers.
  int stages = 0;

  int waves() const { return waves_down * waves_across; }
  int64_t wave_rows() const { return rows / waves_down; }
  int64_t wave_columns() const { return columns / waves_across; }
};

// The elements of a chunk, and of k in a slice.
int64_t ChunkElements(const MatrixStep& step);
int64_t SliceElements(const MatrixStep& step);

// Neighbouring columns whose sums a lane holds one after another.
int64_t RunOfColumns(const MatrixStep& step);

// The largest tile that still gives every compute unit of a large GPU a block; the smallest that wastes little if there
// is none.
MatrixTile ChooseMatrixTile(const DotProblem& problem, const MatrixStep& step, const GpuTarget& target);

// Whether offsets within the tiles of both operands fit into the 32 bits that the kernel computes them with.
bool OffsetsFit(const DotProblem& problem, const MatrixTile& tile, const MatrixStep& step);

// The row in shared memory of a row of the right operand.
llvm::Value* PermuteColumns(llvm::IRBuilder<>& b, const MatrixStep& step, llvm::Value* column);
// The position in its row, in bytes, of a chunk. `row` is the one in shared memory.
// Linear: the position for the exclusive or of two rows and chunks is that of their positions.
llvm::Value* SwizzleChunk(llvm::IRBuilder<>& b, const MatrixStep& step, llvm::Value* row, llvm::Value* chunk);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_TILE_H_
