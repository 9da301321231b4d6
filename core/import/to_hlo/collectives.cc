// Communication between devices.
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"
#include "core/text/mesh_groups.h"

namespace backplane::to_hlo {

// A mesh, named or inline, and those of its axes along which devices form groups.
absl::StatusOr<ReplicaGroups> Importer::MeshReplicaGroups(const SourceAttr* by_axes) {
  const SourceAttr *mesh = by_axes->Find("mesh"), *names = by_axes->Find("axes");
  std::string called;
  if (mesh != nullptr && mesh->kind == stablehlo::AttrKind::kString) {
    called = absl::StrCat(" @", mesh->text);
    const SourceOp* op = source_.FindSymbol(mesh->text);
    mesh = op ? op->Find("stablehlo.mesh") : nullptr;
  }
  if (mesh == nullptr || mesh->kind != stablehlo::AttrKind::kDict || names == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("replica_groups: mesh", called, " is not described"));
  }
  const SourceAttr *axes = mesh->Find("axes"), *device_ids = mesh->Find("device_ids");
  auto number = [](const SourceAttr* dictionary, absl::string_view field) -> absl::StatusOr<int64_t> {
    const SourceAttr* a = dictionary ? dictionary->Find(field) : nullptr;
    if (a == nullptr || a->kind != stablehlo::AttrKind::kInteger) {
      return absl::InvalidArgumentError(absl::StrCat("replica_groups: a mesh axis without ", field));
    }
    return a->integer;
  };
  Ints sizes, devices;
  for (const SourceAttr* axis : axes ? axes->elements : absl::Span<const SourceAttr* const>()) {
    ASSIGN_OR_RETURN(int64_t size, number(axis, "size"));
    sizes.push_back(size);
  }
  if (device_ids != nullptr) {
    ASSIGN_OR_RETURN(devices, stablehlo::ReadDenseIntegers(device_ids));
  }
  std::vector<MeshAxis> used;
  for (const SourceAttr* reference : names->elements) {
    const SourceAttr* name = reference->Find("name");
    MeshAxis part;
    part.axis = -1;
    for (size_t i = 0; name != nullptr && i < sizes.size(); ++i) {
      const SourceAttr* known = axes->elements[i]->Find("name");
      if (known != nullptr && known->text == name->text) part.axis = static_cast<int64_t>(i);
    }
    if (part.axis < 0) {
      return absl::InvalidArgumentError(absl::StrCat("replica_groups: mesh", called, " has no axis ",
                                                     name ? name->text : absl::string_view("of no name")));
    }
    if (const SourceAttr* sub = reference->Find("sub_axis_info")) {
      ASSIGN_OR_RETURN(part.pre_size, number(sub, "pre_size"));
      ASSIGN_OR_RETURN(part.size, number(sub, "size"));
    }
    used.push_back(part);
  }
  return ComputeReplicaGroupsOfMesh(sizes, devices, used);
}

absl::Status Importer::SetReplicaGroups(const SourceOp& op, Attributes* attrs) {
  const SourceAttr* given = op.Find("replica_groups");
  if (given == nullptr) return absl::OkStatus();
  if (auto known = groups_.find(given); known != groups_.end()) {
    attrs->Set(AttrId::kReplicaGroups, known->second);
    return absl::OkStatus();
  }
  const bool by_axes = given->kind == stablehlo::AttrKind::kDict;
  ASSIGN_OR_RETURN(ReplicaGroups groups, by_axes ? MeshReplicaGroups(given) : ConvertReplicaGroups(given));
  if (groups.iota) groups_[given] = groups;
  attrs->Set(AttrId::kReplicaGroups, std::move(groups));
  return absl::OkStatus();
}

absl::StatusOr<Attributes> Importer::CollectiveAttributes(Opcode opcode, const SourceOp& op) {
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(opcode, op));
  RETURN_IF_ERROR(SetReplicaGroups(op, &attrs));
  return attrs;
}

