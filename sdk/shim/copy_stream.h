// PJRT_CopyToDeviceStream: the stream to which a receive callback of the host writes a value, chunk by chunk.
#ifndef BACKPLANE_SDK_SHIM_COPY_STREAM_H_
#define BACKPLANE_SDK_SHIM_COPY_STREAM_H_

#include <cstdint>

#include "api/pjrt_c_api.h"
#include "base/mutex.h"
#include "sdk/backend/event.h"

struct PJRT_CopyToDeviceStream {
  // Writes `bytes` bytes to `destination`, which must live until `complete` is set: with OK by the last chunk, or with
  // an error if the stream is destroyed before.
  PJRT_CopyToDeviceStream(void* destination, int64_t bytes, int64_t granule, backplane::Event complete);
  ~PJRT_CopyToDeviceStream();

  absl::Status Add(const PJRT_Chunk& chunk);
  int64_t current() const;
  int64_t total() const { return total_; }
  int64_t granule() const { return granule_; }

 private:
  mutable backplane::Mutex mu_;
  char* const destination_;
  const int64_t total_, granule_;
  int64_t current_ ABSL_GUARDED_BY(mu_) = 0;
  const backplane::Event complete_;
};

#endif  // BACKPLANE_SDK_SHIM_COPY_STREAM_H_
