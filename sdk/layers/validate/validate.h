// The layer `validate`: finds misuse of the API by the host, and broken promises of the plugin.
//
// Findings (docs/layers.md explains each): use-after-destroy, double-destroy, unknown-handle, destroy-of-borrowed,
// use-after-delete, use-after-donate, client-destroyed-early, leak, unset-out-field, wrong-struct-size,
// callback-never-called. Each is told once for each place it comes from, with the stack of the call and those that led
// to it.
//
// Options (manifest, or BACKPLANE_VALIDATE_<NAME>):
//   file         where the text goes: "stderr" (the default), "none", or a path (%p is the process), which then gets a
//                last line also when nothing was found
//   json         a path for all findings as JSON, written at the end; default none
//   refuse       1: a call with a destroyed or unknown handle does not reach the plugin, which it might crash, but
//                gets INVALID_ARGUMENT. Default 0: the layer changes nothing
//   leaks        0: say nothing about objects that live at the end; default 1
//   patience_ms  a callback that has not come when the process ends is a finding when it was registered so long ago;
//                default 10000
//   depth        frames of a stack, at most 48; default 14. 0 takes none
//   budget       percent of the time that may go into unwinding the stacks of calls that are not wrong but may have to
//                be told of later; default 1, after a tenth of a second that is free. Stacks that the thread has met
//                before cost none of it. When it is spent, a new stack is one frame until there is time again
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_VALIDATE_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_VALIDATE_H_

#include "sdk/layers/layer.h"
#include "sdk/layers/validate/report.h"

namespace backplane::layers {

absl::StatusOr<std::unique_ptr<Layer>> MakeValidateLayer(const Options& options);

// For tests: the report of a layer that MakeValidateLayer made.
const Report& ReportOf(const Layer& validate);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_VALIDATE_H_
