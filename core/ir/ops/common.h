// What the named builder functions of core/ir/ops share: the type they return and the small values they take.
//
// core/ir/ops/ops.h is the umbrella over all of them: one function for each operation, with the names and the order of
// arguments of XLA's builder. Each takes the builder first and adds the instructions to its computation:
//
//   Builder b(&module, "main");
//   ASSIGN_OR_RETURN(Value x, hlo::Parameter(b, 0, Shape(PrimitiveType::kF32, {2, 3}), "x"));
//   ASSIGN_OR_RETURN(Value y, hlo::Tanh(b, x));
//   ASSIGN_OR_RETURN(Value z, hlo::Add(b, x, y));
//   ASSIGN_OR_RETURN(Computation* c, b.Build(z));
//
// Errors: a broken rule is InvalidArgument at the call and ends in the rule's label, as in [dot_c6]; nothing is then
// returned, and the computation may hold instructions that nobody uses. A value that is null or of another computation
// is such an error too ([operand]), as is a called computation without a root or of another module ([called]).
// Labels follow the numbers of the StableHLO specification where it has the constraint; core/ops/families has the
// checks. Thread-safety: as the builder's, one thread at a time.
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

// Which collectives, or which send and recv, belong together. handle <= 0: none.
struct ChannelHandle {
  enum class Type { kInvalid, kDeviceToDevice, kDeviceToHost, kHostToDevice };
  int64_t handle = 0;
  Type type = Type::kInvalid;
};

// How exactly the operands of a dot or convolution are multiplied: one entry for each operand, or none; dot alone takes
// an algorithm.
struct PrecisionConfig {
  Precisions operand_precision;
  std::optional<DotAlgorithm> algorithm;
};

// kValid: no padding. kSame: as much as keeps the size ceil(in / stride), the odd one at the high end.
enum class Padding { kSame, kValid };
// (low, high) for each spatial dimension; may be negative.
using PaddingPairs = std::vector<std::pair<int64_t, int64_t>>;

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_COMMON_H_
