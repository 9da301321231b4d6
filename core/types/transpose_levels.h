// One tile, for machines with registers of 16, 32 and 64 bytes. Private to transpose*.cc.
#ifndef BACKPLANE_CORE_TYPES_TRANSPOSE_LEVELS_H_
#define BACKPLANE_CORE_TYPES_TRANSPOSE_LEVELS_H_

#include <cstdint>

#include "core/types/transpose.h"

namespace backplane::transpose {

void Tile16(const TransposePlan& plan, const char* source, char* target, int64_t row, int64_t column, char* scratch);
void Tile32(const TransposePlan& plan, const char* source, char* target, int64_t row, int64_t column, char* scratch);
void Tile64(const TransposePlan& plan, const char* source, char* target, int64_t row, int64_t column, char* scratch);

}  // namespace backplane::transpose

#endif  // BACKPLANE_CORE_TYPES_TRANSPOSE_LEVELS_H_
