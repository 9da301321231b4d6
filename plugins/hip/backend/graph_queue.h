// A queue that holds back kernels and copies, so that it can start several of them as a graph.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_GRAPH_QUEUE_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_GRAPH_QUEUE_H_

#include "plugins/hip/backend/graph_cache.h"

namespace backplane::hip {

// Used by one thread. What it holds back when it is destroyed is not started.
class GraphQueue : public Queue {
 public:
  // Starts the work on the stream of `queue`, which must have the kernels of the cache. *uses must not be changed until
  // the work has ended; this queue releases what it has waited for.
  GraphQueue(StreamQueue& queue, GraphCache& graphs, GraphUses* uses) : queue_(queue), graphs_(graphs), uses_(uses) {}

  absl::Status Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) override;
  absl::Status CopyWithin(const void* from, void* to, size_t bytes) override;
  absl::Status CopyFrom(int device, const void* from, void* to, size_t bytes) override;
  absl::Status FillZeros(void* to, size_t bytes) override;
  absl::Status CopyIn(const void* host, void* address, size_t bytes) override;
  absl::Status CopyOut(const void* address, void* host, size_t bytes) override;
  absl::Status Synchronize() override;
  absl::Status Flush() override;
  void MarkBusy() override { queue_.MarkBusy(); }

 private:
  static constexpr size_t kMaxSize = 1024;  // of a sequence

  StreamQueue& queue_;
  GraphCache& graphs_;
  GraphUses* const uses_;
  StartSequence held_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_GRAPH_QUEUE_H_
