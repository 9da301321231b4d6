#include "plugins/hip/compiler/legalize_ffts.h"

#include <bit>
#include <numbers>
#include <utility>
#include <vector>

#include "core/ir/builder.h"
#include "core/passes/loop_builder.h"
#include "core/passes/replace_each.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/fft_stages.h"

namespace backplane::hip {
namespace {

class FftBuilder {
 public:
  // `type`: complex.
  FftBuilder(Builder& b, PrimitiveType type) : b_(b), type_(type) {}

  // Transforms the rows of x[rows, n]. An inverse transform is divided by the length.
  absl::StatusOr<Value> TransformRows(Value x, bool inverse) {
    const int64_t n = x->shape().dimensions(1);
    if (!HasSmallFactors(n)) return Convolution(x, inverse);
    Attributes attrs;
    attrs.SetEnum(AttrId::kFftType, inverse ? FftType::kIfft : FftType::kFft);
    attrs.Set(AttrId::kFftLength, Ints{n});
    return b_.Op(Opcode::kFft, {x}, std::move(attrs));
  }

  // Transforms along one dimension.
  absl::StatusOr<Value> TransformAlong(Value x, int64_t d, bool inverse) {
    const int64_t rank = x->shape().rank(), n = x->shape().dimensions(d), elements = x->shape().num_elements();
    if (elements == 0 || n == 1) return x;
    Ints order;
    for (int64_t k = 0; k < rank; ++k) order.push_back(k);
    std::swap(order[static_cast<size_t>(d)], order.back());
    ASSIGN_OR_RETURN(x, b_.Transpose(x, order));
    const DimVector dims = x->shape().dimensions();
    ASSIGN_OR_RETURN(x, b_.Reshape(x, {elements / n, n}));
    ASSIGN_OR_RETURN(x, TransformRows(x, inverse));
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
  absl::StatusOr<Value> Scale(Value x, double factor) {
    ASSIGN_OR_RETURN(Value f, Fill(b_, x->shape().element_type(), factor, x->shape().dimensions()));
    return b_.Binary(Opcode::kMultiply, x, f);
  }

  absl::StatusOr<Value> Number(PrimitiveType type, int64_t n, absl::Span<const int64_t> dims) {
    ASSIGN_OR_RETURN(Value v, b_.Constant(Literal::ScalarInt(type, n)));
    return b_.BroadcastInDim(v, dims, {});
  }

  // exp(sign i pi e / half) for the exponents e, numbers from 0 to 2 half.
  absl::StatusOr<Value> RootsAt(Value exponents, int64_t half, int sign) {
    const DimVector dims = exponents->shape().dimensions();
    // Angles of at most a half turn are precise.
    ASSIGN_OR_RETURN(Value halves, Number(PrimitiveType::kS64, half, dims));
    ASSIGN_OR_RETURN(Value all, Number(PrimitiveType::kS64, 2 * half, dims));
    ASSIGN_OR_RETURN(Value is_large, b_.Compare(exponents, halves, ComparisonDirection::kGt));
    ASSIGN_OR_RETURN(Value below, b_.Binary(Opcode::kSubtract, exponents, all));
    ASSIGN_OR_RETURN(exponents, b_.Select(is_large, below, exponents));
    ASSIGN_OR_RETURN(Value angle, b_.Convert(exponents, PrimitiveType::kF64));
    const double step = sign * std::numbers::pi / static_cast<double>(half);
    ASSIGN_OR_RETURN(Value steps, Fill(b_, PrimitiveType::kF64, step, dims));
    ASSIGN_OR_RETURN(angle, b_.Binary(Opcode::kMultiply, angle, steps));
    ASSIGN_OR_RETURN(Value cosine, b_.Unary(Opcode::kCos, angle));
    ASSIGN_OR_RETURN(Value sine, b_.Unary(Opcode::kSin, angle));
    return b_.Binary(Opcode::kComplex, cosine, sine);
  }

  // c[j] = exp(sign pi i j j / n) for the numbers j.
  absl::StatusOr<Value> Chirp(Value j, int64_t n, int sign) {
    ASSIGN_OR_RETURN(Value e, b_.Binary(Opcode::kMultiply, j, j));
    ASSIGN_OR_RETURN(Value period, Number(PrimitiveType::kS64, 2 * n, j->shape().dimensions()));
    ASSIGN_OR_RETURN(e, b_.Binary(Opcode::kRemainder, e, period));
    return RootsAt(e, n, sign);
  }

  // The sums of a convolution are longer than those of a transform, so it is computed in c128.
  //
  // With 2 j k = j j + k k - (k - j)^2: y[k] = c[k] sum over j of (x[j] c[j]) conj(c)[k - j], a convolution, which is
  // computed in the length of a power of two.
  absl::StatusOr<Value> Convolution(Value x, bool inverse) {
    const int sign = inverse ? 1 : -1;
    ASSIGN_OR_RETURN(x, b_.Convert(x, PrimitiveType::kC128));
    const int64_t rows = x->shape().dimensions(0), n = x->shape().dimensions(1);
    const int64_t m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
    ASSIGN_OR_RETURN(Value j, b_.Iota(Shape(PrimitiveType::kS64, {n}), 0));
    ASSIGN_OR_RETURN(Value chirp, Chirp(j, n, sign));
    ASSIGN_OR_RETURN(Value chirps, b_.BroadcastInDim(chirp, {rows, n}, {1}));
    ASSIGN_OR_RETURN(x, b_.Binary(Opcode::kMultiply, x, chirps));
    ASSIGN_OR_RETURN(Value zero, b_.Constant(Literal::Scalar(PrimitiveType::kC128, 0)));
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
    ASSIGN_OR_RETURN(x, TransformRows(x, false));
    ASSIGN_OR_RETURN(other, TransformRows(other, false));
    ASSIGN_OR_RETURN(other, b_.Reshape(other, {m}));
    ASSIGN_OR_RETURN(other, b_.BroadcastInDim(other, {rows, m}, {1}));
    ASSIGN_OR_RETURN(x, b_.Binary(Opcode::kMultiply, x, other));
    ASSIGN_OR_RETURN(x, TransformRows(x, true));
    ASSIGN_OR_RETURN(x, b_.Slice(x, {{0, rows, 1}, {0, n, 1}}));
    ASSIGN_OR_RETURN(x, b_.Binary(Opcode::kMultiply, x, chirps));
    if (inverse) {
      ASSIGN_OR_RETURN(x, Scale(x, 1.0 / static_cast<double>(n)));
    }
    return b_.Convert(x, type_);
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
  FftBuilder fft(b, IsComplex(t) ? t : GetComplexType(t));
  const int64_t last = x->shape().rank() - 1, first = x->shape().rank() - static_cast<int64_t>(lengths.size());
  if (kind == FftType::kRfft) {
    ASSIGN_OR_RETURN(x, b.Convert(x, GetComplexType(t)));
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

absl::StatusOr<bool> LegalizeFfts::Run(Module* module) {
  auto matches = [](const Instruction& i) {
    return i.Is(Opcode::kFft) && i.shape().num_elements() != 0 && !DivideIntoStages(i).ok();
  };
  return ReplaceEach(module, "transform", matches,
                     [](Builder& b, const Instruction& i, std::vector<Value> x) { return Expand(b, i, x[0]); });
}

}  // namespace backplane::hip
