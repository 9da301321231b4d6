// Packed operations (VOP3P): two halves or two floats of each lane, products of mixed precision, and short dot
// products. op_sel and op_sel_hi say which half of each source the lower and the upper result use; neg_lo and neg_hi
// negate them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plugins/hip/isa/machine/rows.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/float_functions.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

bool BitOf(uint8_t bits, int n) { return (bits >> n & 1) != 0; }

// The half of source `s` that the lower (0) or upper (1) result uses, as it is for T.
template <class T>
T PackedSource(const Wave& wave, const Instruction& i, int s, int half, int lane) {
  const Modifiers& m = i.modifiers;
  const uint32_t word = LaneWord(wave, i.Source(s), lane);
  uint32_t bits = BitOf(half == 0 ? m.op_sel : m.op_sel_hi, s) ? word >> 16 : word & 0xffff;
  if (BitOf(half == 0 ? m.neg_lo : m.neg_hi, s)) bits ^= 0x8000;
  return Element<T>::Read(bits);
}

inline float ClampUnit(float v) { return v > 0 ? std::min(v, 1.0f) : 0.0f; }

template <auto F>
void ExecutePacked(Wave& wave, const Instruction& i) {
  using S = SignatureOf<F>;
  using R = typename S::Result;
  Row row;
  for (int l = 0; l < wave.lanes; ++l) {
    uint32_t word = 0;
    for (int half = 0; half < 2; ++half) {
      auto call = [&]<size_t... I>(std::index_sequence<I...>) {
        return F(PackedSource<typename S::template Parameter<I>>(wave, i, I, half, l)...);
      };
      R r = call(std::make_index_sequence<S::kCount>());
      if constexpr (std::is_same_v<R, Half>) {
        if (i.modifiers.clamp) r.v = ClampUnit(r.v);
      }
      word |= (Element<R>::Write(r) & 0xffff) << (16 * half);
    }
    row.u32[l] = word;
  }
  WriteRow(wave, i, i.Result(), Type::k32, row, wave.exec());
}

template <auto F>
constexpr Operation PackedLanes(absl::string_view mnemonic) {
  using S = SignatureOf<F>;
  Operation o;
  o.mnemonic = mnemonic;
  o.category = Category::kVector;
  o.execute = ExecutePacked<F>;
  o.packed = true;
  o.results = 1;
  o.sources = S::kCount;
  o.types[0] = Type::k32;
  for (size_t s = 0; s < S::kCount; ++s) o.types[1 + s] = Element<typename S::template Parameter<0>>::kType;
  o.handles_clamp = std::is_same_v<typename S::Result, Half>;
  return o;
}

// Two floats in two registers. A scalar or constant of one register is used for both.
template <auto F>
void ExecutePairOfFloats(Wave& wave, const Instruction& i) {
  using S = SignatureOf<F>;
  const Modifiers& m = i.modifiers;
  Row row;
  for (int l = 0; l < wave.lanes; ++l) {
    uint32_t words[2];
    for (int half = 0; half < 2; ++half) {
      auto source = [&](int s) {
        const Operand& o = i.Source(s);
        const bool upper = BitOf(half == 0 ? m.op_sel : m.op_sel_hi, s) && o.kind != Operand::Kind::kImmediate;
        uint32_t bits = LaneWord(wave, o, l, upper ? 1 : 0);
        if (BitOf(half == 0 ? m.neg_lo : m.neg_hi, s)) bits ^= 0x80000000u;
        return std::bit_cast<float>(bits);
      };
      auto call = [&]<size_t... I>(std::index_sequence<I...>) { return F(source(I)...); };
      words[half] = std::bit_cast<uint32_t>(call(std::make_index_sequence<S::kCount>()));
    }
    row.u64[l] = words[0] | static_cast<uint64_t>(words[1]) << 32;
  }
  WriteRow(wave, i, i.Result(), Type::k64, row, wave.exec());
}
template <auto F>
constexpr Operation PairOfFloats(absl::string_view mnemonic) {
  Operation o;
  o.mnemonic = mnemonic;
  o.category = Category::kVector;
  o.execute = ExecutePairOfFloats<F>;
  o.packed = true;
  o.results = 1;
  o.sources = SignatureOf<F>::kCount;
  o.types[0] = Type::k64;
  for (size_t s = 0; s < SignatureOf<F>::kCount; ++s) o.types[1 + s] = Type::kF32;
  return o;
}
// The lower result is a word of the first source, the upper one of the second.
void MovePair(Wave& wave, const Instruction& i) {
  Row row;
  for (int l = 0; l < wave.lanes; ++l) {
    const uint32_t low = LaneWord(wave, i.Source(0), l, BitOf(i.modifiers.op_sel, 0) ? 1 : 0);
    const uint32_t high = LaneWord(wave, i.Source(1), l, BitOf(i.modifiers.op_sel, 1) ? 1 : 0);
    row.u64[l] = low | static_cast<uint64_t>(high) << 32;
  }
  WriteRow(wave, i, i.Result(), Type::k64, row, wave.exec());
}

