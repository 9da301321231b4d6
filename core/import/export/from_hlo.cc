#include "core/import/export/from_hlo.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace from_hlo {

namespace {

class Locations final : public stablehlo::LocationResolver {
 public:
  explicit Locations(std::vector<stablehlo::SourceLocation> all) : all_(std::move(all)) {}
  stablehlo::SourceLocation Resolve(stablehlo::LocationId id) const override {
    return id == 0 || id > all_.size() ? stablehlo::SourceLocation() : all_[id - 1];
  }

 private:
  std::vector<stablehlo::SourceLocation> all_;
};

// An argument or result of main has one layout attribute, which cannot describe the elements of a tuple.
absl::Status CheckTupleLayout(const Shape& shape, absl::string_view what) {
  if (!shape.IsTuple()) return absl::OkStatus();
  bool is_default = true;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) { is_default &= leaf.IsRowMajor(); });
  if (is_default) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("stablehlo export: ", what, ": StableHLO has no layouts for the elements of a tuple"));
}

}  // namespace

absl::Status Exporter::Run() {
  source_.name = arena_.CopyString(hlo_.name());
  if (hlo_.entry() == nullptr) return absl::InvalidArgumentError("stablehlo export: the module has no entry");
  symbol_names_["main"] = 1;
  RETURN_IF_ERROR(ExportModuleAttributes());
  RETURN_IF_ERROR(ExportEntry());
  source_.ops = arena_.Copy(functions_);
  for (const SourceOp* f : functions_) source_.symbols[f->Find("sym_name")->text] = f;
  source_.value_count = next_value_;
  source_.resolver = std::make_unique<Locations>(std::move(locations_));
  return absl::OkStatus();
}

absl::Status Exporter::ExportModuleAttributes() {
  const ModuleConfig& config = hlo_.config();
  NamedAttrs attributes;
  if (!config.frontend_attributes.empty()) {
    attributes.push_back({"mhlo.frontend_attributes", Strings(config.frontend_attributes)});
  }
  attributes.push_back({"mhlo.num_partitions", Int32(config.num_partitions)});
  attributes.push_back({"mhlo.num_replicas", Int32(config.num_replicas)});
  source_.attributes = arena_.Copy(attributes);
  return absl::OkStatus();
}

NamedAttrs Exporter::ArgumentAttributes(int64_t i, bool unpack_results) const {
  const ModuleConfig& config = hlo_.config();
  Exporter* self = const_cast<Exporter*>(this);
  NamedAttrs out;
  const Instruction& parameter = *hlo_.entry()->parameter(i);
  (void)self->AddAnnotations(parameter, &out);
  for (const InputOutputAlias& alias : config.input_output_aliases) {
    if (alias.parameter != i || !alias.parameter_index.empty()) continue;
    if (alias.output_index.size() != (unpack_results ? 1u : 0u)) continue;
    out.push_back({"tf.aliasing_output", self->Int32(unpack_results ? alias.output_index[0] : 0)});
    break;
  }
  for (const BufferDonor& donor : config.buffer_donors) {
    if (donor.parameter != i || !donor.parameter_index.empty()) continue;
    out.push_back({"jax.buffer_donor", self->Bool(true)});
    break;
  }
  if (i < static_cast<int64_t>(config.parameter_layouts.size()) && !config.parameter_layouts[i].IsRowMajor()) {
    out.push_back({"mhlo.layout_mode", self->String(config.parameter_layouts[i].layout().ToString())});
  }
  if (i < static_cast<int64_t>(config.parameter_memory_kinds.size()) && !config.parameter_memory_kinds[i].empty()) {
    out.push_back({"mhlo.memory_kind", self->String(config.parameter_memory_kinds[i])});
  }
  return out;
}

