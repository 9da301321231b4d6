#include "plugins/hip/emulated_runtime/capture.h"

#include <algorithm>
#include <set>
#include <utility>

namespace backplane::hip::emulated {

bool Capture::is_valid() const {
  MutexLock lock(mu_);
  return valid_;
}

void Capture::Invalidate() {
  MutexLock lock(mu_);
  valid_ = false;
}

hipError_t Capture::Add(const Stream& stream, NodeKind kind, Prepared prepared) {
  MutexLock lock(mu_);
  if (!valid_) return hipErrorStreamCaptureInvalidated;
  std::vector<GraphNode*>& last = last_[&stream];
  last = {graph_->Add(kind, &stream.device(), std::move(prepared), std::move(last)).get()};
  return hipSuccess;
}

std::vector<GraphNode*> Capture::FindLastNodes(const Stream& stream) const {
  MutexLock lock(mu_);
  const auto found = last_.find(&stream);
  return found == last_.end() ? std::vector<GraphNode*>() : found->second;
}

void Capture::Order(const std::shared_ptr<Stream>& stream, const std::vector<GraphNode*>& nodes) {
  MutexLock lock(mu_);
  if (stream.get() != origin_ && last_.find(stream.get()) == last_.end()) joined_.push_back(stream);
  std::vector<GraphNode*>& last = last_[stream.get()];
  for (GraphNode* node : nodes) {
    if (std::find(last.begin(), last.end(), node) == last.end()) last.push_back(node);
  }
}

bool Capture::IsJoined() const {
  MutexLock lock(mu_);
  std::set<const GraphNode*> reached;
  std::vector<const GraphNode*> pending;
  if (const auto found = last_.find(origin_); found != last_.end()) {
    pending.assign(found->second.begin(), found->second.end());
  }
  while (!pending.empty()) {
    const GraphNode* node = pending.back();
    pending.pop_back();
    if (!reached.insert(node).second) continue;
    pending.insert(pending.end(), node->dependencies.begin(), node->dependencies.end());
  }
  for (const auto& [stream, nodes] : last_) {
    for (const GraphNode* node : nodes) {
      if (reached.count(node) == 0) return false;
    }
  }
  return true;
}

std::shared_ptr<Graph> Capture::Finish() {
  std::vector<std::shared_ptr<Stream>> joined;
  std::shared_ptr<Graph> graph;
  {
    MutexLock lock(mu_);
    joined.swap(joined_);
    graph = graph_;
  }
  for (const std::shared_ptr<Stream>& stream : joined) stream->set_capture(nullptr);
  return graph;
}

}  // namespace backplane::hip::emulated
