// The layer `validate`: finds misuse of the API by the host, and violations by the plugin.
//
// Findings (docs/layers.md explains each): use-after-destroy, double-destroy, unknown-handle, destroy-of-borrowed,
// use-after-delete, use-after-donate, client-destroyed-early, leak, unset-out-field, wrong-struct-size,
// callback-never-called. Each is reported once per call site, with the stack of the call and of earlier calls on the
// object.
//
// Options (manifest, or BACKPLANE_VALIDATE_<NAME>):
//   file         the output: "stderr" (the default), "none", or a path (%p is the process id); a file also gets a last
//                line if nothing was found
//   json         a path for all findings as JSON, written at the end; default none
//   refuse       1: a call with a destroyed or unknown handle returns INVALID_ARGUMENT and does not reach the plugin,
//                which might crash. Default 0: the layer changes nothing
//   leaks        0: does not report objects that are alive at the end; default 1
//   patience_ms  a callback that has not run when the process ends is reported if it was registered at least this long
//                ago; default 10000
//   depth        frames per stack trace, at most 48; default 14. 0: no stack traces
//   budget       percentage of the time for unwinding the stacks of correct calls that a later finding may show;
//                default 1, in addition to a tenth of a second. Stacks that the thread has had before need none of it.
//                If the budget is exhausted, a new stack has one frame
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_VALIDATE_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_VALIDATE_H_

#include "sdk/layers/layer.h"
#include "sdk/layers/validate/report.h"

namespace backplane::layers {

absl::StatusOr<std::unique_ptr<Layer>> MakeValidateLayer(const Options& options);

// For tests: returns the report of a layer that MakeValidateLayer created.
const Report& GetReport(const Layer& validate);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_VALIDATE_H_