NamedAttrs Exporter::ResultAttributes(int64_t i, bool unpack_results) const {
  const ModuleConfig& config = hlo_.config();
  Exporter* self = const_cast<Exporter*>(this);
  NamedAttrs out;
  const Shape& layouts = config.result_layout;
  const bool known = layouts.element_type() != PrimitiveType::kInvalid;
  const Shape* layout = nullptr;
  if (known && !unpack_results) layout = &layouts;
  if (known && unpack_results && layouts.IsTuple() && i < layouts.tuple_size()) layout = &layouts.tuple_shapes(i);
  if (layout != nullptr && layout->IsArray() && !layout->IsRowMajor()) {
    out.push_back({"mhlo.layout_mode", self->String(layout->layout().ToString())});
  }
  if (i < static_cast<int64_t>(config.result_memory_kinds.size()) && !config.result_memory_kinds[i].empty()) {
    out.push_back({"mhlo.memory_kind", self->String(config.result_memory_kinds[i])});
  }
  const Instruction& root = *hlo_.entry()->root();
  if (root.sharding() && unpack_results) {
    const Sharding& s = *root.sharding();
    const bool each = s.type == Sharding::Type::kTuple;
    if (!each || i < static_cast<int64_t>(s.tuple.size())) {
      out.push_back({"mhlo.sharding", self->String((each ? s.tuple[i] : s).ToString())});
    }
  } else if (root.sharding()) {
    out.push_back({"mhlo.sharding", self->String(root.sharding()->ToString())});
  }
  return out;
}

absl::string_view Exporter::UniqueSymbol(absl::string_view wished) {
  std::string name(wished);
  for (int n = 0; !symbol_names_.emplace(name, 1).second; ++n) name = absl::StrCat(wished, "_", n);
  return arena_.CopyString(name);
}

SourceOp* Exporter::AddFunction(absl::string_view name, bool open, const std::vector<const SourceType*>& arguments,
                                const std::vector<const SourceType*>& results,
                                std::vector<const SourceAttr*> argument_attributes,
                                std::vector<const SourceAttr*> result_attributes, SourceBlock* block,
                                const std::vector<SourceOp*>& ops) {
  auto drop_empty = [](std::vector<const SourceAttr*>* list) {
    if (std::all_of(list->begin(), list->end(), [](const SourceAttr* a) { return a->entries.empty(); })) list->clear();
  };
  drop_empty(&argument_attributes);
  drop_empty(&result_attributes);
  SourceType* type = arena_.New<SourceType>();
  type->kind = stablehlo::TypeKind::kFunction;
  type->members = arena_.Copy(arguments);
  type->results = arena_.Copy(results);
  const NamedAttrs attributes = {{"arg_attrs", stablehlo::MakeArray(arena_, argument_attributes)},
                                 {"function_type", stablehlo::MakeType(arena_, type)},
                                 {"res_attrs", stablehlo::MakeArray(arena_, result_attributes)},
                                 {"sym_name", stablehlo::MakeString(arena_, name)},
                                 {"sym_visibility", stablehlo::MakeString(arena_, open ? "public" : "private")}};
  SourceOp* op = arena_.New<SourceOp>();
  op->name = "func.func";
  op->attributes = arena_.Copy(attributes);
  op->regions = arena_.NewArray<SourceRegion>(1);
  op->regions[0] = CloseRegion(block, ops);
  functions_.push_back(op);
  return op;
}

