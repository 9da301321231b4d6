// Comparisons on lanes: v_cmp writes a mask, v_cmpx writes EXEC (on gfx942 both).
#include <cmath>
#include <cstdint>

#include "plugins/hip/isa/operations/float_functions.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

// The classes of a mask: bits for signalling and quiet NaN, then from -infinity to +infinity.
template <class T>
bool IsOfClass(T v, bool is_quiet, uint32_t mask) {
  const bool negative = std::signbit(v);
  int bit = 0;
  switch (std::fpclassify(v)) {
    case FP_NAN:
      bit = is_quiet ? 1 : 0;
      break;
    case FP_INFINITE:
      bit = negative ? 2 : 9;
      break;
    case FP_NORMAL:
      bit = negative ? 3 : 8;
      break;
    case FP_SUBNORMAL:
      bit = negative ? 4 : 7;
      break;
    default:
      bit = negative ? 5 : 6;
      break;
  }
  return (mask >> bit & 1) != 0;
}
// Of halves: their subnormals are normal as floats.
inline bool HalfIsOfClass(uint16_t bits, uint32_t mask) {
  const uint16_t magnitude = bits & 0x7fff;
  float v = ConvertHalfToFloat(bits);
  if (magnitude != 0 && magnitude < 0x400) v = std::copysign(1e-40f, v);
  return IsOfClass(v, (bits & 0x200) != 0, mask);
}

constexpr Operation ToExecOnly(Operation o) {
  o.execute = ExecuteCompareToExec;
  o.machine = Operation::kGfx1100;
  o.results = 0;
  for (int i = 0; i < 5; ++i) o.types[i] = o.types[i + 1];
  return o;
}
constexpr Operation ToExecAndMask(Operation o) {
  o.execute = ExecuteCompareToExec;
  o.machine = Operation::kGfx942;
  return o;
}

#define BACKPLANE_CMP(NAME, PARAMETERS, EXPRESSION)                                      \
  Lanes<[] PARAMETERS -> bool { return (EXPRESSION); }>("v_cmp_" NAME),                  \
      ToExecOnly(Lanes<[] PARAMETERS -> bool { return (EXPRESSION); }>("v_cmpx_" NAME)), \
      ToExecAndMask(Lanes<[] PARAMETERS -> bool { return (EXPRESSION); }>("v_cmpx_" NAME))

#define BACKPLANE_FLOAT_COMPARES(TYPE, PARAMETERS, A, B)                                                               \
  BACKPLANE_CMP("f_" TYPE, PARAMETERS, false), BACKPLANE_CMP("lt_" TYPE, PARAMETERS, A < B),                           \
      BACKPLANE_CMP("eq_" TYPE, PARAMETERS, A == B), BACKPLANE_CMP("le_" TYPE, PARAMETERS, A <= B),                    \
      BACKPLANE_CMP("gt_" TYPE, PARAMETERS, A > B), BACKPLANE_CMP("lg_" TYPE, PARAMETERS, A<B || A> B),                \
      BACKPLANE_CMP("ge_" TYPE, PARAMETERS, A >= B), BACKPLANE_CMP("o_" TYPE, PARAMETERS, !std::isunordered(A, B)),    \
      BACKPLANE_CMP("u_" TYPE, PARAMETERS, std::isunordered(A, B)), BACKPLANE_CMP("nge_" TYPE, PARAMETERS, !(A >= B)), \
      BACKPLANE_CMP("nlg_" TYPE, PARAMETERS, !(A < B || A > B)), BACKPLANE_CMP("ngt_" TYPE, PARAMETERS, !(A > B)),     \
      BACKPLANE_CMP("nle_" TYPE, PARAMETERS, !(A <= B)), BACKPLANE_CMP("neq_" TYPE, PARAMETERS, !(A == B)),            \
      BACKPLANE_CMP("nlt_" TYPE, PARAMETERS, !(A < B)), BACKPLANE_CMP("tru_" TYPE, PARAMETERS, true),                  \
      BACKPLANE_CMP("t_" TYPE, PARAMETERS, true)

#define BACKPLANE_INTEGER_COMPARES(TYPE, CPP)                                                               \
  BACKPLANE_CMP("f_" TYPE, (CPP a, CPP b), false), BACKPLANE_CMP("lt_" TYPE, (CPP a, CPP b), a < b),        \
      BACKPLANE_CMP("eq_" TYPE, (CPP a, CPP b), a == b), BACKPLANE_CMP("le_" TYPE, (CPP a, CPP b), a <= b), \
      BACKPLANE_CMP("gt_" TYPE, (CPP a, CPP b), a > b), BACKPLANE_CMP("ne_" TYPE, (CPP a, CPP b), a != b),  \
      BACKPLANE_CMP("lg_" TYPE, (CPP a, CPP b), a != b), BACKPLANE_CMP("ge_" TYPE, (CPP a, CPP b), a >= b), \
      BACKPLANE_CMP("t_" TYPE, (CPP a, CPP b), true)

constexpr Operation kVectorCompare[] = {
    BACKPLANE_FLOAT_COMPARES("f16", (Half a, Half b), a.v, b.v),
    BACKPLANE_FLOAT_COMPARES("f32", (float a, float b), a, b),
    BACKPLANE_FLOAT_COMPARES("f64", (double a, double b), a, b),
    BACKPLANE_INTEGER_COMPARES("i16", int16_t),
    BACKPLANE_INTEGER_COMPARES("u16", uint16_t),
    BACKPLANE_INTEGER_COMPARES("i32", int32_t),
    BACKPLANE_INTEGER_COMPARES("u32", uint32_t),
    BACKPLANE_INTEGER_COMPARES("i64", int64_t),
    BACKPLANE_INTEGER_COMPARES("u64", uint64_t),
    // Classes are asked of bits: the mode does not flush them.
    BACKPLANE_CMP("class_f16", (uint16_t a, uint32_t m), HalfIsOfClass(a, m)),
    BACKPLANE_CMP("class_f32", (uint32_t a, uint32_t m), IsOfClass(std::bit_cast<float>(a), (a >> 22 & 1) != 0, m)),
    BACKPLANE_CMP("class_f64", (uint64_t a, uint32_t m), IsOfClass(std::bit_cast<double>(a), (a >> 51 & 1) != 0, m)),
};

#undef BACKPLANE_CMP
#undef BACKPLANE_FLOAT_COMPARES
#undef BACKPLANE_INTEGER_COMPARES

}  // namespace

absl::Span<const Operation> VectorCompare() { return kVectorCompare; }

}  // namespace backplane::hip::isa
