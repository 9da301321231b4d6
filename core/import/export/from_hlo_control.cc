// Control flow, calls, custom calls, and transfers to and from the host.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/import/export/from_hlo.h"
#include "core/types/status_macros.h"

namespace backplane::from_hlo {

using stablehlo::ElementKind;

absl::StatusOr<Bundle> Exporter::ExportWhile(Frame& frame, const Instruction& i) {
  Values state;
  RETURN_IF_ERROR(Flatten(frame, Get(frame, i.operand(0)), i.operand(0)->shape(), &state));
  ASSIGN_OR_RETURN(SourceRegion condition, Region(*i.called(0)));
  ASSIGN_OR_RETURN(SourceRegion body, Region(*i.called(1)));
  return EmitFor(frame, i, "stablehlo.while", state, {}, {condition, body});
}

// Branches take no operands: they use values of the surrounding region.
absl::StatusOr<Bundle> Exporter::ExportConditional(Frame& frame, const Instruction& i) {
  ASSIGN_OR_RETURN(const SourceValue* selector, GetValue(frame, i.operand(0)));
  std::vector<SourceRegion> regions;
  for (size_t k = 0; k < i.called().size(); ++k) {
    const Computation& branch = *i.called(static_cast<int64_t>(k));
    SourceBlock* block = NewBlock({});
    std::vector<SourceOp*> ops;
    ASSIGN_OR_RETURN(Bundle root,
                     ExportComputation(branch, &ops, {Get(frame, i.operand(static_cast<int64_t>(k) + 1))}));
    Values leaves;
    Frame inner{&ops, {}};
    RETURN_IF_ERROR(Flatten(inner, root, branch.root()->shape(), &leaves));
    Return(&ops, "stablehlo.return", leaves);
    regions.push_back(CloseRegion(block, ops));
  }
  const bool pred = i.operand(0)->shape().element_type() == PrimitiveType::kPred;
  return EmitFor(frame, i, pred ? "stablehlo.if" : "stablehlo.case", {selector}, {}, std::move(regions));
}

absl::StatusOr<Bundle> Exporter::ExportCall(Frame& frame, const Instruction& i) {
  Values operands;
  for (const Instruction* o : i.operands()) RETURN_IF_ERROR(Flatten(frame, Get(frame, o), o->shape(), &operands));
  ASSIGN_OR_RETURN(absl::string_view callee, GetFunctionSymbol(*i.called(0)));
  const SourceAttr* symbol = stablehlo::MakeString(arena_, callee);
  if (!i.attrs().GetBool(AttrId::kIsComposite)) return EmitFor(frame, i, "func.call", operands, {{"callee", symbol}});
  NamedAttrs attrs = {{"decomposition", symbol},
                      {"name", String(i.attrs().GetString(AttrId::kCompositeName))},
                      {"version", Int32(i.attrs().GetInt(AttrId::kCompositeVersion))}};
  if (const std::string& text = i.attrs().GetString(AttrId::kCompositeAttributes); !text.empty()) {
    ASSIGN_OR_RETURN(const SourceAttr* given, ParseText(text));
    if (given->kind != stablehlo::AttrKind::kDict) {
      return absl::InvalidArgumentError(absl::StrCat("composite attributes are no dictionary: ", text));
    }
    attrs.push_back({"composite_attributes", given});
  }
  return EmitFor(frame, i, "stablehlo.composite", operands, std::move(attrs));
}

absl::StatusOr<Bundle> Exporter::ExportAsyncStart(Frame& frame, const Instruction& i) {
  std::vector<Bundle> operands;
  for (const Instruction* o : i.operands()) operands.push_back(Get(frame, o));
  ASSIGN_OR_RETURN(Bundle result, ExportComputation(*i.called(0), frame.ops, operands));
  std::vector<Bundle> elements = {Bundle::Tuple(std::move(operands)), std::move(result)};
  for (int64_t k = 2; k < i.shape().tuple_size(); ++k) elements.push_back(Bundle());
  return Bundle::Tuple(std::move(elements));
}

absl::StatusOr<Bundle> Exporter::ExportCustomCall(Frame& frame, const Instruction& i) {
  static constexpr const char* kVersions[] = {"API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL",
                                              "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
                                              "API_VERSION_TYPED_FFI"};
  const Attributes& a = i.attrs();
  for (AttrId id : {AttrId::kWindow, AttrId::kConvolutionDims, AttrId::kFeatureGroupCount, AttrId::kBatchGroupCount,
                    AttrId::kOperandPrecision}) {
    if (a.Has(id)) return absl::UnimplementedError(absl::StrCat("StableHLO has no ", AttrName(id), " at custom calls"));
  }
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  auto api = a.GetEnum<CustomCallApiVersion>(AttrId::kApiVersion, CustomCallApiVersion::kOriginal);
  NamedAttrs attrs = {{"call_target_name", String(i.custom_call_target())},
                      {"has_side_effect", Bool(a.GetBool(AttrId::kHasSideEffect))}};
  if (a.Has(AttrId::kFfiAttributes)) {
    ASSIGN_OR_RETURN(const SourceAttr* dictionary, Ffi(a.Get<FfiDictionary>(AttrId::kFfiAttributes)));
    attrs.push_back({"backend_config", dictionary});
    api = CustomCallApiVersion::kTypedFfi;
  } else if (api == CustomCallApiVersion::kTypedFfi) {
    ASSIGN_OR_RETURN(const SourceAttr* dictionary, Ffi({}));
    attrs.push_back({"backend_config", dictionary});
  } else if (a.Has(AttrId::kOpaque)) {
    attrs.push_back({"backend_config", String(a.GetString(AttrId::kOpaque))});
  } else if (!i.backend_config().empty()) {
    attrs.push_back({"backend_config", String(i.backend_config())});
  }
  attrs.push_back({"api_version", Enum(kVersions[static_cast<int>(api)])});

  // One layout for each operand and result, or none at all.
  const bool spread = i.shape().IsTuple() && i.shape().tuple_size() != 1;
  const std::vector<Shape> results = spread ? i.shape().tuple_shapes() : std::vector<Shape>{i.shape()};
  if (a.Has(AttrId::kOperandLayouts)) {
    const std::vector<Shape>& given = a.Get<std::vector<Shape>>(AttrId::kOperandLayouts);
    auto layouts = [&](const std::vector<Shape>& shapes, bool* plain,
                       bool* tuples) -> absl::StatusOr<const SourceAttr*> {
      std::vector<const SourceAttr*> list;
      for (const Shape& s : shapes) {
        *tuples |= s.IsTuple();
        Ints order;
        if (s.IsArray()) {
          const Layout layout = s.has_layout() ? s.layout() : Layout::RowMajor(s.rank());
          order.assign(layout.minor_to_major.begin(), layout.minor_to_major.end());
          *plain &= layout.IsRowMajor();
          Layout order_only;
          order_only.minor_to_major = layout.minor_to_major;
          if (!(layout == order_only))
            return absl::UnimplementedError("StableHLO has no tiled layouts at custom calls, but orders of dimensions");
        }
        const SourceAttr* flat = List(order);
        list.push_back(stablehlo::MakeDense(
            arena_, GetTensorType({static_cast<int64_t>(order.size())}, stablehlo::ScalarType(ElementKind::kIndex)),
            flat->text, false));
      }
      return stablehlo::MakeArray(arena_, list);
    };
    bool plain = true, tuples = false;
    ASSIGN_OR_RETURN(const SourceAttr* in, layouts(given, &plain, &tuples));
    ASSIGN_OR_RETURN(const SourceAttr* out, layouts(results, &plain, &tuples));
    if (tuples && !plain) return absl::UnimplementedError("StableHLO has no layouts for tuples at custom calls");
    if (!tuples) {
      attrs.push_back({"operand_layouts", in});
      attrs.push_back({"result_layouts", out});
    }
  }
  if (a.Has(AttrId::kOutputOperandAliases)) {
    std::vector<const SourceAttr*> list;
    for (const OutputOperandAlias& alias : a.Get<OutputOperandAliases>(AttrId::kOutputOperandAliases)) {
      list.push_back(stablehlo::MakeDict(arena_, {{"operand_index", Int(alias.operand)},
                                                  {"operand_tuple_indices", List(alias.operand_index)},
                                                  {"output_tuple_indices", List(alias.output_index)}}));
    }
    attrs.push_back({"output_operand_aliases", stablehlo::MakeArray(arena_, list)});
  }
  std::vector<const SourceAttr*> functions;
  for (const Computation* c : i.called()) {
    ASSIGN_OR_RETURN(absl::string_view symbol, GetFunctionSymbol(*c));
    functions.push_back(stablehlo::MakeString(arena_, symbol));
  }
  attrs.push_back({"called_computations", stablehlo::MakeArray(arena_, functions)});

  RETURN_IF_ERROR(AddAnnotations(i, &attrs));
  std::vector<const SourceType*> types;
  for (const Shape& s : results) {
    ASSIGN_OR_RETURN(const SourceType* type, ExportType(s));
    types.push_back(type);
  }
  ASSIGN_OR_RETURN(SourceOp * op, Emit(frame, "stablehlo.custom_call", operands, std::move(attrs), types));
  if (!spread) return Bundle::Of(&op->results[0]);
  std::vector<Bundle> elements;
  for (const SourceValue& v : op->results) elements.push_back(Bundle::Of(&v));
  return Bundle::Tuple(std::move(elements));
}

// In StableHLO a send or receive is one operation: it is emitted at its start.
absl::StatusOr<Bundle> Exporter::ExportTransfer(Frame& frame, const Instruction& i) {
  const Attributes& a = i.attrs();
  auto channel = [&](int64_t device, int64_t host) {
    const bool to_host = a.GetBool(AttrId::kIsHostTransfer);
    const Pairs& pairs = a.Get<Pairs>(AttrId::kSourceTargetPairs);
    Ints flat;
    for (const auto& [source, target] : pairs) flat.insert(flat.end(), {source, target});
    return NamedAttrs{
        {"channel_id", Int(a.GetInt(AttrId::kChannelId))},
        {"channel_type", Int(to_host ? host : device)},
        {"is_host_transfer", Bool(to_host)},
        {"source_target_pairs", flat.empty() ? List({}) : Matrix(flat, static_cast<int64_t>(pairs.size()), 2)}};
  };
  auto with_token = [](const Shape& data) {
    Shape both = Shape::Tuple({data.WithoutLayout(), Shape::Token()});
    return both;
  };
  Values operands;
  std::vector<const SourceType*> types;
  size_t next = 0;
  switch (i.opcode()) {
    case Opcode::kInfeed: {
      ASSIGN_OR_RETURN(operands, Operands(frame, i));
      return EmitFor(frame, i, "stablehlo.infeed", operands,
                     {{"infeed_config", String(a.GetString(AttrId::kInfeedConfig))}});
    }
    case Opcode::kOutfeed: {
      RETURN_IF_ERROR(Flatten(frame, Get(frame, i.operand(0)), i.operand(0)->shape(), &operands));
      ASSIGN_OR_RETURN(const SourceValue* token, GetValue(frame, i.operand(1)));
      operands.push_back(token);
      return EmitFor(frame, i, "stablehlo.outfeed", operands,
                     {{"outfeed_config", String(a.GetString(AttrId::kOutfeedConfig))}});
    }
    case Opcode::kSend: {
      RETURN_IF_ERROR(Flatten(frame, Get(frame, i.operand(0)), i.operand(0)->shape(), &operands));
      ASSIGN_OR_RETURN(const SourceValue* token, GetValue(frame, i.operand(1)));
      operands.push_back(token);
      NamedAttrs attrs = channel(1, 2);
      RETURN_IF_ERROR(AddAnnotations(i, &attrs));
      ASSIGN_OR_RETURN(const SourceValue* done,
                       EmitOne(frame, "stablehlo.send", operands, std::move(attrs), token->type));
      return Bundle::Tuple({Get(frame, i.operand(0)), Bundle(), Bundle::Of(done)});
    }
    case Opcode::kRecv: {
      ASSIGN_OR_RETURN(operands, Operands(frame, i));
      const Shape both = with_token(i.shape().tuple_shapes(0));
      RETURN_IF_ERROR(LeafTypes(both, &types));
      NamedAttrs attrs = channel(1, 3);
      RETURN_IF_ERROR(AddAnnotations(i, &attrs));
      ASSIGN_OR_RETURN(SourceOp * op, Emit(frame, "stablehlo.recv", operands, std::move(attrs), types));
      Bundle made = Unflatten(both, op->results, &next);
      return Bundle::Tuple({made.elements[0], Bundle(), made.elements[1]});
    }
    case Opcode::kSendDone:
      return Element(frame, Get(frame, i.operand(0)), 2);
    default: {  // recv-done
      ASSIGN_OR_RETURN(Bundle data, Element(frame, Get(frame, i.operand(0)), 0));
      ASSIGN_OR_RETURN(Bundle token, Element(frame, Get(frame, i.operand(0)), 2));
      return Bundle::Tuple({std::move(data), std::move(token)});
    }
  }
}

}  // namespace backplane::from_hlo
