// Moved to core/analysis; this name stays until nobody includes it.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_LOOP_TURNS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_LOOP_TURNS_H_

#include "core/analysis/loop_turns.h"

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_LOOP_TURNS_H_
