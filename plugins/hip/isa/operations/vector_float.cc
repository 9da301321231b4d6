// Arithmetic of f32 and f16 on lanes.
#include <cmath>

#include "plugins/hip/isa/operations/float_functions.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

// Zero times anything is zero.
inline float LegacyProduct(float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; }

inline Half FmaOfHalves(Half a, Half b, Half c) { return {ConvertHalfToFloat(FmaHalf(a.v, b.v, c.v))}; }
template <class F>
inline Half HalfTranscendental(Half a, F f) {
  return {ConvertHalfToFloat(ConvertDoubleToHalf(f(static_cast<double>(a.v))))};
}

#define BACKPLANE_FLOAT2(NAME, EXPRESSION) Lanes<[](float a, float b) -> float { return (EXPRESSION); }>(NAME)
#define BACKPLANE_FLOAT3(NAME, EXPRESSION) Lanes<[](float a, float b, float c) -> float { return (EXPRESSION); }>(NAME)
#define BACKPLANE_HALF1(NAME, EXPRESSION) \
  Lanes<[](Half x) -> Half {              \
    const float a = x.v;                  \
    return {EXPRESSION};                  \
  }>(NAME)
#define BACKPLANE_HALF2(NAME, EXPRESSION) \
  Lanes<[](Half x, Half y) -> Half {      \
    const float a = x.v, b = y.v;         \
    return {EXPRESSION};                  \
  }>(NAME)
#define BACKPLANE_HALF3(NAME, EXPRESSION)                  \
  KeepUpperHalf(Lanes<[](Half x, Half y, Half z) -> Half { \
    const float a = x.v, b = y.v, c = z.v;                 \
    return {EXPRESSION};                                   \
  }>(NAME))

