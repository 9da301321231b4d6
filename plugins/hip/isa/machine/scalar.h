// Operations on scalars from functions, like lanes.h: {Scalars<[](uint32_t a, uint32_t b, bool& scc)
// {...}>("s_add_u32")}. A `bool` parameter is SCC, a `bool&` one is read and written, and a result of type `bool` goes
// to SCC.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_SCALAR_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_SCALAR_H_

#include "plugins/hip/isa/machine/lanes.h"
#include "plugins/hip/isa/machine/wave.h"

namespace backplane::hip::isa {

template <class T>
inline T ReadScalar(const Wave& wave, const Operand& o) {
  using E = Element<T>;
  if constexpr (sizeof(typename E::Bits) == 8) {
    return E::Read(wave.Scalar64(o));
  } else {
    return E::Read(wave.Scalar32(o));
  }
}

template <auto F, size_t I>
inline auto ScalarArgument(const Wave& wave, const Instruction& i, bool& scc)
    -> std::conditional_t<std::is_same_v<typename SignatureOf<F>::template Parameter<I>, bool&>, bool&,
                          typename SignatureOf<F>::template Parameter<I>> {
  using S = SignatureOf<F>;
  using T = typename S::template Parameter<I>;
  if constexpr (std::is_same_v<std::remove_reference_t<T>, bool>) {
    return scc;
  } else {
    constexpr size_t kIndex = S::template SourceIndex<I>();
    if (kIndex >= i.operation->sources) return ReadScalar<T>(wave, i.Result());
    return ReadScalar<T>(wave, i.Source(kIndex));
  }
}

template <auto F>
void ExecuteScalar(Wave& wave, const Instruction& i) {
  using S = SignatureOf<F>;
  bool scc = wave.scc;
  auto call = [&]<size_t... I>(std::index_sequence<I...>) { return F(ScalarArgument<F, I>(wave, i, scc)...); };
  if constexpr (S::kHasResult) {
    using E = Element<typename S::Result>;
    const typename E::Bits bits = E::Write(call(std::make_index_sequence<S::kCount>()));
    if constexpr (sizeof(bits) == 8) {
      wave.SetScalar64(i.Result(), bits);
    } else {
      wave.SetScalar32(i.Result(), bits);
    }
  } else {
    scc = call(std::make_index_sequence<S::kCount>());
  }
  wave.scc = scc;
}

template <auto F>
constexpr Operation Scalars(absl::string_view mnemonic) {
  using S = SignatureOf<F>;
  Operation o;
  o.mnemonic = mnemonic;
  o.category = Category::kScalar;
  o.execute = ExecuteScalar<F>;
  int n = 0;
  if constexpr (S::kHasResult) o.types[n++] = Element<typename S::Result>::kType;
  o.results = static_cast<uint8_t>(n);
  [&]<size_t... I>(std::index_sequence<I...>) {
    auto add = [&]<class T>(std::type_identity<T>) {
      if constexpr (!S::template IsBit<T>()) o.types[n++] = Element<T>::kType;
    };
    (add(std::type_identity<typename S::template Parameter<I>>()), ...);
  }
  (std::make_index_sequence<S::kCount>());
  o.sources = static_cast<uint8_t>(n - o.results);
  return o;
}

// The last parameter is the value of the result's register before.
template <auto F>
constexpr Operation UpdatingScalars(absl::string_view mnemonic) {
  Operation o = Scalars<F>(mnemonic);
  o.accumulates = true;
  --o.sources;
  return o;
}

// SOPK: the immediate has 16 bits.
constexpr Operation WithShortImmediate(Operation o, ShortImmediate kind) {
  o.short_immediate = kind;
  return o;
}

// An operation that a function executes as it likes. `types` are those of the operands, results first.
template <class... T>
constexpr Operation Custom(absl::string_view mnemonic, Category category, Handler execute, int results, T... types) {
  Operation o;
  o.mnemonic = mnemonic;
  o.category = category;
  o.execute = execute;
  o.results = static_cast<uint8_t>(results);
  o.sources = static_cast<uint8_t>(sizeof...(T) - results);
  int n = 0;
  ((o.types[n++] = types), ...);
  return o;
}

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_SCALAR_H_
