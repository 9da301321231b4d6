// Collectives with a root: collective_broadcast whose root is a value of the running program, and collective_reduce.
// HLO has neither. The first becomes an all-gather, of which each process takes the root's value; the second becomes an
// all-reduce, whose result only the root uses.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

namespace {

constexpr int64_t kMaxProcesses = 1 << 20;

// The groups of an operation; its channel tells whether they are of replicas or of partitions.
struct Groups {
  bool partitions = false;
  std::vector<Ints> groups;  // of replica or of partition ids
  Attributes attrs;          // for the HLO collective over these groups
};

}  // namespace

absl::Status Importer::ImportRootedCollective(Scope& scope, const SourceOp& op) {
  const bool reduces = op.name == "stablehlo.collective_reduce";
  Builder& b = scope.builder;
  ASSIGN_OR_RETURN(bool dynamic_root, GetBool(op, "has_dynamic_root"));
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Attributes given, CollectiveAttributes(Opcode::kCollectiveBroadcast, op));
  if (!reduces && !dynamic_root) {
    ASSIGN_OR_RETURN(Value y, b.Op(Opcode::kCollectiveBroadcast, std::move(operands), std::move(given)));
    return Bind(scope, op, y);
  }

  // The root of each result as an index in its group.
  Value roots = nullptr;
  if (dynamic_root) {
    if (operands.size() < 2) return absl::InvalidArgumentError("a root at run time needs a value and its root");
    roots = operands.back();
    operands.pop_back();
    const Shape& s = roots->shape();
    if (!s.IsArray() || s.rank() != 1 || s.dimensions(0) != static_cast<int64_t>(operands.size()) ||
        !IsIntegral(s.element_type())) {
      return absl::InvalidArgumentError(absl::StrCat("roots are ", s.ToString(), ", expected one integer for each of ",
                                                     operands.size(), " values [collective_broadcast_c4]"));
    }
  }

  Groups rooted;
  const ModuleConfig& config = module_->config();
  rooted.partitions = given.Has(AttrId::kChannelId);
  int64_t processes = rooted.partitions ? config.num_partitions : config.num_replicas;
  const int64_t others = rooted.partitions ? config.num_replicas : config.num_partitions;
  if (given.Has(AttrId::kReplicaGroups)) rooted.groups = given.Get<ReplicaGroups>(AttrId::kReplicaGroups).Expand();
  if (rooted.groups.empty()) {
    rooted.groups.emplace_back();
    for (int64_t i = 0; i < processes; ++i) rooted.groups[0].push_back(i);
  }
  // A host may pass the number of processes outside the program; the groups then tell the least number.
  if (processes == 1) {
    for (const Ints& group : rooted.groups) {
      for (int64_t id : group) processes = std::max(processes, std::min(id + 1, kMaxProcesses));
    }
  }
  // Every process's index in its group.
  Literal index_in_group(Shape(PrimitiveType::kS32, {processes}));
  std::vector<bool> seen(static_cast<size_t>(processes), false);
  for (const Ints& group : rooted.groups) {
    if (group.size() != rooted.groups[0].size()) return absl::UnimplementedError("groups of different sizes");
    for (size_t i = 0; i < group.size(); ++i) {
      if (group[i] < 0 || group[i] >= processes || seen[static_cast<size_t>(group[i])]) {
        return absl::InvalidArgumentError(
            absl::StrCat("replica_groups names process ", group[i], " of ", processes, " twice or not there"));
      }
      seen[static_cast<size_t>(group[i])] = true;
      index_in_group.SetFromInt(group[i], static_cast<int64_t>(i));
    }
  }
  if (std::find(seen.begin(), seen.end(), false) != seen.end()) {
    return absl::UnimplementedError("a process that is in no group");
  }
  ReplicaGroups groups;
  if (rooted.partitions) {
    if (processes * others > kMaxProcesses) {
      return absl::UnimplementedError(absl::StrCat(config.num_replicas, " replicas of ", config.num_partitions,
                                                   " partitions, at most ", kMaxProcesses, " devices are supported"));
    }
    // All-gather and all-reduce with a channel would combine the replicas; ids of devices name the members exactly.
    for (int64_t r = 0; r < others; ++r) {
      for (const Ints& group : rooted.groups) {
        groups.groups.emplace_back();
        for (int64_t p : group) groups.groups.back().push_back(r * processes + p);
      }
    }
    rooted.attrs.Set(AttrId::kChannelId, given.GetInt(AttrId::kChannelId));
    rooted.attrs.Set(AttrId::kUseGlobalDeviceIds, true);
  } else {
    groups.groups = rooted.groups;
  }
  rooted.attrs.Set(AttrId::kReplicaGroups, std::move(groups));

  const Shape scalar = Shape::Scalar(PrimitiveType::kS32);
  auto root_of = [&](size_t i) -> absl::StatusOr<Value> {
    if (roots == nullptr) return b.Scalar(PrimitiveType::kS32, 0);
    const int64_t at = static_cast<int64_t>(i);
    ASSIGN_OR_RETURN(Value r, b.Slice(roots, {{at, at + 1, 1}}));
    ASSIGN_OR_RETURN(r, b.Reshape(r, {}));
    return b.Convert(r, PrimitiveType::kS32);
  };
  std::vector<Value> results;
  if (!reduces) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const Shape shape = operands[i]->shape();
      if (!shape.IsArray()) return absl::InvalidArgumentError(absl::StrCat("value ", i, " is ", shape.ToString()));
      DimVector dims = shape.dimensions();
      dims.insert(dims.begin(), 1);
      ASSIGN_OR_RETURN(Value x, b.Reshape(operands[i], dims));
      Attributes attrs = rooted.attrs;
      attrs.Set(AttrId::kDimensions, Ints{0});
      dims[0] = static_cast<int64_t>(rooted.groups[0].size());
      ASSIGN_OR_RETURN(x, b.Op(Opcode::kAllGather, {x}, std::move(attrs), {}, Shape(shape.element_type(), dims)));
      ASSIGN_OR_RETURN(Value root, root_of(i));
      ASSIGN_OR_RETURN(Value zero, b.Scalar(PrimitiveType::kS32, 0));
      std::vector<Value> slice = {x, root};
      slice.resize(dims.size() + 1, zero);
      dims[0] = 1;
      Attributes sizes;
      sizes.Set(AttrId::kDynamicSliceSizes, Ints(dims.begin(), dims.end()));
      ASSIGN_OR_RETURN(x, b.Op(Opcode::kDynamicSlice, std::move(slice), std::move(sizes)));
      ASSIGN_OR_RETURN(x, b.Reshape(x, shape.dimensions()));
      results.push_back(x);
    }
    return BindResults(scope, op, results);
  }

  Opcode id = rooted.partitions ? Opcode::kPartitionId : Opcode::kReplicaId;
  ASSIGN_OR_RETURN(Value own, b.Op(id, {}, {}, {}, Shape::Scalar(PrimitiveType::kU32)));
  ASSIGN_OR_RETURN(Value table, b.Constant(std::move(index_in_group)));
  Attributes one;
  one.Set(AttrId::kDynamicSliceSizes, Ints{1});
  ASSIGN_OR_RETURN(Value index, b.Op(Opcode::kDynamicSlice, {table, own}, std::move(one)));
  ASSIGN_OR_RETURN(index, b.Reshape(index, {}));
  ASSIGN_OR_RETURN(Computation * body, ImportClosedRegion(op.regions[0], "collective_reduce"));
  for (size_t i = 0; i < operands.size(); ++i) {
    const Shape shape = operands[i]->shape();
    if (!shape.IsArray()) return absl::InvalidArgumentError(absl::StrCat("value ", i, " is ", shape.ToString()));
    Attributes attrs = rooted.attrs;
    ASSIGN_OR_RETURN(Value sum, b.Op(Opcode::kAllReduce, {operands[i]}, std::move(attrs), {body}));
    ASSIGN_OR_RETURN(Value root, root_of(i));
    ASSIGN_OR_RETURN(Value is_root, b.Compare(index, root, ComparisonDirection::kEq));
    ASSIGN_OR_RETURN(is_root, b.BroadcastInDim(is_root, shape.dimensions(), {}));
    ASSIGN_OR_RETURN(Value zero, b.Scalar(shape.element_type(), 0));
    ASSIGN_OR_RETURN(zero, b.BroadcastInDim(zero, shape.dimensions(), {}));
    ASSIGN_OR_RETURN(Value y, b.Select(is_root, sum, zero));
    results.push_back(y);
  }
  return BindResults(scope, op, results);
}

}  // namespace backplane::to_hlo
