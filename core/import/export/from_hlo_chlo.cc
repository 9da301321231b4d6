// Ragged dot and scan. In text they are operations of CHLO. A portable artifact cannot hold that dialect, so there they
// are the composites that hosts make of them: the name and the attributes tell the meaning, and the decomposition
// computes it in StableHLO. VHLO has composites since 0.19.0, and composites with regions, such as a scan's body,
// since 1.14.0; in older versions the program calls the decomposition.
#include "core/import/export/from_hlo.h"
#include "core/passes/passes.h"
#include "core/types/status_macros.h"

namespace backplane::from_hlo {

using stablehlo::ElementKind;

// The instruction alone, as a program of simpler ones; it lives as long as the tree.
absl::StatusOr<absl::string_view> Exporter::ExportExpansion(const Instruction& i, absl::string_view name) {
  auto module = std::make_unique<Module>("expanded");
  Computation* c = module->AddComputation(std::string(name));
  std::vector<Instruction*> parameters;
  for (const Instruction* o : i.operands()) {
    InstructionSpec spec;
    spec.opcode = Opcode::kParameter;
    spec.shape = o->shape().WithoutLayout();
    spec.attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(parameters.size()));
    parameters.push_back(c->Add(std::move(spec)));
  }
  Instruction* copy = c->AddClone(&i, i.shape().WithoutLayout(), parameters);
  for (size_t k = 0; k < i.called().size(); ++k) {
    copy->set_called(static_cast<int64_t>(k), module->CloneComputation(i.called(static_cast<int64_t>(k))));
  }
  copy->set_sharding(nullptr);
  c->set_root(copy);
  module->set_entry(c);
  RETURN_IF_ERROR(ExpandScans().Run(module.get()).status());
  RETURN_IF_ERROR(ExpandDots().Run(module.get()).status());
  const Instruction* root = module->entry()->root();
  if (root->Is(i.opcode())) return absl::UnimplementedError("has no form in StableHLO");
  out_.expanded.push_back(std::move(module));
  return GetFunctionSymbol(*out_.expanded.back()->entry());
}

absl::StatusOr<Bundle> Exporter::PortableForm(Frame& frame, const Instruction& i, const Values& operands,
                                              absl::string_view name, NamedAttrs attributes,
                                              std::vector<SourceRegion> regions) {
  ASSIGN_OR_RETURN(absl::string_view function, ExportExpansion(i, absl::StrCat(name, ".impl")));
  const SourceAttr* symbol = stablehlo::MakeString(arena_, function);
  const int since = regions.empty() ? 19 : 1014;
  if (portable_version_ < since) return EmitFor(frame, i, "func.call", operands, {{"callee", symbol}});
  return EmitFor(frame, i, "stablehlo.composite", operands,
                 {{"composite_attributes", stablehlo::MakeDict(arena_, std::move(attributes))},
                  {"decomposition", symbol},
                  {"name", String(name)},
                  {"version", Int32(1)}},
                 std::move(regions));
}

absl::StatusOr<Bundle> Exporter::ExportRaggedDot(Frame& frame, const Instruction& i) {
  const RaggedDotDimensions& d = i.attrs().Get<RaggedDotDimensions>(AttrId::kRaggedDotDims);
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  if (portable_version_ < 0) {
    return EmitFor(frame, i, "chlo.ragged_dot", operands,
                   {{"ragged_dot_dimension_numbers",
                     stablehlo::MakeDict(arena_, {{"lhs_batching_dimensions", List(d.dot.lhs_batch)},
                                                  {"lhs_contracting_dimensions", List(d.dot.lhs_contracting)},
                                                  {"lhs_ragged_dimensions", List(d.lhs_ragged)},
                                                  {"rhs_batching_dimensions", List(d.dot.rhs_batch)},
                                                  {"rhs_contracting_dimensions", List(d.dot.rhs_contracting)},
                                                  {"rhs_group_dimensions", List(d.rhs_group)}})}});
  }
  const SourceAttr* precision = String("DEFAULT");
  return PortableForm(
      frame, i, operands, "chlo.ragged_dot",
      {{"precision_config", stablehlo::MakeArray(arena_, {precision, precision})},
       {"ragged_dot_dimension_numbers",
        stablehlo::MakeArray(arena_, {List(d.dot.lhs_batch), List(d.dot.rhs_batch), List(d.dot.lhs_contracting),
                                      List(d.dot.rhs_contracting), List(d.lhs_ragged), List(d.rhs_group)})}},
      {});
}

absl::StatusOr<Bundle> Exporter::ExportScan(Frame& frame, const Instruction& i) {
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  ASSIGN_OR_RETURN(SourceRegion region, Region(*i.called(0)));
  const int64_t carries = i.attrs().GetInt(AttrId::kNumCarries);
  std::vector<const SourceType*> results;
  RETURN_IF_ERROR(LeafTypes(i.shape(), &results));
  auto segments = [&](int64_t all) {
    char* bytes = arena_.NewBytes(8);
    for (int b = 0; b < 4; ++b) {
      bytes[b] = static_cast<char>((all - carries) >> (8 * b));
      bytes[4 + b] = static_cast<char>(carries >> (8 * b));
    }
    return stablehlo::MakeDense(arena_, GetTensorType({2}, stablehlo::ScalarType(ElementKind::kI32)),
                                absl::string_view(bytes, 8), false);
  };
  NamedAttrs attrs = {{"dimension", Int(i.dimensions().empty() ? 0 : i.dimensions()[0])}};
  if (i.attrs().Has(AttrId::kIsAssociative)) {
    attrs.push_back({"is_associative", Bool(i.attrs().GetBool(AttrId::kIsAssociative))});
  }
  attrs.push_back({"is_reverse", Bool(i.attrs().GetBool(AttrId::kIsReverse))});
  attrs.push_back({"operandSegmentSizes", segments(static_cast<int64_t>(operands.size()))});
  attrs.push_back({"resultSegmentSizes", segments(static_cast<int64_t>(results.size()))});
  if (portable_version_ < 0) return EmitFor(frame, i, "chlo.scan", operands, std::move(attrs), {region});
  return PortableForm(frame, i, operands, "chlo.scan", std::move(attrs), {region});
}

}  // namespace backplane::from_hlo
