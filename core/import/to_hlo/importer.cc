#include "core/import/to_hlo/importer.h"

#include <algorithm>
#include <bit>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/import/stablehlo/hlo_attributes.h"
#include "core/import/stablehlo_to_hlo.h"
#include "core/import/to_hlo/quantized.h"

namespace backplane::to_hlo {

using stablehlo::AttrKind;
using stablehlo::SourceNamedAttr;

const absl::flat_hash_map<absl::string_view, Importer::Handler>& Importer::Handlers() {
  static const auto* handlers = new absl::flat_hash_map<absl::string_view, Handler>{
      {"all_gather", &Importer::ImportAllGather},
      {"all_reduce", &Importer::ImportAllReduce},
      {"all_to_all", &Importer::ImportAllToAll},
      {"after_all", &Importer::ImportAfterAll},
      {"async_done", &Importer::ImportAsyncDone},
      {"async_start", &Importer::ImportAsyncStart},
      {"bitcast_convert", &Importer::ImportConvert},
      {"broadcast", &Importer::ImportBroadcast},
      {"broadcast_in_dim", &Importer::ImportBroadcast},
      {"case", &Importer::ImportConditional},
      {"collective_broadcast", &Importer::ImportRootedCollective},
      {"collective_permute", &Importer::ImportCollectivePermute},
      {"collective_reduce", &Importer::ImportRootedCollective},
      {"compare", &Importer::ImportCompare},
      {"composite", &Importer::ImportComposite},
      {"constant", &Importer::ImportConstant},
      {"convert", &Importer::ImportConvert},
      {"convolution", &Importer::ImportConvolution},
      {"create_token", &Importer::ImportAfterAll},
      {"cross-replica-sum", &Importer::ImportCrossReplicaSum},
      {"custom_call", &Importer::ImportCustomCall},
      {"dot", &Importer::ImportDot},
      {"dot_general", &Importer::ImportDot},
      {"dynamic_broadcast_in_dim", &Importer::ImportBroadcast},
      {"dynamic_conv", &Importer::ImportConvolution},
      {"dynamic_gather", &Importer::ImportDynamicGather},
      {"dynamic_iota", &Importer::ImportIota},
      {"dynamic_pad", &Importer::ImportDynamicPad},
      {"dynamic_reshape", &Importer::ImportReshape},
      {"einsum", &Importer::ImportEinsum},
      {"get_tuple_element", &Importer::ImportGetTupleElement},
      {"if", &Importer::ImportConditional},
      {"infeed", &Importer::ImportInfeed},
      {"optimization_barrier", &Importer::ImportBarrier},
      {"outfeed", &Importer::ImportOutfeed},
      {"partition_id", &Importer::ImportId},
      {"real_dynamic_slice", &Importer::ImportRealDynamicSlice},
      {"recv", &Importer::ImportRecv},
      {"reduce", &Importer::ImportReduce},
      {"reduce_scatter", &Importer::ImportReduceScatter},
      {"reduce_window", &Importer::ImportWindowed},
      {"replica_id", &Importer::ImportId},
      {"reshape", &Importer::ImportReshape},
      {"rng", &Importer::ImportRng},
      {"select_and_scatter", &Importer::ImportWindowed},
      {"send", &Importer::ImportSend},
      {"sort", &Importer::ImportSort},
      {"torch_index_select", &Importer::ImportTorchIndexSelect},
      {"tuple", &Importer::ImportTuple},
      {"unary_einsum", &Importer::ImportEinsum},
      {"uniform_dequantize", &Importer::ImportQuantized},
      {"uniform_quantize", &Importer::ImportQuantized},
      {"while", &Importer::ImportWhile},
  };
  return *handlers;
}

namespace {

// An argument with a longer name has it only in the metadata.
constexpr size_t kMaxArgumentName = 200;

}  // namespace

absl::Status Importer::Annotate(const SourceOp& op, const absl::Status& status) const {
  // The innermost op that failed is the one to name.
  if (status.ok() || absl::StartsWith(status.message(), "stablehlo import: ")) return status;
  stablehlo::SourceLocation at = source_.Location(op.location);
  std::string where;
  if (!at.file.empty()) absl::StrAppend(&where, " at ", at.file, ":", at.line);
  if (!at.name.empty()) absl::StrAppend(&where, " (", at.name, ")");
  if (!source_.producer.empty()) absl::StrAppend(&where, " [", source_.producer, "]");
  return absl::Status(status.code(), absl::StrCat("stablehlo import: ", op.name, where, ": ", status.message()));
}

absl::Status Importer::Unknown(const SourceOp& op) const {
  return absl::UnimplementedError("operation is not supported");
}

absl::StatusOr<std::unique_ptr<Module>> Importer::Run() {
  module_ = std::make_unique<Module>(source_.name.empty() ? "module" : MakeHloName(source_.name));
  RETURN_IF_ERROR(ImportModuleAttributes());
  const SourceOp* entry = nullptr;
  int functions = 0, open = 0;
  const SourceOp* last_open = nullptr;
  for (const SourceOp* op : source_.ops) {
    if (op->name == "sdy.mesh") {
      RETURN_IF_ERROR(Annotate(*op, ImportMesh(*op)));
      continue;
    }
    if (op->name != "func.func") return Annotate(*op, Unknown(*op));
    ++functions;
    ASSIGN_OR_RETURN(absl::string_view visibility, GetText(*op, "sym_visibility"));
    ASSIGN_OR_RETURN(absl::string_view name, GetText(*op, "sym_name"));
    if (name == "main") entry = op;
    if (visibility != "private") {
      ++open;
      last_open = op;
    }
  }
  if (entry == nullptr && open == 1) entry = last_open;
  if (entry == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("stablehlo import: no entry: the module has ", functions, " functions, none of them @main"));
  }
  RETURN_IF_ERROR(Annotate(*entry, ImportEntry(*entry)));
  RETURN_IF_ERROR(VerifyModule(*module_));
  return std::move(module_);
}

