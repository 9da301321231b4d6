// LLVM types with a given number of lanes.
#ifndef BACKPLANE_SDK_CODEGEN_LANES_H_
#define BACKPLANE_SDK_CODEGEN_LANES_H_

#include "sdk/codegen/element_emitter.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::codegen {

// Returns `element` if `like` is a scalar, else a vector of `element` with as many lanes as `like`.
inline llvm::Type* WithLanes(llvm::Type* element, llvm::Value* like) {
  const int lanes = ElementEmitter::GetLanes(like);
  return lanes ? llvm::FixedVectorType::get(element, lanes) : element;
}

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_LANES_H_
