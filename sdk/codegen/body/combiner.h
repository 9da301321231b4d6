// What may be assumed of a reducer, the computation that a reduction combines elements by. No IR is written here.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_COMBINER_H_
#define BACKPLANE_SDK_CODEGEN_BODY_COMBINER_H_

#include <optional>
#include <vector>

#include "core/ir/computation.h"

namespace backplane::codegen {

struct Combiner {
  // One binary operation on the two parameters, whatever their order: add, multiply, maximum, minimum, and, or, xor.
  std::optional<Opcode> op;
  // The same for each of several independent results; one entry where `op` is known, none where nothing is.
  std::vector<Opcode> ops;
  // Elements may be combined in any order: several accumulators side by side are allowed.
  bool reorderable = false;
  // Chooses one of two (value, index) pairs by comparisons alone. Pairs may be combined in any order as long as the
  // pair with the smaller index stands on the left. True only for two operands of which the second is an integer.
  bool selects_by_index = false;
};

Combiner AnalyzeCombiner(const Computation& computation);

// Whether this reduction may be cut into parallel accumulators, which then start from an identity, or from the initial
// value where it does no harm to combine that several times.
bool MayReorder(const Instruction& reduce, const Combiner& combiner);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_COMBINER_H_
