// The layer `record`: writes what the host asks of the plugin into one file (session_file.h), from which `backplane
// replay` does it again on any plugin, without the host.
//
// Options (BACKPLANE_RECORD_<NAME>, or in the manifest):
//   file         default backplane-%p.bprec; %p is the process. While somebody writes it: name.2.bprec, and so on
//   data         all (default): what the host wrote and read; inputs: what it wrote, and digests of what it read;
//                none: digests only, for looking at, not for replaying
//   compression  level of zstd for programs and data, 0 to 19; default 1; 0: none
//   limit        bytes the file may have; then recording ends and the file says so; default none
//
// What the host reads is taken at the moment it can learn that the read is complete: in the thread that waits for the
// event, or before its callback. So nothing is copied and the calls stay as asynchronous as they were. Memory: a few
// pieces of session_file.h for each thread, and one small entry for each live object.
//
// What ties a session to its process is written down as an obstacle: handlers of custom calls, callbacks of send and
// receive, memory that the host and the plugin share, transfers to other processes.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_RECORD_H_
#define BACKPLANE_SDK_LAYERS_RECORD_RECORD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sdk/layers/layer.h"

namespace backplane::layers {

absl::StatusOr<std::unique_ptr<Layer>> MakeRecordLayer(const Options& options);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_RECORD_RECORD_H_
