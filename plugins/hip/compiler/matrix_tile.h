// How a block computes a tile of a product by matrix instructions: the size of the tile and its waves, and where the
// elements of both operands are in shared memory.
//
// Shared memory holds a slice of each operand. The rows of the left operand and the columns of the right one are both
// called rows here. A slice has 128 bytes of each row, as eight chunks of 16 bytes; the loop over k loads a slice at a
// time. A lane reads and writes chunks. The chunks of a row are permuted, so that neither the lanes that read a chunk
// of eight rows nor those that write one use the same banks (SwizzleChunk).
//
// The rows of the right operand are permuted too (PermuteColumns), so that each lane holds sums of neighbouring
// columns, which it stores as one vector.
//
// Groups (matrix_step.h) read slices in the order that gpu_ir.h defines.
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
  // The number of slices in shared memory, to which the GPU copies asynchronously (matrix_slice.h); 0: one slice, to
  // which threads copy through registers.
  int stages = 0;

  int waves() const { return waves_down * waves_across; }
  int64_t wave_rows() const { return rows / waves_down; }
  int64_t wave_columns() const { return columns / waves_across; }
};

// Return how many elements a chunk has, and how many elements of each row a slice has.
int64_t CountChunkElements(const MatrixStep& step);
int64_t CountSliceElements(const MatrixStep& step);

// Returns how many neighbouring columns' sums a lane holds one after another.
int64_t CountColumnsOfRun(const MatrixStep& step);

// Returns the step of groups in place of a step of MMA, if the target has one and threads or asynchronous copies can
// bring the operands to where it reads them; otherwise `step`.
const MatrixStep* PreferGroups(const DotProblem& problem, const MatrixStep& step, const GpuTarget& target);

// Returns the largest tile that still gives a block to every compute unit of a large GPU; if there is none, the
// smallest tile that wastes little.
MatrixTile ChooseMatrixTile(const DotProblem& problem, const MatrixStep& step, const GpuTarget& target);

// Whether offsets within the tiles of both operands fit into the 32 bits that the kernel computes them with.
bool OffsetsFit(const DotProblem& problem, const MatrixTile& tile, const MatrixStep& step);

// Returns the row in shared memory that holds a column of the right operand.
llvm::Value* PermuteColumns(llvm::IRBuilder<>& b, const MatrixStep& step, llvm::Value* column);
// Returns the position of a chunk in its row, in bytes. `row` is the row in shared memory. The function is linear: the
// exclusive or of two rows and of two chunks has the exclusive or of their positions.
llvm::Value* SwizzleChunk(llvm::IRBuilder<>& b, const MatrixStep& step, llvm::Value* row, llvm::Value* chunk);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_TILE_H_
