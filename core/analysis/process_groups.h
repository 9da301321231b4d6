// Computes which processes take part in a collective together, and in which order.
//
// Processes form a grid of replicas and partitions. A process is identified by the number
// replica * partitions + partition. A collective lists ids in replica groups. The meaning of an id depends on whether
// the collective has a channel and on whether it uses global device ids:
//
//   GroupMode                  collective                  ids are           process groups
//   kCrossReplica              no channel                  replica ids       one per id group and partition
//   kCrossReplicaAndPartition  channel, local ids,         replica ids       one per id group, over all partitions,
//                              reduction or all-gather                       ordered partition by partition
//   kCrossPartition            channel, local ids,         partition ids     one per id group and replica
//                              any other collective
//   kFlattenedIds              channel, global device ids  process numbers   one per id group
//
// Names and meaning follow the section "Process groups" of the StableHLO specification. All functions are pure and
// thread-safe.
#ifndef BACKPLANE_CORE_ANALYSIS_PROCESS_GROUPS_H_
#define BACKPLANE_CORE_ANALYSIS_PROCESS_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ir/instruction.h"

namespace backplane {

enum class GroupMode : uint8_t { kCrossReplica, kCrossReplicaAndPartition, kCrossPartition, kFlattenedIds };

// Each group lists the process numbers of its members in order.
using ProcessGroups = std::vector<Ints>;

// Returns the mode of a collective or of the start half of an asynchronous one.
GroupMode GetGroupMode(const Instruction& collective);

// Expands groups of ids into groups of processes. An empty list stands for one group of all ids of the mode, in order.
// Returns InvalidArgument for an id out of range, an id listed twice and an empty group.
absl::StatusOr<ProcessGroups> FormProcessGroups(GroupMode mode, absl::Span<const Ints> ids, int64_t replicas,
                                                int64_t partitions);

// Returns the process groups of a collective that has replica groups. Returns InvalidArgument, besides the errors of
// FormProcessGroups, if a process is in no group or if groups differ in size. A collective-broadcast may leave
// processes out (they receive zeros). Groups of an all-reduce may differ in size.
absl::StatusOr<ProcessGroups> GetProcessGroups(const Instruction& collective, int64_t replicas, int64_t partitions);

// Returns the (source, target) processes of a collective-permute or of its start half. The listed pairs stay in order;
// each is repeated for every replica, or for every partition if the ids are replica ids. Returns InvalidArgument for an
// id out of range.
absl::StatusOr<Pairs> GetProcessPairs(const Instruction& permute, int64_t replicas, int64_t partitions);

// Returns a name for messages, such as "replica 1, partition 0". Omits the coordinate that has one value only.
std::string FormatProcessName(int64_t process, int64_t replicas, int64_t partitions);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_PROCESS_GROUPS_H_
