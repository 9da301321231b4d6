// Moves instructions with dynamic sizes into a computation of their own that an evaluator can run.
#ifndef BACKPLANE_CORE_PASSES_ISOLATE_DYNAMIC_SIZES_H_
#define BACKPLANE_CORE_PASSES_ISOLATE_DYNAMIC_SIZES_H_

#include "core/passes/pass.h"

namespace backplane {

// Operates on the entry and on the computations that its loops and branches execute. The instructions that take or
// produce an array of dynamic size, and those on a path between two of them, become one fusion of kind custom. Its
// operands and results have static sizes, so a plugin can compile the rest of the program as usual. A loop or
// conditional whose state has a dynamic size moves into the fusion as a whole.
//
// For programs that ResolveDynamicSizes refuses. Run it after InlineAllCalls. Returns Unimplemented if a parameter or
// result has a dynamic size, or if the fusion would contain a side effect or a collective; the module may then be
// partly rewritten and must be discarded.
class IsolateDynamicSizes : public Pass {
 public:
  absl::string_view name() const override { return "isolate-dynamic-sizes"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

// Whether an array in the shape has a dimension of dynamic size.
bool HasDynamic(const Shape& shape);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_ISOLATE_DYNAMIC_SIZES_H_