// Each source is a float, or a half that op_sel chooses where op_sel_hi is set.
enum class MixResult : uint8_t { kFloat, kLowHalf, kHighHalf };
template <MixResult kResult>
void ExecuteMix(Wave& wave, const Instruction& i) {
  const Modifiers& m = i.modifiers;
  uint32_t* result = wave.vectors[i.Result().index];
  const uint64_t exec = wave.exec();
  for (int l = 0; l < wave.lanes; ++l) {
    if ((exec >> l & 1) == 0) continue;
    float v[3];
    bool halves = true;
    for (int s = 0; s < 3; ++s) {
      const Operand& o = i.Source(s);
      const uint32_t word = LaneWord(wave, o, l);
      if (BitOf(m.op_sel_hi, s)) {
        v[s] = ConvertHalfToFloat(static_cast<uint16_t>(BitOf(m.op_sel, s) ? word >> 16 : word));
      } else {
        v[s] = std::bit_cast<float>(word);
        halves = false;
      }
      if (o.absolute) v[s] = std::fabs(v[s]);
      if (o.negate) v[s] = -v[s];
    }
    float r = std::fma(v[0], v[1], v[2]);
    if (m.clamp) r = ClampUnit(r);
    if constexpr (kResult == MixResult::kFloat) {
      result[l] = std::bit_cast<uint32_t>(r);
    } else {
      // The sum of halves is rounded once; one with floats is a float first.
      const uint16_t half = halves && !m.clamp ? FmaHalf(v[0], v[1], v[2]) : ConvertFloatToHalf(r);
      result[l] = kResult == MixResult::kLowHalf ? (result[l] & 0xffff0000u) | half
                                                 : (result[l] & 0xffffu) | uint32_t{half} << 16;
    }
  }
}
template <MixResult kResult>
constexpr Operation Mix(absl::string_view mnemonic) {
  Operation o =
      Custom(mnemonic, Category::kVector, ExecuteMix<kResult>, 1, Type::k32, Type::kF32, Type::kF32, Type::kF32);
  o.packed = true;
  o.mixed = true;
  o.handles_clamp = true;
  return o;
}

