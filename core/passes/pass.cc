#include "core/passes/pass.h"

#include <chrono>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/text/hlo_printer.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::Status Wrong(absl::string_view when, const Pass& pass, const absl::Status& what) {
  return absl::InternalError(absl::StrCat("the module is wrong ", when, " ", pass.name(), ": ", what.message()));
}

// Dumps only the input of a pass that failed, because its output may be partly rewritten.
absl::Status Dump(const std::string& folder, const Pass& pass, const Module& module, const std::string& before,
                  bool succeeded) {
  const std::string after = succeeded ? PrintModule(module) : "";
  if (after == before) return absl::OkStatus();
  const int64_t number = NextDumpNumber();
  RETURN_IF_ERROR(DumpModule(folder, number, module.name(), pass.name(), "before", before));
  return succeeded ? DumpModule(folder, number, module.name(), pass.name(), "after", after) : absl::OkStatus();
}

}  // namespace

absl::Status VerifySingleCallers(const Module& module) {
  absl::flat_hash_map<const Computation*, const Instruction*> caller;
  for (const Computation* c : CollectControlFlowComputations(&module)) {
    for (const auto& i : c->instructions()) {
      if (!i->info().Has(kControlFlow)) continue;
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

absl::StatusOr<bool> RunPass(Pass& pass, Module* module, bool verify, const PassDebugging& debugging) {
  verify = verify || debugging.verify;
  ASSIGN_OR_RETURN(const bool disabled, debugging.IsDisabled(pass));
  if (disabled) return false;
  if (verify && pass.NeedsSingleCallers()) {
    if (absl::Status s = VerifySingleCallers(*module); !s.ok()) return Wrong("before", pass, s);
  }
  const bool dump = !debugging.dump_folder.empty() && !pass.IsPipeline();
  const std::string before = dump ? PrintModule(*module) : "";
  absl::StatusOr<bool> changed = pass.Run(module);
  if (dump) RETURN_IF_ERROR(Dump(debugging.dump_folder, pass, *module, before, changed.ok()));
  if (!changed.ok()) {
    return absl::Status(changed.status().code(), absl::StrCat(pass.name(), ": ", changed.status().message()));
  }
  if (verify) {  // also if the pass reports no change
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
