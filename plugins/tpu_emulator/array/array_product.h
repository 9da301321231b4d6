// Matrix products with the rounding of a TPU's matrix unit. The result has the same bits on every host.
//
// The unit multiplies bf16 by bf16 and accumulates in f32. An f32 operand is split into bf16 parts. One pass uses only
// the leading part. Three passes (precision "high") use two parts of each operand and three of their products. Six
// passes ("highest") use three parts and six products. A product of two parts is exact in f32, so only the order of the
// additions affects the result. The order is:
//
//   - Within a pass, k is split into chunks of `side` terms. A chunk is summed by fused multiply-adds in increasing k,
//     starting from zero. The sums of the chunks are added in increasing order.
//   - The sums of the passes are added smallest parts first. Three passes: lo*hi, hi*lo, hi*hi. Six passes, with parts
//     numbered from the leading one: 3*1, 2*2, 1*3, 2*1, 1*2, 1*1.
//
// The order of additions inside a real unit is not public. The emulator therefore has a TPU's rounding points, but not
// its bits. The lower parts of an infinity or NaN are zero; with three or six passes an infinity times such a zero
// gives NaN.
//
// Operands are read in their own layout, described by Offsets: row-major, transposed, tiled, or the windows of a
// convolution. Padding never affects a result.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_PRODUCT_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_PRODUCT_H_

#include <cstddef>
#include <cstdint>

#include "core/types/primitive_type.h"
#include "plugins/tpu_emulator/array/offsets.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::tpu {

struct ArrayProductShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t side = 128;  // at most kMaxArraySide
  // 1, 3 or 6. 0 means one pass over the operands without splitting. That is exact for values of at most 11 significant
  // bits (bf16, f16, f8, small integers).
  int passes = 1;
};

// An operand of a product. Element (b, i, k) is at offset batch(b) + outer(i) + k(k). `outer` runs over the rows of the
// left operand or the columns of the right one.
struct ArrayOperand {
  const void* data = nullptr;
  PrimitiveType type = PrimitiveType::kF32;  // kF32, kBF16 or kF16; 64 bytes past the last element are readable
  const Offsets *batch = nullptr, *outer = nullptr, *k = nullptr;
};
struct ArrayResult {
  void* data = nullptr;
  PrimitiveType type = PrimitiveType::kF32;  // a floating-point type of whole bytes; a sum is rounded to it once
  const Offsets *batch = nullptr, *rows = nullptr, *columns = nullptr;
};

// Returns the bytes of workspace for a pool of `threads` threads. The workspace is aligned to 64 bytes.
int64_t ComputeArrayProductWorkspaceBytes(const ArrayProductShape& shape, int threads);

// Computes out[b,m,n] = sum over k of lhs[b,m,k] * rhs[b,k,n]. `out` must not overlap an operand. With k = 0 the sums
// are zero. A null `pool` means one thread. The result does not depend on the number of threads.
void ComputeArrayProduct(const ArrayProductShape& shape, const ArrayOperand& lhs, const ArrayOperand& rhs,
                         const ArrayResult& out, void* workspace, engine::ThreadPool* pool);

// The same for dense row-major f32 arrays. Allocates its own workspace.
void ComputeArrayProduct(const ArrayProductShape& shape, const float* lhs, const float* rhs, float* out,
                         engine::ThreadPool* pool);

// Rounds x to the nearest bf16, ties to even. Infinities and NaN are preserved.
float RoundToBf16(float x);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_PRODUCT_H_
