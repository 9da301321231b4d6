// Calls whose bodies stay bodies: a program may ask for that (JAX's xla_metadata_call(inlineable="false")), so that it
// finds the call again in the compiled program, or to have one body where there are many calls.
#ifndef BACKPLANE_CORE_PASSES_CALLS_H_
#define BACKPLANE_CORE_PASSES_CALLS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/module.h"

namespace backplane {

// Whether a call carries the frontend attribute inlineable="false".
bool StaysCall(const Instruction& i);

// As InlineCalls, calls that ask to stay included: for passes that have to see all of the program in one computation.
absl::StatusOr<bool> InlineAllCalls(Module* module);

// ResourceExhausted [call_budget] where the program would become too large if each call, loop, branch and reduction had
// what it calls for itself alone, which passes and a walk over all calls take for granted. Quick, however large that
// is. InlineCalls and UnshareComputations ask it first; so does a pipeline before its first pass.
absl::Status CheckCallBudget(const Module& module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_CALLS_H_
