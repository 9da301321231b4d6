// What the loops of this room evaluate: elements, by the emitters that any machine's code is made with.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_ELEMENTS_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_ELEMENTS_H_

#include "sdk/codegen/element_emitter.h"

namespace backplane::engine::codegen {

using backplane::codegen::ElementEmitter;
using backplane::codegen::IsNarrowFloat;
using backplane::codegen::IsSmallFloat;
using backplane::codegen::Val;
using backplane::codegen::Vals;

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_ELEMENTS_H_