absl::Status Importer::ImportModuleAttributes() {
  ModuleConfig& config = module_->config();
  for (const SourceNamedAttr& a : source_.attributes) {
    if (a.value->kind == AttrKind::kInteger && (a.name == "mhlo.num_partitions" || a.name == "mhlo.num_replicas")) {
      if (a.value->integer < 1 || a.value->integer > 1 << 20) {
        return absl::InvalidArgumentError(absl::StrCat("stablehlo import: ", a.name, " is ", a.value->integer));
      }
      (a.name == "mhlo.num_partitions" ? config.num_partitions : config.num_replicas) = a.value->integer;
    } else if (a.name == "mhlo.frontend_attributes" && a.value->kind == AttrKind::kDict) {
      for (const SourceNamedAttr& e : a.value->entries) {
        if (e.value->kind == AttrKind::kString)
          config.frontend_attributes[std::string(e.name)] = std::string(e.value->text);
      }
    }
  }
  return absl::OkStatus();
}

OpMetadata Importer::MetadataAt(stablehlo::LocationId location) const {
  OpMetadata metadata;
  if (location == 0) return metadata;
  stablehlo::SourceLocation at = source_.Location(location);
  metadata.op_name = CutMetadataText(at.name);
  metadata.source_file = CutMetadataText(at.file);
  metadata.source_line = static_cast<int32_t>(std::clamp<int64_t>(at.line, 0, INT32_MAX));
  return metadata;
}

namespace {

// What a framework calls an argument, as an instruction's name: "params['w']" is params__w__.
std::string ArgumentName(absl::string_view called, size_t number) {
  if (called.empty() || called.size() > kMaxArgumentName) return absl::StrCat("Arg_", number);
  return MakeHloName(called);
}

}  // namespace

std::string MakeHloName(absl::string_view wished) {
  std::string name(wished);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-') c = '_';
  }
  const bool is_name = !name.empty() && (absl::ascii_isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_');
  return is_name ? name : absl::StrCat("_", name);
}

