// Calls, branches, loops, tuples, ordering, and functions of the user's own.
#ifndef BACKPLANE_CORE_IR_OPS_CONTROL_FLOW_H_
#define BACKPLANE_CORE_IR_OPS_CONTROL_FLOW_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

Result Tuple(Builder& b, std::vector<Value> elements);
// Element `index` of a tuple ([get_tuple_element_i1], [get_tuple_element_c1]).
Result GetTupleElement(Builder& b, Value tuple_data, int64_t index);

// The computation's result for these operands ([call_c3]: they are its parameters').
Result Call(Builder& b, Computation* computation, std::vector<Value> operands);
// A call that a backend may replace as a whole, knowing its name and version; the computation is what it means. The
// name has a namespace, "ns.op" ([composite_c1]); attributes are a dictionary as text, {n = 1 : i32}; the version is
// not negative ([composite_i5]).
Result CompositeCall(Builder& b, Computation* computation, std::vector<Value> operands, std::string name,
                     std::optional<std::string> attributes = std::nullopt,
                     std::optional<int64_t> version = std::nullopt);
// Exactly one branch runs, on its operand; branches return one type ([conditional_c3]) and take their operand's
// ([conditional_c2]). By a pred[]:
Result Conditional(Builder& b, Value predicate, Value true_operand, Computation* true_computation, Value false_operand,
                   Computation* false_computation);
// By an s32[]; what is no branch's number runs the last ([conditional_c1]: at least one).
Result Conditional(Builder& b, Value branch_index, const std::vector<Computation*>& branch_computations,
                   const std::vector<Value>& branch_operands);
// Runs body (T -> T, [while_c2]) as long as condition (T -> pred[], [while_c1]) holds, from init on.
Result While(Builder& b, Computation* condition, Computation* body, Value init);
// A computation of scalars at every index of N >= 1 arrays of one size. dimensions: all of theirs, in order ([map_c3]).
// static_operands are of XLA's past; none are taken ([map_static_operands]).
Result Map(Builder& b, std::vector<Value> operands, Computation* computation, Dims dimensions,
           const std::vector<Value>& static_operands = {});
// One computation as one instruction of a backend's making. HLO level.
Result CreateFusion(Builder& b, FusionKind kind, Computation* fused_computation, std::vector<Value> operands);

// A token that comes after all of these; a fresh one from none.
Result AfterAll(Builder& b, std::vector<Value> tokens);
// The operand, ordered after the token. HLO level.
Result AddDependency(Builder& b, Value operand, Value token);
// The operand, whatever its type; nothing is moved across.
Result OptimizationBarrier(Builder& b, Value operand);
// The operand, where one way of splitting values over devices ends and another begins. HLO level.
Result CreateDomain(Builder& b, Value operand, const Sharding& entry, const Sharding& exit);

struct CustomCallOptions {
  std::string opaque;  // for kTypedFfi: use ffi_attributes
  std::optional<FfiDictionary> ffi_attributes;
  bool has_side_effect = false;  // then neither removed nor moved past others
  CustomCallApiVersion api_version = CustomCallApiVersion::kOriginal;
  CustomCallSchedule schedule = CustomCallSchedule::kNone;
  OutputOperandAliases output_operand_aliases;    // equal types at both ends ([custom_call_i7])
  std::vector<Shape> operand_shapes_with_layout;  // one for each operand, or none
  std::vector<Computation*> called_computations;
};
// A function registered under that name. Whether there is one is found when the program is compiled.
Result CustomCall(Builder& b, std::string call_target_name, std::vector<Value> operands, const Shape& shape,
                  const CustomCallOptions& options = {});

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_CONTROL_FLOW_H_
