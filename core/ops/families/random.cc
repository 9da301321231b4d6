// Shape rules and cost of random number generators.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::StatusOr<Shape> InferRng(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  ASSIGN_OR_RETURN(Shape result, GetDeclaredArrayShape(op));
  if (op.operands.size() != 2) return Fail(op, "rng_arity", "has ", op.operands.size(), " operands, expected 2");
  for (int i = 0; i < 2; ++i) {
    if (op.operand(i).rank() != 0 || op.operand(i).element_type() != result.element_type()) {
      return Fail(op, "rng_c1", "operand ", i, " is ", op.operand(i).ToString(), ", expected ",
                  Name(result.element_type()), "[]");
    }
  }
  switch (op.attrs->GetEnum<RandomDistribution>(AttrId::kRandomDistribution)) {
    case RandomDistribution::kUniform:
      if (IsComplex(result.element_type())) return Fail(op, "rng_i1", "does not make complex numbers");
      return result;
    case RandomDistribution::kNormal:
      if (!IsFloat(result.element_type()))
        return Fail(op, "rng_c2", "a normal distribution needs floats, found ", result.ToString());
      return result;
    default:
      return Fail(op, "rng_i4", "the distribution is missing");
  }
}

absl::StatusOr<Shape> InferRngBitGenerator(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  ASSIGN_OR_RETURN(Shape result, GetDeclaredShape(op));
  const Shape& state = op.operand(0);
  if (!result.IsTuple() || result.tuple_size() != 2 || !result.tuple_shapes(1).IsArray()) {
    return Fail(op, "rng_bit_generator_c1", "the result must be (state, data), declared ", result.ToString());
  }
  if (!SameTypeAndDims(result.tuple_shapes(0), state)) {
    return Fail(op, "rng_bit_generator_c1", "state is ", state.ToString(), ", declared ",
                result.tuple_shapes(0).ToString());
  }
  if (!IsIntegral(state.element_type()) && !IsFloat(state.element_type())) {
    return Fail(op, "rng_bit_generator_i2", "state must be numbers, found ", state.ToString());
  }
  // In 64-bit words, or as many pairs of 32-bit ones.
  const int64_t width = BitWidth(state.element_type()), size = state.rank() == 1 ? state.dimensions(0) : 0;
  const int64_t words = width == 64 ? size : width == 32 && size % 2 == 0 ? size / 2 : 0;
  const auto algorithm = op.attrs->GetEnum<RandomAlgorithm>(AttrId::kRandomAlgorithm);
  const bool good = algorithm == RandomAlgorithm::kThreeFry ? words == 2 : words == 2 || words == 3;
  if (!good) return Fail(op, "rng_bit_generator_c2", "state ", state.ToString(), " does not fit the algorithm");
  const PrimitiveType t = result.tuple_shapes(1).element_type();
  if (!IsIntegral(t) && !IsFloat(t)) return Fail(op, "rng_bit_generator_i3", "does not make ", Name(t));
  return result;
}

}  // namespace

absl::StatusOr<Shape> InferRandom(const OpContext& op) {
  if (op.opcode == Opcode::kRng) return InferRng(op);
  if (op.opcode == Opcode::kRngBitGenerator) return InferRngBitGenerator(op);
  ASSIGN_OR_RETURN(Shape result, GetDeclaredArrayShape(op));
  if (result.element_type() != PrimitiveType::kU64 || result.rank() != 1 || result.dimensions(0) != 2) {
    return Fail(op, "rng_get_and_update_state_c1", "the state is u64[2], declared ", result.ToString());
  }
  return result;
}

Cost CostRandom(const OpContext& op, const Shape& result) { return ElementCost(op, result, 20); }

}  // namespace backplane