absl::Status Importer::ImportEntry(const SourceOp& function) {
  if (function.regions[0].blocks.empty()) return absl::InvalidArgumentError("the entry function has no body");
  ASSIGN_OR_RETURN(absl::string_view name, GetText(function, "sym_name"));
  const SourceBlock& body = function.regions[0].blocks[0];
  functions_[name] = nullptr;
  Scope scope(module_.get(), name, &expansion_budget_);
  for (size_t i = 0; i < body.arguments.size(); ++i) {
    ASSIGN_OR_RETURN(Shape shape, ConvertType(body.arguments[i].type));
    OpMetadata metadata = MetadataAt(body.arguments[i].location);
    std::string called = ArgumentName(metadata.op_name, i);
    scope.builder.set_metadata(std::move(metadata));
    ASSIGN_OR_RETURN(Value v, scope.builder.Parameter(static_cast<int64_t>(i), shape, std::move(called)));
    scope.values[&body.arguments[i]] = {v, -1};
  }
  RETURN_IF_ERROR(ImportArgumentAttributes(function, scope));
  ASSIGN_OR_RETURN(std::vector<Value> results, ImportBlock(scope, body));
  const SourceType* type = function.Find("function_type")->type;
  if (results.size() != type->results.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("returns ", results.size(), " values, declared ", type->results.size()));
  }
  RETURN_IF_ERROR(ShardResults(scope, function, &results));
  ASSIGN_OR_RETURN(Value root, Pack(scope, std::move(results)));
  ASSIGN_OR_RETURN(Computation * c, scope.builder.Build(root));
  functions_[name] = c;
  module_->set_entry(c);
  return ImportResultAttributes(function, root->shape());
}

namespace {

// The attribute dictionary of argument or result i; null when it has none.
absl::StatusOr<const SourceAttr*> Dictionary(const SourceOp& function, absl::string_view list, size_t i, size_t count) {
  const SourceAttr* all = function.Find(list);
  if (all == nullptr || all->elements.empty()) return nullptr;
  if (all->elements.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(list, " has ", all->elements.size(), " entries, expected ", count));
  }
  if (all->elements[i]->kind != AttrKind::kDict) {
    return absl::InvalidArgumentError(absl::StrCat(list, " ", i, " is no dictionary"));
  }
  return all->elements[i];
}

// mhlo.layout_mode: "default", "auto", or a layout such as {1,0:T(8,128)}.
absl::StatusOr<Shape> WithLayoutMode(const Shape& shape, absl::string_view mode) {
  if (mode == "default" || mode == "auto" || mode.empty() || !shape.IsArray()) return shape.WithoutLayout();
  return ParseShape(absl::StrCat(shape.WithoutLayout().ToString(), mode));
}

// Result i of n, without sharding annotations.
const Instruction* ResultValue(const Computation& entry, size_t i, size_t n) {
  const Instruction* value = n == 1 ? entry.root() : entry.root()->operand(static_cast<int64_t>(i));
  while (value->Is(Opcode::kCustomCall) && value->custom_call_target() == "Sharding") value = value->operand(0);
  return value;
}

// The layout of a LayoutConstraint on a function's result; null when there is none.
const SourceAttr* FindLayoutConstraint(const SourceOp& function, size_t i) {
  const SourceBlock& body = function.regions[0].blocks[0];
  if (body.ops.empty() || i >= body.ops.back()->operands.size()) return nullptr;
  const SourceOp* made = body.ops.back()->operands[i]->op;
  while (made != nullptr && made->operands.size() == 1) {
    const SourceAttr* target = made->Find("call_target_name");
    if (target != nullptr && target->text == "LayoutConstraint") {
      const SourceAttr* layouts = made->Find("result_layouts");
      return layouts != nullptr && layouts->elements.size() == 1 ? layouts->elements[0] : nullptr;
    }
    if (made->name != "sdy.sharding_constraint" && !(target != nullptr && target->text == "Sharding")) break;
    made = made->operands[0]->op;
  }
  return nullptr;
}

// For a result whose layout is free: a transposed value keeps the operand's memory order, and nothing is moved.
void UseTransposedLayout(const Instruction* value, Shape* shape) {
  if (!value->Is(Opcode::kTranspose)) return;
  const Ints& permutation = value->dimensions();  // result dimension d is the operand's permutation[d]
  Layout layout;
  layout.minor_to_major.resize(permutation.size());
  for (size_t d = 0; d < permutation.size(); ++d) {
    layout.minor_to_major[permutation.size() - 1 - static_cast<size_t>(permutation[d])] = static_cast<int64_t>(d);
  }
  shape->set_layout(std::move(layout));
}

}  // namespace

