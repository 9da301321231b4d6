// The types that the named builder functions of core/ir/ops share.
//
// core/ir/ops/ops.h includes all of them. There is one function for each operation, with the name and the order of
// arguments of XLA's builder. Each takes the builder first and adds the instructions to its computation:
//
//   Builder b(&module, "main");
//   ASSIGN_OR_RETURN(Value x, hlo::Parameter(b, 0, Shape(PrimitiveType::kF32, {2, 3}), "x"));
//   ASSIGN_OR_RETURN(Value y, hlo::Tanh(b, x));
//   ASSIGN_OR_RETURN(Value z, hlo::Add(b, x, y));
//   ASSIGN_OR_RETURN(Computation* c, b.Build(z));
//
// Errors. A call that violates a rule returns InvalidArgument with the label of the rule at the end of the message, as
// in [dot_c6]. The computation may then contain instructions without users. A value that is null or belongs to another
// computation is such an error ([operand]), and so is a called computation that has no root or belongs to another
// module ([called]). Labels have the numbers of the constraints in the StableHLO specification where it has the
// constraint; core/ops/families contains the checks.
#ifndef BACKPLANE_CORE_IR_OPS_COMMON_H_
#define BACKPLANE_CORE_IR_OPS_COMMON_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/builder.h"

namespace backplane::hlo {

using Result = absl::StatusOr<Value>;
using Dims = absl::Span<const int64_t>;

// Identifies the instructions that communicate with each other: collectives, or a send and a recv. handle <= 0: no
// channel.
struct ChannelHandle {
  enum class Type { kInvalid, kDeviceToDevice, kDeviceToHost, kHostToDevice };
  int64_t handle = 0;
  Type type = Type::kInvalid;
};

// The precision with which a dot or convolution multiplies its operands. `operand_precision` has one entry per operand
// or is empty. Only a dot takes an algorithm.
struct PrecisionConfig {
  Precisions operand_precision;
  std::optional<DotAlgorithm> algorithm;
};

// kValid: no padding. kSame: padding that gives the result the size ceil(input / stride). If the amount is odd, the
// high end gets one element more than the low end.
enum class Padding { kSame, kValid };
// The padding (low, high) of each spatial dimension. Negative padding removes elements.
using PaddingPairs = std::vector<std::pair<int64_t, int64_t>>;

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_COMMON_H_
