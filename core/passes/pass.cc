#include "core/passes/pass.h"

#include <chrono>
#include <cstdlib>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::Status Wrong(absl::string_view when, const Pass& pass, const absl::Status& what) {
  return absl::InternalError(absl::StrCat("the module is wrong ", when, " ", pass.name(), ": ", what.message()));
}

}  // namespace

bool VerifiesPasses() {
  static const bool verifies = [] {
    const char* value = std::getenv("BACKPLANE_VERIFY_PASSES");
    return value != nullptr && *value != '\0' && absl::string_view(value) != "0";
  }();
  return verifies;
}

absl::Status VerifySingleCallers(const Module& module) {
  absl::flat_hash_map<const Computation*, const Instruction*> caller;
  for (const Computation* c : RunningComputations(&module)) {
    for (const auto& i : c->instructions()) {
      if (!i->Is(Opcode::kWhile) && !i->Is(Opcode::kConditional) && !i->Is(Opcode::kCall)) continue;
      for (const Computation* called : i->called()) {
        auto [at, fresh] = caller.try_emplace(called, i.get());
        if (fresh) continue;
        return absl::InternalError(absl::StrCat("computation ", called->name(), ": is run by ", at->second->name(),
                                                " and by ", i->name(),
                                                ", where each must have its own [single_caller]"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RunPass(Pass& pass, Module* module, bool verify) {
  verify = verify || VerifiesPasses();
  if (verify && pass.NeedsSingleCallers()) {
    if (absl::Status s = VerifySingleCallers(*module); !s.ok()) return Wrong("before", pass, s);
  }
  absl::StatusOr<bool> changed = pass.Run(module);
  if (!changed.ok()) {
    return absl::Status(changed.status().code(), absl::StrCat(pass.name(), ": ", changed.status().message()));
  }
  if (verify) {  // also where the pass says that it changed nothing
    if (absl::Status s = VerifyModule(*module); !s.ok()) return Wrong("after", pass, s);
  }
  return changed;
}

absl::StatusOr<bool> PassPipeline::Run(Module* module) {
  bool changed_ever = false;
  for (int round = 0; round < max_rounds_; ++round) {
    bool changed_now = false;
    for (const auto& pass : passes_) {
      const auto start = std::chrono::steady_clock::now();
      ASSIGN_OR_RETURN(const bool changed, RunPass(*pass, module, verify_));
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      log_.push_back({std::string(pass->name()), changed, took.count()});
      changed_now |= changed;
    }
    changed_ever |= changed_now;
    if (!changed_now) break;
  }
  return changed_ever;
}

}  // namespace backplane
