// The layer `trace`: records every call with its thread, duration and sizes, and the asynchronous spans of executions
// and copies. It writes a Chrome/Perfetto trace (JSON) and an HTML page without external references.
//
// Options (manifest, or BACKPLANE_TRACE_<NAME>):
//   file    the JSON file; default backplane_trace.%p.json; "none" for none
//   html    the page; default: the name of the JSON file with .html; "none" for none
//   limit   the largest number of events, 24 to 48 bytes each; default 4000000. Further events are counted
//   spans   0: no asynchronous spans, so that the layer makes no additional calls of the target; default 1
//
// Both files are replaced when the process ends and at each flush; a reader never sees an incomplete file. The spans
// need additional calls: an OnReady on the event that the host requested, or on the readiness of a buffer.
#ifndef BACKPLANE_SDK_LAYERS_TRACE_TRACE_H_
#define BACKPLANE_SDK_LAYERS_TRACE_TRACE_H_

#include "sdk/layers/layer.h"

namespace backplane::layers {

absl::StatusOr<std::unique_ptr<Layer>> MakeTraceLayer(const Options& options);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_TRACE_TRACE_H_
