// Writes arrays as PNG pictures.
#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "sdk/cli/arrays.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

constexpr int64_t kMaxSide = 16384;

void BigEndian(uint32_t value, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

void Chunk(absl::string_view type, absl::string_view data, std::string* out) {
  BigEndian(static_cast<uint32_t>(data.size()), out);
  const size_t begin = out->size();
  absl::StrAppend(out, type, data);
  const auto* bytes = reinterpret_cast<const Bytef*>(out->data() + begin);
  BigEndian(static_cast<uint32_t>(crc32_z(0, bytes, out->size() - begin)), out);
}

// From dark violet through green to yellow. Brightness increases evenly, so that larger values look larger.
void Color(double t, unsigned char* rgb) {
  constexpr double kStops[][3] = {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
  const double x = std::clamp(t, 0.0, 1.0) * 4;
  const int i = std::min(static_cast<int>(x), 3);
  for (int c = 0; c < 3; ++c) {
    rgb[c] = static_cast<unsigned char>(std::lround(kStops[i][c] + (kStops[i + 1][c] - kStops[i][c]) * (x - i)));
  }
}

absl::StatusOr<std::string> Png(int64_t width, int64_t height, const std::string& rows) {
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
                rows.size(), 6) != Z_OK) {
    return absl::ResourceExhaustedError("picture: no memory to deflate");
  }
  packed.resize(size);
  std::string head, out("\x89PNG\r\n\x1a\n", 8);
  BigEndian(static_cast<uint32_t>(width), &head);
  BigEndian(static_cast<uint32_t>(height), &head);
  head.append("\x08\x02\x00\x00\x00", 5);  // 8 bits, RGB
  Chunk("IHDR", head, &out);
  Chunk("IDAT", packed, &out);
  Chunk("IEND", "", &out);
  return out;
}

}  // namespace

absl::StatusOr<std::string> RenderPicture(const host::HostArray& array, int min_pixels) {
  const std::vector<int64_t>& dims = array.dims;
  const bool colors = dims.size() == 3 && (dims[2] == 3 || dims[2] == 4);
  if ((dims.size() != 2 && !colors) || dims[0] == 0 || dims[1] == 0 || dims[0] > kMaxSide || dims[1] > kMaxSide) {
    return absl::InvalidArgumentError(absl::StrCat("picture: ", host::FormatShape(array.type, dims),
                                                   ", expected [height,width] or [height,width,3 or 4], 1 to ",
                                                   kMaxSide, " a side"));
  }
  BP_ASSIGN_OR_RETURN(const Literal literal, ToLiteral(array));
  BP_ASSIGN_OR_RETURN(const Statistics statistics, ComputeStatistics(array));
  const int64_t height = dims[0], width = dims[1], channels = colors ? dims[2] : 1;
  const double span = statistics.max - statistics.min;
  const double full = statistics.max <= 1 ? 1 : 255;  // the maximum of a coloured picture
  const bool complex = IsComplex(literal.shape().element_type());
  auto pixel = [&](int64_t y, int64_t x, unsigned char* rgb) {
    for (int64_t c = 0; c < channels && c < 3; ++c) {
      const int64_t at = (y * width + x) * channels + c;
      const double v = complex ? std::abs(literal.GetAsComplex(at)) : literal.GetAsDouble(at);
      if (!std::isfinite(v)) {
        rgb[0] = 255, rgb[1] = rgb[2] = 0;
        return;
      }
      if (colors) {
        rgb[c] = static_cast<unsigned char>(std::lround(std::clamp(v / full, 0.0, 1.0) * 255));
      } else {
        Color(span > 0 ? (v - statistics.min) / span : 0.5, rgb);
      }
    }
  };
  const int64_t scale = std::max<int64_t>(1, (min_pixels + std::max(width, height) - 1) / std::max(width, height));
  std::string rows;
  for (int64_t y = 0; y < height; ++y) {
    std::string row(1, '\0');  // no filter
    for (int64_t x = 0; x < width; ++x) {
      unsigned char rgb[3];
      pixel(y, x, rgb);
      for (int64_t s = 0; s < scale; ++s) row.append(reinterpret_cast<const char*>(rgb), 3);
    }
    for (int64_t s = 0; s < scale; ++s) rows += row;
  }
  return Png(width * scale, height * scale, rows);
}

}  // namespace backplane::cli
