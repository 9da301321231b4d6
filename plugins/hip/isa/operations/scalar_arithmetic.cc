// Integer arithmetic on scalars: SOP1, SOP2, SOPC, SOPK.
#include <algorithm>
#include <bit>
#include <limits>

#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

constexpr int32_t AddSigned(int32_t a, int32_t b, bool& overflow) {
  int32_t r = 0;
  overflow = __builtin_add_overflow(a, b, &r);
  return r;
}
constexpr int32_t SubtractSigned(int32_t a, int32_t b, bool& overflow) {
  int32_t r = 0;
  overflow = __builtin_sub_overflow(a, b, &r);
  return r;
}
constexpr uint32_t AddCarry(uint64_t a, uint64_t b, uint64_t c, bool& carry) {
  carry = a + b + c > 0xffffffffull;
  return static_cast<uint32_t>(a + b + c);
}
template <class T, class Wide>
constexpr T HighProduct(T a, T b) {
  return static_cast<T>(static_cast<Wide>(a) * b >> 32);
}
template <int kShift>
constexpr uint32_t ShiftAdd(uint32_t a, uint32_t b, bool& scc) {
  return AddCarry(static_cast<uint64_t>(a) << kShift, b, 0, scc);
}
constexpr uint32_t AbsoluteDifference(int32_t a, int32_t b, bool& scc) {
  const uint32_t d = static_cast<uint32_t>(a) - static_cast<uint32_t>(b);
  const uint32_t r = a > b ? d : 0 - d;
  scc = r != 0;
  return r;
}

#define BACKPLANE_COMPARE(NAME, TYPE, OP) Scalars<[](TYPE a, TYPE b) { return (a OP b); }>("s_cmp_" NAME)
#define BACKPLANE_COMPARE_SHORT(NAME, TYPE, OP, KIND) \
  WithShortImmediate(Scalars<[](TYPE a, TYPE b) { return (a OP b); }>("s_cmpk_" NAME), ShortImmediate::KIND)

