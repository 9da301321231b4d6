// Collectives between devices whose memory the host can access: all-gather, all-reduce, reduce-scatter,
// all-to-all (array and tuple form), ragged-all-to-all, collective-broadcast and collective-permute. Supports every
// group mode (core/analysis/process_groups.h) and several operands where the operation allows them.
//
// A HostCollective is made once per instruction when a program is compiled. Every device runs it in every launch. The
// last device of a group to arrive performs the operation for all (rendezvous.h). It reduces block by block so that the
// accumulator stays in the L1 cache, and may distribute the blocks over threads. Reductions combine the operands in the
// order of the group on all devices, so all results have the same bits.
//
// If members of the group are in other nodes (rendezvous.h), the last device to arrive exchanges data with them. Every
// node gets the operands of all members that its results depend on, so results have the same bits as in a single node.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_HOST_COLLECTIVE_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_HOST_COLLECTIVE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/analysis/process_groups.h"
#include "core/ir/module.h"
#include "sdk/backend/collectives/reducer.h"
#include "sdk/backend/collectives/rendezvous.h"

namespace backplane {

// Returns a number for each collective of a module: its position among them, in the order of Module::PostOrder. A
// program has the same numbers after its compilation and after it was read from its serialized form, so nodes that got
// it in different ways agree about them. Instruction::id() differs between the two.
absl::flat_hash_map<const Instruction*, int64_t> NumberCollectives(const Module& module);

// Thread-safe.
class HostCollective {
 public:
  // Calls body(0) ... body(chunks - 1) in any order, on one or several threads, and returns after the last call.
  using ParallelFor = absl::FunctionRef<void(int64_t chunks, absl::FunctionRef<void(int64_t chunk)> body)>;

  // Returns InvalidArgument if groups or shapes do not fit the number of replicas and partitions. Returns Unimplemented
  // for an instruction that is none of the collectives above. The computation that `op` calls must outlive the result.
  // `number` distinguishes the collectives of one program; all nodes must use the same one.
  static absl::StatusOr<std::unique_ptr<HostCollective>> Make(const Instruction& op, int64_t number, int64_t replicas,
                                                              int64_t partitions);

  // Executes the collective as one member. `operands` and `results` hold the addresses of the leaves, in order. All
  // arrays are dense and row-major. Blocks until the group is done. Returns the errors of Launch::EnterRendezvous, and
  // InvalidArgument if a ragged-all-to-all accesses rows out of bounds.
  absl::Status Run(LaunchMember& member, absl::Span<const void* const> operands, absl::Span<void* const> results,
                   ParallelFor parallel) const;

  // Returns how many bytes all members of a group read and write together, for cost estimates.
  int64_t group_bytes() const;

 private:
  struct Leaf {
    Shape shape;
    int64_t width = 0, elements = 0;  // bytes per element, number of elements
  };
  // What one member contributes to the rendezvous. A member in another node has no results, and operands only as far as
  // they were received.
  struct MemberBuffers {
    absl::Span<const void* const> operands;
    absl::Span<void* const> results;
  };
  // The blocks of one member in an array that the members divide along `dimension_`.
  struct BlockLayout {
    int64_t count = 1;  // product of the dimensions before `dimension_`
    int64_t bytes = 0;  // contiguous bytes per block
  };

  HostCollective() = default;
  absl::Status Initialize(const Instruction& op, int64_t replicas, int64_t partitions);
  absl::Status ExecuteForGroup(absl::Span<const MemberBuffers> members, absl::Span<const int64_t> group,
                               ParallelFor parallel) const;

  // The operation with members in other nodes; host_collective_nodes.cc.
  struct NodeGroup {
    Launch& launch;
    LaunchExchange& exchange;
    ExchangeKey key;
    absl::Span<const int64_t> group;
    std::vector<int32_t> nodes;  // sorted, each once
    absl::Span<MemberBuffers> members;
    bool IsLocal(size_t member) const { return launch.IsLocal(group[member]); }
    int32_t GetNode(size_t member) const { return launch.GetNode(group[member]); }
  };
  absl::Status ExecuteAcrossNodes(Launch& launch, const ExchangeKey& key, absl::Span<MemberBuffers> members,
                                  absl::Span<const int64_t> group, ParallelFor parallel) const;
  absl::Status GatherOperands(const NodeGroup& g, absl::Span<const size_t> leaves, int64_t phase,
                              ParallelFor parallel) const;
  bool NodeNeeds(const NodeGroup& g, int32_t node, size_t source) const;
  absl::Status AllReduceByRanges(const NodeGroup& g, size_t leaf, int64_t* phase, ParallelFor parallel) const;
  absl::Status ReduceScatterAcrossNodes(const NodeGroup& g, ParallelFor parallel) const;
  absl::Status AllGatherAcrossNodes(const NodeGroup& g, ParallelFor parallel) const;
  absl::Status AllToAllAcrossNodes(const NodeGroup& g, ParallelFor parallel) const;
  absl::Status AllReduce(absl::Span<const MemberBuffers> members, size_t leaf, ParallelFor parallel) const;
  absl::Status ReduceScatter(absl::Span<const MemberBuffers> members, size_t leaf, ParallelFor parallel) const;
  absl::Status RaggedAllToAll(absl::Span<const MemberBuffers> members, ParallelFor parallel) const;
  void AllGather(absl::Span<const MemberBuffers> members, size_t leaf, ParallelFor parallel) const;
  void AllToAll(absl::Span<const MemberBuffers> members, ParallelFor parallel) const;
  void CollectivePermute(absl::Span<const MemberBuffers> members, absl::Span<const int64_t> group,
                         ParallelFor parallel) const;
  BlockLayout GetBlockLayout(const Leaf& small) const;
  void FillZeros(absl::Span<void* const> results) const;

  Opcode opcode_{};
  std::string name_;
  int64_t number_ = 0;
  int64_t dimension_ = 0;
  bool tuple_form_ = false;  // all-to-all
  std::vector<Leaf> operands_, results_;
  std::vector<Reducer> reducers_;  // one per operand leaf
  ProcessGroups groups_;
  std::vector<int64_t> source_of_;                          // collective-permute: by target process; -1: none
  std::vector<std::pair<int32_t, int32_t>> membership_of_;  // by process: group and position; (-1, -1): no group
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_HOST_COLLECTIVE_H_