absl::Status Importer::ImportArgumentAttributes(const SourceOp& function, Scope& scope) {
  ModuleConfig& config = module_->config();
  const SourceType* type = function.Find("function_type")->type;
  size_t n = type->members.size();
  bool single = type->results.size() == 1;
  std::vector<Shape> layouts;
  bool layout_given = false, kind_given = false;
  std::vector<std::string> kinds(n);
  for (size_t i = 0; i < n; ++i) {
    Value parameter = scope.builder.computation()->parameter(static_cast<int64_t>(i));
    layouts.push_back(parameter->shape().WithoutLayout());
    ASSIGN_OR_RETURN(const SourceAttr* dictionary, Dictionary(function, "arg_attrs", i, n));
    if (dictionary == nullptr) continue;
    for (const SourceNamedAttr& a : dictionary->entries) {
      if (a.name == "tf.aliasing_output" && a.value->kind == AttrKind::kInteger) {
        if (a.value->integer < 0 || a.value->integer >= static_cast<int64_t>(type->results.size())) {
          return absl::InvalidArgumentError(
              absl::StrCat("argument ", i, " is aliased with result ", a.value->integer, " of ", type->results.size()));
        }
        InputOutputAlias alias;
        if (!single) alias.output_index = {a.value->integer};
        alias.parameter = static_cast<int64_t>(i);
        config.input_output_aliases.push_back(alias);
      } else if (a.name == "jax.buffer_donor" && (a.value->kind == AttrKind::kUnit || a.value->integer == 1)) {
        config.buffer_donors.push_back({static_cast<int64_t>(i), {}});
      } else if (a.name == "mhlo.memory_kind" && a.value->kind == AttrKind::kString) {
        kinds[i] = std::string(a.value->text);
        kind_given = true;
      } else if (a.name == "mhlo.layout_mode" && a.value->kind == AttrKind::kString) {
        ASSIGN_OR_RETURN(layouts[i], WithLayoutMode(layouts[i], a.value->text));
        layout_given |= layouts[i].has_layout();
      } else if (a.name == "mhlo.sharding" && a.value->kind == AttrKind::kString) {
        ASSIGN_OR_RETURN(std::shared_ptr<const Sharding> sharding, GetSharding(a.value->text));
        parameter->set_sharding(std::move(sharding));
      } else if (a.name == "sdy.sharding" && a.value->kind == AttrKind::kShardy) {
        RETURN_IF_ERROR(ShardParameter(parameter, a.value->text));
      } else if (a.name == "mhlo.frontend_attributes" && a.value->kind == AttrKind::kDict) {
        for (const SourceNamedAttr& e : a.value->entries) {
          if (e.value->kind == AttrKind::kString)
            RETURN_IF_ERROR(AddFrontendAttribute(parameter, e.name, e.value->text));
        }
      }
    }
  }
  if (kind_given) config.parameter_memory_kinds = std::move(kinds);
  if (layout_given) config.parameter_layouts = std::move(layouts);
  return absl::OkStatus();
}

absl::Status Importer::ImportResultAttributes(const SourceOp& function, const Shape& result) {
  ModuleConfig& config = module_->config();
  size_t n = function.Find("function_type")->type->results.size();
  std::vector<Shape> layouts = n == 1 ? std::vector<Shape>{result} : result.tuple_shapes();
  std::vector<std::string> kinds(n);
  bool layout_given = false, kind_given = false;
  for (size_t i = 0; i < n; ++i) {
    layouts[i].clear_layout();
    ASSIGN_OR_RETURN(const SourceAttr* dictionary, Dictionary(function, "res_attrs", i, n));
    if (dictionary == nullptr) continue;
    const SourceAttr* kind = dictionary->Find("mhlo.memory_kind");
    if (kind && kind->kind == AttrKind::kString) {
      kinds[i] = std::string(kind->text);
      kind_given = true;
    }
    const SourceAttr* mode = dictionary->Find("mhlo.layout_mode");
    if (mode && mode->kind == AttrKind::kString) {
      ASSIGN_OR_RETURN(layouts[i], WithLayoutMode(layouts[i], mode->text));
      const SourceAttr* asked = mode->text == "auto" ? FindLayoutConstraint(function, i) : nullptr;
      if (asked != nullptr && layouts[i].IsArray()) {
        ASSIGN_OR_RETURN(Ints order, stablehlo::ReadDenseIntegers(asked));
        ASSIGN_OR_RETURN(layouts[i], WithLayoutMode(layouts[i], absl::StrCat("{", absl::StrJoin(order, ","), "}")));
      } else if (mode->text == "auto") {
        UseTransposedLayout(ResultValue(*module_->entry(), i, n), &layouts[i]);
      }
      layout_given |= layouts[i].has_layout();
    }
  }
  if (kind_given) config.result_memory_kinds = std::move(kinds);
  if (layout_given) config.result_layout = n == 1 ? layouts[0] : Shape::Tuple(std::move(layouts));
  return absl::OkStatus();
}

