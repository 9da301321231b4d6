// Which processes take part in a collective together, and in which order.
//
// Processes form a grid of replicas and partitions; a process is named by its number replica * partitions + partition.
// A collective lists ids in groups; what an id means depends on its channel and on whether ids are global:
//
//   kCrossReplica              no channel                 replica ids; one group for each partition
//   kCrossReplicaAndPartition  channel, reductions and    replica ids; each group covers all partitions of its
//                              gathers, ids not global    replicas, partition by partition
//   kCrossPartition            channel, other collectives partition ids; one group for each replica
//   kFlattenedIds              channel, global ids        numbers of processes
//
// Names and meaning are those of the StableHLO specification ("process groups"). Pure functions.
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

using ProcessGroups = std::vector<Ints>;  // numbers of processes, the members of a group in order

// The mode of a collective, of a start half too.
GroupMode GroupModeOf(const Instruction& collective);

// Groups of processes out of groups of ids. No groups at all: one of all ids that the mode has, in order. An id out of
// range, an id that stands twice and an empty group are InvalidArgument.
absl::StatusOr<ProcessGroups> FormProcessGroups(GroupMode mode, absl::Span<const Ints> ids, int64_t replicas,
                                                int64_t partitions);

// Of a collective with replica groups. Every process must be in one of them (collective-broadcast excepted, whose
// outsiders get zeros), and groups of gathers, scatters and exchanges must be of one size.
absl::StatusOr<ProcessGroups> ProcessGroupsOf(const Instruction& collective, int64_t replicas, int64_t partitions);

// Source and target processes of a collective-permute (or of its start), in the order listed, replica by replica or
// partition by partition.
absl::StatusOr<Pairs> ProcessPairsOf(const Instruction& permute, int64_t replicas, int64_t partitions);

// "replica 1, partition 0"; without the part of which there is only one.
std::string ProcessName(int64_t process, int64_t replicas, int64_t partitions);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_PROCESS_GROUPS_H_
