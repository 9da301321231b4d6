// Custom calls: those a backend serves, and those that only speak to the compiler.
#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/chlo_functions.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

namespace {

using stablehlo::AttrKind;

// Layouts, each a list minor to major; an empty result when none are given.
absl::StatusOr<std::vector<Ints>> GetLayouts(const SourceOp& op, absl::string_view name, size_t count) {
  const SourceAttr* a = op.Find(name);
  std::vector<Ints> out;
  if (a == nullptr || a->elements.empty()) return out;
  if (a->elements.size() != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute ", name, " has ", a->elements.size(), " entries, expected ", count));
  }
  for (const SourceAttr* e : a->elements) {
    absl::StatusOr<Ints> layout = stablehlo::ReadDenseIntegers(e);
    if (!layout.ok())
      return absl::InvalidArgumentError(absl::StrCat("attribute ", name, ": ", layout.status().message()));
    out.push_back(*std::move(layout));
  }
  return out;
}

absl::Status SetLayout(Shape* shape, const Ints& minor_to_major) {
  if (!shape->IsArray()) return absl::OkStatus();
  Ints sorted = minor_to_major;
  std::sort(sorted.begin(), sorted.end());
  bool good = static_cast<int64_t>(sorted.size()) == shape->rank();
  for (size_t i = 0; good && i < sorted.size(); ++i) good = sorted[i] == static_cast<int64_t>(i);
  if (!good)
    return absl::InvalidArgumentError(
        absl::StrCat("a layout is no permutation of the dimensions of ", shape->ToString()));
  Layout layout;
  layout.minor_to_major.assign(minor_to_major.begin(), minor_to_major.end());
  shape->set_layout(std::move(layout));
  return absl::OkStatus();
}

absl::StatusOr<OutputOperandAliases> GetAliases(const SourceOp& op) {
  OutputOperandAliases out;
  const SourceAttr* list = op.Find("output_operand_aliases");
  if (list == nullptr) return out;
  for (const SourceAttr* e : list->elements) {
    const SourceAttr* operand = e->Find("operand_index");
    if (e->kind != AttrKind::kDict || operand == nullptr || operand->kind != AttrKind::kInteger) {
      return absl::InvalidArgumentError("attribute output_operand_aliases: an entry is malformed");
    }
    OutputOperandAlias alias;
    alias.operand = operand->integer;
    ASSIGN_OR_RETURN(alias.output_index, stablehlo::ReadDenseIntegers(e->Find("output_tuple_indices")));
    ASSIGN_OR_RETURN(alias.operand_index, stablehlo::ReadDenseIntegers(e->Find("operand_tuple_indices")));
    out.push_back(std::move(alias));
  }
  return out;
}

CustomCallApiVersion ApiVersion(absl::string_view text) {
  static constexpr std::pair<const char*, CustomCallApiVersion> kVersions[] = {
      {"API_VERSION_ORIGINAL", CustomCallApiVersion::kOriginal},
      {"API_VERSION_STATUS_RETURNING", CustomCallApiVersion::kStatusReturning},
      {"API_VERSION_STATUS_RETURNING_UNIFIED", CustomCallApiVersion::kStatusReturningUnified},
      {"API_VERSION_TYPED_FFI", CustomCallApiVersion::kTypedFfi}};
  for (const auto& [name, version] : kVersions) {
    if (text == name) return version;
  }
  return CustomCallApiVersion::kUnspecified;
}

// The typed dictionary, wherever the host put it; null when there is none.
const SourceAttr* FfiDictionaryOf(const SourceOp& op) {
  for (absl::string_view name : {"mhlo.backend_config", "backend_config"}) {
    const SourceAttr* a = op.Find(name);
    if (a && a->kind == AttrKind::kDict) return a;
  }
  return nullptr;
}

}  // namespace