// Products of parts of words, added to the third source.
template <int kBits, bool kSigned>
int32_t Part(uint32_t word, int n) {
  const uint32_t v = word >> (kBits * n) & ((1u << kBits) - 1);
  return kSigned ? static_cast<int32_t>(v << (32 - kBits)) >> (32 - kBits) : static_cast<int32_t>(v);
}
template <int kBits>
int64_t PartDot(uint32_t a, uint32_t b, bool signed_a, bool signed_b) {
  int64_t sum = 0;
  for (int n = 0; n < 32 / kBits; ++n) {
    const int64_t x = signed_a ? Part<kBits, true>(a, n) : Part<kBits, false>(a, n);
    sum += x * (signed_b ? Part<kBits, true>(b, n) : Part<kBits, false>(b, n));
  }
  return sum;
}
enum class DotSigns : uint8_t { kUnsigned, kSigned, kByNeg };
template <int kBits, DotSigns kSigns>
void ExecuteIntegerDot(Wave& wave, const Instruction& i) {
  const Modifiers& m = i.modifiers;
  const bool signed_a = kSigns == DotSigns::kSigned || (kSigns == DotSigns::kByNeg && BitOf(m.neg_lo, 0));
  const bool signed_b = kSigns == DotSigns::kSigned || (kSigns == DotSigns::kByNeg && BitOf(m.neg_lo, 1));
  Row row;
  for (int l = 0; l < wave.lanes; ++l) {
    const uint32_t c = LaneWord(wave, i.operation->accumulates ? i.Result() : i.Source(2), l);
    const int64_t base = kSigns == DotSigns::kUnsigned ? int64_t{c} : int64_t{static_cast<int32_t>(c)};
    int64_t r =
        PartDot<kBits>(LaneWord(wave, i.Source(0), l), LaneWord(wave, i.Source(1), l), signed_a, signed_b) + base;
    if (m.clamp) {
      r = kSigns == DotSigns::kUnsigned
              ? std::min<int64_t>(r, std::numeric_limits<uint32_t>::max())
              : std::clamp<int64_t>(r, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
    }
    row.u32[l] = static_cast<uint32_t>(r);
  }
  WriteRow(wave, i, i.Result(), Type::k32, row, wave.exec());
}
template <int kBits, DotSigns kSigns>
constexpr Operation IntegerDot(absl::string_view mnemonic, bool accumulates = false) {
  Operation o = accumulates ? Custom(mnemonic, Category::kVector, ExecuteIntegerDot<kBits, kSigns>, 1, Type::k32,
                                     Type::k32, Type::k32)
                            : Custom(mnemonic, Category::kVector, ExecuteIntegerDot<kBits, kSigns>, 1, Type::k32,
                                     Type::k32, Type::k32, Type::k32);
  o.packed = true;
  o.accumulates = accumulates;
  o.handles_clamp = true;
  return o;
}

template <bool kBf16>
void ExecuteFloatDot(Wave& wave, const Instruction& i) {
  Row row;
  for (int l = 0; l < wave.lanes; ++l) {
    float r = std::bit_cast<float>(LaneWord(wave, i.operation->accumulates ? i.Result() : i.Source(2), l));
    if (BitOf(i.modifiers.neg_lo, 2)) r = -r;
    for (int half = 0; half < 2; ++half) {
      if constexpr (kBf16) {
        r = std::fma(PackedSource<Bf16>(wave, i, 0, half, l).v, PackedSource<Bf16>(wave, i, 1, half, l).v, r);
      } else {
        r = std::fma(PackedSource<Half>(wave, i, 0, half, l).v, PackedSource<Half>(wave, i, 1, half, l).v, r);
      }
    }
    row.u32[l] = std::bit_cast<uint32_t>(r);
  }
  WriteRow(wave, i, i.Result(), Type::kF32, row, wave.exec());
}
template <bool kBf16>
constexpr Operation FloatDot(absl::string_view mnemonic, bool accumulates) {
  constexpr Type kType = kBf16 ? Type::kBF16 : Type::kF16;
  Operation o = accumulates ? Custom(mnemonic, Category::kVector, ExecuteFloatDot<kBf16>, 1, Type::kF32, kType, kType)
                            : Custom(mnemonic, Category::kVector, ExecuteFloatDot<kBf16>, 1, Type::kF32, kType, kType,
                                     Type::kF32);
  o.packed = true;
  o.accumulates = accumulates;
  return o;
}

constexpr Operation PackedPairMove(absl::string_view mnemonic) {
  Operation o = Custom(mnemonic, Category::kVector, MovePair, 1, Type::k64, Type::k32, Type::k32);
  o.packed = true;
  return o;
}

template <class T>
constexpr T SaturateHalf(int32_t v) {
  return static_cast<T>(std::clamp<int32_t>(v, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

#define BACKPLANE_PACKED(NAME, T, EXPRESSION) PackedLanes<[](T a, T b) { return (static_cast<T>(EXPRESSION)); }>(NAME)
#define BACKPLANE_PACKED_HALF(NAME, EXPRESSION) \
  PackedLanes<[](Half x, Half y) -> Half {      \
    const float a = x.v, b = y.v;               \
    return {EXPRESSION};                        \
  }>(NAME)

constexpr Operation kVectorPacked[] = {
    BACKPLANE_PACKED_HALF("v_pk_add_f16", a + b),
    BACKPLANE_PACKED_HALF("v_pk_mul_f16", a* b),
    BACKPLANE_PACKED_HALF("v_pk_min_f16", ComputeMin(a, b)),
    BACKPLANE_PACKED_HALF("v_pk_max_f16", ComputeMax(a, b)),
    PackedLanes<[](Half a, Half b, Half c) { return Half{ConvertHalfToFloat(FmaHalf(a.v, b.v, c.v))}; }>(
        "v_pk_fma_f16"),
    BACKPLANE_PACKED("v_pk_add_u16", uint16_t, a + b),
    BACKPLANE_PACKED("v_pk_add_i16", int16_t, a + b),
    BACKPLANE_PACKED("v_pk_sub_u16", uint16_t, a - b),
    BACKPLANE_PACKED("v_pk_sub_i16", int16_t, a - b),
    BACKPLANE_PACKED("v_pk_mul_lo_u16", uint16_t, uint32_t{a} * b),
    BACKPLANE_PACKED("v_pk_min_u16", uint16_t, std::min(a, b)),
    BACKPLANE_PACKED("v_pk_min_i16", int16_t, std::min(a, b)),
    BACKPLANE_PACKED("v_pk_max_u16", uint16_t, std::max(a, b)),
    BACKPLANE_PACKED("v_pk_max_i16", int16_t, std::max(a, b)),
    BACKPLANE_PACKED("v_pk_lshlrev_b16", uint16_t, b << (a & 15)),
    BACKPLANE_PACKED("v_pk_lshrrev_b16", uint16_t, b >> (a & 15)),
    BACKPLANE_PACKED("v_pk_ashrrev_i16", int16_t, b >> (a & 15)),
    BACKPLANE_PACKED("v_pk_add_u16 clamp", uint16_t, SaturateHalf<uint16_t>(int32_t{a} + b)),
    BACKPLANE_PACKED("v_pk_add_i16 clamp", int16_t, SaturateHalf<int16_t>(int32_t{a} + b)),
    BACKPLANE_PACKED("v_pk_sub_u16 clamp", uint16_t, SaturateHalf<uint16_t>(int32_t{a} - b)),
    BACKPLANE_PACKED("v_pk_sub_i16 clamp", int16_t, SaturateHalf<int16_t>(int32_t{a} - b)),
    PackedLanes<[](uint16_t a, uint16_t b, uint16_t c) { return static_cast<uint16_t>(uint32_t{a} * b + c); }>(
        "v_pk_mad_u16"),
    PackedLanes<[](uint16_t a, uint16_t b, uint16_t c) { return static_cast<uint16_t>(uint32_t{a} * b + c); }>(
        "v_pk_mad_i16"),
    PairOfFloats<[](float a, float b) { return a + b; }>("v_pk_add_f32"),
    PairOfFloats<[](float a, float b) { return a * b; }>("v_pk_mul_f32"),
    PairOfFloats<[](float a, float b, float c) { return std::fma(a, b, c); }>("v_pk_fma_f32"),
    PackedPairMove("v_pk_mov_b32"),
    Mix<MixResult::kFloat>("v_fma_mix_f32"),
    Mix<MixResult::kLowHalf>("v_fma_mixlo_f16"),
    Mix<MixResult::kHighHalf>("v_fma_mixhi_f16"),
    FloatDot<false>("v_dot2_f32_f16", false),
    FloatDot<true>("v_dot2_f32_bf16", false),
    FloatDot<false>("v_dot2acc_f32_f16", true),
    FloatDot<false>("v_dual_dot2acc_f32_f16", true),
    FloatDot<false>("v_dot2c_f32_f16", true),
    IntegerDot<16, DotSigns::kSigned>("v_dot2c_i32_i16", true),
    IntegerDot<8, DotSigns::kSigned>("v_dot4c_i32_i8", true),
    IntegerDot<4, DotSigns::kSigned>("v_dot8c_i32_i4", true),
    IntegerDot<16, DotSigns::kSigned>("v_dot2_i32_i16"),
    IntegerDot<16, DotSigns::kUnsigned>("v_dot2_u32_u16"),
    IntegerDot<8, DotSigns::kSigned>("v_dot4_i32_i8"),
    IntegerDot<8, DotSigns::kUnsigned>("v_dot4_u32_u8"),
    IntegerDot<8, DotSigns::kByNeg>("v_dot4_i32_iu8"),
    IntegerDot<4, DotSigns::kSigned>("v_dot8_i32_i4"),
    IntegerDot<4, DotSigns::kUnsigned>("v_dot8_u32_u4"),
    IntegerDot<4, DotSigns::kByNeg>("v_dot8_i32_iu4"),
};

#undef BACKPLANE_PACKED
#undef BACKPLANE_PACKED_HALF

}  // namespace

absl::Span<const Operation> VectorPacked() { return kVectorPacked; }

}  // namespace backplane::hip::isa