constexpr Operation kScalarArithmetic[] = {
    Scalars<[](uint32_t a, uint32_t b, bool& scc) { return AddCarry(a, b, 0, scc); }>("s_add_u32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) { return AddCarry(a, b, scc, scc); }>("s_addc_u32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) {
      scc = (a < b);
      return a - b;
    }>("s_sub_u32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) {
      const uint32_t r = a - b - (scc ? 1 : 0);
      scc = (static_cast<uint64_t>(b) + (scc ? 1 : 0) > a);
      return r;
    }>("s_subb_u32"),
    Scalars<[](int32_t a, int32_t b, bool& scc) { return AddSigned(a, b, scc); }>("s_add_i32"),
    Scalars<[](int32_t a, int32_t b, bool& scc) { return SubtractSigned(a, b, scc); }>("s_sub_i32"),
    Scalars<[](uint32_t a, uint32_t b) { return a * b; }>("s_mul_i32"),
    Scalars<[](uint32_t a, uint32_t b) { return (HighProduct<uint32_t, uint64_t>(a, b)); }>("s_mul_hi_u32"),
    Scalars<[](int32_t a, int32_t b) { return (HighProduct<int32_t, int64_t>(a, b)); }>("s_mul_hi_i32"),
    Scalars<[](int32_t a, int32_t b, bool& scc) {
      scc = (a < b);
      return std::min(a, b);
    }>("s_min_i32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) {
      scc = (a < b);
      return std::min(a, b);
    }>("s_min_u32"),
    Scalars<[](int32_t a, int32_t b, bool& scc) {
      scc = (a > b);
      return std::max(a, b);
    }>("s_max_i32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) {
      scc = (a > b);
      return std::max(a, b);
    }>("s_max_u32"),
    Scalars<[](int32_t a, bool& scc) {
      scc = a != 0;
      return (a < 0) ? 0u - static_cast<uint32_t>(a) : static_cast<uint32_t>(a);
    }>("s_abs_i32"),
    Scalars<[](int32_t a, int32_t b, bool& scc) { return AbsoluteDifference(a, b, scc); }>("s_absdiff_i32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) { return (ShiftAdd<1>(a, b, scc)); }>("s_lshl1_add_u32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) { return (ShiftAdd<2>(a, b, scc)); }>("s_lshl2_add_u32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) { return (ShiftAdd<3>(a, b, scc)); }>("s_lshl3_add_u32"),
    Scalars<[](uint32_t a, uint32_t b, bool& scc) { return (ShiftAdd<4>(a, b, scc)); }>("s_lshl4_add_u32"),
    WithShortImmediate(
        UpdatingScalars<[](int32_t k, int32_t d, bool& scc) { return AddSigned(d, k, scc); }>("s_addk_i32"),
        ShortImmediate::kSigned),
    WithShortImmediate(UpdatingScalars<[](uint32_t k, uint32_t d) { return d * k; }>("s_mulk_i32"),
                       ShortImmediate::kSigned),
    WithShortImmediate(Scalars<[](uint32_t k) { return k; }>("s_movk_i32"), ShortImmediate::kSigned),
    WithShortImmediate(UpdatingScalars<[](uint32_t k, uint32_t d, bool scc) { return scc ? k : d; }>("s_cmovk_i32"),
                       ShortImmediate::kSigned),
    Scalars<[](uint32_t a) { return (static_cast<int32_t>(static_cast<int8_t>(a))); }>("s_sext_i32_i8"),
    Scalars<[](uint32_t a) { return (static_cast<int32_t>(static_cast<int16_t>(a))); }>("s_sext_i32_i16"),
    BACKPLANE_COMPARE("eq_i32", int32_t, ==),
    BACKPLANE_COMPARE("lg_i32", int32_t, !=),
    BACKPLANE_COMPARE("gt_i32", int32_t, >),
    BACKPLANE_COMPARE("ge_i32", int32_t, >=),
    BACKPLANE_COMPARE("lt_i32", int32_t, <),
    BACKPLANE_COMPARE("le_i32", int32_t, <=),
    BACKPLANE_COMPARE("eq_u32", uint32_t, ==),
    BACKPLANE_COMPARE("lg_u32", uint32_t, !=),
    BACKPLANE_COMPARE("gt_u32", uint32_t, >),
    BACKPLANE_COMPARE("ge_u32", uint32_t, >=),
    BACKPLANE_COMPARE("lt_u32", uint32_t, <),
    BACKPLANE_COMPARE("le_u32", uint32_t, <=),
    BACKPLANE_COMPARE("eq_u64", uint64_t, ==),
    BACKPLANE_COMPARE("lg_u64", uint64_t, !=),
    BACKPLANE_COMPARE_SHORT("eq_i32", int32_t, ==, kSigned),
    BACKPLANE_COMPARE_SHORT("lg_i32", int32_t, !=, kSigned),
    BACKPLANE_COMPARE_SHORT("gt_i32", int32_t, >, kSigned),
    BACKPLANE_COMPARE_SHORT("ge_i32", int32_t, >=, kSigned),
    BACKPLANE_COMPARE_SHORT("lt_i32", int32_t, <, kSigned),
    BACKPLANE_COMPARE_SHORT("le_i32", int32_t, <=, kSigned),
    BACKPLANE_COMPARE_SHORT("eq_u32", uint32_t, ==, kUnsigned),
    BACKPLANE_COMPARE_SHORT("lg_u32", uint32_t, !=, kUnsigned),
    BACKPLANE_COMPARE_SHORT("gt_u32", uint32_t, >, kUnsigned),
    BACKPLANE_COMPARE_SHORT("ge_u32", uint32_t, >=, kUnsigned),
    BACKPLANE_COMPARE_SHORT("lt_u32", uint32_t, <, kUnsigned),
    BACKPLANE_COMPARE_SHORT("le_u32", uint32_t, <=, kUnsigned),
};

#undef BACKPLANE_COMPARE
#undef BACKPLANE_COMPARE_SHORT

}  // namespace

absl::Span<const Operation> ScalarArithmetic() { return kScalarArithmetic; }

}  // namespace backplane::hip::isa
