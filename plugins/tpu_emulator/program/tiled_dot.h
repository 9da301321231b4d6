// Rewrites a dot of tiled operands as a dot of their memory (tile_view.h).
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILED_DOT_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILED_DOT_H_

#include "plugins/tpu_emulator/program/tile_view.h"

namespace backplane::tpu {

// An operand. Its dimensions are those of the view, or of `value` if the view is null.
struct DotOperand {
  Instruction* value = nullptr;
  const TileView* view = nullptr;
};

// Whether MakeTiledDot supports these operands: the matrix unit supports the dot, its batch and contracting dimensions
// have no padding, and the digits of both operands match. Padding of free dimensions is sliced off the result.
bool CanTileDot(const Instruction& dot, const TileView* lhs, const TileView* rhs);

// Emits the row-major value of `dot` with the given operands. Every sum adds its terms in the order of `dot`. New
// instructions are appended to the computation.
Instruction* MakeTiledDot(Computation* c, const Instruction& dot, const DotOperand& lhs, const DotOperand& rhs);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILED_DOT_H_
