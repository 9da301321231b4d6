// Declares the functions of the families of operations (families/<name>.cc). op_info.cc puts them into the operation
// table.
#ifndef BACKPLANE_CORE_OPS_FAMILY_H_
#define BACKPLANE_CORE_OPS_FAMILY_H_

#include "core/ops/op_info.h"

namespace backplane {

// Each family file defines these three functions for all of its operations. They switch on op.opcode where the
// operations differ.
#define BACKPLANE_FAMILY(name)                                                                                      \
  absl::StatusOr<Shape> Infer##name(const OpContext& op);                                                           \
  absl::StatusOr<Literal> Evaluate##name(const OpContext& op, absl::Span<const Literal* const> args, EvalEnv& env); \
  Cost Cost##name(const OpContext& op, const Shape& result);

BACKPLANE_FAMILY(Unary)
BACKPLANE_FAMILY(Binary)
BACKPLANE_FAMILY(Convert)
BACKPLANE_FAMILY(Source)
BACKPLANE_FAMILY(Movement)
BACKPLANE_FAMILY(Indexing)
BACKPLANE_FAMILY(Dynamic)
BACKPLANE_FAMILY(Reduction)
BACKPLANE_FAMILY(Window)
BACKPLANE_FAMILY(Contraction)
BACKPLANE_FAMILY(Convolution)
BACKPLANE_FAMILY(Normalization)
BACKPLANE_FAMILY(LinearAlgebra)
BACKPLANE_FAMILY(Fft)
BACKPLANE_FAMILY(Random)
BACKPLANE_FAMILY(Control)
BACKPLANE_FAMILY(Custom)
BACKPLANE_FAMILY(Collective)
BACKPLANE_FAMILY(Async)
BACKPLANE_FAMILY(Transfer)

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILY_H_
