// Bits, shifts and moves on scalars, and the operations on EXEC.
#include <algorithm>
#include <bit>

#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

template <class T>
constexpr T NonZero(T r, bool& scc) {
  scc = r != 0;
  return r;
}

constexpr bool HasBit(uint64_t v, uint32_t n) { return (v >> n & 1) != 0; }

// A field of `width` bits from bit `offset` on, sign-extended if T is signed.
template <class T>
constexpr T BitField(T v, uint32_t control, bool& scc) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = sizeof(T) * 8;
  const uint32_t offset = control & (kBits - 1);
  const uint32_t width = std::min(control >> 16 & 0x7f, kBits);
  if (width == 0) return NonZero(T{0}, scc);
  T r = v >> offset;
  if (width < kBits - offset) r = static_cast<T>(static_cast<U>(v) << (kBits - offset - width)) >> (kBits - width);
  return NonZero(r, scc);
}

template <class T>
constexpr T ReverseBits(T v) {
  T r = 0;
  for (size_t i = 0; i < sizeof(T) * 8; ++i) r |= (v >> i & 1) << (sizeof(T) * 8 - 1 - i);
  return r;
}

template <class T>
constexpr uint32_t LowestBit(T v) {
  return v == 0 ? ~0u : static_cast<uint32_t>(std::countr_zero(v));
}
template <class T>
constexpr uint32_t LeadingZeros(T v) {
  return v == 0 ? ~0u : static_cast<uint32_t>(std::countl_zero(v));
}
// The number of leading bits that equal the sign; all ones if all do.
template <class T>
constexpr uint32_t LeadingSigns(T v) {
  const T u = static_cast<std::make_signed_t<T>>(v) < 0 ? static_cast<T>(~v) : v;
  return u == 0 ? ~0u : static_cast<uint32_t>(std::countl_zero(u));
}

template <class T>
constexpr T WholeQuads(T v, bool& scc) {
  T r = 0;
  for (size_t i = 0; i < sizeof(T) * 8; i += 4) r |= (v >> i & 15) != 0 ? T{15} << i : T{0};
  return NonZero(r, scc);
}

// EXEC of any width from EXEC and a source, saving the former: s_and_saveexec_b64.
template <auto F, bool kReturnsNew, bool kWide>
void UpdateExec(Wave& wave, const Instruction& i) {
  const uint64_t source = kWide ? wave.Scalar64(i.Source(0)) : wave.Scalar32(i.Source(0));
  const uint64_t before =
      kWide ? wave.scalars[kExecLow] | static_cast<uint64_t>(wave.scalars[kExecLow + 1]) << 32 : wave.scalars[kExecLow];
  uint64_t exec = F(source, before);
  if constexpr (!kWide) exec &= 0xffffffffu;
  const uint64_t saved = kReturnsNew ? exec : before;
  if constexpr (kWide) {
    wave.SetScalar64(i.Result(), saved);
    wave.scalars[kExecLow + 1] = static_cast<uint32_t>(exec >> 32);
  } else {
    wave.SetScalar32(i.Result(), static_cast<uint32_t>(saved));
  }
  wave.scalars[kExecLow] = static_cast<uint32_t>(exec);
  wave.scc = exec != 0;
}

#define BACKPLANE_LOGIC(NAME, EXPRESSION)                                                                            \
  Scalars<[](uint32_t a, uint32_t b, bool& scc) { return (NonZero<uint32_t>(EXPRESSION, scc)); }>("s_" NAME "_b32"), \
      Scalars<[](uint64_t a, uint64_t b, bool& scc) { return (NonZero<uint64_t>(EXPRESSION, scc)); }>("s_" NAME      \
                                                                                                      "_b64")
#define BACKPLANE_EXEC(NAME, EXPRESSION, RETURNS_NEW)                                                           \
  Custom("s_" NAME "_b32", Category::kScalar,                                                                   \
         UpdateExec<[](uint64_t s, uint64_t e) -> uint64_t { return (EXPRESSION); }, RETURNS_NEW, false>, 1,    \
         Type::k32, Type::k32),                                                                                 \
      Custom("s_" NAME "_b64", Category::kScalar,                                                               \
             UpdateExec<[](uint64_t s, uint64_t e) -> uint64_t { return (EXPRESSION); }, RETURNS_NEW, true>, 1, \
             Type::k64, Type::k64)

