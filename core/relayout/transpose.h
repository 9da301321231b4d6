// Transposes matrices of elements of 1, 2, 4, 8 or 16 bytes: target[i, j] = source[j, i]. Rows of both sides are
// contiguous, with any pitch. Works tile by tile in vector registers.
//
// A plan describes how one matrix is tiled and moved. It consists of plain integers, so that generated code can embed
// it. Tiles are independent: any thread may run any tile, in any order, with its own scratch memory.
#ifndef BACKPLANE_CORE_RELAYOUT_TRANSPOSE_H_
#define BACKPLANE_CORE_RELAYOUT_TRANSPOSE_H_

#include <cstdint>

namespace backplane {

// `rows` and `columns` are counts; all other members are bytes.
struct TransposePlan {
  int64_t width = 0;         // of an element
  int64_t rows = 0;          // of the target; contiguous in the source
  int64_t columns = 0;       // of the target; contiguous in the target
  int64_t source_pitch = 0;  // between source elements that are adjacent in a row of the target; may be negative
  int64_t target_pitch = 0;  // between rows of the target
  int64_t tile_rows = 0;     // of the target
  int64_t tile_columns = 0;
  int64_t tile_pitch = 0;   // 0: transposes directly to the target; else pitch of the transposed tile in scratch memory
  int64_t source_tile = 0;  // 0: reads the source directly; else pitch of a copy of the source tile
  int64_t ahead = 0;        // source rows to prefetch
  // 1: writes full lines of the target with non-temporal stores; EndTransposes must be called at the end.
  int64_t non_temporal = 0;
  int64_t vector = 0;         // register width: 16, 32 or 64
  int64_t scratch_bytes = 0;  // for one tile, 64-byte aligned

  int64_t row_tiles() const { return (rows + tile_rows - 1) / tile_rows; }
  int64_t column_tiles() const { return (columns + tile_columns - 1) / tile_columns; }
};

// Returns the register width of this machine: 16, 32 or 64 bytes.
int TransposeVectorBytes();

// Plans a transpose. `result_bytes` is the total size of all matrices of the operation and determines whether
// non-temporal stores are used. `vector` limits the register width unless it is 0. A pitch must hold a row; rows of the
// target must not overlap.
TransposePlan PlanTranspose(int64_t width, int64_t rows, int64_t columns, int64_t source_pitch, int64_t target_pitch,
                            int64_t result_bytes, int64_t vector = 0);

// Transposes one tile. `source` and `target` point to the first element of the matrix. `row` and `column` are the first
// row and column of the tile, multiples of the tile sizes. `scratch` has scratch_bytes bytes.
void RunTransposeTile(const TransposePlan* plan, const void* source, void* target, int64_t row, int64_t column,
                      void* scratch);

// Orders non-temporal stores before later ones. Call it after the last tile of a thread if `non_temporal` is set.
void EndTransposes();

// Transposes the whole matrix on this thread.
void RunTranspose(const TransposePlan& plan, const void* source, void* target);

}  // namespace backplane

#endif  // BACKPLANE_CORE_RELAYOUT_TRANSPOSE_H_
