// Types with as many lanes as a value.
#ifndef BACKPLANE_SDK_CODEGEN_LANES_H_
#define BACKPLANE_SDK_CODEGEN_LANES_H_

#include "sdk/codegen/element_emitter.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::codegen {

// `element`, or the vector of it with the lanes of `like`.
inline llvm::Type* WithLanes(llvm::Type* element, llvm::Value* like) {
  const int lanes = ElementEmitter::LanesOf(like);
  return lanes ? llvm::FixedVectorType::get(element, lanes) : element;
}

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_LANES_H_
