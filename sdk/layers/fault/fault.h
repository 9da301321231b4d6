// The layer `fault`: makes selected calls fail or slow, or their events late, to test how the host reacts.
//
// Options (manifest, or BACKPLANE_FAULT_<NAME>):
//   spec   the rules, also in the variable BACKPLANE_FAULT
//   seed   for rules with a probability; default 1. The same seed and order of calls give the same faults
//   log    "stderr" or a file (%p is the process id): one line for each fault; default none
//
// A spec is a list of rules, separated by commas: WHAT[:WHICH[:PROBABILITY]]=ACTION
//   WHAT         alloc, copy, compile, execute, event, any, or a function: PJRT_Client_Compile, Buffer_CopyToMemory
//   WHICH        2: the second such call; 3-5; 4+: the fourth and all later; */10: each tenth; *: all (the default)
//   PROBABILITY  0.01: one in a hundred of the calls that WHICH selects
//   ACTION       CODE[:message]   the call fails with this error, and the target does not see it
//                delay:20ms       the call waits first and then continues normally
//                late:20ms        for `event` only: callbacks run that much later, on a thread of the layer
//                The default is INTERNAL.
// A message in double quotes may contain commas.
//
//   compile:2=RESOURCE_EXHAUSTED:no room, copy:*:0.01, execute:*/10=delay:5ms, event=late:2ms
//
// `event` stands for PJRT_Event_OnReady, PJRT_Event_Await and PJRT_Event_Error: the work is done, and its status is
// replaced by the error. Functions that release something (Destroy, Delete, Decrease.., those of errors) cannot be made
// to fail. If several rules apply to a call, all delays are executed, and the first error is used.
#ifndef BACKPLANE_SDK_LAYERS_FAULT_FAULT_H_
#define BACKPLANE_SDK_LAYERS_FAULT_FAULT_H_

#include <string>
#include <vector>

#include "sdk/layers/layer.h"

namespace backplane::layers {

struct FaultRule {
  enum class Action { kFail, kDelay, kLate };
  std::string text;              // as written
  std::vector<bool> functions;   // by Fn, kNumFunctions entries: the functions to which it applies
  uint64_t first = 1, last = 0;  // WHICH; last 0: no end
  uint64_t every = 1;
  double probability = 1;
  Action action = Action::kFail;
  PJRT_Error_Code code = PJRT_Error_Code_INTERNAL;
  std::string message;  // empty: a message that names the call
  int64_t delay_ns = 0;

  // Whether the nth call to which the rule applies (from 1) gets the fault. `draw` is uniform in [0, 1).
  bool Hits(uint64_t n, double draw) const;
};

// Returns INVALID_ARGUMENT with the invalid rule.
absl::StatusOr<std::vector<FaultRule>> ParseFaultSpec(absl::string_view spec);

absl::StatusOr<std::unique_ptr<Layer>> MakeFaultLayer(const Options& options);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FAULT_FAULT_H_
