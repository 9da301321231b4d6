// Compares the types of functions: ours, and those of a maker's headers.
#ifndef BACKPLANE_PLUGINS_HIP_RUNTIME_TESTING_SAME_SHAPE_H_
#define BACKPLANE_PLUGINS_HIP_RUNTIME_TESTING_SAME_SHAPE_H_

#include <type_traits>

namespace backplane::hip {

// Whether a caller of one type passes the same bits as a caller of the other.
template <typename A, typename B>
constexpr bool SameValue() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return std::is_void_v<A> && std::is_void_v<B>;
  } else {
    constexpr bool a_is_pointer = std::is_pointer_v<A>, b_is_pointer = std::is_pointer_v<B>;
    return a_is_pointer == b_is_pointer && sizeof(A) == sizeof(B) &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  }
}

template <typename A, typename B>
struct SameShape : std::false_type {};
template <typename RA, typename... A, typename RB, typename... B>
struct SameShape<RA (*)(A...), RB (*)(B...)> {
  static constexpr bool Compare() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return SameValue<RA, RB>() && (SameValue<A, B>() && ...);
    }
  }
  static constexpr bool value = Compare();
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_RUNTIME_TESTING_SAME_SHAPE_H_