absl::Status Exporter::ExportEntry() {
  const Computation& entry = *hlo_.entry();
  const size_t position = functions_.size();
  std::vector<const SourceType*> arguments, results;
  for (const Instruction* p : entry.parameters()) {
    absl::StatusOr<const SourceType*> type = ExportType(p->shape());
    if (!type.ok()) {
      return absl::Status(type.status().code(),
                          absl::StrCat("stablehlo export: ", p->name(), ": ", type.status().message()));
    }
    arguments.push_back(*type);
  }
  const Shape& shape = entry.root()->shape();
  const bool spread = shape.IsTuple() && shape.tuple_size() != 1;
  const ModuleConfig& config = hlo_.config();
  for (const Shape& layouts : config.parameter_layouts) RETURN_IF_ERROR(CheckTupleLayout(layouts, "an argument"));
  if (config.result_layout.IsTuple()) {
    if (!spread) RETURN_IF_ERROR(CheckTupleLayout(config.result_layout, "the result"));
    for (const Shape& element : config.result_layout.tuple_shapes()) {
      RETURN_IF_ERROR(CheckTupleLayout(element, "a result"));
    }
  }
  SourceBlock* block = NewBlock(arguments);
  std::vector<Bundle> parameters;
  for (const SourceValue& a : block->arguments) parameters.push_back(Bundle::Of(&a));
  std::vector<SourceOp*> ops;
  ASSIGN_OR_RETURN(Bundle root, ExportComputation(entry, &ops, parameters));

  Frame frame{&ops, {}};
  Values values;
  for (int64_t i = 0; i < (spread ? shape.tuple_size() : 1); ++i) {
    Bundle element = root;
    if (spread) {
      ASSIGN_OR_RETURN(element, Element(frame, root, i));
    }
    ASSIGN_OR_RETURN(const SourceValue* v, Materialize(frame, element));
    values.push_back(v);
    results.push_back(v->type);
  }
  location_ = 0;
  Return(&ops, "func.return", values);
  std::vector<const SourceAttr*> argument_attributes, result_attributes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    argument_attributes.push_back(stablehlo::MakeDict(arena_, ArgumentAttributes(static_cast<int64_t>(i), spread)));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    result_attributes.push_back(stablehlo::MakeDict(arena_, ResultAttributes(static_cast<int64_t>(i), spread)));
  }
  AddFunction("main", true, arguments, results, std::move(argument_attributes), std::move(result_attributes), block,
              ops);
  std::rotate(functions_.begin() + static_cast<std::ptrdiff_t>(position), functions_.end() - 1, functions_.end());
  return absl::OkStatus();
}

// All arguments and results are leaves.
absl::StatusOr<absl::string_view> Exporter::GetFunctionSymbol(const Computation& computation) {
  if (auto it = symbols_.find(&computation); it != symbols_.end()) return it->second;
  const stablehlo::LocationId outer = location_;
  location_ = 0;
  const absl::string_view name = UniqueSymbol(computation.name());
  std::vector<const SourceType*> arguments, results;
  for (const Instruction* p : computation.parameters()) RETURN_IF_ERROR(LeafTypes(p->shape(), &arguments));
  RETURN_IF_ERROR(LeafTypes(computation.root()->shape(), &results));
  SourceBlock* block = NewBlock(arguments);
  std::vector<Bundle> parameters;
  size_t next = 0;
  for (const Instruction* p : computation.parameters())
    parameters.push_back(Unflatten(p->shape(), block->arguments, &next));
  std::vector<SourceOp*> ops;
  ASSIGN_OR_RETURN(Bundle root, ExportComputation(computation, &ops, parameters));
  Values leaves;
  Frame frame{&ops, {}};
  RETURN_IF_ERROR(Flatten(frame, root, computation.root()->shape(), &leaves));
  location_ = 0;
  Return(&ops, "func.return", leaves);
  AddFunction(name, false, arguments, results, {}, {}, block, ops);
  location_ = outer;
  symbols_.emplace(&computation, name);
  return name;
}

absl::StatusOr<Bundle> Exporter::ExportComputation(const Computation& computation, std::vector<SourceOp*>* ops,
                                                   const std::vector<Bundle>& parameters) {
  if (depth_ >= stablehlo::kMaxRegionDepth) {
    return absl::ResourceExhaustedError(absl::StrCat("stablehlo export: computations are nested deeper than ", depth_));
  }
  ++depth_;
  const stablehlo::LocationId outer = location_;
  Frame frame{ops, {}};
  for (size_t i = 0; i < parameters.size(); ++i) {
    frame.values.emplace(computation.parameter(static_cast<int64_t>(i)), parameters[i]);
  }
  for (const auto& i : computation.instructions()) {
    if (i->Is(Opcode::kParameter)) continue;
    if (i->users().empty() && !i->IsRoot() && !i->HasSideEffect()) continue;
    RETURN_IF_ERROR(ExportInstruction(frame, *i));
  }
  location_ = outer;
  --depth_;
  return Get(frame, computation.root());
}

