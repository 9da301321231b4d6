// Matrix products rounded as a TPU's matrix unit rounds them, with the same bits on every host.
//
// The unit multiplies bf16 by bf16 and adds in f32. An f32 operand is split: one pass takes its leading bf16 only,
// three passes (precision "high") two parts of each operand and the three products that matter, six ("highest") three
// parts and six products. Each product of parts is exact in f32 but for its addition, so that only the order of the
// additions is left to say. It is:
//
//   - within a pass, k is cut into chunks of `side` (the unit's side); a chunk is summed by fused multiply-adds in
//     increasing k from zero, and chunk sums are added in increasing order;
//   - passes are summed whole, the smallest parts first: lo*hi, hi*lo, hi*hi of three; of six, with the parts numbered
//     from the leading one, 31, 22, 13, 21, 12, 11.
//
// The order of additions inside a real unit is not public: these are a TPU's rounding points, not its bits.
// Parts below the leading one of an infinity or NaN are zero; with three or six passes an infinity that meets such a
// zero gives NaN.
//
// Operands are read where they lie, through Offsets: row-major, transposed, in tiles, as windows. Nothing but their
// elements is read for its value, the padding of tiles never.
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
  int64_t side = 128;  // 128 or 256
  // 1, 3 or 6. 0: the operands are taken as they are, in one pass; right for values of at most 11 significant bits,
  // whose products are exact too (bf16, f16, f8, small integers).
  int passes = 1;
};

// One side of a product: element (b, i, k) lies at the sum of three places. For an operand `outer` is a row of the left
// one or a column of the right one; for the result `outer` and `inner` are rows and columns.
struct ArrayOperand {
  const void* data = nullptr;
  PrimitiveType type = PrimitiveType::kF32;  // kF32, kBF16 or kF16; 64 bytes past the last element can be read
  const Offsets *batch = nullptr, *outer = nullptr, *k = nullptr;
};
struct ArrayResult {
  void* data = nullptr;
  PrimitiveType type = PrimitiveType::kF32;  // a floating type of whole bytes; the sum is rounded to it once
  const Offsets *batch = nullptr, *rows = nullptr, *columns = nullptr;
};

// Bytes of working memory, 64-byte aligned, for so many threads.
int64_t ArrayProductWorkspace(const ArrayProductShape& shape, int threads);

// out[b,m,n] = sum over k of lhs[b,m,k] * rhs[b,k,n]. `out` overlaps no operand. With k = 0 the sums are zero. `pool`
// may be null: then one thread does it. The bits do not depend on the pool.
void ArrayProduct(const ArrayProductShape& shape, const ArrayOperand& lhs, const ArrayOperand& rhs,
                  const ArrayResult& out, void* workspace, engine::ThreadPool* pool);

// Dense row-major f32.
void ArrayProduct(const ArrayProductShape& shape, const float* lhs, const float* rhs, float* out,
                  engine::ThreadPool* pool);

// The bf16 nearest to x, ties to even; infinities stay, NaN stays NaN.
float RoundToBf16(float x);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_PRODUCT_H_
