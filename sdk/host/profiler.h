// Records what the devices of a plugin do, through the profiler extension that JAX's profiler uses as well.
//
//   BP_ASSIGN_OR_RETURN(Profiler profiler, Profiler::Create(plugin));
//   BP_RETURN_IF_ERROR(profiler.Start());
//   ...                                                                // executions, until their results are ready
//   BP_ASSIGN_OR_RETURN(const DeviceTrace trace, profiler.Stop());
//
// A plugin decides what an event is: an instruction of the optimized program, a kernel, a call of a library. One thread
// at a time may use a Profiler.
#ifndef BACKPLANE_SDK_HOST_PROFILER_H_
#define BACKPLANE_SDK_HOST_PROFILER_H_

#include <string>
#include <vector>

#include "api/extensions/profiler.h"
#include "sdk/host/loader.h"

namespace backplane::host {

struct TraceEvent {
  std::string name;
  std::string program;                    // the module; empty if the plugin does not report it
  bool is_operation = false;              // an instruction of a program; otherwise a program or something else
  int64_t start_ps = 0, duration_ps = 0;  // picoseconds since 1970, and picoseconds
};

struct TraceLine {
  std::string name;  // such as "Operations (thread 1)"
  std::vector<TraceEvent> events;
};

struct TracePlane {
  std::string name;  // a device, such as "/device:CUSTOM:cpu:0", or the plugin's threads on the host
  std::vector<TraceLine> lines;
};

struct DeviceTrace {
  std::vector<TracePlane> planes;
  std::vector<std::string> warnings;  // of the plugin, such as that it dropped events
};

// Reads a serialized XSpace; field numbers are those of the published xplane.proto. Returns INVALID_ARGUMENT for
// malformed bytes.
absl::StatusOr<DeviceTrace> ParseXSpace(absl::string_view bytes);

class Profiler {
 public:
  // Returns UNIMPLEMENTED if the plugin has no profiler extension.
  static absl::StatusOr<Profiler> Create(const Plugin& plugin);
  Profiler(Profiler&& other) noexcept;
  Profiler& operator=(Profiler&& other) = delete;
  ~Profiler();

  absl::Status Start();
  // Ends the recording and returns the events since Start.
  absl::StatusOr<DeviceTrace> Stop();

 private:
  Profiler(const PLUGIN_Profiler_Api* api, PLUGIN_Profiler* profiler) : api_(api), profiler_(profiler) {}

  const PLUGIN_Profiler_Api* api_;
  PLUGIN_Profiler* profiler_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_PROFILER_H_
