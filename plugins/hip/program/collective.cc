#include "plugins/hip/program/collective.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::hip {
namespace {

// The host runs collectives of more pieces, because each piece is a copy.
constexpr int64_t kMaxCopies = 256;
constexpr int64_t kScratchAlignment = 256;

int64_t AlignScratch(int64_t bytes) { return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment; }

bool Reduces(const Instruction& i) { return i.Is(Opcode::kAllReduce) || i.Is(Opcode::kReduceScatter); }

// Returns the reducer as libraries have it. It is one operation on both parameters.
ArrayCollective::Reducer FindReducer(const Computation& reducer) {
  if (reducer.root()->shape().element_type() == PrimitiveType::kPred) return ArrayCollective::Reducer::kNone;
  switch (reducer.root()->opcode()) {
    case Opcode::kAdd:
      return ArrayCollective::Reducer::kSum;
    case Opcode::kMultiply:
      return ArrayCollective::Reducer::kProduct;
    case Opcode::kMaximum:
      return ArrayCollective::Reducer::kMaximum;
    case Opcode::kMinimum:
      return ArrayCollective::Reducer::kMinimum;
    default:
      return ArrayCollective::Reducer::kNone;
  }
}

void* At(void* base, int64_t offset) { return static_cast<std::byte*>(base) + offset; }

}  // namespace

absl::StatusOr<std::unique_ptr<CollectiveStep>> CollectiveStep::Make(const Instruction& collective, int64_t replicas,
                                                                     int64_t partitions, std::vector<SlotId> operands,
                                                                     std::vector<SlotId> results,
                                                                     MakeCombiner make_combiner) {
  std::unique_ptr<CollectiveStep> step(new CollectiveStep(collective));
  step->operands_ = std::move(operands);
  step->results_ = std::move(results);
  RETURN_IF_ERROR(step->FindGroups(replicas, partitions));
  RETURN_IF_ERROR(step->DescribeLeaves(make_combiner));
  for (const auto& group : step->groups_) step->arrays_.push_back(step->DescribeArrays(group));
  return step;
}

