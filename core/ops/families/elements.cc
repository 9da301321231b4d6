#include "core/ops/families/elements.h"

#include <unistd.h>

#include <numeric>

#include "core/types/literal_convert.h"

namespace backplane {
namespace {

double MachineMemory() {
  static const double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return bytes;
}

template <typename T>
void CopyRow(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (to_stride == 1 && from_stride == 0) {
    std::fill_n(to, n, *from);
  } else if (to_stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * from_stride];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

// The two innermost dimensions in tiles, for transposes: both arrays then stay in cache.
template <typename T>
void CopyPlane(const T* from, const int64_t* fs, T* to, const int64_t* ts, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;
  for (int64_t r = 0; r < rows; r += kTile) {
    const int64_t rend = std::min(rows, r + kTile);
    for (int64_t c = 0; c < columns; c += kTile) {
      const int64_t cend = std::min(columns, c + kTile);
      for (int64_t i = r; i < rend; ++i) {
        for (int64_t j = c; j < cend; ++j) to[i * ts[0] + j * ts[1]] = from[i * fs[0] + j * fs[1]];
      }
    }
  }
}

struct Wide {
  uint64_t a, b;
};

template <typename T>
void CopyTyped(absl::Span<const int64_t> dims, const std::byte* from_bytes, const StridedSide& source,
               std::byte* to_bytes, const StridedSide& target) {
  const T* from = reinterpret_cast<const T*>(from_bytes) + source.offset;
  T* to = reinterpret_cast<T*>(to_bytes) + target.offset;
  if (dims.empty()) {
    *to = *from;
    return;
  }
  const size_t last = dims.size() - 1;
  const bool plane = dims.size() >= 2 && source.strides[last] != 1 && source.strides[last] != 0 &&
                     std::abs(source.strides[last - 1]) < std::abs(source.strides[last]) && dims[last - 1] > 1;
  const size_t inner = plane ? 2 : 1;
  const size_t outer = dims.size() - inner;
  Odometer<2> at(dims.subspan(0, outer),
                 {absl::MakeSpan(source.strides).subspan(0, outer), absl::MakeSpan(target.strides).subspan(0, outer)});
  do {
    const T* f = from + at.offset(0);
    T* t = to + at.offset(1);
    if (plane) {
      CopyPlane(f, &source.strides[outer], t, &target.strides[outer], dims[outer], dims[outer + 1]);
    } else if (source.strides[last] == 1 && target.strides[last] == 1) {
      std::memcpy(t, f, static_cast<size_t>(dims[last]) * sizeof(T));
    } else {
      CopyRow(f, source.strides[last], t, target.strides[last], dims[last]);
    }
  } while (at.Next());
}

}  // namespace

absl::StatusOr<Shape> InferResultShape(const OpContext& op) {
  if (op.declared != nullptr) return *op.declared;
  return Info(op.opcode).infer(op);
}

absl::StatusOr<Literal> AllocateLiteral(const OpContext& op, const Shape& shape) {
  const double bytes = CountShapeBytes(shape);
  if (bytes > MachineMemory()) {
    return absl::ResourceExhaustedError(absl::StrCat(op.name.empty() ? OpName(op.opcode) : op.name, ": ",
                                                     shape.ToString(), " needs ", bytes,
                                                     " bytes, more than the machine has"));
  }
  return Literal(shape);
}

bool HasBinaryKernel(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kMultiply:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
    case Opcode::kSubtract:
    case Opcode::kDivide:
    case Opcode::kPower:
    case Opcode::kRemainder:
    case Opcode::kAtan2:
      return true;
    default:
      return false;
  }
}

std::optional<ElementwiseKernel> SelectBinaryKernel(Opcode opcode, PrimitiveType type) {
  static const Attributes* none = new Attributes();
  if (!HasBinaryKernel(opcode)) return std::nullopt;
  return ElementwiseKernel::Make(opcode, *none, {type, type}, type);
}

void StridedCopy(int width, absl::Span<const int64_t> dims, const std::byte* from, const StridedSide& source,
                 std::byte* to, const StridedSide& target) {
  // Removes dimensions of size 1 and merges neighbours that are contiguous in both arrays.
  DimVector d;
  StridedSide s{source.offset, {}}, t{target.offset, {}};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return;
    if (dims[i] == 1) continue;
    if (!d.empty() && s.strides.back() == source.strides[i] * dims[i] &&
        t.strides.back() == target.strides[i] * dims[i]) {
      d.back() *= dims[i];
      s.strides.back() = source.strides[i];
      t.strides.back() = target.strides[i];
      continue;
    }
    d.push_back(dims[i]);
    s.strides.push_back(source.strides[i]);
    t.strides.push_back(target.strides[i]);
  }
  switch (width) {
    case 1:
      return CopyTyped<uint8_t>(d, from, s, to, t);
    case 2:
      return CopyTyped<uint16_t>(d, from, s, to, t);
    case 4:
      return CopyTyped<uint32_t>(d, from, s, to, t);
    case 8:
      return CopyTyped<uint64_t>(d, from, s, to, t);
    default:
      return CopyTyped<Wide>(d, from, s, to, t);
  }
}

