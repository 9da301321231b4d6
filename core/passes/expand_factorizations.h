// Factorizations of matrices that XLA's builders write as custom calls, and that XLA's compilers take apart: hosts such
// as torch_xla (torch.linalg.qr, eigh, slogdet, inverse) count on it.
#ifndef BACKPLANE_CORE_PASSES_EXPAND_FACTORIZATIONS_H_
#define BACKPLANE_CORE_PASSES_EXPAND_FACTORIZATIONS_H_

#include "core/ir/module.h"

namespace backplane {

// A value in `c` that is what the custom call `i` returns, made of plain operations and loops; null where `i` is none
// of these, or not of a type that is offered (f16, bf16, f32, f64; the narrow ones are computed in f32).
// InvalidArgument for operands, results or options that do not fit the call. Shapes are [..., m, n], with k = min(m,
// n):
//
//   Qr(a) -> (a', taus[..., k])       Householder's QR as LAPACK's geqrf leaves it: R on and above the diagonal, below
//   it
//                                     the vectors without their leading 1
//   ProductOfElementaryHouseholderReflectors(a'[..., m, n], taus[..., k]) -> q[..., m, n], k <= n <= m, as LAPACK's
//   orgqr Eigh(a), opaque "lower,sort,max_iter,tol" -> (v, w[..., n])    a v = v diag(w), of the triangle that `lower`
//   names;
//                                     w ascending where `sort` says so. Jacobi's method: until all that is off the
//                                     diagonal is less than tol of the whole, or max_iter sweeps
absl::StatusOr<Instruction*> ExpandFactorization(Computation* c, Instruction* i);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_EXPAND_FACTORIZATIONS_H_
