// The passes and pipelines of the core by name, for tools.
#ifndef BACKPLANE_CORE_PASSES_REGISTRY_REGISTRY_H_
#define BACKPLANE_CORE_PASSES_REGISTRY_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/passes/pass.h"

namespace backplane {

struct RegisteredPass {
  std::string name;
  std::string summary;            // one line
  std::vector<std::string> runs;  // for a pipeline: its passes in order
  bool required = true;           // Pass::IsRequired
};

// Returns all passes and pipelines, sorted by name. Passes with options have the defaults.
std::vector<RegisteredPass> ListPasses();

// Creates a pass. Returns NotFound, listing the names, if there is none of this name.
absl::StatusOr<std::unique_ptr<Pass>> MakePass(absl::string_view name);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_REGISTRY_REGISTRY_H_
