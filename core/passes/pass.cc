#include "core/passes/pass.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane {

absl::StatusOr<bool> PassPipeline::Run(Module* module) {
  bool changed_ever = false;
  for (int round = 0; round < max_rounds_; ++round) {
    bool changed_now = false;
    for (const auto& pass : passes_) {
      const auto start = std::chrono::steady_clock::now();
      absl::StatusOr<bool> changed = pass->Run(module);
      if (!changed.ok()) {
        return absl::Status(changed.status().code(), absl::StrCat(pass->name(), ": ", changed.status().message()));
      }
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      log_.push_back({std::string(pass->name()), *changed, took.count()});
      changed_now |= *changed;
      if (verify_ && *changed) {
        if (absl::Status s = VerifyModule(*module); !s.ok()) {
          return absl::InternalError(absl::StrCat("after ", pass->name(), ": ", s.message()));
        }
      }
    }
    changed_ever |= changed_now;
    if (!changed_now) break;
  }
  return changed_ever;
}

}  // namespace backplane
