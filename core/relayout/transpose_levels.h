// Transposes one tile with registers of 16, 32 or 64 bytes. Private to transpose*.cc.
#ifndef BACKPLANE_CORE_RELAYOUT_TRANSPOSE_LEVELS_H_
#define BACKPLANE_CORE_RELAYOUT_TRANSPOSE_LEVELS_H_

#include <cstdint>

#include "core/relayout/transpose.h"

namespace backplane::transpose {

void Tile16(const TransposePlan& plan, const char* source, char* target, int64_t row, int64_t column, char* scratch);
void Tile32(const TransposePlan& plan, const char* source, char* target, int64_t row, int64_t column, char* scratch);
void Tile64(const TransposePlan& plan, const char* source, char* target, int64_t row, int64_t column, char* scratch);

}  // namespace backplane::transpose

#endif  // BACKPLANE_CORE_RELAYOUT_TRANSPOSE_LEVELS_H_