absl::Status Importer::ImportAllReduce(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Attributes attrs, CollectiveAttributes(Opcode::kAllReduce, op));
  ASSIGN_OR_RETURN(Computation * body, ImportClosedRegion(op.regions[0], "all_reduce"));
  for (Value& v : operands) RETURN_IF_ERROR(PromoteTo(scope.builder, *body, absl::MakeSpan(&v, 1)));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kAllReduce, std::move(operands), std::move(attrs), {body}));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportCrossReplicaSum(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  Attributes attrs;
  RETURN_IF_ERROR(SetReplicaGroups(op, &attrs));
  ASSIGN_OR_RETURN(Computation * add,
                   MakeScalarBinaryComputation(module_.get(), Opcode::kAdd, x->shape().element_type()));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kAllReduce, {x}, std::move(attrs), {add}));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportAllGather(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Attributes attrs, CollectiveAttributes(Opcode::kAllGather, op));
  ASSIGN_OR_RETURN(Shape result, ResultShape(op));
  ASSIGN_OR_RETURN(Value y,
                   scope.builder.Op(Opcode::kAllGather, std::move(operands), std::move(attrs), {}, std::move(result)));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportReduceScatter(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Attributes attrs, CollectiveAttributes(Opcode::kReduceScatter, op));
  ASSIGN_OR_RETURN(Shape result, ResultShape(op));
  ASSIGN_OR_RETURN(Computation * body, ImportClosedRegion(op.regions[0], "reduce_scatter"));
  for (Value& v : operands) RETURN_IF_ERROR(PromoteTo(scope.builder, *body, absl::MakeSpan(&v, 1)));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kReduceScatter, std::move(operands), std::move(attrs), {body},
                                             std::move(result)));
  return Bind(scope, op, y);
}

// HLO's array form exchanges blocks of one dimension in place. To concatenate the blocks along another dimension, the
// block number becomes a separate dimension, which is exchanged, transposed there and merged.
absl::Status Importer::ImportAllToAll(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(const Attributes given, CollectiveAttributes(Opcode::kAllToAll, op));
  const int64_t split = given.GetInts(AttrId::kDimensions)[0];
  ASSIGN_OR_RETURN(int64_t concat, GetInt(op, "concat_dimension"));
  ASSIGN_OR_RETURN(int64_t count, GetInt(op, "split_count"));
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  std::vector<Value> results;
  for (size_t i = 0; i < operands.size(); ++i) {
    Value x = operands[i];
    const Shape shape = x->shape();
    if (!shape.IsArray() || split < 0 || split >= shape.rank() || concat < 0 || concat >= shape.rank() || count < 1 ||
        shape.dimensions(split) % count != 0) {
      return absl::InvalidArgumentError(absl::StrCat("cannot split dimension ", split, " of ", shape.ToString(),
                                                     " into ", count, " and join along ", concat));
    }
    if (auto other = given.Get<ReplicaGroups>(AttrId::kReplicaGroups).FindOtherSize(count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("splits into ", count, ", a replica group has ", *other, " members"));
    }
    Attributes attrs = given;
    if (split == concat) {
      ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kAllToAll, {x}, std::move(attrs), {}, shape));
      results.push_back(y);
      continue;
    }
    DimVector dims = shape.dimensions();
    dims[split] /= count;
    dims.insert(dims.begin() + split, count);
    ASSIGN_OR_RETURN(x, scope.builder.Reshape(x, dims));
    ASSIGN_OR_RETURN(x, scope.builder.Op(Opcode::kAllToAll, {x}, std::move(attrs), {}, x->shape()));
    Ints permutation;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (d == concat) permutation.push_back(split);
      permutation.push_back(d < split ? d : d + 1);
    }
    ASSIGN_OR_RETURN(x, scope.builder.Transpose(x, permutation));
    DimVector merged = shape.dimensions();
    merged[split] /= count;
    merged[concat] *= count;
    ASSIGN_OR_RETURN(x, scope.builder.Reshape(x, merged));
    results.push_back(x);
  }
  return BindResults(scope, op, results);
}

absl::Status Importer::ImportCollectivePermute(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Attributes attrs, CollectiveAttributes(Opcode::kCollectivePermute, op));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kCollectivePermute, std::move(operands), std::move(attrs)));
  return Bind(scope, op, y);
}

}  // namespace backplane::to_hlo
