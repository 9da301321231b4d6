#define BP_TRANSPOSE_BYTES 16
#include "core/relayout/transpose_kernels.h"
#include "core/relayout/transpose_levels.h"

namespace backplane::transpose {

void Tile16(const TransposePlan& plan, const char* source, char* target, int64_t row, int64_t column, char* scratch) {
  TransposeTileOfAnyWidth(plan, source, target, row, column, scratch);
}

}  // namespace backplane::transpose