WindowLine MakeWindowLine(const WindowDimension& d, int64_t input, int64_t output, int64_t w) {
  WindowLine line;
  const int64_t base = d.base_dilation;
  const int64_t shift = w * d.window_dilation - d.padding_low;  // position = o * stride + shift, in the dilated input
  line.step = base / std::gcd(base, d.stride);
  line.in_step = line.step * d.stride / base;
  for (int64_t o = 0; o < std::min(output, line.step); ++o) {
    const int64_t position = o * d.stride + shift;
    if (((position % base) + base) % base != 0) continue;
    // The input position grows with o: skip positions below 0 and past the end.
    const int64_t in = position >= 0 ? position / base : -((-position) / base);
    int64_t k = in < 0 ? (-in + line.in_step - 1) / line.in_step : 0;
    const int64_t last_by_output = (output - 1 - o) / line.step;
    const int64_t last_by_input = input - 1 - in < 0 ? -1 : (input - 1 - in) / line.in_step;
    line.first = o + k * line.step;
    line.in_first = in + k * line.in_step;
    line.count = std::max<int64_t>(0, std::min(last_by_output, last_by_input) - k + 1);
    break;
  }
  return line;
}

std::vector<std::byte> PackAs(const Literal& x, absl::Span<const int64_t> order, PrimitiveType to) {
  const PrimitiveType from = x.shape().element_type();
  const int64_t n = x.num_elements();
  const DimVector strides = RowMajorStrides(x.shape().dimensions());
  DimVector dims;
  StridedSide source;
  for (int64_t d : order) {
    dims.push_back(x.shape().dimensions(d));
    source.strides.push_back(strides[d]);
  }
  std::vector<std::byte> moved(static_cast<size_t>(n * ByteWidth(from)));
  StridedCopy(ByteWidth(from), dims, x.bytes(), source, moved.data(), {0, RowMajorStrides(dims)});
  if (from == to) return moved;
  std::vector<std::byte> out(static_cast<size_t>(n * ByteWidth(to)));
  ConvertElements(from, moved.data(), to, out.data(), n);
  return out;
}

Literal ScalarAt(const Literal& x, int64_t i) {
  Literal v(Shape::Scalar(x.shape().element_type()));
  std::memcpy(v.mutable_bytes(), x.bytes() + i * v.byte_size(), static_cast<size_t>(v.byte_size()));
  return v;
}

void FillElements(int width, const std::byte* element, std::byte* to, int64_t n) {
  StridedCopy(width, {n}, element, {0, {0}}, to, {0, {1}});
}

}  // namespace backplane