absl::Status Importer::ImportCustomCall(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(absl::string_view target, GetText(op, "call_target_name"));
  ASSIGN_OR_RETURN(bool done, ImportCompilerCall(scope, op, target));
  if (done) return absl::OkStatus();

  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(absl::string_view api, GetText(op, "api_version"));
  ASSIGN_OR_RETURN(bool side_effect, GetBool(op, "has_side_effect"));
  Attributes attrs;
  attrs.Set(AttrId::kCustomCallTarget, std::string(target));
  CustomCallApiVersion version = ApiVersion(api);
  if (const SourceAttr* dictionary = FfiDictionaryOf(op)) {
    ASSIGN_OR_RETURN(FfiDictionary ffi, ConvertFfiDictionary(dictionary, &attribute_budget_));
    attrs.Set(AttrId::kFfiAttributes, std::move(ffi));
    version = CustomCallApiVersion::kTypedFfi;
  } else if (const SourceAttr* config = op.Find("backend_config"); config && config->kind == AttrKind::kString) {
    if (!config->text.empty()) attrs.Set(AttrId::kOpaque, std::string(config->text));
  }
  attrs.SetEnum(AttrId::kApiVersion, version);
  if (side_effect) attrs.Set(AttrId::kHasSideEffect, true);

  ASSIGN_OR_RETURN(std::vector<Ints> layouts, GetLayouts(op, "operand_layouts", operands.size()));
  if (!layouts.empty()) {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < operands.size(); ++i) {
      shapes.push_back(operands[i]->shape().WithoutLayout());
      RETURN_IF_ERROR(SetLayout(&shapes.back(), layouts[i]));
    }
    attrs.Set(AttrId::kOperandLayouts, std::move(shapes));
  }
  ASSIGN_OR_RETURN(Shape result, ResultShape(op));
  // A result that is a tuple type may have one layout for each of its elements.
  size_t parts =
      op.results.size() == 1 && result.IsTuple() ? static_cast<size_t>(result.tuple_size()) : op.results.size();
  ASSIGN_OR_RETURN(layouts, GetLayouts(op, "result_layouts", parts));
  for (size_t i = 0; i < layouts.size(); ++i) {
    RETURN_IF_ERROR(SetLayout(result.IsTuple() ? &result.mutable_tuple_shapes()[i] : &result, layouts[i]));
  }
  ASSIGN_OR_RETURN(OutputOperandAliases aliases, GetAliases(op));
  if (!aliases.empty()) attrs.Set(AttrId::kOutputOperandAliases, std::move(aliases));

  std::vector<Computation*> called;
  const SourceAttr* functions = op.Find("called_computations");
  for (const SourceAttr* f : functions ? functions->elements : absl::Span<const SourceAttr* const>()) {
    if (f->kind != AttrKind::kString) return absl::InvalidArgumentError("called_computations holds no function names");
    ASSIGN_OR_RETURN(Computation * c, ImportFunction(f->text));
    called.push_back(c);
  }
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kCustomCall, std::move(operands), std::move(attrs),
                                             std::move(called), std::move(result)));
  RETURN_IF_ERROR(ShardCustomCall(op, y));
  return Bind(scope, op, y);
}

// The computation of the second value begins after that of the first. Either may be asynchronous. No value changes.
absl::Status Importer::ImportControlDependency(Scope& scope, const SourceOp& op) {
  Instruction* ends[2];
  for (size_t k = 0; k < 2; ++k) {
    if (scope.futures.contains(op.operands[k])) return absl::OkStatus();  // runs at once, where it is written
    ASSIGN_OR_RETURN(Value v, Get(scope, op.operands[k]));
    while (v->Is(Opcode::kGetTupleElement)) v = v->operand(0);
    ends[k] = v;
  }
  auto [first, second] = ends;
  if (first == second || second->Is(Opcode::kParameter) || second->Is(Opcode::kConstant)) return absl::OkStatus();
  if (first->parent() != second->parent()) {
    return absl::InvalidArgumentError(
        absl::StrCat("control_dep: ", first->name(), " and ", second->name(), " are not of one function"));
  }
  absl::flat_hash_set<const Instruction*> seen;
  std::vector<const Instruction*> open = {first};
  while (!open.empty()) {
    const Instruction* i = open.back();
    open.pop_back();
    if (!seen.insert(i).second) continue;
    if (i == second) {
      return absl::InvalidArgumentError(
          absl::StrCat("control_dep: ", second->name(), " cannot come after ", first->name(), ", which waits for it"));
    }
    open.insert(open.end(), i->operands().begin(), i->operands().end());
    open.insert(open.end(), i->control_predecessors().begin(), i->control_predecessors().end());
  }
  second->AddControlPredecessor(first);
  first->parent()->SortTopologically();
  return absl::OkStatus();
}

