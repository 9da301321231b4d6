// Graphs: operations with dependencies, recorded once and launched often.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_GRAPH_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_GRAPH_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "plugins/hip/emulated_runtime/module.h"
#include "plugins/hip/emulated_runtime/stream.h"
#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip::emulated {

enum class NodeKind { kKernel, kCopy, kFill, kEmpty, kHost };

struct GraphNode {
  NodeKind kind = NodeKind::kEmpty;
  std::string text;
  Action action;  // empty for kEmpty
  Device* device = nullptr;
  std::vector<GraphNode*> dependencies;  // of the same graph
};

// Thread-safe.
class Graph {
 public:
  // Adds a node behind `dependencies`, which are nodes of this graph.
  std::shared_ptr<GraphNode> Add(NodeKind kind, Device* device, Prepared prepared,
                                 std::vector<GraphNode*> dependencies);
  bool Contains(const GraphNode* node) const;
  // Returns all nodes, each after those on which it depends.
  std::vector<std::shared_ptr<GraphNode>> Nodes() const;
  // Keep the handles of nodes that were given out; they end with the graph.
  void AddHandle(hipGraphNode_t handle);
  std::vector<hipGraphNode_t> Handles() const;

 private:
  mutable Mutex mu_;
  std::vector<std::shared_ptr<GraphNode>> nodes_ ABSL_GUARDED_BY(mu_);
  std::vector<hipGraphNode_t> handles_ ABSL_GUARDED_BY(mu_);
};

// A graph that can be launched. Thread-safe.
class GraphExecutable {
 public:
  explicit GraphExecutable(const Graph& graph);
  // Replaces what a node does, for later launches. Returns false if the node is not in the graph or is of another kind.
  bool Replace(const GraphNode* node, NodeKind kind, Prepared prepared);
  // Returns an operation that runs all nodes, one after another. On a GPU, nodes without a path of dependencies between
  // them may run at the same time, so the order of their accesses is checked as that of streams is.
  Prepared PrepareLaunch() const;

 private:
  struct Step {
    NodeKind kind;
    std::string text;
    Action action;
  };
  std::vector<std::shared_ptr<GraphNode>> originals_;             // keep their addresses, which identify nodes
  std::vector<std::shared_ptr<const std::vector<bool>>> before_;  // the nodes before each, by index
  mutable Mutex mu_;
  std::vector<std::shared_ptr<const Step>> steps_ ABSL_GUARDED_BY(mu_);  // in order, by index of originals_
};

// Counts the captures that forbid unsafe calls. Thread-safe.
class Captures {
 public:
  void Begin(hipStreamCaptureMode mode);
  void End(hipStreamCaptureMode mode);
  // Whether a capture of any thread in the global mode is under way, or one of this thread in the mode of threads.
  bool ForbidUnsafeCalls() const;

 private:
  mutable Mutex mu_;
  int global_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_GRAPH_H_