absl::StatusOr<Computation*> Importer::ImportFunction(absl::string_view name) {
  auto it = functions_.find(name);
  if (it != functions_.end()) {
    if (it->second == nullptr) return absl::InvalidArgumentError(absl::StrCat("function @", name, " calls itself"));
    return it->second;
  }
  const SourceOp* function = source_.FindSymbol(name);
  if (function == nullptr || function->name != "func.func") {
    return absl::InvalidArgumentError(absl::StrCat("function @", name, " is not defined"));
  }
  if (function->regions[0].blocks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("function @", name, " has no body"));
  }
  functions_[name] = nullptr;
  const SourceBlock& body = function->regions[0].blocks[0];
  Scope scope(module_.get(), name, &expansion_budget_);
  for (size_t i = 0; i < body.arguments.size(); ++i) {
    ASSIGN_OR_RETURN(Shape shape, ConvertType(body.arguments[i].type));
    scope.builder.set_metadata(MetadataAt(body.arguments[i].location));
    ASSIGN_OR_RETURN(Value v, scope.builder.Parameter(static_cast<int64_t>(i), shape));
    scope.values[&body.arguments[i]] = {v, -1};
  }
  ASSIGN_OR_RETURN(std::vector<Value> results, ImportBlock(scope, body));
  ASSIGN_OR_RETURN(Value root, Pack(scope, std::move(results)));
  ASSIGN_OR_RETURN(Computation * c, scope.builder.Build(root));
  functions_[name] = c;
  return c;
}

// All recursion passes through here. After an error the import ends, and the depth does not matter any more.
absl::StatusOr<std::vector<Value>> Importer::ImportBlock(Scope& scope, const SourceBlock& block) {
  if (depth_ >= kMaxImportDepth) return absl::ResourceExhaustedError("calls and regions are nested too deeply");
  if (block.ops.empty()) return absl::InvalidArgumentError("a block ends without a return");
  ++depth_;
  for (size_t i = 0; i + 1 < block.ops.size(); ++i) {
    RETURN_IF_ERROR(Annotate(*block.ops[i], ImportOp(scope, *block.ops[i])));
  }
  --depth_;
  const SourceOp& last = *block.ops.back();
  if (last.name != "func.return" && last.name != "stablehlo.return" && last.name != "sdy.return") {
    return Annotate(last, absl::InvalidArgumentError("a block ends without a return"));
  }
  absl::StatusOr<std::vector<Value>> values = Operands(scope, last);
  if (!values.ok()) return Annotate(last, values.status());
  return values;
}

absl::Status Importer::ImportOp(Scope& scope, const SourceOp& op) {
  scope.metadata = MetadataAt(op.location);
  scope.builder.set_metadata(scope.metadata);
  return TouchesQuantized(op) ? ImportQuantized(scope, op) : Dispatch(scope, op);
}

absl::Status Importer::Dispatch(Scope& scope, const SourceOp& op) {
  absl::string_view name = op.name;
  if (absl::StartsWith(name, "stablehlo.")) {
    name.remove_prefix(10);
    auto handler = Handlers().find(name);
    if (handler != Handlers().end()) return (this->*handler->second)(scope, op);
    const OpInfo* info = FindByStablehlo(name);
    return info != nullptr ? ImportPlain(scope, op, *info) : Unknown(op);
  }
  if (name == "func.call") return ImportCall(scope, op);
  if (absl::StartsWith(name, "chlo.")) return ImportChlo(scope, op);
  if (name == "sdy.manual_computation" || name == "sdy.named_computation") return ImportManualComputation(scope, op);
  if (absl::StartsWith(name, "sdy.")) return ImportShardyIdentity(scope, op);
  return Unknown(op);
}

