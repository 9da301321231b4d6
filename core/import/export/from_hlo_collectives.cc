// Communication between devices.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/analysis/process_groups.h"
#include "core/import/export/from_hlo.h"
#include "core/import/stablehlo/hlo_attributes.h"
#include "core/types/status_macros.h"

namespace backplane::from_hlo {
namespace {

// No groups mean one of all ids there are. StableHLO's all_to_all takes the number of its blocks from the list, which
// is written out then.
absl::StatusOr<std::vector<Ints>> WrittenGroups(const Instruction& i, const ModuleConfig& config) {
  std::vector<Ints> groups = i.attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups).Expand();
  if (!groups.empty() || !i.Is(Opcode::kAllToAll)) return groups;
  int64_t ids = config.num_replicas;
  switch (GetGroupMode(i)) {
    case GroupMode::kCrossPartition:
      ids = config.num_partitions;
      break;
    case GroupMode::kFlattenedIds:
      ids = std::min(config.num_replicas, kMaxDevices + 1) * std::min(config.num_partitions, kMaxDevices + 1);
      break;
    default:
      break;
  }
  if (ids > kMaxDevices) {
    return absl::UnimplementedError(
        absl::StrCat(i.name(), ": a group of ", ids, " devices, at most ", kMaxDevices, " are supported"));
  }
  groups.emplace_back(static_cast<size_t>(std::max<int64_t>(ids, 1)));
  std::iota(groups[0].begin(), groups[0].end(), 0);
  return groups;
}

}  // namespace

// Shorter groups are filled with -1.
absl::StatusOr<NamedAttrs> Exporter::GroupAttributes(Opcode opcode, const Instruction& i, const Attributes& given) {
  ASSIGN_OR_RETURN(NamedAttrs attrs, stablehlo::FromHloAttributes(opcode, given, arena_));
  ASSIGN_OR_RETURN(const std::vector<Ints> groups, WrittenGroups(i, hlo_.config()));
  size_t width = 0;
  for (const Ints& g : groups) width = std::max(width, g.size());
  Ints flat;
  for (const Ints& g : groups) {
    flat.insert(flat.end(), g.begin(), g.end());
    flat.resize(flat.size() + width - g.size(), -1);
  }
  attrs.push_back({"replica_groups", Matrix(flat, static_cast<int64_t>(groups.size()), static_cast<int64_t>(width))});
  return attrs;
}

absl::StatusOr<Bundle> Exporter::ExportCollective(Frame& frame, const Instruction& i) {
  Values operands;
  Shape shape = i.shape();
  const bool start = i.Is(Opcode::kAllGatherStart) || i.Is(Opcode::kCollectivePermuteStart);
  if (start) shape = i.shape().tuple_shapes(1);
  for (const Instruction* o : i.operands()) RETURN_IF_ERROR(Flatten(frame, Get(frame, o), o->shape(), &operands));
  std::vector<const SourceType*> types;
  RETURN_IF_ERROR(LeafTypes(shape, &types));
  if (types.size() != operands.size()) {
    return absl::UnimplementedError(
        absl::StrCat("StableHLO has no form with ", operands.size(), " operands and ", types.size(), " results"));
  }
  NamedAttrs attrs;
  absl::string_view name;
  bool reduces = false;
  switch (i.opcode()) {
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart: {
      ASSIGN_OR_RETURN(attrs, GroupAttributes(Opcode::kAllGather, i, i.attrs()));
      name = "stablehlo.all_gather";
      break;
    }
    case Opcode::kReduceScatter: {
      ASSIGN_OR_RETURN(attrs, GroupAttributes(Opcode::kReduceScatter, i, i.attrs()));
      name = "stablehlo.reduce_scatter";
      reduces = true;
      break;
    }
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart: {
      ASSIGN_OR_RETURN(attrs, GroupAttributes(Opcode::kAllReduce, i, i.attrs()));
      name = "stablehlo.all_reduce";
      reduces = true;
      break;
    }
    case Opcode::kCollectiveBroadcast: {
      ASSIGN_OR_RETURN(attrs, GroupAttributes(Opcode::kCollectiveBroadcast, i, i.attrs()));
      name = "stablehlo.collective_broadcast";
      break;
    }
    default: {
      ASSIGN_OR_RETURN(attrs, stablehlo::FromHloAttributes(Opcode::kCollectivePermute, i.attrs(), arena_));
      name = "stablehlo.collective_permute";
    }
  }
  // One op for each operand: the only form older versions have, and the same values.
  RETURN_IF_ERROR(AddAnnotations(i, &attrs));
  Values made;
  for (size_t k = 0; k < operands.size(); ++k) {
    std::vector<SourceRegion> regions;
    if (reduces) {
      ASSIGN_OR_RETURN(SourceRegion region, Region(*i.called(0)));
      regions.push_back(region);
    }
    ASSIGN_OR_RETURN(SourceOp * op, Emit(frame, name, {operands[k]}, attrs, {types[k]}, std::move(regions)));
    made.push_back(&op->results[0]);
  }
  size_t next = 0;
  auto build = [&](auto& self, const Shape& s) -> Bundle {
    if (!s.IsTuple()) return Bundle::Of(made[next++]);
    std::vector<Bundle> elements;
    for (const Shape& e : s.tuple_shapes()) elements.push_back(self(self, e));
    return Bundle::Tuple(std::move(elements));
  };
  Bundle result = build(build, shape);
  if (!start) return result;
  std::vector<Bundle> elements;
  if (i.operand_count() == 1) {
    elements.push_back(Get(frame, i.operand(0)));
  } else {
    std::vector<Bundle> given;
    for (const Instruction* o : i.operands()) given.push_back(Get(frame, o));
    elements.push_back(Bundle::Tuple(std::move(given)));
  }
  elements.push_back(std::move(result));
  for (int64_t k = 2; k < i.shape().tuple_size(); ++k) elements.push_back(Bundle());
  return Bundle::Tuple(std::move(elements));
}

