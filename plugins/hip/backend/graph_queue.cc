#include "plugins/hip/backend/graph_queue.h"

#include "core/types/status_macros.h"

namespace backplane::hip {

absl::Status GraphQueue::Flush() {
  if (held_.size() == 0) return absl::OkStatus();
  const absl::Status status = graphs_.Start(queue_, held_, uses_);
  held_.Clear();
  return status;
}

absl::Status GraphQueue::Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) {
  if (!graphs_.CanHold(function)) {
    RETURN_IF_ERROR(Flush());
    return queue_.Launch(function, blocks, threads, arguments);
  }
  held_.AddKernel(function, blocks, threads, arguments);
  return held_.size() < kMaxSize ? absl::OkStatus() : Flush();
}

absl::Status GraphQueue::CopyWithin(const void* from, void* to, size_t bytes) {
  held_.AddCopy(from, to, bytes);
  return held_.size() < kMaxSize ? absl::OkStatus() : Flush();
}

absl::Status GraphQueue::CopyFrom(int device, const void* from, void* to, size_t bytes) {
  RETURN_IF_ERROR(Flush());
  return queue_.CopyFrom(device, from, to, bytes);
}

absl::Status GraphQueue::FillZeros(void* to, size_t bytes) {
  RETURN_IF_ERROR(Flush());
  return queue_.FillZeros(to, bytes);
}

absl::Status GraphQueue::CopyIn(const void* host, void* address, size_t bytes) {
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(queue_.CopyIn(host, address, bytes));
  uses_->clear();  // it has waited for the stream
  return absl::OkStatus();
}

absl::Status GraphQueue::CopyOut(const void* address, void* host, size_t bytes) {
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(queue_.CopyOut(address, host, bytes));
  uses_->clear();
  return absl::OkStatus();
}

absl::Status GraphQueue::Synchronize() {
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(queue_.Synchronize());
  uses_->clear();
  return absl::OkStatus();
}

}  // namespace backplane::hip
