// Types with as many lanes as a value.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_LANES_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_LANES_H_

#include "sdk/engine/codegen/element_emitter.h"
#include "sdk/engine/jit/llvm_includes.h"

namespace backplane::engine::codegen {

// `element`, or the vector of it with the lanes of `like`.
inline llvm::Type* WithLanes(llvm::Type* element, llvm::Value* like) {
  const int lanes = ElementEmitter::LanesOf(like);
  return lanes ? llvm::FixedVectorType::get(element, lanes) : element;
}

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_LANES_H_
