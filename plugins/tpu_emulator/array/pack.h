// The inner loops of a matrix product on the emulated unit: packing of operands, splitting into bf16 parts, and sums.
//
// There is a portable version and an AVX2 version. Both give the same bits. Internal to array_product.cc.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_PACK_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_PACK_H_

#include <cstdint>

#include "core/types/primitive_type.h"

namespace backplane::tpu {

// The register tile of the result: rows of the left operand by columns of the right one.
constexpr int64_t kTileRows = 6, kTileColumns = 16;
// Up to this many rows, packing the right operand does not pay: each packed element is hardly reused.
constexpr int64_t kFewRows = 3;
// Packed buffers are read and written up to this many floats past their end.
constexpr int64_t kPackSlack = 16;

// The part of an f32 that is multiplied: all of it, or one of the three bf16 parts.
enum class Part : int8_t { kWhole = -1, kFirst = 0, kSecond = 1, kThird = 2 };

// Consecutive indices whose offsets have a constant step.
struct OffsetRun {
  int64_t begin, count, step;
};

struct PackSource {
  const void* data;
  PrimitiveType type;  // kF32, kBF16 or kF16
  Part part;
  const int64_t* k;  // offsets of the summed terms, in elements
  int64_t k_count;
  const OffsetRun* runs;  // the same offsets as runs
  int64_t run_count;
};

struct ArrayKernels {
  // to[row * k_count + i] = element at rows[row] + k[i].
  void (*pack_rows)(const PackSource& source, const int64_t* rows, int64_t count, float* to);
  // to[i * width + lane] = element at lanes[lane] + k[i]. Lanes from `count` to `width` (6 or 16) are set to zero.
  void (*pack_panel)(const PackSource& source, const int64_t* lanes, int64_t count, int64_t width, float* to);
  // Packs all lanes of a block into panels of 16. Panel p starts at to + p * 16 * k_count.
  void (*pack_panels)(const PackSource& source, const int64_t* lanes, int64_t count, float* to);
  // Does the work of pack_panels and `tile` for few rows without packing the right operand; `a` is packed in rows. Does
  // nothing and returns false if the columns are not contiguous. Ignores the source's runs.
  bool (*few_rows)(const PackSource& source, const int64_t* lanes, int64_t count, const float* a, int64_t rows,
                   bool first, float* total, int64_t pitch);
  // Computes `rows` rows of `a` by the 16 columns of a panel, with fused multiply-adds in increasing k from zero.
  // Stores the sums to total[r * pitch + c] if `first`, else adds them. The terms of row r are at a + r * row_step + i
  // * k_step; (row_step, k_step) is (any, 1) or (1, 6).
  void (*tile[kTileRows + 1])(const float* a, int64_t row_step, int64_t k_step, const float* panel, int64_t k_count,
                              bool first, float* total, int64_t pitch);
  // Converts f32 to bf16, rounding to nearest even.
  void (*narrow_bf16)(const float* from, int64_t count, uint16_t* to);
};

const ArrayKernels& PlainKernels();
const ArrayKernels* VectorKernels();  // null if the host has no AVX2, FMA and F16C
// The fastest kernels that this host supports.
const ArrayKernels& HostKernels();

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_PACK_H_
