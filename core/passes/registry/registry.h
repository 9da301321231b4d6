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
  std::vector<std::string> runs;  // of a pipeline: the passes that it runs, in order
  bool required = true;           // Pass::IsRequired
};

// All of them, sorted by name. Passes with options have their defaults.
std::vector<RegisteredPass> ListPasses();

// A new pass. NotFound, with the names there are.
absl::StatusOr<std::unique_ptr<Pass>> MakePass(absl::string_view name);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_REGISTRY_REGISTRY_H_
