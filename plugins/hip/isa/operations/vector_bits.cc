// Bits, shifts, moves and selections on lanes.
#include <bit>

#include "plugins/hip/isa/machine/lanes.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

constexpr uint32_t ReverseWord(uint32_t v) {
  uint32_t r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
  return r;
}
constexpr uint32_t FieldUnsigned(uint32_t v, uint32_t offset, uint32_t width) {
  offset &= 31, width &= 31;
  return v >> offset & ((1u << width) - 1);
}
constexpr int32_t FieldSigned(int32_t v, uint32_t offset, uint32_t width) {
  offset &= 31, width &= 31;
  if (width == 0) return 0;
  if (offset + width >= 32) return v >> offset;
  return static_cast<int32_t>(static_cast<uint32_t>(v) << (32 - offset - width)) >> (32 - width);
}
constexpr uint32_t SignificantBits(uint32_t v) {
  const uint32_t u = static_cast<int32_t>(v) < 0 ? ~v : v;
  return u == 0 ? ~0u : static_cast<uint32_t>(std::countl_zero(u));
}
// A byte of the 8 bytes of two registers for each byte of the selector; larger numbers mean signs and constants.
constexpr uint32_t PermuteBytes(uint32_t high, uint32_t low, uint32_t selector) {
  const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t s = selector >> (8 * i) & 255;
    uint32_t byte = 0;
    if (s >= 13) {
      byte = 255;
    } else if (s == 12) {
      byte = 0;
    } else if (s >= 8) {
      byte = (bytes >> (16 * (s - 8) + 15) & 1) != 0 ? 255 : 0;
    } else {
      byte = static_cast<uint32_t>(bytes >> (8 * s)) & 255;
    }
    r |= byte << (8 * i);
  }
  return r;
}

#define BACKPLANE_BITS(NAME, EXPRESSION) Lanes<[](uint32_t a, uint32_t b) -> uint32_t { return (EXPRESSION); }>(NAME)
#define BACKPLANE_BITS3(NAME, EXPRESSION) \
  Lanes<[](uint32_t a, uint32_t b, uint32_t c) -> uint32_t { return (EXPRESSION); }>(NAME)

