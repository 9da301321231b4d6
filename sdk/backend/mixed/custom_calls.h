// The custom calls of one program: every call site is made when the program is compiled, so that a missing handler is
// an error there and not at the first run.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_CUSTOM_CALLS_H_
#define BACKPLANE_SDK_BACKEND_MIXED_CUSTOM_CALLS_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"
#include "sdk/backend/backend.h"

namespace backplane::mixed {

class CustomCalls {
 public:
  // NotFound when a target has no handler.
  static absl::StatusOr<CustomCalls> Create(const Module& module, CustomCallRegistry& registry);

  // Blocks until the handler is done. `request` gives context, run id and device.
  absl::StatusOr<Literal> Run(const Instruction& call, absl::Span<const Literal* const> operands,
                              const ExecuteContext* context, int64_t run_id, int32_t device) const;

 private:
  absl::flat_hash_map<const Instruction*, std::unique_ptr<CustomCallSite>> sites_;  // identities have none
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_CUSTOM_CALLS_H_
