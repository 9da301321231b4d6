// Encodes numbers as unsigned keys, so that element a precedes b exactly if Encode(a) < Encode(b).
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_ORDER_KEY_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_ORDER_KEY_H_

#include <cstdint>

namespace backplane::engine {

enum class KeyKind : uint8_t {
  kUnsigned,  // also pred
  kSigned,
  kFloatTotal,      // -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN
  kFloatCanonical,  // -0 equals +0; all NaNs are equal and above everything else
};

struct KeyFormat {
  KeyKind kind = KeyKind::kUnsigned;
  int bytes = 4;  // 1, 2, 4 or 8
  bool descending = false;
  uint64_t infinity = 0;  // floats: the bits of +inf
  bool operator==(const KeyFormat&) const = default;
};

template <typename U>
struct KeyMasks {
  static constexpr int kTop = 8 * sizeof(U) - 1;
  static constexpr U kSign = static_cast<U>(U{1} << kTop);
  U flip, infinity, nan;

  explicit KeyMasks(const KeyFormat& f)
      : flip(f.descending ? static_cast<U>(~U{0}) : U{0}),
        infinity(static_cast<U>(f.infinity)),
        nan(static_cast<U>(f.infinity | ((f.infinity & (~f.infinity + 1)) >> 1))) {
    if (f.kind == KeyKind::kSigned) flip ^= kSign;
  }

  // Mode 0: integers. 1: floats in total order. 2: floats whose zeros and NaNs are equal.
  template <int kMode>
  __attribute__((always_inline)) U Canonical(U x) const {
    if constexpr (kMode == 2) {
      const U magnitude = static_cast<U>(x & ~kSign);
      x = magnitude > infinity ? nan : x;
      x = magnitude == 0 ? U{0} : x;
    }
    return x;
  }
  template <int kMode>
  __attribute__((always_inline)) U Encode(U x) const {
    if constexpr (kMode != 0) {
      x = Canonical<kMode>(x);
      x = static_cast<U>(x ^ (static_cast<U>(-(x >> kTop)) | kSign));
    }
    return static_cast<U>(x ^ flip);
  }
  // Inverts Encode. For floats with equal zeros and NaNs the result is the canonical float.
  template <int kMode>
  __attribute__((always_inline)) U Decode(U k) const {
    k = static_cast<U>(k ^ flip);
    if constexpr (kMode != 0) k = static_cast<U>(k ^ (static_cast<U>((k >> kTop) - 1) | kSign));
    return k;
  }
};

inline int KeyMode(KeyKind kind) { return kind == KeyKind::kFloatCanonical ? 2 : kind == KeyKind::kFloatTotal ? 1 : 0; }

// Calls fn.template operator()<U, kMode>() with the key type and mode of the format.
template <typename Fn>
auto DispatchKey(const KeyFormat& f, Fn&& fn) {
  const int mode = KeyMode(f.kind);
  switch (f.bytes) {
    case 1:
      return fn.template operator()<uint8_t, 0>();
    case 2:
      return mode == 0   ? fn.template operator()<uint16_t, 0>()
             : mode == 1 ? fn.template operator()<uint16_t, 1>()
                         : fn.template operator()<uint16_t, 2>();
    case 4:
      return mode == 0   ? fn.template operator()<uint32_t, 0>()
             : mode == 1 ? fn.template operator()<uint32_t, 1>()
                         : fn.template operator()<uint32_t, 2>();
    default:
      return mode == 0   ? fn.template operator()<uint64_t, 0>()
             : mode == 1 ? fn.template operator()<uint64_t, 1>()
                         : fn.template operator()<uint64_t, 2>();
  }
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_ORDER_KEY_H_
