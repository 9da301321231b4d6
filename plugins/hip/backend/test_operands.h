// Operands for the comparison of two ways to compute a product.
//
// Elements of wide and narrow operands are integers times one power of two, small enough that every sum of products, in
// any order, is exact in the type of the sums. So the bound for the difference of two correct results is zero. Elements
// of one operand have as many significant bits as this permits, and as the products may use (11 for tf32): an operand
// that is rounded to a narrower type, or a sum that is kept in one, gives other results.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_TEST_OPERANDS_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_TEST_OPERANDS_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "plugins/hip/libraries/matrix_product.h"

namespace backplane::hip {

// How many elements of an operand differ; then they repeat. A prime number, so rows of a matrix are different parts.
inline constexpr int64_t kTestPeriod = 262139;

enum class TestRole : uint8_t {
  kWide,    // elements with many significant bits, all odd
  kNarrow,  // -1 and 1, and zeros where sums of all terms would be too large
  kUniform  // numbers between -1 and 1 with all bits of the type, whose sums are rounded: for times and repeated runs
};

// Returns the bytes of the first elements of an operand: all `elements`, or kTestPeriod of them.
std::string MakeTestOperand(const MatrixProduct& product, int64_t elements, TestRole role, uint64_t seed);

// Returns how many significant bits the elements of a wide operand have; 0 for integers, which use all of s8.
int CountWideBits(const MatrixProduct& product);

// Returns the position of the first element in which the arrays differ; -1 if there is none. Zeros are equal whatever
// their sign; a value that is no number differs from all.
int64_t FindDifference(PrimitiveType type, absl::Span<const char> a, absl::Span<const char> b);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_TEST_OPERANDS_H_
