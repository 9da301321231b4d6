// Short names of the classes of sdk/codegen that emit elements and bodies.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_BODY_NAMES_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_BODY_NAMES_H_

#include "sdk/codegen/body/body_evaluator.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::engine::codegen {

using backplane::codegen::ArrayRef;
using backplane::codegen::BodyEvaluator;
using backplane::codegen::ComputationCaller;
using backplane::codegen::ElementEmitter;
using backplane::codegen::EvaluationHooks;
using backplane::codegen::IndexEvaluator;
using backplane::codegen::IsNarrowFloat;
using backplane::codegen::IsSmallFloat;
using backplane::codegen::LoopScopes;
using backplane::codegen::MemoryAccess;
using backplane::codegen::PartialResults;
using backplane::codegen::Val;
using backplane::codegen::Vals;

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_BODY_NAMES_H_
