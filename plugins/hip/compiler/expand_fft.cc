#include "plugins/hip/compiler/expand_fft.h"

#include <bit>
#include <numbers>
#include <utility>
#include <vector>

#include "core/ir/builder.h"
#include "core/passes/loop_builder.h"
#include "core/passes/replace_each.h"
#include "core/types/status_macros.h"

namespace backplane::hip {
namespace {

constexpr int64_t kMaxProduct = 64;  // the length of a transform that is a product, if there is a choice
constexpr int64_t kMaxPrime = 512;   // a longer one is a convolution
constexpr int64_t kExactInF32 = 1 << 23;

// The largest divisor of n that is at most kMaxProduct; 1 if n has none.
int64_t DivisorOf(int64_t n) {
  for (int64_t d = kMaxProduct; d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

class FftBuilder {
 public:
  // `type`: complex.
  FftBuilder(Builder& b, PrimitiveType type) : b_(b), type_(type) {}

  // Transforms the rows of x[rows, n], without a factor. `sign`: of the exponent, -1 for a forward transform.
  absl::StatusOr<Value> TransformRows(Value x, int sign) {
    const int64_t rows = x->shape().dimensions(0), n = x->shape().dimensions(1);
    if (n == 1) return x;
    const int64_t n1 = n <= kMaxProduct ? n : DivisorOf(n);
    if (n1 == n || (n1 == 1 && n <= kMaxPrime)) {
      ASSIGN_OR_RETURN(Value matrix, Roots(n, n, n, sign));
      return Product(x, 1, matrix);
    }
    if (n1 == 1) return Convolution(x, sign);
    // x[j1 n2 + j2] to y[k1 + n1 k2].
    const int64_t n2 = n / n1;
    ASSIGN_OR_RETURN(x, b_.Reshape(x, {rows, n1, n2}));
    ASSIGN_OR_RETURN(Value matrix, Roots(n1, n1, n1, sign));
    ASSIGN_OR_RETURN(x, Product(x, 1, matrix));  // [rows, j2, k1]
    ASSIGN_OR_RETURN(Value roots, Roots(n2, n1, n, sign));
    ASSIGN_OR_RETURN(roots, b_.BroadcastInDim(roots, {rows, n2, n1}, {1, 2}));
    ASSIGN_OR_RETURN(x, b_.Binary(Opcode::kMultiply, x, roots));
    ASSIGN_OR_RETURN(x, b_.Transpose(x, {0, 2, 1}));
    ASSIGN_OR_RETURN(x, b_.Reshape(x, {rows * n1, n2}));
    ASSIGN_OR_RETURN(x, TransformRows(x, sign));
    ASSIGN_OR_RETURN(x, b_.Reshape(x, {rows, n1, n2}));
    ASSIGN_OR_RETURN(x, b_.Transpose(x, {0, 2, 1}));
    return b_.Reshape(x, {rows, n});
  }

  // Transforms along one dimension. An inverse transform is divided by the length.
  absl::StatusOr<Value> TransformAlong(Value x, int64_t d, bool inverse) {
    const int64_t rank = x->shape().rank(), n = x->shape().dimensions(d), elements = x->shape().num_elements();
    if (elements == 0 || n == 1) return x;
    Ints order;
    for (int64_t k = 0; k < rank; ++k) order.push_back(k);
    std::swap(order[static_cast<size_t>(d)], order.back());
    ASSIGN_OR_RETURN(x, b_.Transpose(x, order));
    const DimVector dims = x->shape().dimensions();
    ASSIGN_OR_RETURN(x, b_.Reshape(x, {elements / n, n}));
    ASSIGN_OR_RETURN(x, TransformRows(x, inverse ? 1 : -1));
    if (inverse) {
      ASSIGN_OR_RETURN(x, Scale(x, 1.0 / static_cast<double>(n)));
    }
    ASSIGN_OR_RETURN(x, b_.Reshape(x, dims));
    return b_.Transpose(x, order);
  }

  absl::StatusOr<Value> Conjugate(Value x) {
    ASSIGN_OR_RETURN(Value real, b_.Unary(Opcode::kReal, x));
    ASSIGN_OR_RETURN(Value imaginary, b_.Unary(Opcode::kImag, x));
    ASSIGN_OR_RETURN(imaginary, b_.Unary(Opcode::kNegate, imaginary));
    return b_.Binary(Opcode::kComplex, real, imaginary);
  }

 private:
  // Contracts dimension d of x with the rows of the matrix, whose columns become the last dimension.
  absl::StatusOr<Value> Product(Value x, int64_t d, Value matrix) {
    DotDimensions dims;
    dims.lhs_contracting = {d};
    dims.rhs_contracting = {0};
    return b_.Dot(x, matrix, std::move(dims), type_);
  }

  absl::StatusOr<Value> Scale(Value x, double factor) {
    ASSIGN_OR_RETURN(Value f, Fill(b_, type_, factor, x->shape().dimensions()));
    return b_.Binary(Opcode::kMultiply, x, f);
  }

  absl::StatusOr<Value> Number(PrimitiveType type, int64_t n, absl::Span<const int64_t> dims) {
    ASSIGN_OR_RETURN(Value v, b_.Constant(Literal::ScalarInt(type, n)));
    return b_.BroadcastInDim(v, dims, {});
  }

  // exp(sign i pi e / half) for the exponents e, numbers from 0 to 2 half.
  absl::StatusOr<Value> RootsAt(Value exponents, int64_t half, int sign) {
    const DimVector dims = exponents->shape().dimensions();
    const PrimitiveType part = ComplexPart(type_);
    // Angles as precise as the result, and no larger than a half turn.
    const PrimitiveType angle_type = part == PrimitiveType::kF32 && half > kExactInF32 ? PrimitiveType::kF64 : part;
    ASSIGN_OR_RETURN(Value halves, Number(PrimitiveType::kS64, half, dims));
    ASSIGN_OR_RETURN(Value all, Number(PrimitiveType::kS64, 2 * half, dims));
    ASSIGN_OR_RETURN(Value is_large, b_.Compare(exponents, halves, ComparisonDirection::kGt));
    ASSIGN_OR_RETURN(Value below, b_.Binary(Opcode::kSubtract, exponents, all));
    ASSIGN_OR_RETURN(exponents, b_.Select(is_large, below, exponents));
    ASSIGN_OR_RETURN(Value angle, b_.Convert(exponents, angle_type));
    ASSIGN_OR_RETURN(Value step, Fill(b_, angle_type, sign * std::numbers::pi / static_cast<double>(half), dims));
    ASSIGN_OR_RETURN(angle, b_.Binary(Opcode::kMultiply, angle, step));
    ASSIGN_OR_RETURN(Value cosine, b_.Unary(Opcode::kCos, angle));
    ASSIGN_OR_RETURN(Value sine, b_.Unary(Opcode::kSin, angle));
    ASSIGN_OR_RETURN(cosine, b_.Convert(cosine, part));
    ASSIGN_OR_RETURN(sine, b_.Convert(sine, part));
    return b_.Binary(Opcode::kComplex, cosine, sine);
  }

  // r[j, k] = exp(sign 2 pi i j k / n).
  absl::StatusOr<Value> Roots(int64_t rows, int64_t columns, int64_t n, int sign) {
    const Shape shape(PrimitiveType::kS64, {rows, columns});
    ASSIGN_OR_RETURN(Value j, b_.Iota(shape, 0));
    ASSIGN_OR_RETURN(Value k, b_.Iota(shape, 1));
    ASSIGN_OR_RETURN(Value e, b_.Binary(Opcode::kMultiply, j, k));
    ASSIGN_OR_RETURN(Value period, Number(PrimitiveType::kS64, n, shape.dimensions()));
    ASSIGN_OR_RETURN(e, b_.Binary(Opcode::kRemainder, e, period));
    ASSIGN_OR_RETURN(Value two, Number(PrimitiveType::kS64, 2, shape.dimensions()));
    ASSIGN_OR_RETURN(e, b_.Binary(Opcode::kMultiply, e, two));
    return RootsAt(e, n, sign);
  }

  // c[j] = exp(sign pi i j j / n) for the numbers j.
  absl::StatusOr<Value> Chirp(Value j, int64_t n, int sign) {
    ASSIGN_OR_RETURN(Value e, b_.Binary(Opcode::kMultiply, j, j));
    ASSIGN_OR_RETURN(Value period, Number(PrimitiveType::kS64, 2 * n, j->shape().dimensions()));
    ASSIGN_OR_RETURN(e, b_.Binary(Opcode::kRemainder, e, period));
    return RootsAt(e, n, sign);
  }

  // With 2 j k = j j + k k - (k - j)^2: y[k] = c[k] sum over j of (x[j] c[j]) conj(c)[k - j], a convolution, which is
  // computed in the length of a power of two.
  absl::StatusOr<Value> Convolution(Value x, int sign) {
    const int64_t rows = x->shape().dimensions(0), n = x->shape().dimensions(1);
    const int64_t m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
    ASSIGN_OR_RETURN(Value j, b_.Iota(Shape(PrimitiveType::kS64, {n}), 0));
    ASSIGN_OR_RETURN(Value chirp, Chirp(j, n, sign));
    ASSIGN_OR_RETURN(Value chirps, b_.BroadcastInDim(chirp, {rows, n}, {1}));
    ASSIGN_OR_RETURN(x, b_.Binary(Opcode::kMultiply, x, chirps));
    ASSIGN_OR_RETURN(Value zero, b_.Constant(Literal::Scalar(type_, 0)));
    ASSIGN_OR_RETURN(x, b_.Pad(x, zero, {{0, 0, 0}, {0, m - n, 0}}));
    // The other factor, at the positions -n + 1 to n - 1 of a circle of m.
    ASSIGN_OR_RETURN(Value i, b_.Iota(Shape(PrimitiveType::kS64, {1, m}), 1));
    ASSIGN_OR_RETURN(Value length, Number(PrimitiveType::kS64, m, {1, m}));
    ASSIGN_OR_RETURN(Value backwards, b_.Binary(Opcode::kSubtract, length, i));
    ASSIGN_OR_RETURN(Value distance, b_.Binary(Opcode::kMinimum, i, backwards));
    ASSIGN_OR_RETURN(Value other, Chirp(distance, n, -sign));
    ASSIGN_OR_RETURN(Value limit, Number(PrimitiveType::kS64, n, {1, m}));
    ASSIGN_OR_RETURN(Value inside, b_.Compare(distance, limit, ComparisonDirection::kLt));
    ASSIGN_OR_RETURN(Value zeros, b_.BroadcastInDim(zero, {1, m}, {}));
    ASSIGN_OR_RETURN(other, b_.Select(inside, other, zeros));
    ASSIGN_OR_RETURN(x, TransformRows(x, -1));
    ASSIGN_OR_RETURN(other, TransformRows(other, -1));
    ASSIGN_OR_RETURN(other, b_.Reshape(other, {m}));
    ASSIGN_OR_RETURN(other, b_.BroadcastInDim(other, {rows, m}, {1}));
    ASSIGN_OR_RETURN(x, b_.Binary(Opcode::kMultiply, x, other));
    ASSIGN_OR_RETURN(x, TransformRows(x, 1));
    ASSIGN_OR_RETURN(x, b_.Slice(x, {{0, rows, 1}, {0, n, 1}}));
    ASSIGN_OR_RETURN(x, b_.Binary(Opcode::kMultiply, x, chirps));
    return Scale(x, 1.0 / static_cast<double>(m));
  }

  Builder& b_;
  const PrimitiveType type_;
};

// The frequencies past the middle are the conjugates of those before it, in reverse.
absl::StatusOr<Value> RestoreFullSpectrum(Builder& b, FftBuilder& fft, Value x, int64_t n) {
  const int64_t d = x->shape().rank() - 1, more = n - x->shape().dimensions(d);
  if (more <= 0) return x;
  SliceConfig slices;
  for (const int64_t size : x->shape().dimensions()) slices.push_back({0, size, 1});
  slices.back() = {1, 1 + more, 1};
  ASSIGN_OR_RETURN(Value rest, b.Slice(x, std::move(slices)));
  ASSIGN_OR_RETURN(rest, fft.Conjugate(rest));
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{d});
  ASSIGN_OR_RETURN(rest, b.Op(Opcode::kReverse, {rest}, std::move(attrs)));
  return b.Concatenate({x, rest}, d);
}

absl::StatusOr<Value> Expand(Builder& b, const Instruction& i, Value x) {
  const FftType kind = i.attrs().GetEnum<FftType>(AttrId::kFftType);
  const Ints& lengths = i.attrs().GetInts(AttrId::kFftLength);
  const PrimitiveType t = x->shape().element_type();
  FftBuilder fft(b, IsComplex(t) ? t : ComplexOf(t));
  const int64_t last = x->shape().rank() - 1, first = x->shape().rank() - static_cast<int64_t>(lengths.size());
  if (kind == FftType::kRfft) {
    ASSIGN_OR_RETURN(x, b.Convert(x, ComplexOf(t)));
    ASSIGN_OR_RETURN(x, fft.TransformAlong(x, last, false));
    SliceConfig slices;
    for (const int64_t size : x->shape().dimensions()) slices.push_back({0, size, 1});
    slices.back().limit = i.shape().dimensions(last);
    ASSIGN_OR_RETURN(x, b.Slice(x, std::move(slices)));
  }
  const bool inverse = kind == FftType::kIfft || kind == FftType::kIrfft;
  const bool is_real = kind == FftType::kRfft || kind == FftType::kIrfft;
  for (int64_t d = first; d <= (is_real ? last - 1 : last); ++d) {
    ASSIGN_OR_RETURN(x, fft.TransformAlong(x, d, inverse));
  }
  if (kind == FftType::kIrfft) {
    ASSIGN_OR_RETURN(x, RestoreFullSpectrum(b, fft, x, lengths.back()));
    ASSIGN_OR_RETURN(x, fft.TransformAlong(x, last, true));
    return b.Unary(Opcode::kReal, x);
  }
  return x;
}

}  // namespace

absl::StatusOr<bool> ExpandFft::Run(Module* module) {
  auto matches = [](const Instruction& i) { return i.Is(Opcode::kFft) && i.shape().num_elements() != 0; };
  return ReplaceEach(module, "transform", matches,
                     [](Builder& b, const Instruction& i, std::vector<Value> x) { return Expand(b, i, x[0]); });
}

}  // namespace backplane::hip
