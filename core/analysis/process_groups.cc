#include "core/analysis/process_groups.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kMaxProcesses = int64_t{1} << 20;

absl::Status MakeInvalid(const Instruction& op, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(op.name(), ": ", what));
}

absl::Status PrependName(const Instruction& op, const absl::Status& s) {
  return absl::Status(s.code(), absl::StrCat(op.name(), ": ", s.message()));
}

int64_t CountIds(GroupMode mode, int64_t replicas, int64_t partitions) {
  switch (mode) {
    case GroupMode::kCrossPartition:
      return partitions;
    case GroupMode::kFlattenedIds:
      return replicas * partitions;
    default:
      return replicas;
  }
}

bool IsReductionOrGather(Opcode opcode) {
  return opcode == Opcode::kAllReduce || opcode == Opcode::kAllGather || opcode == Opcode::kReduceScatter ||
         opcode == Opcode::kAllReduceStart || opcode == Opcode::kAllGatherStart;
}

}  // namespace

GroupMode GetGroupMode(const Instruction& collective) {
  if (collective.attrs().GetInt(AttrId::kChannelId) <= 0) return GroupMode::kCrossReplica;
  if (collective.attrs().GetBool(AttrId::kUseGlobalDeviceIds)) return GroupMode::kFlattenedIds;
  return IsReductionOrGather(collective.opcode()) ? GroupMode::kCrossReplicaAndPartition : GroupMode::kCrossPartition;
}

absl::StatusOr<ProcessGroups> FormProcessGroups(GroupMode mode, absl::Span<const Ints> ids, int64_t replicas,
                                                int64_t partitions) {
  if (replicas < 1 || partitions < 1 || replicas > kMaxProcesses || partitions > kMaxProcesses / replicas) {
    return absl::InvalidArgumentError(absl::StrCat(replicas, " replicas of ", partitions, " partitions"));
  }
  const int64_t count = CountIds(mode, replicas, partitions);
  std::vector<Ints> all_ids;
  if (ids.empty()) {
    all_ids.emplace_back(static_cast<size_t>(count));
    std::iota(all_ids[0].begin(), all_ids[0].end(), 0);
    ids = all_ids;
  }
  std::vector<bool> seen(static_cast<size_t>(count), false);
  for (const Ints& group : ids) {
    if (group.empty()) return absl::InvalidArgumentError("a replica group is empty");
    for (int64_t id : group) {
      if (id < 0 || id >= count) {
        return absl::InvalidArgumentError(absl::StrCat("replica groups name id ", id, ", there are ", count));
      }
      if (seen[static_cast<size_t>(id)])
        return absl::InvalidArgumentError(absl::StrCat("id ", id, " is in two groups"));
      seen[static_cast<size_t>(id)] = true;
    }
  }
  ProcessGroups groups;
  for (const Ints& group : ids) {
    switch (mode) {
      case GroupMode::kFlattenedIds:
        groups.push_back(group);
        break;
      case GroupMode::kCrossReplicaAndPartition: {
        Ints members;
        for (int64_t p = 0; p < partitions; ++p) {
          for (int64_t r : group) members.push_back(r * partitions + p);
        }
        groups.push_back(std::move(members));
        break;
      }
      case GroupMode::kCrossReplica:
        for (int64_t p = 0; p < partitions; ++p) {
          Ints members;
          for (int64_t r : group) members.push_back(r * partitions + p);
          groups.push_back(std::move(members));
        }
        break;
      case GroupMode::kCrossPartition:
        for (int64_t r = 0; r < replicas; ++r) {
          Ints members;
          for (int64_t p : group) members.push_back(r * partitions + p);
          groups.push_back(std::move(members));
        }
        break;
    }
  }
  return groups;
}

absl::StatusOr<ProcessGroups> GetProcessGroups(const Instruction& collective, int64_t replicas, int64_t partitions) {
  const ReplicaGroups& listed = collective.attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups);
  std::vector<Ints> ids = listed.Expand();
  // XLA also writes an empty list of groups as {{}}.
  if (ids.size() == 1 && ids[0].empty()) ids.clear();
  if (ids.empty() && listed.iota) return MakeInvalid(collective, "the iota of its replica groups is malformed");
  absl::StatusOr<ProcessGroups> groups = FormProcessGroups(GetGroupMode(collective), ids, replicas, partitions);
  if (!groups.ok()) return PrependName(collective, groups.status());
  if (collective.Is(Opcode::kCollectiveBroadcast)) return groups;
  std::vector<bool> covered(static_cast<size_t>(replicas * partitions), false);
  const bool needs_equal_sizes = !collective.Is(Opcode::kAllReduce) && !collective.Is(Opcode::kAllReduceStart);
  for (const Ints& group : *groups) {
    if (needs_equal_sizes && group.size() != groups->front().size()) {
      return MakeInvalid(collective, absl::StrCat("groups of ", groups->front().size(), " and of ", group.size(),
                                                  " members, expected one size"));
    }
    for (int64_t process : group) covered[static_cast<size_t>(process)] = true;
  }
  for (size_t i = 0; i < covered.size(); ++i) {
    if (covered[i]) continue;
    return MakeInvalid(collective, absl::StrCat(FormatProcessName(static_cast<int64_t>(i), replicas, partitions),
                                                " is in none of the replica groups"));
  }
  return groups;
}

absl::StatusOr<Pairs> GetProcessPairs(const Instruction& permute, int64_t replicas, int64_t partitions) {
  const bool across_partitions = GetGroupMode(permute) != GroupMode::kCrossReplica;
  const int64_t count = across_partitions ? partitions : replicas, copies = across_partitions ? replicas : partitions;
  Pairs out;
  for (const auto& [source, target] : permute.attrs().Get<Pairs>(AttrId::kSourceTargetPairs)) {
    for (int64_t id : {source, target}) {
      if (id < 0 || id >= count) {
        return MakeInvalid(permute, absl::StrCat("source_target_pairs name id ", id, ", there are ", count));
      }
    }
    for (int64_t copy = 0; copy < copies; ++copy) {
      if (across_partitions) {
        out.emplace_back(copy * partitions + source, copy * partitions + target);
      } else {
        out.emplace_back(source * partitions + copy, target * partitions + copy);
      }
    }
  }
  return out;
}

std::string FormatProcessName(int64_t process, int64_t replicas, int64_t partitions) {
  const int64_t replica = process / partitions, partition = process % partitions;
  if (partitions == 1) return absl::StrCat("replica ", replica);
  if (replicas == 1) return absl::StrCat("partition ", partition);
  return absl::StrCat("replica ", replica, ", partition ", partition);
}

}  // namespace backplane
