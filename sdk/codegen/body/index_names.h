// Short names of the index algebra (sdk/compiler/affine.h, index_map.h) for code that emits bodies.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_INDEX_NAMES_H_
#define BACKPLANE_SDK_CODEGEN_BODY_INDEX_NAMES_H_

#include "sdk/compiler/affine.h"
#include "sdk/compiler/index_map.h"

namespace backplane::codegen {

using compiler::Access;
using compiler::AccessWalk;
using compiler::Affine;
using compiler::Guard;
using compiler::Guards;
using compiler::Index;
using compiler::Term;
using compiler::VarDef;
using compiler::VarId;
using compiler::VarKind;
using compiler::VarTable;

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_INDEX_NAMES_H_
