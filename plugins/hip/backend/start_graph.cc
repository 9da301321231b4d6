#include "plugins/hip/backend/start_graph.h"

#include <algorithm>
#include <utility>

#include "core/types/status_macros.h"

namespace backplane::hip {
namespace {

uint64_t MixHash(uint64_t hash, uint64_t value) {
  hash ^= value;
  hash *= 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

// The parameters of a kernel node, and what they point to. The runtime copies the arguments.
struct KernelNode {
  KernelNode(const LoadedKernels& kernels, const StartSequence::Start& start, absl::Span<void* const> arguments)
      : bytes(arguments.size() * sizeof(void*)) {
    const LoadedKernels::Function& function = kernels.function(start.function);
    extra[1] = const_cast<void**>(arguments.data());
    parameters.func = function.handle;
    parameters.gridDim.x = start.blocks;
    parameters.blockDim.x = start.threads;
    parameters.sharedMemBytes = function.dynamic_shared_bytes;
    parameters.extra = extra;
  }
  KernelNode(const KernelNode&) = delete;
  KernelNode& operator=(const KernelNode&) = delete;

  size_t bytes;
  void* extra[5] = {kLaunchParamBufferPointer, nullptr, kLaunchParamBufferSize, &bytes, kLaunchParamEnd};
  hipKernelNodeParams parameters;
};

}  // namespace

void StartSequence::AddKernel(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) {
  starts_.push_back({function, blocks, threads, arguments_.size(), arguments.size(), 0});
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
}

void StartSequence::AddCopy(const void* from, void* to, size_t bytes) {
  starts_.push_back({kCopy, 0, 0, arguments_.size(), 2, bytes});
  arguments_.push_back(to);
  arguments_.push_back(const_cast<void*>(from));
}

void StartSequence::Clear() {
  starts_.clear();
  arguments_.clear();
}

uint64_t StartSequence::HashShape() const {
  uint64_t hash = starts_.size();
  for (const Start& s : starts_) {
    hash = MixHash(hash, static_cast<uint64_t>(static_cast<uint32_t>(s.function)) << 32 | s.blocks);
    hash = MixHash(hash, uint64_t{s.threads} << 32 | s.count);
    hash = MixHash(hash, s.bytes);
  }
  return hash;
}

uint64_t StartSequence::HashArguments() const {
  uint64_t hash = arguments_.size();
  for (const void* a : arguments_) hash = MixHash(hash, reinterpret_cast<uintptr_t>(a));
  return hash;
}

bool StartSequence::HasShapeOf(const StartSequence& other) const {
  return std::equal(starts_.begin(), starts_.end(), other.starts_.begin(), other.starts_.end(),
                    [](const Start& a, const Start& b) {
                      return a.function == b.function && a.blocks == b.blocks && a.threads == b.threads &&
                             a.first == b.first && a.count == b.count && a.bytes == b.bytes;
                    });
}

StartGraph::StartGraph(const HipApi& api, int device, const LoadedKernels& kernels, StartSequence sequence,
                       std::atomic<int64_t>* nodes)
    : api_(api), device_(device), kernels_(kernels), sequence_(std::move(sequence)), nodes_(nodes) {
  nodes_->fetch_add(static_cast<int64_t>(sequence_.size()));
}

StartGraph::~StartGraph() {
  nodes_->fetch_sub(static_cast<int64_t>(sequence_.size()));
  const ScopedDevice current(api_, device_);
  if (executable_ != nullptr) (void)api_.hipGraphExecDestroy(executable_);
  if (graph_ != nullptr) (void)api_.hipGraphDestroy(graph_);
}

absl::StatusOr<std::shared_ptr<StartGraph>> StartGraph::Make(const HipApi& api, int device,
                                                             const LoadedKernels& kernels, StartSequence sequence,
                                                             std::atomic<int64_t>* nodes) {
  std::shared_ptr<StartGraph> made(new StartGraph(api, device, kernels, std::move(sequence), nodes));
  RETURN_IF_ERROR(made->Build());
  return made;
}

absl::Status StartGraph::Build() {
  RETURN_IF_ERROR(ToStatus(api_.hipGraphCreate(&graph_, 0), "hipGraphCreate"));
  for (const StartSequence::Start& s : sequence_.starts()) {
    const absl::Span<void* const> arguments = sequence_.ArgumentsOf(s);
    const hipGraphNode_t* before = handles_.empty() ? nullptr : &handles_.back();
    const size_t count = handles_.empty() ? 0 : 1;
    hipGraphNode_t node = nullptr;
    if (s.function == StartSequence::kCopy) {
      RETURN_IF_ERROR(ToStatus(api_.hipGraphAddMemcpyNode1D(&node, graph_, before, count, arguments[0], arguments[1],
                                                            s.bytes, hipMemcpyDeviceToDevice),
                               "hipGraphAddMemcpyNode1D"));
    } else {
      const KernelNode kernel(kernels_, s, arguments);
      RETURN_IF_ERROR(ToStatus(api_.hipGraphAddKernelNode(&node, graph_, before, count, &kernel.parameters),
                               "hipGraphAddKernelNode"));
    }
    handles_.push_back(node);
  }
  return ToStatus(api_.hipGraphInstantiate(&executable_, graph_, nullptr, nullptr, 0), "hipGraphInstantiate");
}

bool StartGraph::Differs(size_t node, const StartSequence& other) const {
  const absl::Span<void*const> now = sequence_.ArgumentsOf(sequence_.starts()[node]),
                               then = other.ArgumentsOf(other.starts()[node]);
  return !std::equal(now.begin(), now.end(), then.begin());
}

std::optional<size_t> StartGraph::CountChanges(const StartSequence& other) const {
  size_t changes = 0;
  for (size_t k = 0; k < sequence_.size(); ++k) {
    if (!Differs(k, other)) continue;
    const bool is_copy = sequence_.starts()[k].function == StartSequence::kCopy;
    if (is_copy && api_.hipGraphExecMemcpyNodeSetParams1D == nullptr) return std::nullopt;
    ++changes;
  }
  return changes;
}

absl::Status StartGraph::Update(const StartSequence& other) {
  StartSequence next = other;
  for (size_t k = 0; k < sequence_.size(); ++k) {
    if (!Differs(k, other)) continue;
    const StartSequence::Start& s = other.starts()[k];
    const absl::Span<void* const> arguments = other.ArgumentsOf(s);
    ++changed_nodes_;
    if (s.function == StartSequence::kCopy) {
      RETURN_IF_ERROR(ToStatus(api_.hipGraphExecMemcpyNodeSetParams1D(executable_, handles_[k], arguments[0],
                                                                      arguments[1], s.bytes, hipMemcpyDeviceToDevice),
                               "hipGraphExecMemcpyNodeSetParams1D"));
    } else {
      const KernelNode kernel(kernels_, s, arguments);
      RETURN_IF_ERROR(ToStatus(api_.hipGraphExecKernelNodeSetParams(executable_, handles_[k], &kernel.parameters),
                               "hipGraphExecKernelNodeSetParams"));
    }
  }
  sequence_ = std::move(next);
  return absl::OkStatus();
}

absl::Status StartGraph::Launch(hipStream_t stream) {
  stream_ = stream;
  return ToStatus(api_.hipGraphLaunch(executable_, stream), "starting kernels");
}

}  // namespace backplane::hip
