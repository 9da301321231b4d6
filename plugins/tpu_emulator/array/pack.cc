#include "plugins/tpu_emulator/array/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/types/literal_convert.h"
#include "plugins/tpu_emulator/array/array_product.h"

namespace backplane::tpu {
namespace {

float PartOf(float x, Part part) {
  if (part == Part::kWhole) return x;
  float rest = x, piece = RoundToBf16(rest);
  for (int p = 0; p < static_cast<int>(part); ++p) {
    rest = std::isfinite(piece) && std::isfinite(rest) ? rest - piece : 0.0f;
    piece = RoundToBf16(rest);
  }
  return piece;
}

float Element(const PackSource& s, int64_t offset) {
  float x;
  if (s.type == PrimitiveType::kF32) {
    x = static_cast<const float*>(s.data)[offset];
  } else if (s.type == PrimitiveType::kBF16) {
    const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(s.data)[offset]) << 16;
    std::memcpy(&x, &bits, sizeof(x));
  } else {
    ConvertElements(s.type, reinterpret_cast<const std::byte*>(static_cast<const uint16_t*>(s.data) + offset),
                    PrimitiveType::kF32, reinterpret_cast<std::byte*>(&x), 1);
  }
  return PartOf(x, s.part);
}

void PlainRows(const PackSource& s, const int64_t* rows, int64_t count, float* to) {
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t i = 0; i < s.k_count; ++i) *to++ = Element(s, rows[r] + s.k[i]);
  }
}

void PlainPanel(const PackSource& s, const int64_t* lanes, int64_t count, int64_t width, float* to) {
  for (int64_t i = 0; i < s.k_count; ++i, to += width) {
    for (int64_t l = 0; l < width; ++l) to[l] = l < count ? Element(s, lanes[l] + s.k[i]) : 0.0f;
  }
}

void PlainPanels(const PackSource& s, const int64_t* lanes, int64_t count, float* to) {
  for (int64_t l = 0; l < count; l += kTileColumns)
    PlainPanel(s, lanes + l, std::min(kTileColumns, count - l), kTileColumns, to + l * s.k_count);
}

bool PlainFewRows(const PackSource&, const int64_t*, int64_t, const float*, int64_t, bool, float*, int64_t) {
  return false;
}

// The reference definition. Also runs on hosts without fused multiply-add.
template <int64_t kRows>
void PlainTile(const float* a, int64_t row_step, int64_t k_step, const float* panel, int64_t k_count, bool first,
               float* total, int64_t pitch) {
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kTileColumns; ++c) {
      float sum = 0;
      for (int64_t i = 0; i < k_count; ++i)
        sum = std::fma(a[r * row_step + i * k_step], panel[i * kTileColumns + c], sum);
      float& to = total[r * pitch + c];
      to = first ? sum : to + sum;
    }
  }
}

void PlainNarrow(const float* from, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = RoundToBf16(from[i]);
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    to[i] = static_cast<uint16_t>(bits >> 16);
  }
}

}  // namespace

const ArrayKernels& PlainKernels() {
  static constexpr ArrayKernels kKernels = {
      PlainRows,
      PlainPanel,
      PlainPanels,
      PlainFewRows,
      {nullptr, PlainTile<1>, PlainTile<2>, PlainTile<3>, PlainTile<4>, PlainTile<5>, PlainTile<6>},
      PlainNarrow};
  return kKernels;
}

const ArrayKernels& HostKernels() {
  static const ArrayKernels* const vector = VectorKernels();
  return vector != nullptr ? *vector : PlainKernels();
}

}  // namespace backplane::tpu
