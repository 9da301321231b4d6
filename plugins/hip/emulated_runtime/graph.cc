#include "plugins/hip/emulated_runtime/graph.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace backplane::hip::emulated {
namespace {
// Captures of this thread in the mode of threads.
thread_local int captures_of_this_thread = 0;
}  // namespace

std::shared_ptr<GraphNode> Graph::Add(NodeKind kind, Device* device, Prepared prepared,
                                      std::vector<GraphNode*> dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->kind = kind;
  node->device = device;
  node->text = std::move(prepared.text);
  node->action = std::move(prepared.action);
  node->dependencies = std::move(dependencies);
  MutexLock lock(mu_);
  nodes_.push_back(node);
  return node;
}

bool Graph::Contains(const GraphNode* node) const {
  MutexLock lock(mu_);
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const std::shared_ptr<GraphNode>& other) { return other.get() == node; });
}

std::vector<std::shared_ptr<GraphNode>> Graph::Nodes() const {
  // A node can only depend on nodes that were added before it, so the order of addition is one of the dependencies.
  MutexLock lock(mu_);
  return nodes_;
}

void Graph::AddHandle(hipGraphNode_t handle) {
  MutexLock lock(mu_);
  handles_.push_back(handle);
}

std::vector<hipGraphNode_t> Graph::Handles() const {
  MutexLock lock(mu_);
  return handles_;
}

GraphExecutable::GraphExecutable(const Graph& graph) : originals_(graph.Nodes()) {
  std::map<const GraphNode*, size_t> indices;
  for (size_t i = 0; i < originals_.size(); ++i) {
    auto before = std::make_shared<std::vector<bool>>(originals_.size(), false);
    for (const GraphNode* dependency : originals_[i]->dependencies) {
      const size_t index = indices.at(dependency);  // was added before this node
      (*before)[index] = true;
      for (size_t k = 0; k < index; ++k) {
        if ((*before_[index])[k]) (*before)[k] = true;
      }
    }
    indices.emplace(originals_[i].get(), i);
    before_.push_back(std::move(before));
  }
  MutexLock lock(mu_);
  for (const std::shared_ptr<GraphNode>& node : originals_) {
    steps_.push_back(std::make_shared<const Step>(Step{node->kind, node->text, node->action}));
  }
}

bool GraphExecutable::Replace(const GraphNode* node, NodeKind kind, Prepared prepared) {
  MutexLock lock(mu_);
  for (size_t i = 0; i < originals_.size(); ++i) {
    if (originals_[i].get() != node) continue;
    if (steps_[i]->kind != kind) return false;
    steps_[i] = std::make_shared<const Step>(Step{kind, std::move(prepared.text), std::move(prepared.action)});
    return true;
  }
  return false;
}

Prepared GraphExecutable::PrepareLaunch() const {
  MutexLock lock(mu_);
  Prepared prepared;
  prepared.text = absl::StrCat("hipGraphLaunch of ", steps_.size(), " nodes");
  prepared.action = [steps = steps_, before = before_](const OperationPtr& operation) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!steps[i]->action) continue;
      auto within = std::make_shared<Operation>(*operation);
      within->text = absl::StrCat(steps[i]->text, " (node ", i, ") within ", operation->text);
      within->node = static_cast<int>(i);
      within->nodes_before = before[i];
      if (hipError_t error = steps[i]->action(within); error != hipSuccess) return error;
    }
    return hipSuccess;
  };
  return prepared;
}

void Captures::Begin(hipStreamCaptureMode mode) {
  MutexLock lock(mu_);
  if (mode == hipStreamCaptureModeGlobal) ++global_;
  if (mode == hipStreamCaptureModeThreadLocal) ++captures_of_this_thread;
}

void Captures::End(hipStreamCaptureMode mode) {
  MutexLock lock(mu_);
  if (mode == hipStreamCaptureModeGlobal) --global_;
  if (mode == hipStreamCaptureModeThreadLocal) --captures_of_this_thread;
}

bool Captures::ForbidUnsafeCalls() const {
  MutexLock lock(mu_);
  return global_ > 0 || captures_of_this_thread > 0;
}

}  // namespace backplane::hip::emulated
