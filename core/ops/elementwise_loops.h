// Loop templates that the files of elementwise operations share.
#ifndef BACKPLANE_CORE_OPS_ELEMENTWISE_LOOPS_H_
#define BACKPLANE_CORE_OPS_ELEMENTWISE_LOOPS_H_

#include "core/ops/elementwise.h"

namespace backplane {

// `Op` is a type with a static function Of(a), Of(a, b) or Of(a, b, c).
template <typename Op, typename T, typename R = T>
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

#define BACKPLANE_OP1(Name, expression) \
  struct Name {                         \
    template <typename T>               \
    static auto Of(T a) {               \
      return expression;                \
    }                                   \
  };
#define BACKPLANE_OP2(Name, expression) \
  struct Name {                         \
    template <typename T>               \
    static auto Of(T a, T b) {          \
      return expression;                \
    }                                   \
  };

BACKPLANE_OP2(EqOp, a == b)
BACKPLANE_OP2(NeOp, a != b)
BACKPLANE_OP2(GeOp, a >= b)
BACKPLANE_OP2(GtOp, a > b)
BACKPLANE_OP2(LeOp, a <= b)
BACKPLANE_OP2(LtOp, a < b)

// A comparison after conversion of both operands: `Adapt::Of` converts an element to a type that has the six comparison
// operators.
template <typename Op, typename Adapt>
struct Adapted {
  template <typename T>
  static auto Of(T a, T b) {
    return Op::Of(Adapt::Of(a), Adapt::Of(b));
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
      return &Loop2<Adapted<EqOp, Adapt>, T, bool>;
    case ComparisonDirection::kNe:
      return &Loop2<Adapted<NeOp, Adapt>, T, bool>;
    case ComparisonDirection::kGe:
      return &Loop2<Adapted<GeOp, Adapt>, T, bool>;
    case ComparisonDirection::kGt:
      return &Loop2<Adapted<GtOp, Adapt>, T, bool>;
    case ComparisonDirection::kLe:
      return &Loop2<Adapted<LeOp, Adapt>, T, bool>;
    default:
      return &Loop2<Adapted<LtOp, Adapt>, T, bool>;
  }
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_ELEMENTWISE_LOOPS_H_