absl::StatusOr<Attributes> Importer::BuildAttributes(Opcode opcode, const SourceOp& op,
                                                     const std::vector<SourceNamedAttr>& more) {
  return stablehlo::ToHloAttributes(opcode, [&](absl::string_view name) {
    for (const SourceNamedAttr& a : more) {
      if (a.name == name) return a.value;
    }
    return op.Find(name);
  });
}

absl::Status Importer::ImportPlain(Scope& scope, const SourceOp& op, const OpInfo& info) {
  if (!stablehlo::HasAllAttributes(info.opcode)) return Unknown(op);
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(info.opcode, op));
  std::vector<Computation*> called;
  for (const SourceRegion& region : op.regions) {
    ASSIGN_OR_RETURN(Computation * c, ImportClosedRegion(region, info.text));
    called.push_back(c);
  }
  Shape declared;
  if (info.Has(kDeclared)) {
    ASSIGN_OR_RETURN(declared, ResultShape(op));
  }
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(info.opcode, std::move(operands), std::move(attrs), std::move(called),
                                                  std::move(declared)));
  return Bind(scope, op, result);
}

absl::StatusOr<Value> Importer::Get(Scope& scope, const SourceValue* value) {
  auto it = scope.values.find(value);
  if (it != scope.values.end()) {
    Scope::Slot& slot = it->second;
    if (slot.index < 0) return slot.value;
    ASSIGN_OR_RETURN(Value element, scope.builder.GetTupleElement(slot.value, slot.index));
    slot = {element, -1};
    return element;
  }
  // A constant from outside is made again; whatever else a region needs was passed in.
  if (value->op != nullptr && (value->op->name == "stablehlo.constant" || value->op->name == "stablehlo.iota")) {
    OpMetadata current = scope.metadata;
    RETURN_IF_ERROR(ImportOp(scope, *value->op));
    scope.metadata = std::move(current);
    scope.builder.set_metadata(scope.metadata);
    return scope.values[value].value;
  }
  return absl::UnimplementedError(
      "a region of this operation uses a value from outside, which has no counterpart in its computation");
}

absl::StatusOr<std::vector<Value>> Importer::Operands(Scope& scope, const SourceOp& op) {
  std::vector<Value> out;
  out.reserve(op.operands.size());
  for (const SourceValue* v : op.operands) {
    ASSIGN_OR_RETURN(Value value, Get(scope, v));
    out.push_back(value);
  }
  return out;
}

absl::StatusOr<Value> Importer::Pack(Scope& scope, std::vector<Value> values) {
  if (values.size() == 1) return values[0];
  return scope.builder.Tuple(std::move(values));
}

absl::StatusOr<std::vector<Value>> Importer::Unpack(Scope& scope, Value packed, size_t count) {
  if (count == 1) return std::vector<Value>{packed};
  std::vector<Value> out;
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Value v, scope.builder.GetTupleElement(packed, static_cast<int64_t>(i)));
    out.push_back(v);
  }
  return out;
}

absl::StatusOr<Shape> Importer::ResultShape(const SourceOp& op) const {
  std::vector<Shape> shapes;
  for (const SourceValue& v : op.results) {
    ASSIGN_OR_RETURN(Shape s, ConvertType(v.type));
    shapes.push_back(std::move(s));
  }
  return shapes.size() == 1 ? shapes[0] : Shape::Tuple(std::move(shapes));
}

