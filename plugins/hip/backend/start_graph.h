// Kernels and copies that are started together, as a graph of the runtime.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_START_GRAPH_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_START_GRAPH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "plugins/hip/backend/device.h"

namespace backplane::hip {

// Kernels and copies that are to be started on one stream, one after another. Its shape is what they are, without the
// addresses and numbers that they take.
class StartSequence {
 public:
  struct Start {
    int function = kCopy;  // the number of a kernel, as of Queue::Launch
    uint32_t blocks = 0, threads = 0;
    size_t first = 0, count = 0;  // its arguments; those of a copy are the destination and the source
    size_t bytes = 0;             // of a copy
  };
  static constexpr int kCopy = -1;  // a copy within the device

  void AddKernel(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments);
  void AddCopy(const void* from, void* to, size_t bytes);
  void Clear();

  size_t size() const { return starts_.size(); }
  absl::Span<const Start> starts() const { return starts_; }
  absl::Span<void* const> ArgumentsOf(const Start& start) const {
    return absl::MakeConstSpan(arguments_).subspan(start.first, start.count);
  }
  uint64_t HashShape() const;
  uint64_t HashArguments() const;
  bool HasShapeOf(const StartSequence& other) const;
  bool HasArgumentsOf(const StartSequence& other) const { return arguments_ == other.arguments_; }

 private:
  std::vector<Start> starts_;
  std::vector<void*> arguments_;
};

// A sequence as a graph that can be launched often, also with other arguments. Used by one thread at a time, with its
// device as the current one, except that any thread may destroy it. No launch may be under way then.
class StartGraph {
 public:
  // Adds the number of nodes to *nodes until the graph is destroyed. An error leaves nothing behind.
  static absl::StatusOr<std::shared_ptr<StartGraph>> Make(const HipApi& api, int device, const LoadedKernels& kernels,
                                                          StartSequence sequence, std::atomic<int64_t>* nodes);
  ~StartGraph();
  StartGraph(const StartGraph&) = delete;
  StartGraph& operator=(const StartGraph&) = delete;

  const StartSequence& sequence() const { return sequence_; }
  // Returns in how many nodes the arguments differ from those of a sequence of the same shape; nullopt if the runtime
  // cannot change one of them.
  std::optional<size_t> CountChanges(const StartSequence& other) const;
  // Gives the nodes the arguments of a sequence of the same shape. No launch may be under way: versions of the runtimes
  // differ in whether it would get the new arguments. After an error the graph must not be launched.
  absl::Status Update(const StartSequence& other);
  // How many nodes updates have changed so far. AMD's runtime takes memory for each, and frees it with the graph.
  int64_t changed_nodes() const { return changed_nodes_; }
  absl::Status Launch(hipStream_t stream);
  // The stream of the last launch; null: none.
  hipStream_t stream() const { return stream_; }

 private:
  StartGraph(const HipApi& api, int device, const LoadedKernels& kernels, StartSequence sequence,
             std::atomic<int64_t>* nodes);
  absl::Status Build();
  bool Differs(size_t node, const StartSequence& other) const;

  const HipApi& api_;
  const int device_;
  const LoadedKernels& kernels_;
  StartSequence sequence_;
  std::atomic<int64_t>* const nodes_;
  hipGraph_t graph_ = nullptr;  // its nodes name those of the executable
  hipGraphExec_t executable_ = nullptr;
  std::vector<hipGraphNode_t> handles_;
  int64_t changed_nodes_ = 0;
  hipStream_t stream_ = nullptr;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_START_GRAPH_H_
