// Loops over the formulas of elementwise operations, for the sources that make them for integers, floats and complex
// numbers.
#ifndef BACKPLANE_CORE_OPS_ELEMENTWISE_LOOPS_H_
#define BACKPLANE_CORE_OPS_ELEMENTWISE_LOOPS_H_

#include <functional>

#include "core/ops/elementwise.h"
#include "core/ops/elementwise_formulas.h"

namespace backplane {

// `Op` is a type with a static function Of(a), Of(a, b) or Of(a, b, c).
template <typename Op, typename T, typename R>
void Loop1(const void* const* in, void* out, int64_t n, const int64_t*) {
  const T* a = static_cast<const T*>(in[0]);
  R* r = static_cast<R*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = Op::Of(a[i]);
}

template <typename Op, typename T, typename R = T>
void Loop2(const void* const* in, void* out, int64_t n, const int64_t*) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  R* r = static_cast<R*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = Op::Of(a[i], b[i]);
}

template <typename Op, typename T>
void Loop3(const void* const* in, void* out, int64_t n, const int64_t*) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
  T* r = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = Op::Of(a[i], b[i], c[i]);
}

// The loop of an operation's formula for T; null if there is no such formula.
template <typename Op, typename T>
constexpr ElementwiseKernel::Loop GetLoop() {
  if constexpr (requires(T a) { Op::Of(a); }) {
    return &Loop1<Op, T, decltype(Op::Of(T()))>;
  } else if constexpr (requires(T a) { Op::Of(a, a); }) {
    return &Loop2<Op, T>;
  } else if constexpr (requires(T a) { Op::Of(a, a, a); }) {
    return &Loop3<Op, T>;
  } else {
    return nullptr;
  }
}
template <typename T>
ElementwiseKernel::Loop FindFormulaLoop(Opcode opcode) {
  switch (opcode) {
#define OP(enumerator, ...) \
  case Opcode::enumerator:  \
    return GetLoop<formulas::Formula<Opcode::enumerator>, T>();
#include "core/ops/op_table.def"
  }
  return nullptr;
}

// A comparison after conversion of both operands: `Adapt::Of` converts an element to a type that has the six comparison
// operators. `Op` is a function object such as std::less<>.
template <typename Op, typename Adapt>
struct Adapted {
  template <typename T>
  static bool Of(T a, T b) {
    return Op()(Adapt::Of(a), Adapt::Of(b));
  }
};
struct AsIs {
  template <typename T>
  static T Of(T a) {
    return a;
  }
};

template <typename T, typename Adapt = AsIs>
ElementwiseKernel::Loop CompareLoop(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return &Loop2<Adapted<std::equal_to<>, Adapt>, T, bool>;
    case ComparisonDirection::kNe:
      return &Loop2<Adapted<std::not_equal_to<>, Adapt>, T, bool>;
    case ComparisonDirection::kGe:
      return &Loop2<Adapted<std::greater_equal<>, Adapt>, T, bool>;
    case ComparisonDirection::kGt:
      return &Loop2<Adapted<std::greater<>, Adapt>, T, bool>;
    case ComparisonDirection::kLe:
      return &Loop2<Adapted<std::less_equal<>, Adapt>, T, bool>;
    default:
      return &Loop2<Adapted<std::less<>, Adapt>, T, bool>;
  }
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_ELEMENTWISE_LOOPS_H_
