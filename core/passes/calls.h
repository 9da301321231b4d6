// Calls that must not be inlined. A program may request that (JAX's xla_metadata_call(inlineable="false")) to find the
// call again in the compiled program, or to share one body between many calls.
#ifndef BACKPLANE_CORE_PASSES_CALLS_H_
#define BACKPLANE_CORE_PASSES_CALLS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/module.h"

namespace backplane {

// Whether the call has the frontend attribute inlineable="false".
bool IsMarkedNotInlineable(const Instruction& i);

// Like InlineCalls, but inlines calls marked as not inlineable too. For passes that need the program in one
// computation.
absl::StatusOr<bool> InlineAllCalls(Module* module);

// Returns ResourceExhausted [call_budget] if the program would become too large with a separate copy of each called
// computation per caller, as inlining and traversals of the call graph require. Takes linear time, whatever that size
// is. InlineCalls, UnshareComputations and pipelines check it before they start.
absl::Status CheckCallBudget(const Module& module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_CALLS_H_
