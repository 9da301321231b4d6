// Writes the files of a trace.
#ifndef BACKPLANE_SDK_LAYERS_TRACE_WRITE_H_
#define BACKPLANE_SDK_LAYERS_TRACE_WRITE_H_

#include <string>

#include "absl/status/status.h"
#include "sdk/layers/trace/events.h"

namespace backplane::layers {

struct TraceHead {
  std::string title;  // the plugin
  int64_t start_ns;   // the time in ReadMonotonicNanos that becomes 0
  int64_t process_id;
};

// Returns a trace for chrome://tracing and ui.perfetto.dev: calls as complete events of their thread, spans as
// asynchronous pairs.
std::string TraceJson(const EventLog& log, const TraceHead& head);
// Returns an HTML page that shows the same calls and spans.
std::string TraceHtml(const EventLog& log, const TraceHead& head);

// Replaces the file in one step: a reader sees the old or the new contents. Returns UNAVAILABLE with the system's
// reason.
absl::Status WriteFileAtomically(const std::string& path, const std::string& contents);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_TRACE_WRITE_H_
