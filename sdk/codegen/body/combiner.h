// Analyzes a reducer, the computation by which a reduction combines elements. Emits no IR.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_COMBINER_H_
#define BACKPLANE_SDK_CODEGEN_BODY_COMBINER_H_

#include <optional>
#include <vector>

#include "core/ir/computation.h"

namespace backplane::codegen {

struct Combiner {
  // The binary operation that the reducer applies to its two parameters, in either order: add, multiply, maximum,
  // minimum, and, or, xor. Nullopt for any other reducer.
  std::optional<Opcode> op;
  // The operations of several independent results. Has one entry if `op` is set and is empty if the reducer is not of
  // this form.
  std::vector<Opcode> ops;
  // Elements may be combined in any order, so a reduction may use several accumulators.
  bool reorderable = false;
  // The reducer chooses one of two (value, index) pairs by comparisons alone. Pairs may be combined in any order as
  // long as the pair with the smaller index is the left operand. True only for two operands of which the second is an
  // integer.
  bool selects_by_index = false;
};

Combiner AnalyzeCombiner(const Computation& computation);

// Whether this reduction may be split into parallel accumulators. They start from an identity, or from the initial
// value if combining it several times does not change the result.
bool MayReorder(const Instruction& reduce, const Combiner& combiner);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_COMBINER_H_
