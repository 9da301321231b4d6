// A dot whose operands lie in tiles, as a dot of their memory (tile_view.h).
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILED_DOT_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILED_DOT_H_

#include "plugins/tpu_emulator/program/tile_view.h"

namespace backplane::tpu {

// An operand: its array's sizes are those of the view, or of `value` where there is none.
struct DotOperand {
  Instruction* value = nullptr;
  const TileView* view = nullptr;
};

// Whether TiledDot can: the matrix unit takes the dot, no padding lies along its batch and contracting dimensions (what
// free ones have is cut off the result), and the digits of both operands fit one another.
bool DotFits(const Instruction& dot, const TileView* lhs, const TileView* rhs);

// The value of `dot` with these operands in place of its own, in rows: every sum has its terms in the order in which
// `dot` has them. Instructions are added at the end of the computation.
Instruction* TiledDot(Computation* c, const Instruction& dot, const DotOperand& lhs, const DotOperand& rhs);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILED_DOT_H_
