// Evaluation of the families whose definition is still being written: an error that names the operation.
#include "absl/strings/str_cat.h"
#include "core/ops/family.h"

namespace backplane {
namespace {

absl::Status Missing(const OpContext& op) {
  return absl::UnimplementedError(absl::StrCat(OpName(op.opcode), ": evaluation is not written yet"));
}

}  // namespace

#define BACKPLANE_MISSING(name)                                                                                        \
  absl::StatusOr<Literal> Evaluate##name(const OpContext& op, absl::Span<const Literal* const>, EvalEnv&) { return Missing(op); }
BACKPLANE_MISSING(Unary)
BACKPLANE_MISSING(Binary)
BACKPLANE_MISSING(Convert)
BACKPLANE_MISSING(Source)
BACKPLANE_MISSING(Movement)
BACKPLANE_MISSING(Indexing)
BACKPLANE_MISSING(Dynamic)
BACKPLANE_MISSING(Reduction)
BACKPLANE_MISSING(Window)
BACKPLANE_MISSING(Contraction)
BACKPLANE_MISSING(Convolution)
BACKPLANE_MISSING(Normalization)
BACKPLANE_MISSING(LinearAlgebra)
BACKPLANE_MISSING(Fft)
BACKPLANE_MISSING(Random)
BACKPLANE_MISSING(Control)
BACKPLANE_MISSING(Custom)
BACKPLANE_MISSING(Collective)
BACKPLANE_MISSING(Async)
BACKPLANE_MISSING(Transfer)

}  // namespace backplane
