// Collectives whose group has members in several nodes. The data of other nodes is received first; then the operation
// is that of host_collective.cc, on local results.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/collectives/host_collective.h"
#include "sdk/backend/workers.h"

namespace backplane {
namespace {

// Arrays of fewer bytes are reduced by every node, which takes one step. Larger ones are divided among the nodes, which
// takes two steps and moves less.
constexpr int64_t kReducedByAllBytes = 32768;
// The part of an array that a node reduces at a time. While its result travels, the next part is sent.
constexpr int64_t kRangeBytes = 2 << 20;
constexpr int64_t kReducedBlockBytes = 16384;

const std::byte* At(const void* p, int64_t offset) { return static_cast<const std::byte*>(p) + offset; }
std::byte* At(void* p, int64_t offset) { return static_cast<std::byte*>(p) + offset; }

// Memory that receives data of other nodes; not initialized.
class Scratch {
 public:
  std::byte* Allocate(int64_t bytes) {
    blocks_.emplace_back(new std::byte[static_cast<size_t>(std::max<int64_t>(bytes, 1))]);
    return blocks_.back().get();
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

// Blocks that are exchanged in one step. Both sides add the blocks for one another in the same order. Small blocks
// travel as one.
class BlockExchange {
 public:
  void Send(int32_t node, const void* data, int64_t bytes) {
    if (bytes > 0) sends_[node].push_back({const_cast<void*>(data), bytes});
  }
  void Receive(int32_t node, void* data, int64_t bytes) {
    if (bytes > 0) receives_[node].push_back({data, bytes});
  }

  absl::Status Run(LaunchExchange& exchange, const ExchangeKey& key, absl::string_view what) const {
    const Workers::Waiting waiting(Workers::Waiting::For::kDevices);
    std::vector<OutgoingPart> out;
    std::vector<IncomingPart> in;
    Scratch packed;
    for (const auto& [node, blocks] : sends_) {
      std::byte* whole = nullptr;
      if (const int64_t bytes = PackedBytes(blocks); bytes > 0) {
        whole = packed.Allocate(bytes);
        int64_t at = 0;
        for (const Block& b : blocks) {
          std::memcpy(whole + at, b.data, static_cast<size_t>(b.bytes));
          at += b.bytes;
        }
        out.push_back({node, 0, whole, bytes});
        continue;
      }
      for (size_t i = 0; i < blocks.size(); ++i)
        out.push_back({node, static_cast<int64_t>(i), blocks[i].data, blocks[i].bytes});
    }
    std::vector<std::pair<const std::vector<Block>*, std::byte*>> unpack;
    for (const auto& [node, blocks] : receives_) {
      if (const int64_t bytes = PackedBytes(blocks); bytes > 0) {
        unpack.emplace_back(&blocks, packed.Allocate(bytes));
        in.push_back({node, 0, unpack.back().second, bytes});
        continue;
      }
      for (size_t i = 0; i < blocks.size(); ++i)
        in.push_back({node, static_cast<int64_t>(i), blocks[i].data, blocks[i].bytes});
    }
    // Nodes start with different peers, so that none is sent to by all at once.
    const int32_t self = exchange.process();
    std::stable_partition(out.begin(), out.end(), [self](const OutgoingPart& p) { return p.process > self; });
    RETURN_IF_ERROR(exchange.Exchange(key, what, out, in));
    for (const auto& [blocks, whole] : unpack) {
      int64_t at = 0;
      for (const Block& b : *blocks) {
        std::memcpy(b.data, whole + at, static_cast<size_t>(b.bytes));
        at += b.bytes;
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Block {
    void* data;
    int64_t bytes;
  };
  // Returns the bytes of the blocks if they travel as one, otherwise 0.
  static int64_t PackedBytes(const std::vector<Block>& blocks) {
    int64_t bytes = 0;
    for (const Block& b : blocks) bytes += b.bytes;
    return blocks.size() > 1 && bytes <= LaunchExchange::kMaxPostedBytes ? bytes : 0;
  }
  std::map<int32_t, std::vector<Block>> sends_, receives_;
};

// Copies the block of one member out of an array that the members divide, so that it is dense.
void PackBlock(std::byte* to, const void* array, int64_t offset, int64_t row, int64_t count, int64_t bytes) {
  for (int64_t r = 0; r < count; ++r)
    std::memcpy(to + r * bytes, At(array, offset + r * row), static_cast<size_t>(bytes));
}
void UnpackBlock(void* array, int64_t offset, int64_t row, const std::byte* from, int64_t count, int64_t bytes) {
  for (int64_t r = 0; r < count; ++r)
    std::memcpy(At(array, offset + r * row), from + r * bytes, static_cast<size_t>(bytes));
}

}  // namespace

absl::Status HostCollective::ExecuteAcrossNodes(Launch& launch, const ExchangeKey& key,
                                                absl::Span<MemberBuffers> members, absl::Span<const int64_t> group,
                                                ParallelFor parallel) const {
  const std::shared_ptr<LaunchExchange> exchange = launch.exchange();
  if (exchange == nullptr) return absl::InternalError(absl::StrCat(name_, ": the launch has no other nodes"));
  NodeGroup g{launch, *exchange, key, group, {}, members};
  for (int64_t process : group) g.nodes.push_back(launch.GetNode(process));
  std::sort(g.nodes.begin(), g.nodes.end());
  g.nodes.erase(std::unique(g.nodes.begin(), g.nodes.end()), g.nodes.end());
  switch (opcode_) {
    case Opcode::kAllReduce: {
      std::vector<size_t> small;
      int64_t phase = 1;
      for (size_t i = 0; i < operands_.size(); ++i) {
        if (operands_[i].elements * operands_[i].width < kReducedByAllBytes) {
          small.push_back(i);
        } else {
          RETURN_IF_ERROR(AllReduceByRanges(g, i, &phase, parallel));
        }
      }
      return small.empty() ? absl::OkStatus() : GatherOperands(g, small, 0, parallel);
    }
    case Opcode::kReduceScatter:
      return ReduceScatterAcrossNodes(g, parallel);
    case Opcode::kAllGather:
      return AllGatherAcrossNodes(g, parallel);
    case Opcode::kAllToAll:
      return AllToAllAcrossNodes(g, parallel);
    default: {
      std::vector<size_t> all(operands_.size());
      for (size_t i = 0; i < all.size(); ++i) all[i] = i;
      return GatherOperands(g, all, 0, parallel);
    }
  }
}

bool HostCollective::NodeNeeds(const NodeGroup& g, int32_t node, size_t source) const {
  if (opcode_ == Opcode::kCollectiveBroadcast) return source == 0;
  if (opcode_ != Opcode::kCollectivePermute) return true;
  for (size_t m = 0; m < g.group.size(); ++m) {
    if (g.GetNode(m) == node && source_of_[static_cast<size_t>(g.group[m])] == g.group[source]) return true;
  }
  return false;
}

// Receives whole operands of the members in other nodes and runs the operation on them.
absl::Status HostCollective::GatherOperands(const NodeGroup& g, absl::Span<const size_t> leaves, int64_t phase,
                                            ParallelFor parallel) const {
  BlockExchange blocks;
  Scratch scratch;
  std::vector<std::vector<const void*>> received(g.members.size());
  for (size_t m = 0; m < g.members.size(); ++m) {
    if (g.IsLocal(m)) {
      for (int32_t node : g.nodes) {
        if (node == g.exchange.process() || !NodeNeeds(g, node, m)) continue;
        for (size_t i : leaves) blocks.Send(node, g.members[m].operands[i], operands_[i].elements * operands_[i].width);
      }
      continue;
    }
    received[m].resize(operands_.size());
    if (!NodeNeeds(g, g.exchange.process(), m)) continue;
    for (size_t i : leaves) {
      const int64_t bytes = operands_[i].elements * operands_[i].width;
      std::byte* to = scratch.Allocate(bytes);
      received[m][i] = to;
      blocks.Receive(g.GetNode(m), to, bytes);
    }
  }
  ExchangeKey key = g.key;
  key.phase = phase;
  RETURN_IF_ERROR(blocks.Run(g.exchange, key, name_));
  for (size_t m = 0; m < g.members.size(); ++m) {
    if (!g.IsLocal(m)) g.members[m].operands = received[m];
  }
  if (opcode_ != Opcode::kAllReduce) return ExecuteForGroup(g.members, g.group, parallel);
  for (size_t i : leaves) RETURN_IF_ERROR(AllReduce(g.members, i, parallel));
  return absl::OkStatus();
}

// Each node reduces a range of the array. In step t it sends the operands of the t-th part of each range to the node
// that reduces the range, and the result of the part before to all.
absl::Status HostCollective::AllReduceByRanges(const NodeGroup& g, size_t leaf, int64_t* phase,
                                               ParallelFor parallel) const {
  const Leaf& l = operands_[leaf];
  const auto count = static_cast<int64_t>(g.nodes.size());
  const int32_t self = g.exchange.process();
  struct Range {
    int64_t first, elements;
  };
  auto range_of = [&](int64_t node) -> Range {
    const int64_t first = l.elements / count * node + std::min(node, l.elements % count);
    return {first, l.elements / count + (node < l.elements % count ? 1 : 0)};
  };
  const int64_t step = std::max<int64_t>(kRangeBytes / l.width, 1);
  const int64_t steps = (range_of(0).elements + step - 1) / step;  // the first range is the longest
  auto part_of = [&](int64_t node, int64_t t) -> Range {
    const Range r = range_of(node);
    const int64_t at = std::clamp<int64_t>(t * step, 0, r.elements), end = std::min((t + 1) * step, r.elements);
    return {r.first + at, std::max<int64_t>(end - at, 0)};
  };
  const int64_t own = std::find(g.nodes.begin(), g.nodes.end(), self) - g.nodes.begin();
  std::vector<size_t> local;
  for (size_t m = 0; m < g.members.size(); ++m) {
    if (g.IsLocal(m)) local.push_back(m);
  }
  void* const result = g.members[local.front()].results[leaf];
  Scratch scratch;
  std::vector<const void*> from(g.members.size());
  const int64_t most = std::min(step, range_of(own).elements) * l.width;
  for (size_t m = 0; m < g.members.size(); ++m) from[m] = g.IsLocal(m) ? nullptr : scratch.Allocate(most);
  for (int64_t t = 0; t <= steps; ++t) {
    BlockExchange blocks;
    const Range mine = t < steps ? part_of(own, t) : Range{0, 0};
    const Range done = t > 0 ? part_of(own, t - 1) : Range{0, 0};
    for (int64_t n = 0; n < count; ++n) {
      if (n == own) continue;
      const int32_t node = g.nodes[static_cast<size_t>(n)];
      const Range theirs = t < steps ? part_of(n, t) : Range{0, 0};
      const Range reduced = t > 0 ? part_of(n, t - 1) : Range{0, 0};
      for (size_t m : local)
        blocks.Send(node, At(g.members[m].operands[leaf], theirs.first * l.width), theirs.elements * l.width);
      blocks.Send(node, At(result, done.first * l.width), done.elements * l.width);
      for (size_t m = 0; m < g.members.size(); ++m) {
        if (g.GetNode(m) == node) blocks.Receive(node, const_cast<void*>(from[m]), mine.elements * l.width);
      }
      blocks.Receive(node, At(result, reduced.first * l.width), reduced.elements * l.width);
    }
    ExchangeKey key = g.key;
    key.phase = (*phase)++;
    RETURN_IF_ERROR(blocks.Run(g.exchange, key, name_));
    if (mine.elements == 0) continue;
    for (size_t m : local) from[m] = At(g.members[m].operands[leaf], mine.first * l.width);
    const int64_t block = std::max<int64_t>(kReducedBlockBytes / l.width, 1),
                  chunks = (mine.elements + block - 1) / block;
    std::vector<absl::Status> errors(static_cast<size_t>(chunks));
    parallel(chunks, [&](int64_t c) {
      const int64_t first = c * block, n = std::min(block, mine.elements - first);
      alignas(64) std::byte sum[kReducedBlockBytes];
      absl::InlinedVector<const void*, 16> operands;
      for (const void* f : from) operands.push_back(At(f, first * l.width));
      errors[static_cast<size_t>(c)] = reducers_[leaf].Reduce(sum, operands, n);
      std::memcpy(At(result, (mine.first + first) * l.width), sum, static_cast<size_t>(n * l.width));
    });
    for (absl::Status& error : errors) RETURN_IF_ERROR(error);
  }
  // The other members of this node get the whole result. Their operands, which may be the same memory, are used up.
  if (local.size() > 1) {
    parallel(static_cast<int64_t>(local.size()) - 1, [&](int64_t m) {
      std::memcpy(g.members[local[static_cast<size_t>(m) + 1]].results[leaf], result,
                  static_cast<size_t>(l.elements * l.width));
    });
  }
  return absl::OkStatus();
}

// Every node receives, of each member elsewhere, the blocks for its own members.
absl::Status HostCollective::ReduceScatterAcrossNodes(const NodeGroup& g, ParallelFor parallel) const {
  const size_t n = g.members.size();
  BlockExchange blocks;
  Scratch scratch;
  std::vector<std::vector<std::vector<const void*>>> from(  // by leaf, target, source
      operands_.size(), std::vector<std::vector<const void*>>(n, std::vector<const void*>(n)));
  for (size_t leaf = 0; leaf < operands_.size(); ++leaf) {
    const BlockLayout layout = GetBlockLayout(results_[leaf]);
    const int64_t bytes = results_[leaf].elements * results_[leaf].width, row = static_cast<int64_t>(n) * layout.bytes;
    for (size_t source = 0; source < n; ++source) {
      for (size_t target = 0; target < n; ++target) {
        const int64_t offset = static_cast<int64_t>(target) * layout.bytes;
        if (g.IsLocal(source)) {
          const void* array = g.members[source].operands[leaf];
          const void* block = bytes == 0 ? array : At(array, offset);
          if (layout.count > 1 && bytes > 0) {
            std::byte* packed = scratch.Allocate(bytes);
            PackBlock(packed, array, offset, row, layout.count, layout.bytes);
            block = packed;
          }
          if (g.IsLocal(target))
            from[leaf][target][source] = block;
          else
            blocks.Send(g.GetNode(target), block, bytes);
        } else if (g.IsLocal(target)) {
          std::byte* to = scratch.Allocate(bytes);
          from[leaf][target][source] = to;
          blocks.Receive(g.GetNode(source), to, bytes);
        }
      }
    }
  }
  RETURN_IF_ERROR(blocks.Run(g.exchange, g.key, name_));
  for (size_t leaf = 0; leaf < operands_.size(); ++leaf) {
    const Leaf& small = results_[leaf];
    const int64_t block = std::max<int64_t>(kReducedBlockBytes / std::max<int64_t>(small.width, 1), 1);
    const int64_t chunks = (small.elements + block - 1) / block;
    for (size_t target = 0; target < n; ++target) {
      if (!g.IsLocal(target) || chunks == 0) continue;
      std::vector<absl::Status> errors(static_cast<size_t>(chunks));
      parallel(chunks, [&](int64_t c) {
        const int64_t first = c * block, count = std::min(block, small.elements - first);
        absl::InlinedVector<const void*, 16> operands;
        for (const void* f : from[leaf][target]) operands.push_back(At(f, first * small.width));
        errors[static_cast<size_t>(c)] =
            reducers_[leaf].Reduce(At(g.members[target].results[leaf], first * small.width), operands, count);
      });
      for (absl::Status& error : errors) RETURN_IF_ERROR(error);
    }
  }
  return absl::OkStatus();
}

// Receives into the result of the first member of this node where the blocks are dense there.
absl::Status HostCollective::AllGatherAcrossNodes(const NodeGroup& g, ParallelFor parallel) const {
  const size_t n = g.members.size();
  BlockExchange blocks;
  Scratch scratch;
  size_t first = 0;
  while (!g.IsLocal(first)) ++first;
  std::vector<std::vector<const void*>> received(n, std::vector<const void*>(operands_.size()));
  for (size_t leaf = 0; leaf < operands_.size(); ++leaf) {
    const BlockLayout layout = GetBlockLayout(operands_[leaf]);
    const int64_t bytes = operands_[leaf].elements * operands_[leaf].width;
    for (size_t source = 0; source < n; ++source) {
      if (g.IsLocal(source)) {
        for (int32_t node : g.nodes) {
          if (node != g.exchange.process()) blocks.Send(node, g.members[source].operands[leaf], bytes);
        }
        continue;
      }
      void* to = layout.count == 1 && bytes > 0
                     ? At(g.members[first].results[leaf], static_cast<int64_t>(source) * bytes)
                     : scratch.Allocate(bytes);
      received[source][leaf] = to;
      blocks.Receive(g.GetNode(source), to, bytes);
    }
  }
  RETURN_IF_ERROR(blocks.Run(g.exchange, g.key, name_));
  for (size_t leaf = 0; leaf < operands_.size(); ++leaf) {
    const BlockLayout layout = GetBlockLayout(operands_[leaf]);
    const int64_t row = static_cast<int64_t>(n) * layout.bytes;
    if (operands_[leaf].elements == 0) continue;
    parallel(static_cast<int64_t>(n), [&](int64_t target) {
      const MemberBuffers& m = g.members[static_cast<size_t>(target)];
      if (m.results.empty()) return;
      for (size_t source = 0; source < n; ++source) {
        const void* block = g.IsLocal(source) ? g.members[source].operands[leaf] : received[source][leaf];
        const int64_t offset = static_cast<int64_t>(source) * layout.bytes;
        if (block == At(m.results[leaf], offset)) continue;  // it was received there
        UnpackBlock(m.results[leaf], offset, row, static_cast<const std::byte*>(block), layout.count, layout.bytes);
      }
    });
  }
  return absl::OkStatus();
}

absl::Status HostCollective::AllToAllAcrossNodes(const NodeGroup& g, ParallelFor parallel) const {
  const size_t n = g.members.size();
  BlockLayout layout;
  if (!tuple_form_) {
    layout = GetBlockLayout(operands_[0]);
    layout.bytes /= static_cast<int64_t>(n);
  }
  const int64_t row = static_cast<int64_t>(n) * layout.bytes;
  BlockExchange blocks;
  Scratch scratch;
  struct Received {
    size_t source, target;
    std::byte* data;
  };
  std::vector<Received> received;
  // The bytes that `source` has for `target`.
  auto block_bytes = [&](size_t source, size_t target) {
    const Leaf& leaf = tuple_form_ ? operands_[target] : operands_[0];
    const int64_t bytes = leaf.elements * leaf.width;
    return tuple_form_ ? bytes : bytes / static_cast<int64_t>(n);
  };
  for (size_t source = 0; source < n; ++source) {
    for (size_t target = 0; target < n; ++target) {
      const int64_t bytes = block_bytes(source, target);
      if (g.IsLocal(source) == g.IsLocal(target) || bytes == 0) continue;
      if (g.IsLocal(target)) {
        std::byte* to = scratch.Allocate(bytes);
        received.push_back({source, target, to});
        blocks.Receive(g.GetNode(source), to, bytes);
      } else if (tuple_form_) {
        blocks.Send(g.GetNode(target), g.members[source].operands[target], bytes);
      } else {
        std::byte* packed = scratch.Allocate(bytes);
        PackBlock(packed, g.members[source].operands[0], static_cast<int64_t>(target) * layout.bytes, row, layout.count,
                  layout.bytes);
        blocks.Send(g.GetNode(target), packed, bytes);
      }
    }
  }
  RETURN_IF_ERROR(blocks.Run(g.exchange, g.key, name_));
  for (size_t target = 0; target < n; ++target) {
    if (!g.IsLocal(target)) continue;
    for (size_t source = 0; source < n; ++source) {
      const int64_t bytes = block_bytes(source, target);
      if (!g.IsLocal(source) || bytes == 0) continue;
      if (tuple_form_) {
        std::memcpy(g.members[target].results[source], g.members[source].operands[target], static_cast<size_t>(bytes));
        continue;
      }
      for (int64_t r = 0; r < layout.count; ++r) {
        std::memcpy(At(g.members[target].results[0], static_cast<int64_t>(source) * layout.bytes + r * row),
                    At(g.members[source].operands[0], static_cast<int64_t>(target) * layout.bytes + r * row),
                    static_cast<size_t>(layout.bytes));
      }
    }
  }
  parallel(static_cast<int64_t>(received.size()), [&](int64_t i) {
    const Received& r = received[static_cast<size_t>(i)];
    if (tuple_form_) {
      std::memcpy(g.members[r.target].results[r.source], r.data, static_cast<size_t>(block_bytes(r.source, r.target)));
    } else {
      UnpackBlock(g.members[r.target].results[0], static_cast<int64_t>(r.source) * layout.bytes, row, r.data,
                  layout.count, layout.bytes);
    }
  });
  return absl::OkStatus();
}

}  // namespace backplane
