// Mathematical functions of CHLO as formulas. Unless noted otherwise, terms are f32 or f64, or c64 or c128 for complex
// functions; callers widen narrower floats. Special values are those of C's function of the same name if there is one.
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_CHLO_FUNCTIONS_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_CHLO_FUNCTIONS_H_

#include <limits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/import/to_hlo/formula.h"

namespace backplane::to_hlo {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// chlo_inverse.cc: hyperbolic and inverse functions, real or complex.
Term Acos(Term x);
Term Acosh(Term x);
Term Asin(Term x);
Term Asinh(Term x);
Term Atan(Term x);
Term Atanh(Term x);
Term Sinh(Term x);
Term Square(Term x);          // any number
Term AsinAcosKernel(Term x);  // complex: the common part of arcsine and arccosine, as chlo._asin_acos_kernel

// chlo_special.cc: special functions.
Term BesselI1e(Term x);  // modified Bessel function of order 1 of the first kind, times exp(-|x|)
Term Digamma(Term x);
Term Erfc(Term x);
Term ErfInv(Term x);
Term Lgamma(Term x);             // log |gamma(x)|
Term NextAfter(Term x, Term y);  // f16, bf16, f32, f64
Term Polygamma(Term n, Term x);  // derivative n of digamma
Term Zeta(Term x, Term q);       // Hurwitz: the sum of (q + k)^-x over k >= 0

// Return chlo.NAME of one operand or of two operands of equal shape. Return Unimplemented for an unknown name.
absl::StatusOr<Value> ExpandChloUnary(Builder& b, absl::string_view name, Value x);
absl::StatusOr<Value> ExpandChloBinary(Builder& b, absl::string_view name, Value x, Value y);

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_CHLO_FUNCTIONS_H_
