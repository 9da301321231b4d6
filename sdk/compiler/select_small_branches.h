// A pass for branches that are so short that choosing between them costs more than computing all of them.
#ifndef BACKPLANE_SDK_COMPILER_SELECT_SMALL_BRANCHES_H_
#define BACKPLANE_SDK_COMPILER_SELECT_SMALL_BRANCHES_H_

#include "core/passes/pass.h"

namespace backplane::compiler {

// Replaces conditionals by selects between the results of all branches, if the branches consist of a few cheap
// elementwise operations and movements of elements on arrays of the size of the results. Such code fuses with its
// neighbours, and a loop around it needs no step list for each branch. Branches with side effects, loops, random
// numbers, calls or costly functions stay.
class SelectSmallBranches : public Pass {
 public:
  absl::string_view name() const override { return "select-small-branches"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_SELECT_SMALL_BRANCHES_H_
