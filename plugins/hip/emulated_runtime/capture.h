// Captures, which turn the operations of streams into a graph.
//
// A capture begins on one stream. Other streams join it by waiting for an event that was recorded in it, and must be
// joined again before it ends. What would make the graph depend on work outside of it is an error of the numbers 900 to
// 908 and makes the capture invalid.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_CAPTURE_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_CAPTURE_H_

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "plugins/hip/emulated_runtime/graph.h"
#include "plugins/hip/emulated_runtime/stream.h"

namespace backplane::hip::emulated {

// Thread-safe.
class Capture {
 public:
  Capture(const Stream* origin, hipStreamCaptureMode mode)
      : origin_(origin), mode_(mode), thread_(std::this_thread::get_id()) {}

  const Stream* origin() const { return origin_; }
  hipStreamCaptureMode mode() const { return mode_; }
  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }

  bool is_valid() const;
  void Invalidate();
  // Appends an operation of a stream that takes part.
  hipError_t Add(const Stream& stream, NodeKind kind, Prepared prepared);
  // Returns the nodes that come last on the stream.
  std::vector<GraphNode*> FindLastNodes(const Stream& stream) const;
  // Orders the stream's next operations after `nodes` as well. A stream that takes no part yet joins.
  void Order(const std::shared_ptr<Stream>& stream, const std::vector<GraphNode*>& nodes);
  // Whether every node is before the end of the origin.
  bool IsJoined() const;
  // Ends the capture for all streams and returns the graph.
  std::shared_ptr<Graph> Finish();

 private:
  const Stream* const origin_;
  const hipStreamCaptureMode mode_;
  const std::thread::id thread_;
  mutable Mutex mu_;
  bool valid_ ABSL_GUARDED_BY(mu_) = true;
  std::shared_ptr<Graph> graph_ ABSL_GUARDED_BY(mu_) = std::make_shared<Graph>();
  std::map<const Stream*, std::vector<GraphNode*>> last_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Stream>> joined_ ABSL_GUARDED_BY(mu_);  // besides the origin
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_CAPTURE_H_
