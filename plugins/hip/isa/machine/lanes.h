// Operations on all lanes of a wave from functions on one lane.
//
//   {"v_add_f32", Lanes<[](float a, float b) { return a + b; }>()}
//
// The function's parameters are the sources, its result is the result. Besides them stand bits of masks that have one
// for each lane: a `bool` parameter is a bit that is read (a carry), a `bool&` parameter one that is written, and a
// result of type `bool` is one that is written. A row stores 16-bit elements in 32 bits.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_LANES_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_LANES_H_

#include <bit>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "plugins/hip/isa/machine/instruction.h"
#include "plugins/hip/isa/machine/number_formats.h"

namespace backplane::hip::isa {

// 16-bit floats, computed as float: sums, products, quotients and roots of halves that are rounded to float and then to
// half are rounded correctly.
struct Half {
  float v;
};
struct Bf16 {
  float v;
};

template <class T>
struct Element;
#define BACKPLANE_ELEMENT(CPP, TYPE, BITS, READ, WRITE) \
  template <>                                           \
  struct Element<CPP> {                                 \
    static constexpr Type kType = Type::TYPE;           \
    using Bits = BITS;                                  \
    static CPP Read(BITS b) { return READ; }            \
    static BITS Write(CPP v) { return WRITE; }          \
  }
BACKPLANE_ELEMENT(uint32_t, k32, uint32_t, b, v);
BACKPLANE_ELEMENT(int32_t, k32, uint32_t, static_cast<int32_t>(b), static_cast<uint32_t>(v));
BACKPLANE_ELEMENT(float, kF32, uint32_t, std::bit_cast<float>(b), std::bit_cast<uint32_t>(v));
BACKPLANE_ELEMENT(uint64_t, k64, uint64_t, b, v);
BACKPLANE_ELEMENT(int64_t, kI64, uint64_t, static_cast<int64_t>(b), static_cast<uint64_t>(v));
BACKPLANE_ELEMENT(double, kF64, uint64_t, std::bit_cast<double>(b), std::bit_cast<uint64_t>(v));
BACKPLANE_ELEMENT(uint16_t, k16, uint32_t, static_cast<uint16_t>(b), v);
BACKPLANE_ELEMENT(int16_t, k16, uint32_t, static_cast<int16_t>(b), static_cast<uint16_t>(v));
BACKPLANE_ELEMENT(Half, kF16, uint32_t, Half{ConvertHalfToFloat(static_cast<uint16_t>(b))}, ConvertFloatToHalf(v.v));
BACKPLANE_ELEMENT(Bf16, kBF16, uint32_t, Bf16{ConvertBf16ToFloat(static_cast<uint16_t>(b))}, ConvertFloatToBf16(v.v));
#undef BACKPLANE_ELEMENT

template <class F>
struct Signature;
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> {
  using Result = R;
  using Parameters = std::tuple<A...>;
  static constexpr size_t kCount = sizeof...(A);
  template <size_t I>
  using Parameter = std::tuple_element_t<I, Parameters>;
  // The number of the source that parameter I is: parameters that are mask bits do not count.
  template <size_t I>
  static constexpr size_t SourceIndex() {
    return []<size_t... J>(std::index_sequence<J...>) { return (size_t{0} + ... + (IsBit<Parameter<J>>() ? 0 : 1)); }
    (std::make_index_sequence<I>());
  }
  template <class T>
  static constexpr bool IsBit() {
    return std::is_same_v<std::remove_reference_t<T>, bool>;
  }
  static constexpr size_t kSources = SourceIndex<kCount>();
  static constexpr bool kReadsMask = (std::is_same_v<A, bool> || ...);
  static constexpr bool kWritesMask = std::is_same_v<R, bool> || (std::is_same_v<A, bool&> || ...);
  static constexpr bool kHasResult = !std::is_same_v<R, bool>;
};
template <auto F>
using SignatureOf = Signature<decltype(&decltype(F)::operator())>;

template <auto F, size_t I>
inline auto LaneArgument(const LaneContext& c, int lane, bool& in, bool& out)
    -> std::conditional_t<std::is_same_v<typename SignatureOf<F>::template Parameter<I>, bool&>, bool&,
                          typename SignatureOf<F>::template Parameter<I>> {
  using T = typename SignatureOf<F>::template Parameter<I>;
  if constexpr (std::is_same_v<T, bool>) {
    return in;
  } else if constexpr (std::is_same_v<T, bool&>) {
    return out;
  } else {
    using E = Element<T>;
    return E::Read(static_cast<const typename E::Bits*>(c.sources[SignatureOf<F>::template SourceIndex<I>()])[lane]);
  }
}

template <auto F, int kLanes>
void RunEachLane(LaneContext& c) {
  using S = SignatureOf<F>;
  uint64_t mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    bool in = false, out = false;
    if constexpr (S::kReadsMask) in = (c.mask_in >> lane & 1) != 0;
    auto call = [&]<size_t... I>(std::index_sequence<I...>) { return F(LaneArgument<F, I>(c, lane, in, out)...); };
    if constexpr (S::kHasResult) {
      using E = Element<typename S::Result>;
      static_cast<typename E::Bits*>(c.result)[lane] = E::Write(call(std::make_index_sequence<S::kCount>()));
    } else {
      out = call(std::make_index_sequence<S::kCount>());
    }
    if constexpr (S::kWritesMask) mask |= static_cast<uint64_t>(out) << lane;
  }
  if constexpr (S::kWritesMask) c.mask_out = mask;
}