// Calls that tell the compiler something instead of computing. False when `target` is none of them.
absl::StatusOr<bool> Importer::ImportCompilerCall(Scope& scope, const SourceOp& op, absl::string_view target) {
  bool one_partition = module_->config().num_partitions == 1;
  bool unary = op.operands.size() == 1 && op.results.size() == 1;
  auto identity = [&]() -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
    RETURN_IF_ERROR(BindResults(scope, op, {x}));
    return true;
  };
  // Where a value lives or how it is split changes nothing about it. On several partitions a partitioner reads it.
  if (unary && (target == "annotate_device_placement" || target == "LayoutConstraint" || target == "Pin" ||
                target == "Unpin" || target == "CreateBuffer")) {
    return identity();
  }
  bool sharding = target == "Sharding" || target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape" ||
                  target == "xla.sdy.GlobalToLocalShape" || target == "xla.sdy.LocalToGlobalShape" ||
                  target == "xla.sdy.FuncResultSharding";
  if (sharding && one_partition) {
    if (op.operands.size() != op.results.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(target, " has ", op.operands.size(), " operands and ", op.results.size(), " results"));
    }
    ASSIGN_OR_RETURN(std::vector<Value> values, Operands(scope, op));
    RETURN_IF_ERROR(BindResults(scope, op, values));
    return true;
  }
  if (target == "control_dep" && op.operands.size() == 2 && op.results.empty()) {
    RETURN_IF_ERROR(ImportControlDependency(scope, op));
    return true;
  }
  if (target == "shape_assertion") {
    const SourceOp* made = op.operands.empty() ? nullptr : op.operands[0]->op;
    const SourceAttr* value = made && made->name == "stablehlo.constant" ? made->Find("value") : nullptr;
    if (value == nullptr || value->text.empty()) {
      return absl::UnimplementedError("a shape assertion is not decided: refine the program's shapes first");
    }
    if (value->text[0] != 0) return true;
    const SourceAttr* message = op.Find("error_message");
    return absl::InvalidArgumentError(
        absl::StrCat("shape assertion failed: ", message ? message->text : absl::string_view("no message")));
  }
  if (target == "ApproxTopK") {
    RETURN_IF_ERROR(ImportApproxTopK(scope, op));
    return true;
  }
  // Operations of CHLO, as hosts without composites encode them.
  if (const SourceAttr* given = op.Find("mhlo.attributes"); given != nullptr && given->kind == AttrKind::kDict) {
    const SourceAttr *k = given->Find("k"), *largest = given->Find("largest");
    if (target == "mhlo.topk" && op.operands.size() == 1 && k != nullptr && k->kind == AttrKind::kInteger) {
      RETURN_IF_ERROR(ImportTopK(scope, op, k->integer,
                                 largest == nullptr || largest->kind != AttrKind::kBool || largest->integer != 0));
      return true;
    }
    if (target == "chlo.ragged_dot") {
      SourceOp meant = op;
      meant.attributes = given->entries;
      RETURN_IF_ERROR(ImportRaggedDot(scope, meant));
      return true;
    }
    if (unary && (absl::StartsWith(target, "mhlo.") || absl::StartsWith(target, "chlo."))) {
      ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
      ASSIGN_OR_RETURN(Value y, ExpandChloUnary(scope.builder, target.substr(5), x));
      RETURN_IF_ERROR(Bind(scope, op, y));
      return true;
    }
  }
  if (target == "ragged_all_to_all") {
    RETURN_IF_ERROR(ImportRaggedAllToAll(scope, op));
    return true;
  }
  return false;
}

// The exact answer is an allowed approximation: sort along the dimension by the given comparator and keep the front.
absl::Status Importer::ImportApproxTopK(Scope& scope, const SourceOp& op) {
  size_t n = op.results.size();
  const SourceAttr* functions = op.Find("called_computations");
  const SourceAttr* dictionary = FfiDictionaryOf(op);
  const SourceAttr* dim = dictionary ? dictionary->Find("reduction_dim") : nullptr;
  if (n == 0 || op.operands.size() != 2 * n || functions == nullptr || functions->elements.size() != 1 ||
      functions->elements[0]->kind != AttrKind::kString || dim == nullptr || dim->kind != AttrKind::kInteger) {
    return absl::InvalidArgumentError("expected n operands, n initial values, one comparator and a reduction_dim");
  }
  std::vector<Value> operands;
  for (size_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(Value v, Get(scope, op.operands[i]));
    operands.push_back(v);
  }
  const Shape shape = operands[0]->shape();
  int64_t d = dim->integer < 0 ? dim->integer + shape.rank() : dim->integer;
  if (!shape.IsArray() || d < 0 || d >= shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduction_dim ", dim->integer, " is not one of ", shape.ToString()));
  }
  ASSIGN_OR_RETURN(Shape result, ConvertType(op.results[0].type));
  if (result.rank() != shape.rank() || result.dimensions(d) > shape.dimensions(d)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot keep ", result.ToString(), " of ", shape.ToString()));
  }
  ASSIGN_OR_RETURN(Computation * comparator, ImportFunction(functions->elements[0]->text));
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{d});
  attrs.Set(AttrId::kIsStable, true);
  ASSIGN_OR_RETURN(Value sorted, scope.builder.Op(Opcode::kSort, std::move(operands), std::move(attrs), {comparator}));
  ASSIGN_OR_RETURN(std::vector<Value> parts, Unpack(scope, sorted, n));
  for (Value& v : parts) {
    SliceConfig config;
    for (int64_t i = 0; i < shape.rank(); ++i)
      config.push_back({0, i == d ? result.dimensions(d) : shape.dimensions(i), 1});
    ASSIGN_OR_RETURN(v, scope.builder.Slice(v, std::move(config)));
  }
  return BindResults(scope, op, parts);
}

absl::Status Importer::ImportRaggedAllToAll(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  const SourceAttr* dictionary = FfiDictionaryOf(op);
  const SourceAttr* dense = dictionary ? dictionary->Find("replica_groups") : nullptr;
  if (operands.size() != 6 || dense == nullptr || dense->kind != AttrKind::kDense || dense->type->dims.size() != 2) {
    return absl::InvalidArgumentError("expected six operands and replica_groups of rank 2");
  }
  ASSIGN_OR_RETURN(ReplicaGroups groups, ConvertReplicaGroups(dense));
  Attributes attrs;
  attrs.Set(AttrId::kReplicaGroups, std::move(groups));
  const SourceAttr* channel = dictionary->Find("channel_id");
  if (channel && channel->kind == AttrKind::kInteger && channel->integer > 0)
    attrs.Set(AttrId::kChannelId, channel->integer);
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kRaggedAllToAll, std::move(operands), std::move(attrs)));
  return Bind(scope, op, y);
}

}  // namespace backplane::to_hlo
