// Shardy: meshes, constraints and manual computations become the custom calls that the core's partitioner reads:
// Sharding of a value, SPMDFullToShardShape and SPMDShardToFullShape at the entry and exit of a manual region. On one
// partition local and global shapes are the same, and all of it is dropped.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/import/to_hlo/importer.h"
#include "core/import/to_hlo/shardy_sharding.h"

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

namespace {

absl::StatusOr<Value> CompilerCall(Builder& builder, absl::string_view target, Value x, const Shape& result,
                                   std::shared_ptr<const Sharding> sharding, const Ints& open = {}) {
  Attributes attrs;
  attrs.Set(AttrId::kCustomCallTarget, std::string(target));
  attrs.SetEnum(AttrId::kApiVersion, CustomCallApiVersion::kOriginal);
  if (!open.empty()) attrs.Set(AttrId::kOpaque, absl::StrCat("unspecified_dims=[", absl::StrJoin(open, ","), "]"));
  ASSIGN_OR_RETURN(Value y, builder.Op(Opcode::kCustomCall, {x}, std::move(attrs), {}, result.WithoutLayout()));
  y->set_sharding(std::move(sharding));
  return y;
}

int64_t RankOf(const Shape& shape) { return shape.IsArray() ? shape.rank() : 0; }

// A part of what a text was converted to, which stays alive with it.
std::shared_ptr<const Sharding> Share(const std::shared_ptr<const ShardySharding>& s, const Sharding& part) {
  return std::shared_ptr<const Sharding>(s, &part);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ShardySharding>> Importer::GetShardySharding(
    absl::string_view text, int64_t rank, const std::set<std::string>* only_axes) {
  const std::string axes = only_axes == nullptr ? "" : absl::StrCat("{", absl::StrJoin(*only_axes, "\""), "}");
  std::shared_ptr<const ShardySharding>& known = shardy_shardings_[absl::StrCat(rank, axes, text)];
  if (known != nullptr) return known;
  ASSIGN_OR_RETURN(ShardySharding s, ConvertShardySharding(text, meshes_, rank, only_axes));
  RETURN_IF_ERROR(expansion_budget_.Spend(static_cast<int64_t>(axes.size() + text.size()) + MeasureBytes(s.sharding) +
                                          MeasureBytes(s.region)));
  known = std::make_shared<const ShardySharding>(std::move(s));
  return known;
}

absl::Status Importer::ShardParameter(Value parameter, absl::string_view text) {
  if (module_->config().num_partitions == 1 || !parameter->shape().IsArray()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto s, GetShardySharding(text, RankOf(parameter->shape())));
  if (!s->is_unconstrained) parameter->set_sharding(Share(s, s->sharding));
  return absl::OkStatus();
}

absl::StatusOr<Value> Importer::WithSharding(Scope& scope, Value x, const SourceAttr* sharding) {
  if (sharding == nullptr || module_->config().num_partitions == 1 || !x->shape().IsArray()) return x;
  if (sharding->kind == AttrKind::kString) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Sharding> s, GetSharding(sharding->text));
    return CompilerCall(scope.builder, "Sharding", x, x->shape(), std::move(s));
  }
  if (sharding->kind != AttrKind::kShardy) return x;
  ASSIGN_OR_RETURN(auto s, GetShardySharding(sharding->text, RankOf(x->shape())));
  if (s->is_unconstrained) return x;
  return CompilerCall(scope.builder, "Sharding", x, x->shape(), Share(s, s->sharding), s->open);
}

absl::Status Importer::ShardCustomCall(const SourceOp& op, Value call) {
  const SourceAttr* list = op.Find("sdy.sharding");
  if (list == nullptr || list->kind != AttrKind::kShardy || module_->config().num_partitions == 1)
    return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<std::string> each, SplitShardingPerValue(list->text));
  if (each.empty()) return absl::OkStatus();
  // Only a call that is bound to one device; otherwise the users' shardings decide how the results are sharded.
  const Shape& shape = call->shape();
  const Shape& first = shape.IsTuple() && shape.tuple_size() > 0 ? shape.tuple_shapes(0) : shape;
  ASSIGN_OR_RETURN(auto s, GetShardySharding(each[0], RankOf(first)));
  if (s->sharding.type == Sharding::Type::kMaximal) call->set_sharding(Share(s, s->sharding));
  return absl::OkStatus();
}

absl::Status Importer::ShardResults(Scope& scope, const SourceOp& function, std::vector<Value>* results) {
  const SourceAttr* all = function.Find("res_attrs");
  if (all == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < results->size() && i < all->elements.size(); ++i) {
    if (all->elements[i]->kind != AttrKind::kDict) continue;
    const SourceAttr* sharding = all->elements[i]->Find("sdy.sharding");
    if (sharding == nullptr) sharding = all->elements[i]->Find("mhlo.sharding");
    const Value plain = (*results)[i];
    ASSIGN_OR_RETURN((*results)[i], WithSharding(scope, plain, sharding));
    // The partitioner may change an intermediate value's sharding, but not that of a result: the host relies on it.
    Value annotated = (*results)[i];
    if (annotated != plain && annotated->attrs().GetString(AttrId::kOpaque).empty()) {
      annotated->mutable_attrs().Set(AttrId::kOpaque, std::string("result"));
    }
  }
  return absl::OkStatus();
}

