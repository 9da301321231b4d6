#ifndef BACKPLANE_CORE_PASSES_MAKE_REDUCER_H_
#define BACKPLANE_CORE_PASSES_MAKE_REDUCER_H_

#include "absl/strings/string_view.h"
#include "core/ir/module.h"

namespace backplane {

// Adds a computation called `name` that applies the binary operation to two scalars of the type: the reducer of a
// reduction. The module owns it.
Computation* MakeReducer(Module* module, absl::string_view name, Opcode operation, PrimitiveType type);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_MAKE_REDUCER_H_