absl::StatusOr<Bundle> Exporter::ExportAllToAll(Frame& frame, const Instruction& i) {
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  Attributes given = i.attrs();
  if (i.dimensions().empty()) given.Set(AttrId::kDimensions, Ints{0});  // a tuple, exchanged as rows
  ASSIGN_OR_RETURN(NamedAttrs attrs, GroupAttributes(Opcode::kAllToAll, i, given));
  auto exchange = [&](const SourceValue* x, int64_t count) {
    NamedAttrs all = attrs;
    all.push_back({"concat_dimension", Int(given.GetInts(AttrId::kDimensions)[0])});
    all.push_back({"split_count", Int(count)});
    return EmitOne(frame, "stablehlo.all_to_all", {x}, std::move(all), x->type);
  };
  if (!i.shape().IsTuple()) {
    ASSIGN_OR_RETURN(const std::vector<Ints> groups, WrittenGroups(i, hlo_.config()));
    const int64_t count = static_cast<int64_t>(groups[0].size());
    RETURN_IF_ERROR(AddAnnotations(i, &attrs));
    ASSIGN_OR_RETURN(const SourceValue* y, exchange(operands[0], count));
    return Bundle::Of(y);
  }
  // Operand k is sent to member k of the group: the operands become rows of one array, whose rows are exchanged.
  Values rows;
  const int64_t n = static_cast<int64_t>(operands.size());
  const SourceType* part = operands[0]->type;
  Ints row_dims(part->dims.begin(), part->dims.end());
  row_dims.insert(row_dims.begin(), 1);
  for (const SourceValue* x : operands) {
    ASSIGN_OR_RETURN(const SourceValue* row,
                     EmitOne(frame, "stablehlo.reshape", {x}, {}, GetTensorType(row_dims, part->inner)));
    rows.push_back(row);
  }
  Ints all_dims = row_dims;
  all_dims[0] = n;
  ASSIGN_OR_RETURN(const SourceValue* all, EmitOne(frame, "stablehlo.concatenate", rows, {{"dimension", Int(0)}},
                                                   GetTensorType(all_dims, part->inner)));
  RETURN_IF_ERROR(AddAnnotations(i, &attrs));
  ASSIGN_OR_RETURN(all, exchange(all, n));
  std::vector<Bundle> elements;
  for (int64_t k = 0; k < n; ++k) {
    Ints start(row_dims.size(), 0), limit = all_dims, stride(row_dims.size(), 1);
    start[0] = k;
    limit[0] = k + 1;
    ASSIGN_OR_RETURN(
        const SourceValue* row,
        EmitOne(frame, "stablehlo.slice", {all},
                {{"start_indices", List(start)}, {"limit_indices", List(limit)}, {"strides", List(stride)}},
                GetTensorType(row_dims, part->inner)));
    ASSIGN_OR_RETURN(row, EmitOne(frame, "stablehlo.reshape", {row}, {}, part));
    elements.push_back(Bundle::Of(row));
  }
  return Bundle::Tuple(std::move(elements));
}

// A custom call known to XLA and to our importer.
absl::StatusOr<Bundle> Exporter::ExportRaggedAllToAll(Frame& frame, const Instruction& i) {
  ASSIGN_OR_RETURN(NamedAttrs groups, GroupAttributes(Opcode::kRaggedAllToAll, i, i.attrs()));
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  return EmitFor(frame, i, "stablehlo.custom_call", operands,
                 {{"call_target_name", String("ragged_all_to_all")},
                  {"api_version", Enum("API_VERSION_TYPED_FFI")},
                  {"backend_config", stablehlo::MakeDict(arena_, std::move(groups))}});
}

}  // namespace backplane::from_hlo
