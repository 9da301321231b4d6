#include "core/ir/ops/control_flow.h"

#include "core/ir/ops/internal.h"

namespace backplane::hlo {

using internal::Fail;

Result Tuple(Builder& b, std::vector<Value> elements) { return b.Tuple(std::move(elements)); }

Result GetTupleElement(Builder& b, Value tuple_data, int64_t index) { return b.GetTupleElement(tuple_data, index); }

Result Call(Builder& b, Computation* computation, std::vector<Value> operands) {
  return b.Call(computation, std::move(operands));
}

Result CompositeCall(Builder& b, Computation* computation, std::vector<Value> operands, std::string name,
                     std::optional<std::string> attributes, std::optional<int64_t> version) {
  Attributes attrs;
  attrs.Set(AttrId::kIsComposite, true);
  attrs.Set(AttrId::kCompositeName, std::move(name));
  if (attributes) attrs.Set(AttrId::kCompositeAttributes, *std::move(attributes));
  if (version) attrs.Set(AttrId::kCompositeVersion, *version);
  return b.Op(Opcode::kCall, std::move(operands), std::move(attrs), {computation});
}

Result Conditional(Builder& b, Value predicate, Value true_operand, Computation* true_computation, Value false_operand,
                   Computation* false_computation) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kConditional, {predicate, true_operand, false_operand}));
  if (predicate->shape().element_type() != PrimitiveType::kPred || !predicate->shape().IsScalar()) {
    return Fail(Opcode::kConditional, "conditional_i1", "the predicate must be pred[], found ",
                predicate->shape().ToString());
  }
  return b.Conditional(predicate, {true_computation, false_computation}, {true_operand, false_operand});
}

Result Conditional(Builder& b, Value branch_index, const std::vector<Computation*>& branch_computations,
                   const std::vector<Value>& branch_operands) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kConditional, {branch_index}));
  if (branch_index->shape().element_type() != PrimitiveType::kS32 || !branch_index->shape().IsScalar()) {
    return Fail(Opcode::kConditional, "conditional_i1", "the branch index must be s32[], found ",
                branch_index->shape().ToString());
  }
  return b.Conditional(branch_index, branch_computations, branch_operands);
}

Result While(Builder& b, Computation* condition, Computation* body, Value init) {
  return b.While(condition, body, init);
}

Result Map(Builder& b, std::vector<Value> operands, Computation* computation, Dims dimensions,
           const std::vector<Value>& static_operands) {
  if (!static_operands.empty()) {
    return Fail(Opcode::kMap, "map_static_operands", "static operands are not taken, found ", static_operands.size());
  }
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, internal::AsInts(dimensions));
  return b.Op(Opcode::kMap, std::move(operands), std::move(attrs), {computation});
}

Result CreateFusion(Builder& b, FusionKind kind, Computation* fused_computation, std::vector<Value> operands) {
  Attributes attrs;
  attrs.SetEnum(AttrId::kFusionKind, kind);
  ASSIGN_OR_RETURN(Value fusion, b.Op(Opcode::kFusion, std::move(operands), std::move(attrs), {fused_computation}));
  fused_computation->set_is_fusion(true);
  return fusion;
}

Result AfterAll(Builder& b, std::vector<Value> tokens) { return b.Op(Opcode::kAfterAll, std::move(tokens)); }

Result AddDependency(Builder& b, Value operand, Value token) { return b.Op(Opcode::kAddDependency, {operand, token}); }

Result OptimizationBarrier(Builder& b, Value operand) { return b.Op(Opcode::kOptimizationBarrier, {operand}); }

Result CreateDomain(Builder& b, Value operand, const Sharding& entry, const Sharding& exit) {
  Attributes attrs;
  attrs.Set(AttrId::kDomain,
            absl::StrCat("{kind=\"sharding\", entry=", entry.ToString(), ", exit=", exit.ToString(), "}"));
  return b.Op(Opcode::kDomain, {operand}, std::move(attrs));
}

Result CustomCall(Builder& b, std::string call_target_name, std::vector<Value> operands, const Shape& shape,
                  const CustomCallOptions& options) {
  const bool typed = options.api_version == CustomCallApiVersion::kTypedFfi;
  if ((options.ffi_attributes && !typed) || (!options.opaque.empty() && typed)) {
    return Fail(Opcode::kCustomCall, "custom_call_i4",
                "a dictionary of attributes goes with the typed interface, opaque bytes with the others");
  }
  Attributes attrs;
  attrs.Set(AttrId::kCustomCallTarget, std::move(call_target_name));
  if (!options.opaque.empty()) attrs.Set(AttrId::kOpaque, options.opaque);
  if (options.ffi_attributes) attrs.Set(AttrId::kFfiAttributes, *options.ffi_attributes);
  if (options.has_side_effect) attrs.Set(AttrId::kHasSideEffect, true);
  if (options.api_version != CustomCallApiVersion::kOriginal) attrs.SetEnum(AttrId::kApiVersion, options.api_version);
  if (options.schedule != CustomCallSchedule::kNone) attrs.SetEnum(AttrId::kSchedule, options.schedule);
  if (!options.output_operand_aliases.empty()) {
    attrs.Set(AttrId::kOutputOperandAliases, options.output_operand_aliases);
  }
  if (!options.operand_shapes_with_layout.empty()) {
    attrs.Set(AttrId::kOperandLayouts, options.operand_shapes_with_layout);
  }
  return b.Op(Opcode::kCustomCall, std::move(operands), std::move(attrs), options.called_computations, shape);
}

}  // namespace backplane::hlo