std::vector<ArrayCollective> CollectiveStep::DescribeArrays(absl::Span<const int64_t> group) const {
  using Kind = ArrayCollective::Kind;
  ArrayCollective all;
  all.members = static_cast<int64_t>(group.size());
  switch (collective_.opcode()) {
    case Opcode::kAllReduce:
      all.kind = Kind::kAllReduce;
      break;
    case Opcode::kReduceScatter:
      all.kind = Kind::kReduceScatter;
      break;
    case Opcode::kAllGather:
      all.kind = Kind::kAllGather;
      break;
    case Opcode::kAllToAll:
      if (collective_.shape().IsTuple()) return {};
      all.kind = Kind::kAllToAll;
      break;
    case Opcode::kCollectivePermute:
      all.kind = Kind::kPermute;
      for (const int64_t process : group) {
        const int64_t source = source_of_[static_cast<size_t>(process)];
        all.source.push_back(source < 0 ? -1 : membership_[static_cast<size_t>(source)].second);
      }
      break;
    default:
      return {};
  }
  if (Reduces(collective_)) {
    all.reducer = FindReducer(*collective_.called(0));
    if (all.reducer == ArrayCollective::Reducer::kNone) return {};
  }
  std::vector<ArrayCollective> arrays;
  for (const Leaf& leaf : leaves_) {
    if (leaf.rows != 1 || leaf.bytes == 0) return {};
    ArrayCollective array = all;
    array.type = Reduces(collective_) ? leaf.type : PrimitiveType::kU8;
    array.count = leaf.bytes / ByteWidth(array.type);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

absl::Status CollectiveStep::FindGroups(int64_t replicas, int64_t partitions) {
  const size_t processes = static_cast<size_t>(replicas * partitions);
  if (collective_.Is(Opcode::kCollectivePermute)) {
    ASSIGN_OR_RETURN(const Pairs pairs, GetProcessPairs(collective_, replicas, partitions));
    source_of_.assign(processes, -1);
    // A group has the processes that pairs connect; processes in no pair wait for nobody.
    std::vector<int64_t> group_of(processes);
    std::iota(group_of.begin(), group_of.end(), 0);
    for (const auto& [source, target] : pairs) {
      source_of_[static_cast<size_t>(target)] = source;
      const int64_t from = group_of[static_cast<size_t>(source)], to = group_of[static_cast<size_t>(target)];
      std::replace(group_of.begin(), group_of.end(), std::max(from, to), std::min(from, to));
    }
    groups_.resize(processes);
    for (size_t p = 0; p < processes; ++p) groups_[static_cast<size_t>(group_of[p])].push_back(static_cast<int64_t>(p));
    groups_.erase(std::remove_if(groups_.begin(), groups_.end(), [](const auto& group) { return group.empty(); }),
                  groups_.end());
  } else {
    ASSIGN_OR_RETURN(groups_, GetProcessGroups(collective_, replicas, partitions));
  }
  membership_.assign(processes, {-1, -1});
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (Reduces(collective_) && groups_[g].size() != groups_[0].size())
      return absl::UnimplementedError("groups of several sizes");
    for (size_t i = 0; i < groups_[g].size(); ++i)
      membership_[static_cast<size_t>(groups_[g][i])] = {static_cast<int>(g), static_cast<int>(i)};
  }
  return absl::OkStatus();
}

absl::Status CollectiveStep::DescribeLeaves(MakeCombiner make_combiner) {
  const int64_t members = static_cast<int64_t>(groups_[0].size());
  const Opcode op = collective_.opcode();
  if (operands_.size() != results_.size() || collective_.operand_count() != static_cast<int64_t>(operands_.size()))
    return absl::UnimplementedError("other arrays than one result for each operand");
  const bool is_tuple = collective_.shape().IsTuple();
  // The blocks of all-gather and reduce-scatter are the smaller array, those of all-to-all a part of either.
  const bool splits =
      op == Opcode::kAllGather || op == Opcode::kReduceScatter || (op == Opcode::kAllToAll && !is_tuple);
  int64_t copies = 0;
  for (size_t k = 0; k < results_.size(); ++k) {
    const Shape& result = is_tuple ? collective_.shape().tuple_shapes(static_cast<int64_t>(k)) : collective_.shape();
    if (!result.IsArray()) return absl::UnimplementedError("a token among its results");
    const Shape& operand = collective_.operand(static_cast<int64_t>(k))->shape();
    const Shape& small = op == Opcode::kAllGather ? operand : result;
    for (const Shape* shape : {&operand, &result}) {
      if (!shape->IsRowMajor()) return absl::UnimplementedError("an array that is not row-major");
    }
    const int64_t width = ByteWidth(result.element_type());
    Leaf leaf;
    leaf.type = result.element_type();
    leaf.size = result.num_elements() * width;
    leaf.bytes = small.num_elements() * width;
    if (splits && leaf.bytes > 0) {
      const int64_t dimension = collective_.dimensions()[0];
      for (int64_t d = 0; d < dimension; ++d) leaf.rows *= small.dimensions(d);
      leaf.bytes /= leaf.rows;
      if (op == Opcode::kAllToAll) leaf.bytes /= members;
    }
    copies += leaf.rows * members;
    if (Reduces(collective_) && leaf.size > 0) {
      ASSIGN_OR_RETURN(leaf.combiner, make_combiner(*collective_.called(0), leaf.type, members, result.num_elements()));
      scratch_bytes_ = std::max(scratch_bytes_, members * AlignScratch(leaf.size + compiler::kTailPadding));
    }
    leaves_.push_back(leaf);
  }
  if (copies > kMaxCopies) return absl::UnimplementedError(absl::StrCat(copies, " copies between devices"));
  return absl::OkStatus();
}

absl::Status CollectiveStep::Run(const RunState& state) const {
  if (state.exchange == nullptr) return absl::InternalError(absl::StrCat(collective_.name(), ": no other devices"));
  const int64_t process = state.exchange->process();
  if (process < 0 || process >= static_cast<int64_t>(membership_.size()))
    return absl::InternalError(absl::StrCat(collective_.name(), ": process ", process, " of ", membership_.size()));
  const auto [group, position] = membership_[static_cast<size_t>(process)];
  if (group < 0) {
    for (size_t k = 0; k < leaves_.size(); ++k) {
      if (leaves_[k].size > 0)
        RETURN_IF_ERROR(state.queue->FillZeros(state.slots[results_[k]], static_cast<size_t>(leaves_[k].size)));
    }
    return absl::OkStatus();
  }
  std::vector<void*> operands;
  for (const SlotId slot : operands_) operands.push_back(state.slots[slot]);
  const absl::Span<const int64_t> members = groups_[static_cast<size_t>(group)];
  const size_t own = static_cast<size_t>(position);
  std::vector<void*> results;
  for (const SlotId slot : results_) results.push_back(state.slots[slot]);
  const std::vector<ArrayCollective>& arrays = arrays_[static_cast<size_t>(group)];
  CollectiveOffer offer;
  offer.arrays = &arrays;
  offer.results = results;
  offer.run_copies = [&](absl::Span<const Peer> others, absl::Span<void* const> to) {
    return Move(state, others, to, members, own);
  };
  ASSIGN_OR_RETURN(
      const std::vector<Peer> peers,
      state.exchange->Synchronize(collective_, members, own, std::move(operands), arrays.empty() ? nullptr : &offer));
  if (offer.is_done) {
    const bool has_source = arrays[0].source.empty() || arrays[0].source[own] >= 0;
    for (size_t k = 0; k < leaves_.size() && !has_source; ++k)
      RETURN_IF_ERROR(state.queue->FillZeros(results[k], static_cast<size_t>(leaves_[k].size)));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Move(state, peers, results, members, own));
  // The operands may be overwritten when all members have read them.
  return state.exchange->Synchronize(collective_, members, own, {}, nullptr).status();
}

absl::Status CollectiveStep::Move(const RunState& state, absl::Span<const Peer> peers, absl::Span<void* const> results,
                                  absl::Span<const int64_t> group, size_t position) const {
  Queue& queue = *state.queue;
  const int64_t members = static_cast<int64_t>(peers.size()), own = static_cast<int64_t>(position);
  for (size_t k = 0; k < leaves_.size(); ++k) {
    const Leaf& leaf = leaves_[k];
    if (leaf.size == 0) continue;
    void* const result = results[k];
    const size_t bytes = static_cast<size_t>(leaf.bytes), size = static_cast<size_t>(leaf.size);
    switch (collective_.opcode()) {
      case Opcode::kAllReduce:
      case Opcode::kReduceScatter:
        RETURN_IF_ERROR(Combine(state, peers, result, position, k));
        break;
      case Opcode::kAllGather:
        for (int64_t m = 0; m < members; ++m) {
          const Peer& peer = peers[static_cast<size_t>(m)];
          for (int64_t r = 0; r < leaf.rows; ++r) {
            RETURN_IF_ERROR(queue.CopyFrom(peer.device, At(peer.operands[k], r * leaf.bytes),
                                           At(result, (r * members + m) * leaf.bytes), bytes));
          }
        }
        break;
      case Opcode::kAllToAll:
        if (collective_.shape().IsTuple()) {
          RETURN_IF_ERROR(queue.CopyFrom(peers[k].device, peers[k].operands[position], result, size));
          break;
        }
        for (int64_t m = 0; m < members; ++m) {
          const Peer& peer = peers[static_cast<size_t>(m)];
          for (int64_t r = 0; r < leaf.rows; ++r) {
            RETURN_IF_ERROR(queue.CopyFrom(peer.device, At(peer.operands[k], (r * members + own) * leaf.bytes),
                                           At(result, (r * members + m) * leaf.bytes), bytes));
          }
        }
        break;
      case Opcode::kCollectivePermute: {
        const int64_t source = source_of_[static_cast<size_t>(group[position])];
        if (source < 0) {
          RETURN_IF_ERROR(queue.FillZeros(result, size));
          break;
        }
        const Peer& peer = peers[static_cast<size_t>(membership_[static_cast<size_t>(source)].second)];
        RETURN_IF_ERROR(queue.CopyFrom(peer.device, peer.operands[k], result, size));
        break;
      }
      default:  // collective-broadcast
        RETURN_IF_ERROR(queue.CopyFrom(peers[0].device, peers[0].operands[k], result, size));
        break;
    }
  }
  return absl::OkStatus();
}

absl::Status CollectiveStep::Combine(const RunState& state, absl::Span<const Peer> peers, void* result, size_t position,
                                     size_t k) const {
  const Leaf& leaf = leaves_[k];
  const int64_t members = static_cast<int64_t>(peers.size());
  // A reduce-scatter combines one block of each row; an all-reduce has one row with one block, of all.
  const bool scatters = collective_.Is(Opcode::kReduceScatter);
  const int64_t row = scatters ? members * leaf.bytes : leaf.bytes;
  const int64_t first = scatters ? static_cast<int64_t>(position) * leaf.bytes : 0;
  absl::InlinedVector<void*, 16> arguments;
  for (size_t m = 0; m < peers.size(); ++m) {
    if (m == position && !scatters) {
      arguments.push_back(peers[m].operands[k]);
      continue;
    }
    void* const to = At(state.scratch, static_cast<int64_t>(m) * AlignScratch(leaf.size + compiler::kTailPadding));
    for (int64_t r = 0; r < leaf.rows; ++r) {
      RETURN_IF_ERROR(state.queue->CopyFrom(peers[m].device, At(peers[m].operands[k], r * row + first),
                                            At(to, r * leaf.bytes), static_cast<size_t>(leaf.bytes)));
    }
    arguments.push_back(to);
  }
  arguments.push_back(result);
  return state.queue->Launch(leaf.combiner.kernel, leaf.combiner.blocks, leaf.combiner.threads, arguments);
}

}  // namespace backplane::hip
