#include "sdk/shim/copy_stream.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

PJRT_CopyToDeviceStream::PJRT_CopyToDeviceStream(void* destination, int64_t bytes, int64_t granule,
                                                 backplane::Event complete)
    : destination_(static_cast<char*>(destination)), total_(bytes), granule_(granule), complete_(std::move(complete)) {
  if (total_ == 0) complete_.Set();
}

PJRT_CopyToDeviceStream::~PJRT_CopyToDeviceStream() {
  complete_.Set(absl::AbortedError(
      absl::StrCat("receive: the stream ended after ", current_, " of ", total_, " bytes")));  // ignored when complete
}

int64_t PJRT_CopyToDeviceStream::current() const {
  backplane::MutexLock lock(mu_);
  return current_;
}

absl::Status PJRT_CopyToDeviceStream::Add(const PJRT_Chunk& chunk) {
  bool done = false;
  {
    backplane::MutexLock lock(mu_);
    const int64_t left = total_ - current_;
    if (chunk.size > static_cast<uint64_t>(left)) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk: ", chunk.size, " bytes, the stream takes ", left, " more of ", total_));
    }
    if (static_cast<int64_t>(chunk.size) % granule_ != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk: ", chunk.size, " bytes are no multiple of the granule of ", granule_));
    }
    if (chunk.size > 0) std::memcpy(destination_ + current_, chunk.data, chunk.size);
    current_ += static_cast<int64_t>(chunk.size);
    done = current_ == total_;
  }
  if (done) complete_.Set();
  return absl::OkStatus();
}

namespace backplane::shim {

absl::Status CopyToDeviceStream_Destroy(PJRT_CopyToDeviceStream_Destroy_Args& a) {
  delete a.stream;
  return absl::OkStatus();
}

absl::Status CopyToDeviceStream_AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args& a) {
  BP_REQUIRE(a.stream);
  BP_REQUIRE(a.chunk);
  if (a.chunk->size > 0) BP_REQUIRE(a.chunk->data);
  absl::Status status = a.stream->Add(*a.chunk);
  if (a.chunk->deleter != nullptr) a.chunk->deleter(a.chunk->data, a.chunk->deleter_arg);
  a.transfer_complete = NewEvent(Event::Ready(std::move(status)));
  return absl::OkStatus();
}

absl::Status CopyToDeviceStream_TotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args& a) {
  BP_REQUIRE(a.stream);
  a.total_bytes = a.stream->total();
  return absl::OkStatus();
}

absl::Status CopyToDeviceStream_GranuleSize(PJRT_CopyToDeviceStream_GranuleSize_Args& a) {
  BP_REQUIRE(a.stream);
  a.granule_size_in_bytes = a.stream->granule();
  return absl::OkStatus();
}

absl::Status CopyToDeviceStream_CurrentBytes(PJRT_CopyToDeviceStream_CurrentBytes_Args& a) {
  BP_REQUIRE(a.stream);
  a.current_bytes = a.stream->current();
  return absl::OkStatus();
}

}  // namespace backplane::shim