absl::Status Exporter::ExportInstruction(Frame& frame, const Instruction& instruction) {
  const OpMetadata& m = instruction.metadata();
  location_ = 0;
  if (!m.op_name.empty() || !m.source_file.empty()) {
    const std::string key = absl::StrCat(m.op_name, "\n", m.source_file, "\n", m.source_line);
    stablehlo::LocationId& id = location_ids_[key];
    if (id == 0) {
      locations_.push_back({m.op_name, m.source_file, m.source_line, 0});
      id = static_cast<stablehlo::LocationId>(locations_.size());
    }
    location_ = id;
  }
  absl::StatusOr<Bundle> made = Dispatch(frame, instruction);
  if (!made.ok()) {
    if (absl::StartsWith(made.status().message(), "stablehlo export: ")) return made.status();
    return absl::Status(made.status().code(),
                        absl::StrCat("stablehlo export: ", instruction.name(), " = ", OpName(instruction.opcode()),
                                     ": ", made.status().message()));
  }
  frame.values.emplace(&instruction, *std::move(made));
  return absl::OkStatus();
}

absl::StatusOr<Bundle> Exporter::Dispatch(Frame& frame, const Instruction& i) {
  switch (i.opcode()) {
    case Opcode::kTuple: {
      std::vector<Bundle> elements;
      for (const Instruction* o : i.operands()) elements.push_back(Get(frame, o));
      return Bundle::Tuple(std::move(elements));
    }
    case Opcode::kGetTupleElement:
      return Element(frame, Get(frame, i.operand(0)), i.tuple_index());
    case Opcode::kCopy:
    case Opcode::kDomain:
    case Opcode::kAsyncUpdate:
    case Opcode::kAllReduceDone:
      return Get(frame, i.operand(0));
    case Opcode::kCopyStart:
      return Bundle::Tuple({Get(frame, i.operand(0)), Get(frame, i.operand(0)), Bundle()});
    case Opcode::kCopyDone:
      return Element(frame, Get(frame, i.operand(0)), 0);
    case Opcode::kAsyncDone:
    case Opcode::kAllGatherDone:
    case Opcode::kCollectivePermuteDone:
      return Element(frame, Get(frame, i.operand(0)), 1);
    case Opcode::kAsyncStart:
      return ExportAsyncStart(frame, i);
    case Opcode::kWhile:
      return ExportWhile(frame, i);
    case Opcode::kConditional:
      return ExportConditional(frame, i);
    case Opcode::kCall:
    case Opcode::kFusion:
      return ExportCall(frame, i);
    case Opcode::kCustomCall:
      return ExportCustomCall(frame, i);
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone:
      return ExportTransfer(frame, i);
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kReduceScatter:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart:
    case Opcode::kCollectiveBroadcast:
      return ExportCollective(frame, i);
    case Opcode::kAllToAll:
      return ExportAllToAll(frame, i);
    case Opcode::kRaggedAllToAll:
      return ExportRaggedAllToAll(frame, i);
    case Opcode::kErf:
    case Opcode::kCosh:
    case Opcode::kTopK:
    case Opcode::kScaledDot:
      return ExportComposite(frame, i);
    case Opcode::kRaggedDot:
      return ExportRaggedDot(frame, i);
    case Opcode::kScan:
      return ExportScan(frame, i);
    default:
      return ExportPlain(frame, i);
  }
}

}  // namespace from_hlo

absl::StatusOr<std::unique_ptr<ExportedSource>> ConvertHloToSource(const Module& module, int portable_version) {
  auto out = std::make_unique<ExportedSource>();
  RETURN_IF_ERROR(from_hlo::Exporter(module, portable_version, out.get()).Run());
  return out;
}

}  // namespace backplane
