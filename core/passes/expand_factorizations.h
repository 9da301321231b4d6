// Matrix factorizations that XLA's client libraries emit as custom calls and XLA's compilers expand. Frameworks such as
// torch_xla (torch.linalg.qr, eigh, slogdet, inverse) rely on them.
#ifndef BACKPLANE_CORE_PASSES_EXPAND_FACTORIZATIONS_H_
#define BACKPLANE_CORE_PASSES_EXPAND_FACTORIZATIONS_H_

#include "core/ir/module.h"

namespace backplane {

// Adds plain operations and loops to `c` that compute the custom call `i`, and returns the result. Returns null if `i`
// is none of the calls below or its element type is not supported (f16, bf16, f32 and f64 are; the narrow ones are
// computed in f32). Returns InvalidArgument for operands, results or options that do not fit the call. Shapes are [...,
// m, n], and k = min(m, n):
//
//     Qr(a) -> (a', taus[..., k])
//         Householder's QR in the form of LAPACK's geqrf: R on and above the diagonal, and below it the reflectors
//         without their leading 1.
//     ProductOfElementaryHouseholderReflectors(a'[..., m, n], taus[..., k]) -> q[..., m, n], k <= n <= m
//         As LAPACK's orgqr.
//     Eigh(a), opaque "lower,sort,max_iter,tol" -> (v, w[..., n])
//         a v = v diag(w), from the triangle that `lower` names; w is ascending if `sort` is set. Jacobi's method:
//         stops when the part off the diagonal is less than tol times the norm of the matrix, or after max_iter sweeps.
absl::StatusOr<Instruction*> ExpandFactorization(Computation* c, Instruction* i);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_EXPAND_FACTORIZATIONS_H_
