// Tuples, ordering, and transfers to and from the host.
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

absl::Status Importer::ImportTuple(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Value y, scope.builder.Tuple(std::move(operands)));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportGetTupleElement(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(int64_t index, GetInt(op, "index"));
  ASSIGN_OR_RETURN(Value y, scope.builder.GetTupleElement(x, index));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportBarrier(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  if (operands.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Value all, Pack(scope, std::move(operands)));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kOptimizationBarrier, {all}));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportAfterAll(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kAfterAll, std::move(operands)));
  return Bind(scope, op, y);
}

// StableHLO: token -> values..., token. HLO: ((values...), token).
absl::Status Importer::ImportInfeed(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value token, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(absl::string_view config, GetText(op, "infeed_config"));
  if (op.results.empty()) return absl::InvalidArgumentError("no token among the results");
  size_t n = op.results.size() - 1;
  std::vector<Shape> data;
  for (size_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(Shape s, ConvertType(op.results[i].type));
    data.push_back(std::move(s));
  }
  Shape declared = Shape::Tuple({Shape::Tuple(std::move(data)), Shape::Token()});
  Attributes attrs;
  if (!config.empty()) attrs.Set(AttrId::kInfeedConfig, std::string(config));
  ASSIGN_OR_RETURN(Value both, scope.builder.Op(Opcode::kInfeed, {token}, std::move(attrs), {}, std::move(declared)));
  RETURN_IF_ERROR(ApplyOpAttributes(op, both));
  ASSIGN_OR_RETURN(Value values, scope.builder.GetTupleElement(both, 0));
  for (size_t i = 0; i < n; ++i) scope.values[&op.results[i]] = {values, static_cast<int64_t>(i)};
  scope.values[&op.results[n]] = {both, 1};
  return absl::OkStatus();
}

absl::Status Importer::ImportOutfeed(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(absl::string_view config, GetText(op, "outfeed_config"));
  Value token = operands.back();
  operands.pop_back();
  ASSIGN_OR_RETURN(Value data, Pack(scope, std::move(operands)));
  Attributes attrs;
  attrs.Set(AttrId::kOutfeedShape, std::vector<Shape>{data->shape().WithoutLayout()});
  if (!config.empty()) attrs.Set(AttrId::kOutfeedConfig, std::string(config));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kOutfeed, {data, token}, std::move(attrs), {}, Shape::Token()));
  return Bind(scope, op, y);
}

namespace {

absl::StatusOr<Attributes> TransferAttributes(const SourceOp& op, bool with_pairs) {
  ASSIGN_OR_RETURN(int64_t channel, GetInt(op, "channel_id"));
  ASSIGN_OR_RETURN(bool host, GetBool(op, "is_host_transfer"));
  ASSIGN_OR_RETURN(Ints flat, GetInts(op, "source_target_pairs"));
  Attributes attrs;
  attrs.Set(AttrId::kChannelId, channel);
  if (host) attrs.Set(AttrId::kIsHostTransfer, true);
  if (with_pairs && !flat.empty()) {
    if (flat.size() % 2 != 0) return absl::InvalidArgumentError("source_target_pairs has an odd number of entries");
    Pairs pairs;
    for (size_t i = 0; i < flat.size(); i += 2) pairs.emplace_back(flat[i], flat[i + 1]);
    attrs.Set(AttrId::kSourceTargetPairs, std::move(pairs));
  }
  return attrs;
}

}  // namespace

absl::Status Importer::ImportSend(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  Value token = operands.back();
  operands.pop_back();
  ASSIGN_OR_RETURN(Value data, Pack(scope, std::move(operands)));
  ASSIGN_OR_RETURN(Attributes attrs, TransferAttributes(op, true));
  Shape context = Shape::Tuple({data->shape().WithoutLayout(), Shape::Scalar(PrimitiveType::kU32), Shape::Token()});
  ASSIGN_OR_RETURN(Value send,
                   scope.builder.Op(Opcode::kSend, {data, token}, std::move(attrs), {}, std::move(context)));
  RETURN_IF_ERROR(ApplyOpAttributes(op, send));
  RETURN_IF_ERROR(ShardCustomCall(op, send));
  ASSIGN_OR_RETURN(Attributes done_attrs, TransferAttributes(op, false));
  ASSIGN_OR_RETURN(Value done, scope.builder.Op(Opcode::kSendDone, {send}, std::move(done_attrs), {}, Shape::Token()));
  return Bind(scope, op, done);
}

absl::Status Importer::ImportRecv(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value token, Get(scope, op.operands[0]));
  if (op.results.empty()) return absl::InvalidArgumentError("no token among the results");
  size_t n = op.results.size() - 1;
  std::vector<Shape> parts;
  for (size_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(Shape s, ConvertType(op.results[i].type));
    parts.push_back(std::move(s));
  }
  Shape data = n == 1 ? parts[0] : Shape::Tuple(std::move(parts));
  ASSIGN_OR_RETURN(Attributes attrs, TransferAttributes(op, true));
  Shape context = Shape::Tuple({data, Shape::Scalar(PrimitiveType::kU32), Shape::Token()});
  ASSIGN_OR_RETURN(Value recv, scope.builder.Op(Opcode::kRecv, {token}, std::move(attrs), {}, std::move(context)));
  RETURN_IF_ERROR(ApplyOpAttributes(op, recv));
  RETURN_IF_ERROR(ShardCustomCall(op, recv));
  ASSIGN_OR_RETURN(Attributes done_attrs, TransferAttributes(op, false));
  ASSIGN_OR_RETURN(Value done, scope.builder.Op(Opcode::kRecvDone, {recv}, std::move(done_attrs), {},
                                                Shape::Tuple({data, Shape::Token()})));
  if (n == 1) {
    scope.values[&op.results[0]] = {done, 0};
  } else {
    ASSIGN_OR_RETURN(Value values, scope.builder.GetTupleElement(done, 0));
    for (size_t i = 0; i < n; ++i) scope.values[&op.results[i]] = {values, static_cast<int64_t>(i)};
  }
  scope.values[&op.results[n]] = {done, 1};
  return absl::OkStatus();
}

}  // namespace backplane::to_hlo