template <auto F>
void RunLanes(LaneContext& c) {
  c.lanes == 32 ? RunEachLane<F, 32>(c) : RunEachLane<F, 64>(c);
}

// Executes an operation on lanes: reads rows with their modifiers, runs it, writes what EXEC and DPP let it write.
void ExecuteLanes(Wave& wave, const Instruction& i);
// The same for an operation whose mask result goes to EXEC too (v_cmpx).
void ExecuteCompareToExec(Wave& wave, const Instruction& i);
// VOPD: both halves read before either writes.
void ExecutePair(Wave& wave, const Instruction& i);

// The operands of the text: the result, the written mask, the sources, the read mask.
template <auto F>
constexpr Operation Lanes(absl::string_view mnemonic) {
  using S = SignatureOf<F>;
  Operation o;
  o.mnemonic = mnemonic;
  o.category = Category::kVector;
  o.execute = ExecuteLanes;
  o.lanes = RunLanes<F>;
  int n = 0;
  if constexpr (S::kHasResult) o.types[n++] = Element<typename S::Result>::kType;
  if constexpr (S::kWritesMask) o.types[n++] = Type::kMask;
  o.results = static_cast<uint8_t>(n);
  [&]<size_t... I>(std::index_sequence<I...>) {
    auto add = [&]<class T>(std::type_identity<T>) {
      if constexpr (!S::template IsBit<T>()) o.types[n++] = Element<T>::kType;
    };
    (add(std::type_identity<typename S::template Parameter<I>>()), ...);
  }
  (std::make_index_sequence<S::kCount>());
  if constexpr (S::kReadsMask) o.types[n++] = Type::kMask;
  o.sources = static_cast<uint8_t>(n - o.results);
  return o;
}

// The last parameter is the value of the result's register before: v_fmac.
template <auto F>
constexpr Operation AccumulatingLanes(absl::string_view mnemonic) {
  Operation o = Lanes<F>(mnemonic);
  o.accumulates = true;
  --o.sources;
  return o;
}

// The mask that is read is VCC and does not stand in the text.
template <auto F>
constexpr Operation LanesByVcc(absl::string_view mnemonic) {
  Operation o = Lanes<F>(mnemonic);
  o.reads_vcc = true;
  --o.sources;
  return o;
}

// The same operation, of which a 16-bit result leaves the upper half of its register as it is on gfx942.
constexpr Operation KeepUpperHalf(Operation o) {
  o.keeps_upper_half = true;
  return o;
}

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_LANES_H_
