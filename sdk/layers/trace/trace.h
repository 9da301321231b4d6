// The layer `trace`: every call with its thread, duration and sizes, and the asynchronous spans of executions and
// copies, as a Chrome/Perfetto trace (JSON) and as one HTML page that needs nothing else.
//
// Options (manifest, or BACKPLANE_TRACE_<NAME>):
//   file    the JSON; default backplane_trace.%p.json; "none" for none
//   html    the page; default: the JSON's name with .html; "none" for none
//   limit   most events kept, 24 to 48 bytes each; default 4000000. What comes later is counted
//   spans   0: no asynchronous spans, so that the layer makes no calls of its own to the target; default 1
//
// Both files are written when the process ends and at each flush, whole each time; a reader never meets half a file.
// The spans cost calls of our own: an OnReady on the event that the host asked for, or on the readiness of a buffer.
#ifndef BACKPLANE_SDK_LAYERS_TRACE_TRACE_H_
#define BACKPLANE_SDK_LAYERS_TRACE_TRACE_H_

#include "sdk/layers/layer.h"

namespace backplane::layers {

absl::StatusOr<std::unique_ptr<Layer>> MakeTraceLayer(const Options& options);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_TRACE_TRACE_H_
