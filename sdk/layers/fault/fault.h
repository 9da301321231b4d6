// The layer `fault`: makes chosen calls fail, slow, or their events late, to see what the host does.
//
// Options (manifest, or BACKPLANE_FAULT_<NAME>):
//   spec   the rules, also in the variable BACKPLANE_FAULT
//   seed   of the rules with a probability; default 1. The same seed and order of calls give the same faults
//   log    "stderr" or a file (%p is the process): one line for each fault; default none
//
// A spec is rules with commas between them: WHAT[:WHICH[:PROBABILITY]]=ACTION
//   WHAT         alloc, copy, compile, execute, event, any, or a function: PJRT_Client_Compile, Buffer_CopyToMemory
//   WHICH        2: the second such call; 3-5; 4+: the fourth and all later; */10: each tenth; *: all (the default)
//   PROBABILITY  0.01: of the calls that WHICH names, one in a hundred
//   ACTION       CODE[:message]   the call fails with this error, and the target does not see it
//                delay:20ms       the call waits first, then goes on as ever
//                late:20ms        event only: callbacks come that much later, from a thread of the layer
//                without one, INTERNAL
// A message in double quotes may hold commas.
//
//   compile:2=RESOURCE_EXHAUSTED:no room, copy:*:0.01, execute:*/10=delay:5ms, event=late:2ms
//
// `event` means PJRT_Event_OnReady, PJRT_Event_Await and PJRT_Event_Error: the work is done, and its outcome is
// replaced by the error. Functions that give something back (Destroy, Delete, Decrease.., those of errors) cannot be
// made to fail. When several rules fit a call, all delays are waited for, and the first error counts.
#ifndef BACKPLANE_SDK_LAYERS_FAULT_FAULT_H_
#define BACKPLANE_SDK_LAYERS_FAULT_FAULT_H_

#include <string>
#include <vector>

#include "sdk/layers/layer.h"

namespace backplane::layers {

struct FaultRule {
  enum class Action { kFail, kDelay, kLate };
  std::string text;              // as it was written
  std::vector<bool> functions;   // kNumFunctions: those it is about
  uint64_t first = 1, last = 0;  // WHICH; last 0: no end
  uint64_t every = 1;
  double probability = 1;
  Action action = Action::kFail;
  PJRT_Error_Code code = PJRT_Error_Code_INTERNAL;
  std::string message;  // empty: one that names the call
  int64_t delay_ns = 0;

  // Whether the nth call (from 1) that it is about is one of its faults. `draw` is uniform in [0, 1).
  bool Hits(uint64_t n, double draw) const;
};

// INVALID_ARGUMENT, which quotes the rule that cannot be understood.
absl::StatusOr<std::vector<FaultRule>> ParseFaultSpec(absl::string_view spec);

absl::StatusOr<std::unique_ptr<Layer>> MakeFaultLayer(const Options& options);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FAULT_FAULT_H_
