// Instructions that handle dynamic sizes in a computation of their own, for an evaluator to run.
#ifndef BACKPLANE_CORE_PASSES_ISOLATE_DYNAMIC_SIZES_H_
#define BACKPLANE_CORE_PASSES_ISOLATE_DYNAMIC_SIZES_H_

#include "core/passes/pass.h"

namespace backplane {

// In the entry, and in what its loops and branches run: everything that makes or takes an array of dynamic size, and
// what lies on a way from one such instruction to another, becomes one fusion of kind custom. Its operands and results
// are of static size, so that a plugin compiles the rest of the program as any other. A loop or branch whose state is
// of dynamic size goes into the fusion as a whole.
//
// For programs that ResolveDynamicSizes refuses; after InlineAllCalls. Unimplemented, on a module that may be half
// changed, where a parameter or the result is of dynamic size, or where the fusion would hold a side effect or a
// collective.
class IsolateDynamicSizes : public Pass {
 public:
  absl::string_view name() const override { return "isolate-dynamic-sizes"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

// Whether an array of the shape has a dimension of dynamic size.
bool HasDynamic(const Shape& shape);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_ISOLATE_DYNAMIC_SIZES_H_
