// Builders of calls, branches, loops, tuples, tokens, fusions and custom calls.
#ifndef BACKPLANE_CORE_IR_OPS_CONTROL_FLOW_H_
#define BACKPLANE_CORE_IR_OPS_CONTROL_FLOW_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

Result Tuple(Builder& b, std::vector<Value> elements);
// Returns element `index` of a tuple. Errors: [get_tuple_element_i1], [get_tuple_element_c1].
Result GetTupleElement(Builder& b, Value tuple_data, int64_t index);

// Calls a computation. The operands must have the types of its parameters ([call_c3]).
Result Call(Builder& b, Computation* computation, std::vector<Value> operands);
// A call that a backend may replace as a whole, because it knows the name and the version. The computation defines its
// meaning. The name has a namespace, as in "ns.op" ([composite_c1]). `attributes` is the text of a dictionary, {n = 1 :
// i32}. The version must not be negative ([composite_i5]).
Result CompositeCall(Builder& b, Computation* computation, std::vector<Value> operands, std::string name,
                     std::optional<std::string> attributes = std::nullopt,
                     std::optional<int64_t> version = std::nullopt);
// Runs one branch on its operand. All branches return one type ([conditional_c3]), and each takes the type of its
// operand ([conditional_c2]). This form selects by a pred[] ([conditional_i1]).
Result Conditional(Builder& b, Value predicate, Value true_operand, Computation* true_computation, Value false_operand,
                   Computation* false_computation);
// Selects by an s32[] ([conditional_i1]). An index that is out of range selects the last branch. There must be at least
// one branch ([conditional_c1]).
Result Conditional(Builder& b, Value branch_index, const std::vector<Computation*>& branch_computations,
                   const std::vector<Value>& branch_operands);
// Starts with `init` and applies `body` (T -> T, [while_c2]) as long as `condition` (T -> pred[], [while_c1]) returns
// true.
Result While(Builder& b, Computation* condition, Computation* body, Value init);
// Applies a computation of scalars to every index of one or more arrays of equal dimensions. `dimensions` must list all
// of them in order ([map_c3]). static_operands must be empty ([map_static_operands]); the parameter exists because
// XLA's builder has it.
Result Map(Builder& b, std::vector<Value> operands, Computation* computation, Dims dimensions,
           const std::vector<Value>& static_operands = {});
// Wraps a computation in one fusion instruction and marks it as fused. HLO only.
Result CreateFusion(Builder& b, FusionKind kind, Computation* fused_computation, std::vector<Value> operands);

// Returns a token that is ordered after all of `tokens`, or a new token if there are none.
Result AfterAll(Builder& b, std::vector<Value> tokens);
// Returns the operand, ordered after the token. HLO only.
Result AddDependency(Builder& b, Value operand, Value token);
// Returns the operand, of any type. No pass may move operations across it.
Result OptimizationBarrier(Builder& b, Value operand);
// Returns the operand. Marks the boundary between a region with the sharding `exit` and one with the sharding `entry`.
// HLO only.
Result CreateDomain(Builder& b, Value operand, const Sharding& entry, const Sharding& exit);

struct CustomCallOptions {
  std::string opaque;  // must be empty for kTypedFfi, which takes ffi_attributes
  std::optional<FfiDictionary> ffi_attributes;
  bool has_side_effect = false;  // true: not removed, and not reordered with other side effects
  CustomCallApiVersion api_version = CustomCallApiVersion::kOriginal;
  CustomCallSchedule schedule = CustomCallSchedule::kNone;
  OutputOperandAliases output_operand_aliases;    // an output and its operand have equal types ([custom_call_i7])
  std::vector<Shape> operand_shapes_with_layout;  // one for each operand, or none
  std::vector<Computation*> called_computations;
};
// Calls the function that is registered under this name. Whether one is registered is checked when the program is
// compiled. Returns InvalidArgument [custom_call_i4] if `opaque` or `ffi_attributes` does not fit the API version.
Result CustomCall(Builder& b, std::string call_target_name, std::vector<Value> operands, const Shape& shape,
                  const CustomCallOptions& options = {});

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_CONTROL_FLOW_H_