constexpr Operation kVectorBits[] = {
    Lanes<[](uint32_t a) { return a; }>("v_mov_b32"),
    Lanes<[](uint32_t a) { return a; }>("v_dual_mov_b32"),
    Lanes<[](uint64_t a) { return a; }>("v_mov_b64"),
    Lanes<[](uint32_t a) { return a; }>("v_accvgpr_read_b32"),
    Lanes<[](uint32_t a) { return a; }>("v_accvgpr_write_b32"),
    Lanes<[](uint32_t a) { return a; }>("v_accvgpr_mov_b32"),
    Lanes<[](uint16_t a) { return a; }>("v_mov_b16"),
    Lanes<[](uint32_t a, uint32_t b, bool s) { return s ? b : a; }>("v_cndmask_b32"),
    LanesByVcc<[](uint32_t a, uint32_t b, bool s) { return s ? b : a; }>("v_dual_cndmask_b32"),
    Lanes<[](uint16_t a, uint16_t b, bool s) { return s ? b : a; }>("v_cndmask_b16"),
    Lanes<[](uint32_t a) { return ~a; }>("v_not_b32"),
    Lanes<[](uint16_t a) { return (static_cast<uint16_t>(~a)); }>("v_not_b16"),
    BACKPLANE_BITS("v_and_b32", a& b),
    BACKPLANE_BITS("v_dual_and_b32", a& b),
    BACKPLANE_BITS("v_or_b32", a | b),
    BACKPLANE_BITS("v_xor_b32", a ^ b),
    BACKPLANE_BITS("v_xnor_b32", ~(a ^ b)),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a & b)); }>("v_and_b16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a | b)); }>("v_or_b16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a ^ b)); }>("v_xor_b16"),
    BACKPLANE_BITS("v_lshlrev_b32", b << (a & 31)),
    BACKPLANE_BITS("v_dual_lshlrev_b32", b << (a & 31)),
    BACKPLANE_BITS("v_lshrrev_b32", b >> (a & 31)),
    Lanes<[](uint32_t a, int32_t b) { return (b >> (a & 31)); }>("v_ashrrev_i32"),
    Lanes<[](uint32_t a, uint64_t b) { return b << (a & 63); }>("v_lshlrev_b64"),
    Lanes<[](uint32_t a, uint64_t b) { return (b >> (a & 63)); }>("v_lshrrev_b64"),
    Lanes<[](uint32_t a, int64_t b) { return (b >> (a & 63)); }>("v_ashrrev_i64"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(b << (a & 15))); }>("v_lshlrev_b16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(b >> (a & 15))); }>("v_lshrrev_b16"),
    Lanes<[](uint16_t a, int16_t b) { return (static_cast<int16_t>(b >> (a & 15))); }>("v_ashrrev_i16"),
    BACKPLANE_BITS3("v_bfe_u32", FieldUnsigned(a, b, c)),
    Lanes<[](int32_t a, uint32_t b, uint32_t c) { return FieldSigned(a, b, c); }>("v_bfe_i32"),
    BACKPLANE_BITS3("v_bfi_b32", (a & b) | (~a & c)),
    BACKPLANE_BITS("v_bfm_b32", ((1u << (a & 31)) - 1) << (b & 31)),
    BACKPLANE_BITS3("v_and_or_b32", (a & b) | c),
    BACKPLANE_BITS3("v_or3_b32", a | b | c),
    BACKPLANE_BITS3("v_xor3_b32", a ^ b ^ c),
    BACKPLANE_BITS3("v_lshl_or_b32", a << (b & 31) | c),
    BACKPLANE_BITS3("v_alignbit_b32", static_cast<uint32_t>((static_cast<uint64_t>(a) << 32 | b) >> (c & 31))),
    BACKPLANE_BITS3("v_alignbyte_b32", static_cast<uint32_t>((static_cast<uint64_t>(a) << 32 | b) >> (8 * (c & 3)))),
    BACKPLANE_BITS3("v_perm_b32", PermuteBytes(a, b, c)),
    Lanes<[](uint32_t a) { return ReverseWord(a); }>("v_bfrev_b32"),
    BACKPLANE_BITS("v_bcnt_u32_b32", static_cast<uint32_t>(std::popcount(a)) + b),
    Lanes<[](uint32_t a) { return (a == 0 ? ~0u : static_cast<uint32_t>(std::countl_zero(a))); }>("v_ffbh_u32"),
    Lanes<[](uint32_t a) { return (a == 0 ? ~0u : static_cast<uint32_t>(std::countl_zero(a))); }>("v_clz_i32_u32"),
    Lanes<[](uint32_t a) { return (a == 0 ? ~0u : static_cast<uint32_t>(std::countr_zero(a))); }>("v_ffbl_b32"),
    Lanes<[](uint32_t a) { return (a == 0 ? ~0u : static_cast<uint32_t>(std::countr_zero(a))); }>("v_ctz_i32_b32"),
    Lanes<[](uint32_t a) { return SignificantBits(a); }>("v_ffbh_i32"),
    Lanes<[](uint32_t a) { return SignificantBits(a); }>("v_cls_i32"),
    Lanes<[](int16_t a) { return (static_cast<int32_t>(a)); }>("v_cvt_i32_i16"),
    Lanes<[](uint16_t a) { return (static_cast<uint32_t>(a)); }>("v_cvt_u32_u16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint32_t>(a | b << 16)); }>("v_pack_b32_f16"),
};

#undef BACKPLANE_BITS
#undef BACKPLANE_BITS3

}  // namespace

absl::Span<const Operation> VectorBits() { return kVectorBits; }

}  // namespace backplane::hip::isa
