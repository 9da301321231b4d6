// Shardy: meshes, constraints and manual computations. All of it is kept as text for a partitioner; on one partition,
// where local and global shapes are the same, nothing is left of it.
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

using stablehlo::AttrKind;

absl::Status Importer::ImportMesh(const SourceOp& op) {
  const SourceAttr *name = op.Find("sym_name"), *mesh = op.Find("mesh");
  if (name == nullptr || mesh == nullptr || mesh->kind != AttrKind::kShardy) {
    return absl::InvalidArgumentError("a mesh without a name or without axes");
  }
  meshes_[std::string(name->text)] = std::string(mesh->text);
  return absl::OkStatus();
}

absl::Status Importer::ImportShardyIdentity(Scope& scope, const SourceOp& op) {
  if (op.name == "sdy.sharding_group") return absl::OkStatus();
  if (op.operands.size() != 1 || op.results.size() != 1) return Unknown(op);
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  const SourceAttr* sharding = op.Find("sharding");
  if (sharding == nullptr) sharding = op.Find("out_sharding");
  if (sharding != nullptr && sharding->kind == AttrKind::kShardy && module_->config().num_partitions > 1) {
    Attributes attrs;
    attrs.Set(AttrId::kCustomCallTarget, std::string("Sharding"));
    attrs.SetEnum(AttrId::kApiVersion, CustomCallApiVersion::kOriginal);
    ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kCustomCall, {x}, std::move(attrs), {}, x->shape()));
    y->mutable_frontend_attributes()["xla.sdy.sharding"] = std::string(sharding->text);
    x = y;
  }
  return BindResults(scope, op, {x});
}

absl::Status Importer::ImportManualComputation(Scope& scope, const SourceOp& op) {
  if (op.regions.size() != 1 || op.regions[0].blocks.size() != 1)
    return absl::InvalidArgumentError("a region is empty");
  const SourceBlock& block = op.regions[0].blocks[0];
  if (block.arguments.size() != op.operands.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(op.operands.size(), " operands, the region takes ", block.arguments.size()));
  }
  StringMap notes;
  for (absl::string_view name : {"in_shardings", "out_shardings", "manual_axes"}) {
    const SourceAttr* a = op.Find(name);
    if (a && a->kind == AttrKind::kShardy) notes[absl::StrCat("xla.sdy.", name)] = std::string(a->text);
  }
  // Between a whole value and its shard stands a call that only a partitioner understands.
  auto reshape = [&](Value x, const SourceType* type, absl::string_view target,
                     int64_t index) -> absl::StatusOr<Value> {
    ASSIGN_OR_RETURN(Shape to, ConvertType(type));
    if (x->shape() == to && module_->config().num_partitions == 1) return x;
    Attributes attrs;
    attrs.Set(AttrId::kCustomCallTarget, std::string(target));
    attrs.SetEnum(AttrId::kApiVersion, CustomCallApiVersion::kOriginal);
    ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kCustomCall, {x}, std::move(attrs), {}, std::move(to)));
    y->mutable_frontend_attributes() = notes;
    y->mutable_frontend_attributes()["xla.sdy.index"] = absl::StrCat(index);
    return y;
  };
  for (size_t i = 0; i < block.arguments.size(); ++i) {
    ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[i]));
    ASSIGN_OR_RETURN(x, reshape(x, block.arguments[i].type, "xla.sdy.GlobalToLocalShape", static_cast<int64_t>(i)));
    scope.values[&block.arguments[i]] = {x, -1};
  }
  ASSIGN_OR_RETURN(std::vector<Value> results, ImportBlock(scope, block));
  if (results.size() != op.results.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the region returns ", results.size(), " values, declared ", op.results.size()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    ASSIGN_OR_RETURN(results[i],
                     reshape(results[i], op.results[i].type, "xla.sdy.LocalToGlobalShape", static_cast<int64_t>(i)));
  }
  return BindResults(scope, op, results);
}

}  // namespace backplane::to_hlo
