// Integer division that rounds up.
#ifndef BACKPLANE_CORE_TYPES_INTEGER_DIVISION_H_
#define BACKPLANE_CORE_TYPES_INTEGER_DIVISION_H_

#include <cstdint>

namespace backplane {

// Returns a / b, rounded up. Requires a >= 0, b > 0, and that a + b does not overflow.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns the smallest multiple of `b` that is not less than `a`.
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_INTEGER_DIVISION_H_