absl::Status Importer::CheckResult(const SourceOp& op, size_t index, const Shape& shape) const {
  ASSIGN_OR_RETURN(Shape declared, ConvertType(op.results[index].type));
  // Dynamic dimensions are inferred: the program may declare more or fewer.
  auto same = [](auto& self, const Shape& a, const Shape& b) -> bool {
    if (a.IsTuple() || b.IsTuple()) {
      if (!a.IsTuple() || !b.IsTuple() || a.tuple_size() != b.tuple_size()) return false;
      for (int64_t i = 0; i < a.tuple_size(); ++i) {
        if (!self(self, a.tuple_shapes(i), b.tuple_shapes(i))) return false;
      }
      return true;
    }
    return a.element_type() == b.element_type() && a.dimensions() == b.dimensions();
  };
  if (same(same, declared, shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("result ", index, " is ", shape.ToString(), ", declared ", declared.ToString()));
}

absl::Status Importer::Bind(Scope& scope, const SourceOp& op, Value value) {
  RETURN_IF_ERROR(ApplyOpAttributes(op, value));
  if (op.results.size() == 1) {
    RETURN_IF_ERROR(CheckResult(op, 0, value->shape()));
    scope.values[&op.results[0]] = {value, -1};
    return absl::OkStatus();
  }
  const Shape& shape = value->shape();
  if (op.results.empty() && !shape.IsTuple()) return absl::OkStatus();
  if (!shape.IsTuple() || shape.tuple_size() != static_cast<int64_t>(op.results.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("gives ", shape.ToString(), ", declared ", op.results.size(), " results"));
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    RETURN_IF_ERROR(CheckResult(op, i, shape.tuple_shapes(static_cast<int64_t>(i))));
    scope.values[&op.results[i]] = {value, static_cast<int64_t>(i)};
  }
  return absl::OkStatus();
}

absl::Status Importer::BindResults(Scope& scope, const SourceOp& op, const std::vector<Value>& values) {
  if (values.size() != op.results.size()) {
    return absl::InvalidArgumentError(absl::StrCat("gives ", values.size(), " results, declared ", op.results.size()));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    RETURN_IF_ERROR(CheckResult(op, i, values[i]->shape()));
    scope.values[&op.results[i]] = {values[i], -1};
  }
  return absl::OkStatus();
}

absl::Status Importer::AddFrontendAttribute(Value value, absl::string_view name, absl::string_view text) {
  RETURN_IF_ERROR(expansion_budget_.Spend(static_cast<int64_t>(name.size() + text.size())));
  value->mutable_frontend_attributes()[std::string(name)] = std::string(text);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Sharding>> Importer::GetSharding(absl::string_view text) {
  std::shared_ptr<const Sharding>& known = shardings_[text];
  if (known != nullptr) return known;
  ASSIGN_OR_RETURN(Sharding sharding, ParseSharding(text));
  RETURN_IF_ERROR(expansion_budget_.Spend(static_cast<int64_t>(text.size()) + MeasureBytes(sharding)));
  known = std::make_shared<const Sharding>(std::move(sharding));
  return known;
}

absl::Status Importer::ApplyOpAttributes(const SourceOp& op, Value value) {
  for (const SourceNamedAttr& a : op.attributes) {
    if (a.name == "mhlo.sharding" && a.value->kind == AttrKind::kString) {
      ASSIGN_OR_RETURN(std::shared_ptr<const Sharding> sharding, GetSharding(a.value->text));
      value->set_sharding(std::move(sharding));
    } else if (a.value->kind == AttrKind::kShardy && (a.name == "sdy.sharding" || a.name == "sdy.sharding_rule")) {
      RETURN_IF_ERROR(AddFrontendAttribute(value, absl::StrCat("xla.", a.name), a.value->text));
    } else if (a.name == "mhlo.frontend_attributes" && a.value->kind == AttrKind::kDict) {
      for (const SourceNamedAttr& e : a.value->entries) {
        if (e.value->kind == AttrKind::kString) RETURN_IF_ERROR(AddFrontendAttribute(value, e.name, e.value->text));
      }
    } else if (a.name == "result_accuracy" && a.value->kind == AttrKind::kDict) {
      const SourceAttr *mode = a.value->Find("mode"), *atol = a.value->Find("atol"), *rtol = a.value->Find("rtol"),
                       *ulps = a.value->Find("ulps");
      if (!mode || !atol || !rtol || !ulps || mode->text == "DEFAULT") continue;
      ResultAccuracy accuracy;
      accuracy.mode = mode->text == "HIGHEST" ? ResultAccuracy::Mode::kHighest : ResultAccuracy::Mode::kTolerance;
      accuracy.atol = std::bit_cast<double>(atol->bits);
      accuracy.rtol = std::bit_cast<double>(rtol->bits);
      accuracy.ulps = ulps->integer;
      value->set_result_accuracy(accuracy);
    }
  }
  return absl::OkStatus();
}

}  // namespace backplane::to_hlo

namespace backplane {

absl::StatusOr<std::unique_ptr<Module>> ConvertToHlo(const stablehlo::SourceModule& source) {
  return to_hlo::Importer(source).Run();
}

}  // namespace backplane
