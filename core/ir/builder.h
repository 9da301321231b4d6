// Builds a computation, operation by operation, with shape inference and all checks at each call.
//
// A Value is a handle to an instruction, which the computation owns. A builder builds one computation of the module,
// which it adds when it is constructed. Errors are InvalidArgument with the label of the violated rule. Not
// thread-safe. The generic Op() adds any operation; the other methods cover what rewrites use most. core/ir/ops/ops.h
// has a function for every operation with the names, arguments and broadcasting overloads of XlaBuilder.
//
//   Builder b(&module, "main");
//   ASSIGN_OR_RETURN(Value x, b.Parameter(0, Shape(PrimitiveType::kF32, {2, 3}), "x"));
//   ASSIGN_OR_RETURN(Value y, b.Op(Opcode::kTanh, {x}));
//   ASSIGN_OR_RETURN(Computation* c, b.Build(y));
#ifndef BACKPLANE_CORE_IR_BUILDER_H_
#define BACKPLANE_CORE_IR_BUILDER_H_

#include <memory>
#include <string>
#include <vector>

#include "core/ir/expansion_budget.h"
#include "core/ir/module.h"

namespace backplane {

using Value = Instruction*;

class Builder {
 public:
  Builder(Module* module, std::string computation_name);

  Module* module() const { return module_; }
  Computation* computation() const { return computation_; }

  // Annotations for all instructions that are added from now on.
  void set_metadata(OpMetadata m) { metadata_ = std::move(m); }
  void set_sharding(std::shared_ptr<const Sharding> s) { sharding_ = std::move(s); }
  void set_frontend_attributes(StringMap m) { frontend_ = std::move(m); }

  // Each instruction that is added from now on spends its bytes. The budget must outlive the builder.
  void set_budget(ExpansionBudget* budget) { budget_ = budget; }

  // Adds any operation. `declared` must be a valid shape for operations with the trait kDeclared.
  absl::StatusOr<Value> Op(Opcode opcode, std::vector<Value> operands, Attributes attrs = {},
                           std::vector<Computation*> called = {}, Shape declared = {});

  absl::StatusOr<Value> Parameter(int64_t number, const Shape& shape, std::string name = "");
  absl::StatusOr<Value> Constant(Literal literal);
  absl::StatusOr<Value> Constant(std::shared_ptr<const Literal> literal);
  absl::StatusOr<Value> Scalar(PrimitiveType type, double value);
  absl::StatusOr<Value> Iota(const Shape& shape, int64_t dimension);

  absl::StatusOr<Value> Unary(Opcode opcode, Value x) { return Op(opcode, {x}); }
  absl::StatusOr<Value> Binary(Opcode opcode, Value lhs, Value rhs) { return Op(opcode, {lhs, rhs}); }
  // As XlaBuilder: broadcasts scalars and dimensions of size 1. `broadcast_dimensions` maps the dimensions of the
  // lower-rank operand.
  absl::StatusOr<Value> BinaryBroadcast(Opcode opcode, Value lhs, Value rhs,
                                        absl::Span<const int64_t> broadcast_dimensions);
  absl::StatusOr<Value> Compare(Value lhs, Value rhs, ComparisonDirection direction,
                                std::optional<ComparisonType> type = std::nullopt);
  absl::StatusOr<Value> Select(Value pred, Value on_true, Value on_false) {
    return Op(Opcode::kSelect, {pred, on_true, on_false});
  }
  absl::StatusOr<Value> Convert(Value x, PrimitiveType to);
  absl::StatusOr<Value> BroadcastInDim(Value x, absl::Span<const int64_t> result_dims,
                                       absl::Span<const int64_t> broadcast_dimensions);
  absl::StatusOr<Value> Reshape(Value x, absl::Span<const int64_t> dims);
  absl::StatusOr<Value> Transpose(Value x, absl::Span<const int64_t> permutation);
  absl::StatusOr<Value> Slice(Value x, SliceConfig slices);
  absl::StatusOr<Value> Concatenate(std::vector<Value> xs, int64_t dimension);
  absl::StatusOr<Value> Pad(Value x, Value value, PaddingConfig config);
  absl::StatusOr<Value> Dot(Value lhs, Value rhs, DotDimensions dims, PrimitiveType result_type,
                            Precisions precision = {});
  absl::StatusOr<Value> Reduce(std::vector<Value> inputs, std::vector<Value> inits, Computation* body,
                               absl::Span<const int64_t> dims);
  absl::StatusOr<Value> Tuple(std::vector<Value> elements) { return Op(Opcode::kTuple, std::move(elements)); }
  absl::StatusOr<Value> GetTupleElement(Value tuple, int64_t index);
  absl::StatusOr<Value> Call(Computation* c, std::vector<Value> args) {
    return Op(Opcode::kCall, std::move(args), {}, {c});
  }
  absl::StatusOr<Value> While(Computation* condition, Computation* body, Value init) {
    return Op(Opcode::kWhile, {init}, {}, {condition, body});
  }
  // `selector` is a pred with two branches (true first), or an s32 with any number of branches. Takes one operand per
  // branch.
  absl::StatusOr<Value> Conditional(Value selector, std::vector<Computation*> branches, std::vector<Value> operands);

  // Sets the root. The builder must not be used afterwards.
  absl::StatusOr<Computation*> Build(Value root);

 private:
  Module* module_;
  Computation* computation_;
  OpMetadata metadata_;
  std::shared_ptr<const Sharding> sharding_;
  StringMap frontend_;
  ExpansionBudget* budget_ = nullptr;
};

// Returns a computation of two scalar parameters and one binary operation. Repeated calls for one opcode and type
// return the same computation of the module.
absl::StatusOr<Computation*> MakeScalarBinaryComputation(Module* module, Opcode opcode, PrimitiveType type);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IR_BUILDER_H_
