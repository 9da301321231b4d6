// The custom calls of one program. All call sites are created when the program is compiled, so that a missing handler
// is reported by the compilation and not by the first run.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_CUSTOM_CALLS_H_
#define BACKPLANE_SDK_BACKEND_MIXED_CUSTOM_CALLS_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"
#include "sdk/backend/backend.h"

namespace backplane::mixed {

class CustomCalls {
 public:
  // Returns NotFound if a target has no handler.
  static absl::StatusOr<CustomCalls> Create(const Module& module, CustomCallRegistry& registry);

  // Calls the handler and blocks until it is done. `context`, `run_id` and `device` are those of the execution.
  absl::StatusOr<Literal> Run(const Instruction& call, absl::Span<const Literal* const> operands,
                              const ExecuteContext* context, int64_t run_id, int32_t device) const;

 private:
  // Has no site for targets that return their operand.
  absl::flat_hash_map<const Instruction*, std::unique_ptr<CustomCallSite>> sites_;
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_CUSTOM_CALLS_H_
