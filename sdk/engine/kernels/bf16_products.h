// Decides whether the bf16 instructions of this machine are worth using.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_BF16_PRODUCTS_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_BF16_PRODUCTS_H_

#include <stdint.h>

namespace backplane::engine {

// Returns true if the machine has bf16 products and they are faster than a conversion to f32 and products of that.
// The answer is measured once in a process, in a fifth of a millisecond: some processors run one such instruction in
// the time of four multiply-adds of f32, others run as many of them. The instruction does the work of two.
bool HasFastBf16Products();

// For tests: while `assume` is true, bf16 products count as fast on every machine that has them. Not thread-safe.
void AssumeFastBf16ProductsForTest(bool assume);

namespace avx512bf16 {
// Run `count` multiply-adds of full registers, sixteen at a time that do not depend on one another. Return a value that
// depends on all of them.
float RunF32Products(int64_t count);
float RunBf16Products(int64_t count);
}  // namespace avx512bf16

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_BF16_PRODUCTS_H_