constexpr Operation kScalarLogic[] = {
    BACKPLANE_LOGIC("and", a& b),
    BACKPLANE_LOGIC("or", a | b),
    BACKPLANE_LOGIC("xor", a ^ b),
    BACKPLANE_LOGIC("andn2", a & ~b),
    BACKPLANE_LOGIC("and_not1", a & ~b),
    BACKPLANE_LOGIC("orn2", a | ~b),
    BACKPLANE_LOGIC("or_not1", a | ~b),
    BACKPLANE_LOGIC("nand", ~(a& b)),
    BACKPLANE_LOGIC("nor", ~(a | b)),
    BACKPLANE_LOGIC("xnor", ~(a ^ b)),
    BACKPLANE_EXEC("and_saveexec", s& e, false),
    BACKPLANE_EXEC("or_saveexec", s | e, false),
    BACKPLANE_EXEC("xor_saveexec", s ^ e, false),
    BACKPLANE_EXEC("andn2_saveexec", s & ~e, false),
    BACKPLANE_EXEC("and_not1_saveexec", s & ~e, false),
    BACKPLANE_EXEC("orn2_saveexec", s | ~e, false),
    BACKPLANE_EXEC("or_not1_saveexec", s | ~e, false),
    BACKPLANE_EXEC("andn1_saveexec", ~s& e, false),
    BACKPLANE_EXEC("and_not0_saveexec", ~s& e, false),
    BACKPLANE_EXEC("orn1_saveexec", ~s | e, false),
    BACKPLANE_EXEC("or_not0_saveexec", ~s | e, false),
    BACKPLANE_EXEC("nand_saveexec", ~(s& e), false),
    BACKPLANE_EXEC("nor_saveexec", ~(s | e), false),
    BACKPLANE_EXEC("xnor_saveexec", ~(s ^ e), false),
    BACKPLANE_EXEC("andn1_wrexec", ~s& e, true),
    BACKPLANE_EXEC("and_not0_wrexec", ~s& e, true),
    BACKPLANE_EXEC("andn2_wrexec", s & ~e, true),
    BACKPLANE_EXEC("and_not1_wrexec", s & ~e, true),
    Scalars<[](uint32_t a) { return a; }>("s_mov_b32"),
    Scalars<[](uint64_t a) { return a; }>("s_mov_b64"),
    UpdatingScalars<[](uint32_t a, uint32_t d, bool scc) { return scc ? a : d; }>("s_cmov_b32"),
    UpdatingScalars<[](uint64_t a, uint64_t d, bool scc) { return scc ? a : d; }>("s_cmov_b64"),
    Scalars<[](uint32_t a, uint32_t b, bool scc) { return scc ? a : b; }>("s_cselect_b32"),
    Scalars<[](uint64_t a, uint64_t b, bool scc) { return scc ? a : b; }>("s_cselect_b64"),
    Scalars<[](uint32_t a, bool& scc) { return NonZero(~a, scc); }>("s_not_b32"),
    Scalars<[](uint64_t a, bool& scc) { return NonZero(~a, scc); }>("s_not_b64"),
    Scalars<[](uint32_t a, bool& scc) { return WholeQuads(a, scc); }>("s_wqm_b32"),
    Scalars<[](uint64_t a, bool& scc) { return WholeQuads(a, scc); }>("s_wqm_b64"),
    Scalars<[](uint32_t a) { return ReverseBits(a); }>("s_brev_b32"),
    Scalars<[](uint64_t a) { return ReverseBits(a); }>("s_brev_b64"),
    Scalars<[](uint32_t a, bool& scc) { return NonZero(32u - std::popcount(a), scc); }>("s_bcnt0_i32_b32"),
    Scalars<[](uint64_t a, bool& scc) { return NonZero(64u - std::popcount(a), scc); }>("s_bcnt0_i32_b64"),
    Scalars<[](uint32_t a, bool& scc) { return (NonZero<uint32_t>(std::popcount(a), scc)); }>("s_bcnt1_i32_b32"),
    Scalars<[](uint64_t a, bool& scc) { return (NonZero<uint32_t>(std::popcount(a), scc)); }>("s_bcnt1_i32_b64"),
    Scalars<[](uint32_t a) { return LowestBit(a); }>("s_ff1_i32_b32"),
    Scalars<[](uint64_t a) { return LowestBit(a); }>("s_ff1_i32_b64"),
    Scalars<[](uint32_t a) { return LowestBit(a); }>("s_ctz_i32_b32"),
    Scalars<[](uint64_t a) { return LowestBit(a); }>("s_ctz_i32_b64"),
    Scalars<[](uint32_t a) { return LowestBit(~a); }>("s_ff0_i32_b32"),
    Scalars<[](uint64_t a) { return LowestBit(~a); }>("s_ff0_i32_b64"),
    Scalars<[](uint32_t a) { return LeadingZeros(a); }>("s_flbit_i32_b32"),
    Scalars<[](uint64_t a) { return LeadingZeros(a); }>("s_flbit_i32_b64"),
    Scalars<[](uint32_t a) { return LeadingZeros(a); }>("s_clz_i32_u32"),
    Scalars<[](uint64_t a) { return LeadingZeros(a); }>("s_clz_i32_u64"),
    Scalars<[](uint32_t a) { return LeadingSigns(a); }>("s_flbit_i32"),
    Scalars<[](uint64_t a) { return LeadingSigns(a); }>("s_flbit_i32_i64"),
    Scalars<[](uint32_t a) { return LeadingSigns(a); }>("s_cls_i32"),
    Scalars<[](uint64_t a) { return LeadingSigns(a); }>("s_cls_i32_i64"),
    Scalars<[](uint32_t a, uint32_t n, bool& scc) { return NonZero(a << (n & 31), scc); }>("s_lshl_b32"),
    Scalars<[](uint64_t a, uint32_t n, bool& scc) { return NonZero(a << (n & 63), scc); }>("s_lshl_b64"),
    Scalars<[](uint32_t a, uint32_t n, bool& scc) { return (NonZero(a >> (n & 31), scc)); }>("s_lshr_b32"),
    Scalars<[](uint64_t a, uint32_t n, bool& scc) { return (NonZero(a >> (n & 63), scc)); }>("s_lshr_b64"),
    Scalars<[](int32_t a, uint32_t n, bool& scc) { return (NonZero(a >> (n & 31), scc)); }>("s_ashr_i32"),
    Scalars<[](int64_t a, uint32_t n, bool& scc) { return (NonZero(a >> (n & 63), scc)); }>("s_ashr_i64"),
    Scalars<[](uint32_t w, uint32_t n) { return ((1u << (w & 31)) - 1) << (n & 31); }>("s_bfm_b32"),
    Scalars<[](uint32_t w, uint32_t n) { return ((uint64_t{1} << (w & 63)) - 1) << (n & 63); }>("s_bfm_b64"),
    Scalars<[](uint32_t a, uint32_t c, bool& scc) { return BitField(a, c & ~0x60u, scc); }>("s_bfe_u32"),
    Scalars<[](int32_t a, uint32_t c, bool& scc) { return BitField(a, c & ~0x60u, scc); }>("s_bfe_i32"),
    Scalars<[](uint64_t a, uint32_t c, bool& scc) { return BitField(a, c, scc); }>("s_bfe_u64"),
    Scalars<[](int64_t a, uint32_t c, bool& scc) { return BitField(a, c, scc); }>("s_bfe_i64"),
    UpdatingScalars<[](uint32_t n, uint32_t d) { return d & ~(1u << (n & 31)); }>("s_bitset0_b32"),
    UpdatingScalars<[](uint32_t n, uint64_t d) { return d & ~(uint64_t{1} << (n & 63)); }>("s_bitset0_b64"),
    UpdatingScalars<[](uint32_t n, uint32_t d) { return d | 1u << (n & 31); }>("s_bitset1_b32"),
    UpdatingScalars<[](uint32_t n, uint64_t d) { return d | uint64_t{1} << (n & 63); }>("s_bitset1_b64"),
    Scalars<[](uint32_t a, uint32_t n) { return !HasBit(a, n & 31); }>("s_bitcmp0_b32"),
    Scalars<[](uint32_t a, uint32_t n) { return HasBit(a, n & 31); }>("s_bitcmp1_b32"),
    Scalars<[](uint64_t a, uint32_t n) { return !HasBit(a, n & 63); }>("s_bitcmp0_b64"),
    Scalars<[](uint64_t a, uint32_t n) { return HasBit(a, n & 63); }>("s_bitcmp1_b64"),
    Scalars<[](uint32_t a, uint32_t b) { return (a & 0xffff) | b << 16; }>("s_pack_ll_b32_b16"),
    Scalars<[](uint32_t a, uint32_t b) { return (a & 0xffff) | (b & 0xffff0000u); }>("s_pack_lh_b32_b16"),
    Scalars<[](uint32_t a, uint32_t b) { return (a >> 16 | (b & 0xffff0000u)); }>("s_pack_hh_b32_b16"),
    Scalars<[](uint32_t a, uint32_t b) { return (a >> 16 | b << 16); }>("s_pack_hl_b32_b16"),
};

#undef BACKPLANE_LOGIC
#undef BACKPLANE_EXEC

}  // namespace

absl::Span<const Operation> ScalarLogic() { return kScalarLogic; }

}  // namespace backplane::hip::isa
