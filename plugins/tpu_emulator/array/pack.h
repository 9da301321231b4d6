// The inner loops of a product on the array: operands read from wherever they lie, their parts taken, and the sums.
//
// Written once for vectors and once plainly; both give the same bits. Internal to array_product.cc.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_PACK_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_PACK_H_

#include <cstdint>

#include "core/types/primitive_type.h"

namespace backplane::tpu {

// A tile of the result that stays in registers: rows of the left operand by columns of the right one.
constexpr int64_t kTileRows = 6, kTileColumns = 16;
// Rows that are few: what is packed for them is hardly used again.
constexpr int64_t kFewRows = 3;
// Packed memory is read and written up to so many floats past its end.
constexpr int64_t kPackSlack = 16;

// Which part of an f32 is multiplied: all of it, or one of the three bf16 that it is split into.
enum class Part : int8_t { kWhole = -1, kFirst = 0, kSecond = 1, kThird = 2 };

// Consecutive indices whose places are equally far apart.
struct PlaceRun {
  int64_t begin, count, step;
};

struct PackSource {
  const void* data;
  PrimitiveType type;  // kF32, kBF16 or kF16
  Part part;
  const int64_t* k;  // places of the terms, in elements
  int64_t k_count;
  const PlaceRun* runs;  // the same cut into runs
  int64_t run_count;
};

struct ArrayKernels {
  // to[row * k_count + i] = element at rows[row] + k[i].
  void (*pack_rows)(const PackSource& source, const int64_t* rows, int64_t count, float* to);
  // to[i * width + lane] = element at lanes[lane] + k[i]; lanes from `count` up to `width` (6 or 16) are zero.
  void (*pack_panel)(const PackSource& source, const int64_t* lanes, int64_t count, int64_t width, float* to);
  // All the lanes of a block as panels of 16: to + p * 16 * k_count is panel p.
  void (*pack_panels)(const PackSource& source, const int64_t* lanes, int64_t count, float* to);
  // As pack_panels and `tile` for few rows, without the way through packed memory: `a` is packed in rows. False, and
  // nothing done, where the columns are not side by side. Does not look at the source's runs.
  bool (*few_rows)(const PackSource& source, const int64_t* lanes, int64_t count, const float* a, int64_t rows,
                   bool first, float* total, int64_t pitch);
  // total[r * pitch + c] (set where `first`, else added to) for `rows` rows of `a` and the 16 columns of a panel:
  // fused multiply-adds in increasing k from zero. Row r of `a` has its terms at a + r * row_step + i * k_step;
  // (row_step, k_step) is (anything, 1) or (1, 6).
  void (*tile[kTileRows + 1])(const float* a, int64_t row_step, int64_t k_step, const float* panel, int64_t k_count,
                              bool first, float* total, int64_t pitch);
  // f32 to the bits of bf16, rounded to nearest even.
  void (*narrow_bf16)(const float* from, int64_t count, uint16_t* to);
};

const ArrayKernels& PlainKernels();
const ArrayKernels* VectorKernels();  // null where this host has no such vectors
// The fastest that this host runs.
const ArrayKernels& HostKernels();

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_PACK_H_