constexpr Operation kVectorFloat[] = {
    BACKPLANE_FLOAT2("v_add_f32", a + b),
    BACKPLANE_FLOAT2("v_dual_add_f32", a + b),
    BACKPLANE_FLOAT2("v_sub_f32", a - b),
    BACKPLANE_FLOAT2("v_dual_sub_f32", a - b),
    BACKPLANE_FLOAT2("v_subrev_f32", b - a),
    BACKPLANE_FLOAT2("v_dual_subrev_f32", b - a),
    BACKPLANE_FLOAT2("v_mul_f32", a* b),
    BACKPLANE_FLOAT2("v_dual_mul_f32", a* b),
    BACKPLANE_FLOAT2("v_mul_legacy_f32", LegacyProduct(a, b)),
    BACKPLANE_FLOAT2("v_mul_dx9_zero_f32", LegacyProduct(a, b)),
    BACKPLANE_FLOAT2("v_dual_mul_dx9_zero_f32", LegacyProduct(a, b)),
    BACKPLANE_FLOAT2("v_min_f32", ComputeMin(a, b)),
    BACKPLANE_FLOAT2("v_dual_min_f32", ComputeMin(a, b)),
    BACKPLANE_FLOAT2("v_max_f32", ComputeMax(a, b)),
    BACKPLANE_FLOAT2("v_dual_max_f32", ComputeMax(a, b)),
    BACKPLANE_FLOAT3("v_fma_f32", std::fma(a, b, c)),
    BACKPLANE_FLOAT3("v_fmaak_f32", std::fma(a, b, c)),
    BACKPLANE_FLOAT3("v_fmamk_f32", std::fma(a, b, c)),
    BACKPLANE_FLOAT3("v_dual_fmaak_f32", std::fma(a, b, c)),
    BACKPLANE_FLOAT3("v_dual_fmamk_f32", std::fma(a, b, c)),
    AccumulatingLanes<[](float a, float b, float c) { return std::fma(a, b, c); }>("v_fmac_f32"),
    AccumulatingLanes<[](float a, float b, float c) { return std::fma(a, b, c); }>("v_dual_fmac_f32"),
    BACKPLANE_FLOAT3("v_min3_f32", ComputeMin(ComputeMin(a, b), c)),
    BACKPLANE_FLOAT3("v_max3_f32", ComputeMax(ComputeMax(a, b), c)),
    BACKPLANE_FLOAT3("v_med3_f32", ComputeMedian(a, b, c)),
    BACKPLANE_FLOAT3("v_maxmin_f32", ComputeMin(ComputeMax(a, b), c)),
    BACKPLANE_FLOAT3("v_minmax_f32", ComputeMax(ComputeMin(a, b), c)),
    Lanes<[](float a) { return std::trunc(a); }>("v_trunc_f32"),
    Lanes<[](float a) { return std::floor(a); }>("v_floor_f32"),
    Lanes<[](float a) { return std::ceil(a); }>("v_ceil_f32"),
    Lanes<[](float a) { return std::nearbyint(a); }>("v_rndne_f32"),
    Lanes<[](float a) { return ComputeFraction(a); }>("v_fract_f32"),
    Lanes<[](float a, int32_t e) { return std::ldexp(a, e); }>("v_ldexp_f32"),
    Lanes<[](float a) { return ExponentForFrexp(a); }>("v_frexp_exp_i32_f32"),
    Lanes<[](float a) { return MantissaForFrexp(a); }>("v_frexp_mant_f32"),
    Lanes<[](float a) { return Transcendental(a, [](double v) { return 1.0 / v; }); }>("v_rcp_f32"),
    Lanes<[](float a) { return Transcendental(a, [](double v) { return 1.0 / v; }); }>("v_rcp_iflag_f32"),
    Lanes<[](float a) { return Transcendental(a, [](double v) { return 1.0 / std::sqrt(v); }); }>("v_rsq_f32"),
    Lanes<[](float a) { return Transcendental(a, [](double v) { return std::sqrt(v); }); }>("v_sqrt_f32"),
    Lanes<[](float a) { return Transcendental(a, [](double v) { return std::exp2(v); }); }>("v_exp_f32"),
    Lanes<[](float a) { return Transcendental(a, [](double v) { return std::log2(v); }); }>("v_log_f32"),
    Lanes<[](float a) { return Transcendental(a, SineOfRevolutions); }>("v_sin_f32"),
    Lanes<[](float a) { return Transcendental(a, CosineOfRevolutions); }>("v_cos_f32"),
    // f16
    BACKPLANE_HALF2("v_add_f16", a + b),
    BACKPLANE_HALF2("v_sub_f16", a - b),
    BACKPLANE_HALF2("v_subrev_f16", b - a),
    BACKPLANE_HALF2("v_mul_f16", a* b),
    BACKPLANE_HALF2("v_min_f16", ComputeMin(a, b)),
    BACKPLANE_HALF2("v_max_f16", ComputeMax(a, b)),
    KeepUpperHalf(Lanes<[](Half a, Half b, Half c) { return FmaOfHalves(a, b, c); }>("v_fma_f16")),
    AccumulatingLanes<[](Half a, Half b, Half c) { return FmaOfHalves(a, b, c); }>("v_fmac_f16"),
    Lanes<[](Half a, Half b, Half c) { return FmaOfHalves(a, b, c); }>("v_fmaak_f16"),
    Lanes<[](Half a, Half b, Half c) { return FmaOfHalves(a, b, c); }>("v_fmamk_f16"),
    BACKPLANE_HALF3("v_min3_f16", ComputeMin(ComputeMin(a, b), c)),
    BACKPLANE_HALF3("v_max3_f16", ComputeMax(ComputeMax(a, b), c)),
    BACKPLANE_HALF3("v_med3_f16", ComputeMedian(a, b, c)),
    BACKPLANE_HALF3("v_maxmin_f16", ComputeMin(ComputeMax(a, b), c)),
    BACKPLANE_HALF3("v_minmax_f16", ComputeMax(ComputeMin(a, b), c)),
    BACKPLANE_HALF1("v_trunc_f16", std::trunc(a)),
    BACKPLANE_HALF1("v_floor_f16", std::floor(a)),
    BACKPLANE_HALF1("v_ceil_f16", std::ceil(a)),
    BACKPLANE_HALF1("v_rndne_f16", std::nearbyint(a)),
    BACKPLANE_HALF1("v_fract_f16", std::isfinite(a) ? std::fmin(a - std::floor(a), 0x1.ffcp-1f) : a - a),
    Lanes<[](Half a, int16_t e) {
      return Half{ConvertHalfToFloat(ConvertDoubleToHalf(std::ldexp(static_cast<double>(a.v), e)))};
    }>("v_ldexp_f16"),
    Lanes<[](Half a) { return (static_cast<int16_t>(ExponentForFrexp(a.v))); }>("v_frexp_exp_i16_f16"),
    BACKPLANE_HALF1("v_frexp_mant_f16", MantissaForFrexp(a)),
    Lanes<[](Half a) { return HalfTranscendental(a, [](double v) { return 1.0 / v; }); }>("v_rcp_f16"),
    Lanes<[](Half a) { return HalfTranscendental(a, [](double v) { return 1.0 / std::sqrt(v); }); }>("v_rsq_f16"),
    Lanes<[](Half a) { return HalfTranscendental(a, [](double v) { return std::sqrt(v); }); }>("v_sqrt_f16"),
    Lanes<[](Half a) { return HalfTranscendental(a, [](double v) { return std::exp2(v); }); }>("v_exp_f16"),
    Lanes<[](Half a) { return HalfTranscendental(a, [](double v) { return std::log2(v); }); }>("v_log_f16"),
    Lanes<[](Half a) { return HalfTranscendental(a, SineOfRevolutions); }>("v_sin_f16"),
    Lanes<[](Half a) { return HalfTranscendental(a, CosineOfRevolutions); }>("v_cos_f16"),
};

#undef BACKPLANE_FLOAT2
#undef BACKPLANE_FLOAT3
#undef BACKPLANE_HALF1
#undef BACKPLANE_HALF2
#undef BACKPLANE_HALF3

}  // namespace

absl::Span<const Operation> VectorFloat() { return kVectorFloat; }

}  // namespace backplane::hip::isa