// Values of one group are sharded alike: the value is replaced by one that is annotated with the group.
absl::Status Importer::ImportShardingGroup(Scope& scope, const SourceOp& op) {
  if (op.operands.size() != 1) return Unknown(op);
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  if (module_->config().num_partitions == 1 || !x->shape().IsArray()) return absl::OkStatus();
  ASSIGN_OR_RETURN(int64_t group, GetInt(op, "group_id"));
  Attributes attrs;
  attrs.Set(AttrId::kCustomCallTarget, std::string("ShardingGroup"));
  attrs.SetEnum(AttrId::kApiVersion, CustomCallApiVersion::kOriginal);
  attrs.Set(AttrId::kOpaque, absl::StrCat(group));
  ASSIGN_OR_RETURN(Value y,
                   scope.builder.Op(Opcode::kCustomCall, {x}, std::move(attrs), {}, x->shape().WithoutLayout()));
  scope.values[op.operands[0]] = {y, -1};
  return absl::OkStatus();
}

absl::Status Importer::ImportShardyIdentity(Scope& scope, const SourceOp& op) {
  if (op.name == "sdy.sharding_group") return ImportShardingGroup(scope, op);
  if (op.operands.size() != 1 || op.results.size() != 1) return Unknown(op);
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  const SourceAttr* sharding = op.Find("sharding");
  if (sharding == nullptr) sharding = op.Find("out_sharding");
  ASSIGN_OR_RETURN(x, WithSharding(scope, x, sharding));
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
  const bool one_partition = module_->config().num_partitions == 1;
  std::set<std::string> axes;
  auto per_value = [&](absl::string_view name, size_t count) -> absl::StatusOr<std::vector<std::string>> {
    const SourceAttr* a = op.Find(name);
    if (one_partition || a == nullptr || a->kind != AttrKind::kShardy) return std::vector<std::string>(count);
    ASSIGN_OR_RETURN(std::vector<std::string> list, SplitShardingPerValue(a->text));
    if (list.size() == count) return list;
    return absl::InvalidArgumentError(absl::StrCat(name, " has ", list.size(), " entries, expected ", count));
  };
  if (const SourceAttr* a = op.Find("manual_axes"); a != nullptr && a->kind == AttrKind::kShardy) {
    ASSIGN_OR_RETURN(axes, ParseManualAxes(a->text));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> in, per_value("in_shardings", block.arguments.size()));
  ASSIGN_OR_RETURN(std::vector<std::string> out, per_value("out_shardings", op.results.size()));
  // The sharding along the manual axes alone; along the others, where there are such, dimensions may be open.
  auto convert = [&](absl::string_view text,
                     const Shape& shape) -> absl::StatusOr<std::shared_ptr<const ShardySharding>> {
    if (!text.empty()) return GetShardySharding(text, RankOf(shape), &axes);
    ShardySharding all;
    all.region.type = Sharding::Type::kManual;
    return std::make_shared<const ShardySharding>(std::move(all));
  };
  auto open = [](const ShardySharding& s) { return s.region.type == Sharding::Type::kManual ? Ints() : s.open; };
  for (size_t i = 0; i < block.arguments.size(); ++i) {
    ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[i]));
    ASSIGN_OR_RETURN(Shape local, ConvertType(block.arguments[i].type));
    if (!one_partition && local.IsArray()) {
      ASSIGN_OR_RETURN(auto s, convert(in[i], x->shape()));
      ASSIGN_OR_RETURN(x, CompilerCall(scope.builder, "Sharding", x, x->shape(), Share(s, s->sharding), open(*s)));
      ASSIGN_OR_RETURN(x, CompilerCall(scope.builder, "SPMDFullToShardShape", x, local, Share(s, s->region)));
    } else if (x->shape() != local) {
      return absl::InvalidArgumentError(absl::StrCat("operand ", i, " is ", x->shape().ToString(),
                                                     ", the region takes ", local.ToString(),
                                                     "; the module has one partition"));
    }
    scope.values[&block.arguments[i]] = {x, -1};
  }
  ASSIGN_OR_RETURN(std::vector<Value> results, ImportBlock(scope, block));
  if (results.size() != op.results.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the region returns ", results.size(), " values, declared ", op.results.size()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    ASSIGN_OR_RETURN(Shape whole, ConvertType(op.results[i].type));
    if (one_partition || !whole.IsArray()) continue;
    ASSIGN_OR_RETURN(auto s, convert(out[i], whole));
    ASSIGN_OR_RETURN(results[i], CompilerCall(scope.builder, "SPMDShardToFullShape", results[i], whole,
                                              Share(s, s->sharding), open(*s)));
  }
  return BindResults(scope, op, results);
}

}  // namespace backplane::to_hlo
