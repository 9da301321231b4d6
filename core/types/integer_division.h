// Division of whole numbers that rounds up.
#ifndef BACKPLANE_CORE_TYPES_INTEGER_DIVISION_H_
#define BACKPLANE_CORE_TYPES_INTEGER_DIVISION_H_

#include <cstdint>

namespace backplane {

// `a` is not negative, `b` is positive, and a + b does not overflow.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The least multiple of `b` that is not less than `a`.
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_INTEGER_DIVISION_H_
