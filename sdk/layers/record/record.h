// The layer `record`: writes all calls of the host to a file (session_file.h). `backplane replay` repeats them on any
// plugin, without the host.
//
// Options (BACKPLANE_RECORD_<NAME>, or in the manifest):
//   file         default backplane-%p.bprec; %p stands for the process id. If another recorder is writing the file,
//                the name is name.2.bprec, and so on
//   data         all (default): the data that the host wrote and read. inputs: the data that it wrote, and digests of
//                what it read. none: digests only, so the session can be inspected but not replayed
//   compression  zstd level for programs and data, 0 to 19; default 1; 0: none
//   limit        the largest size of the file in bytes; recording then stops and the file says so; default none
//
// The data of a read is recorded just before the host learns that the read is complete: in the thread that waits for
// the event, or before its callback. So nothing is copied, and calls stay as asynchronous as they were. The layer needs
// memory for a few pieces of session_file.h per thread, and one small entry per live object.
//
// Operations that depend on the process of the session are recorded as obstacles: handlers of custom calls, callbacks
// of send and receive, memory that the host and the plugin share, transfers to other processes.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_RECORD_H_
#define BACKPLANE_SDK_LAYERS_RECORD_RECORD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sdk/layers/layer.h"

namespace backplane::layers {

absl::StatusOr<std::unique_ptr<Layer>> MakeRecordLayer(const Options& options);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_RECORD_RECORD_H_
