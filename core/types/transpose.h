// Turns matrices of elements of 1, 2, 4, 8 or 16 bytes: target[i, j] = source[j, i], rows of both sides contiguous and
// any number of bytes apart, tile by tile in the registers that the machine has.
//
// A plan says how the tiles of one matrix are cut and moved; it is plain numbers, so that generated code can hold it.
// Tiles are independent of one another: any thread may run any of them, in any order, each with scratch memory of its
// own.
#ifndef BACKPLANE_CORE_TYPES_TRANSPOSE_H_
#define BACKPLANE_CORE_TYPES_TRANSPOSE_H_

#include <cstdint>

namespace backplane {

// All but the counts of `rows` and `columns` are bytes.
struct TransposePlan {
  int64_t width = 0;         // of an element
  int64_t rows = 0;          // of the target: the source's contiguous side
  int64_t columns = 0;       // of the target: its contiguous side
  int64_t source_pitch = 0;  // between elements of the source that are neighbours in a row of the target; any sign
  int64_t target_pitch = 0;  // between rows of the target
  int64_t tile_rows = 0;     // of the target
  int64_t tile_columns = 0;
  int64_t tile_pitch = 0;     // 0: straight from source to target; else of the turned tile in scratch memory
  int64_t source_tile = 0;    // 0: read where it lies; else the pitch of a copy of the source's tile
  int64_t ahead = 0;          // source rows that are fetched before they are wanted
  int64_t past_caches = 0;    // 1: whole lines of the target are written past the caches; the last call: EndTransposes
  int64_t vector = 0;         // of registers: 16, 32 or 64
  int64_t scratch_bytes = 0;  // that a tile needs, 64-byte aligned

  int64_t row_tiles() const { return (rows + tile_rows - 1) / tile_rows; }
  int64_t column_tiles() const { return (columns + tile_columns - 1) / tile_columns; }
};

// What registers this machine has, in bytes: 16, 32 or 64.
int TransposeVectorBytes();

// `result_bytes`: of all matrices of the operation together, which says whether they stay in the caches. `vector`: 0 or
// what to use at most. The pitches must hold a row; rows of the target must not overlap.
TransposePlan PlanTranspose(int64_t width, int64_t rows, int64_t columns, int64_t source_pitch, int64_t target_pitch,
                            int64_t result_bytes, int64_t vector = 0);

// `source` and `target` point to the matrix's first elements, wherever they lie; `row` and `column` are the numbers of
// the tile's first row and column, multiples of the tile's sizes.
void RunTransposeTile(const TransposePlan* plan, const void* source, void* target, int64_t row, int64_t column,
                      void* scratch);

// After the last tile of a thread where past_caches is set: its stores are ordered before what follows.
void EndTransposes();

// The whole matrix on this thread.
void RunTranspose(const TransposePlan& plan, const void* source, void* target);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_TRANSPOSE_H_
