// Arithmetic of f64 on lanes.
#include <cmath>

#include "plugins/hip/isa/operations/float_functions.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

constexpr Operation kVectorDouble[] = {
    Lanes<[](double a, double b) { return a + b; }>("v_add_f64"),
    Lanes<[](double a, double b) { return a * b; }>("v_mul_f64"),
    Lanes<[](double a, double b) { return ComputeMin(a, b); }>("v_min_f64"),
    Lanes<[](double a, double b) { return ComputeMax(a, b); }>("v_max_f64"),
    Lanes<[](double a, double b, double c) { return std::fma(a, b, c); }>("v_fma_f64"),
    AccumulatingLanes<[](double a, double b, double c) { return std::fma(a, b, c); }>("v_fmac_f64"),
    Lanes<[](double a) { return std::trunc(a); }>("v_trunc_f64"),
    Lanes<[](double a) { return std::floor(a); }>("v_floor_f64"),
    Lanes<[](double a) { return std::ceil(a); }>("v_ceil_f64"),
    Lanes<[](double a) { return std::nearbyint(a); }>("v_rndne_f64"),
    Lanes<[](double a) { return ComputeFraction(a); }>("v_fract_f64"),
    Lanes<[](double a, int32_t e) { return std::ldexp(a, e); }>("v_ldexp_f64"),
    Lanes<[](double a) { return ExponentForFrexp(a); }>("v_frexp_exp_i32_f64"),
    Lanes<[](double a) { return MantissaForFrexp(a); }>("v_frexp_mant_f64"),
    Lanes<[](double a) { return WithTableAccuracy(1.0 / a); }>("v_rcp_f64"),
    Lanes<[](double a) { return WithTableAccuracy(1.0 / std::sqrt(a)); }>("v_rsq_f64"),
    Lanes<[](double a) { return WithTableAccuracy(std::sqrt(a)); }>("v_sqrt_f64"),
};

}  // namespace

absl::Span<const Operation> VectorDouble() { return kVectorDouble; }

}  // namespace backplane::hip::isa
