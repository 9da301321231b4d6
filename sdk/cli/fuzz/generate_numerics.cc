// Recipes: products, convolutions, normalization, linear algebra, transforms, random bits.
#include <algorithm>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

using P = PrimitiveType;

constexpr int64_t kMostRows = 65;  // of a factorization: the error bound takes a multiple of the cube

}  // namespace

std::vector<Generator::Recipe> Generator::NumericRecipes() {
  return {
      {16, {Opcode::kDot}, &Generator::Dot},
      {2, {Opcode::kRaggedDot}, &Generator::RaggedDot, false, false},
      {1, {Opcode::kScaledDot}, &Generator::ScaledDot, false, false},
      {10, {Opcode::kConvolution}, &Generator::Convolution},
      {5, {Opcode::kBatchNormTraining, Opcode::kBatchNormInference, Opcode::kBatchNormGrad}, &Generator::BatchNorm},
      {3, {Opcode::kCholesky}, &Generator::Cholesky},
      {4, {Opcode::kTriangularSolve}, &Generator::TriangularSolve},
      {5, {Opcode::kFft}, &Generator::Fft},
      {3, {Opcode::kRngBitGenerator}, &Generator::RandomBits},
  };
}

// Batch, contracted and free dimensions in any order on both sides.
Value Generator::Dot(Scope& s) {
  // Narrow floats can represent few sums: few small integers, so that the result is decided.
  const bool narrow = random_.Chance(10);
  Value l = nullptr;
  if (narrow) {
    const std::vector<int64_t> sizes = {random_.Between(1, 5), random_.Between(1, 4)};
    const P narrow_type =
        random_.Pick(std::vector<P>{P::kF8E5M2, P::kF8E4M3FN, P::kF8E4M3, P::kF8E3M4, P::kF8E4M3B11FNUZ, P::kF8E5M2FNUZ,
                                    P::kF8E4M3FNUZ, P::kF6E2M3FN, P::kF6E3M2FN, P::kF4E2M1FN, P::kBF16});
    l = MakeFreshValue(s, Shape(narrow_type, sizes), Fill::kWhole);
  } else {
    l = Any(s, Kind::kNumber, 1, 4);
  }
  if (l == nullptr) return nullptr;
  const P type = l->shape().element_type();
  const std::vector<int64_t> dims = GetDims(l);
  const int64_t rank = l->shape().rank();
  DotDimensions d;
  std::vector<std::pair<int64_t, char>> right;  // its size and its kind
  for (const int64_t k : random_.Permutation(rank)) {
    const int64_t at = random_.Below(10);
    if (at < 3 && d.lhs_contracting.size() < 2) {
      d.lhs_contracting.push_back(k);
      right.emplace_back(k, 'c');
    } else if (at < 5 && rank > 1 && d.lhs_batch.size() < 2) {
      d.lhs_batch.push_back(k);
      right.emplace_back(k, 'b');
    }
  }
  if (d.lhs_contracting.empty() && random_.Chance(85)) {
    for (int64_t k = rank - 1; k >= 0 && d.lhs_contracting.empty(); --k) {
      if (std::find(d.lhs_batch.begin(), d.lhs_batch.end(), k) != d.lhs_batch.end()) continue;
      d.lhs_contracting.push_back(k);
      right.emplace_back(k, 'c');
    }
  }
  const int64_t free = random_.Between(0, 2);
  for (int64_t k = 0; k < free; ++k) {
    right.emplace_back(large_ && !thresholds_ && random_.Chance(40) ? random_.Between(8, 48) : AnySize(1, 8), 'f');
  }
  const std::vector<int64_t> order = random_.Permutation(static_cast<int64_t>(right.size()));
  std::vector<int64_t> place(right.size()), other;
  for (size_t k = 0; k < order.size(); ++k) {
    const auto& [size, what] = right[static_cast<size_t>(order[k])];
    place[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
    other.push_back(what == 'f' ? size : dims[static_cast<size_t>(size)]);
  }
  for (size_t k = 0; k < right.size(); ++k) {
    if (right[k].second == 'c') d.rhs_contracting.push_back(place[k]);
    if (right[k].second == 'b') d.rhs_batch.push_back(place[k]);
  }
  const Value r = RoundForProduct(s, Like(s, type, other)), left = RoundForProduct(s, l);
  if (r == nullptr || left == nullptr) return nullptr;
  hlo::ElementType wanted;
  if (random_.Chance(40)) {
    if (IsFloat(type) && BitWidth(type) <= 16) wanted = P::kF32;
    if (type == P::kS8 || type == P::kU8 || type == P::kS4) wanted = P::kS32;
  }
  return Add(s, hlo::DotGeneral(s.b, left, r, d, {}, wanted));
}

Value Generator::RaggedDot(Scope& s) {
  const P type = random_.Pick(std::vector<P>{P::kF32, P::kF32, P::kF64, P::kBF16, P::kS32});
  const int64_t groups = random_.Between(1, 4), k = random_.Between(1, 6), n = random_.Between(1, 6);
  Literal sizes(Shape(P::kS32, {groups}));
  int64_t m = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t size = random_.Between(0, 4);
    sizes.SetFromInt(g, size);
    m += size;
  }
  m += random_.Below(2);  // rows that belong to no group
  const int64_t which = random_.Below(3);
  // Groups of rows with one matrix each; groups of the contracted dimension with one product each; or batches.
  const Shape lhs(type, which == 0   ? std::vector<int64_t>{m, k}
                        : which == 1 ? std::vector<int64_t>{k, m}
                                     : std::vector<int64_t>{m, k, n});
  const Shape rhs(type, which == 0   ? std::vector<int64_t>{groups, k, n}
                        : which == 1 ? std::vector<int64_t>{m, n}
                                     : std::vector<int64_t>{m, n, 2});
  const Value l = RoundForProduct(s, MakeFreshValue(s, lhs)), r = RoundForProduct(s, MakeFreshValue(s, rhs));
  const Value counts = Add(s, s.b.Constant(std::move(sizes)));
  if (l == nullptr || r == nullptr || counts == nullptr) return nullptr;
  RaggedDotDimensions d;
  d.dot.lhs_contracting = {1};
  d.dot.rhs_contracting = {1};
  d.lhs_ragged = {0};
  if (which == 0) {
    d.rhs_group = {0};
  } else if (which == 1) {
    d.dot.rhs_contracting = {0};
    d.lhs_ragged = {1};
  } else {
    d.dot.lhs_batch = d.dot.rhs_batch = {0};
    d.dot.lhs_contracting = {2};
  }
  return Add(s, hlo::RaggedDot(s.b, l, r, counts, d));
}

Value Generator::ScaledDot(Scope& s) {
  const P type = random_.Pick(std::vector<P>{P::kF8E4M3FN, P::kF8E5M2, P::kBF16});
  const int64_t m = random_.Between(1, 5), blocks = random_.Between(1, 3), k = blocks * 4, n = random_.Between(1, 5);
  const P scale = P::kF8E8M0FNU;
  const Value l = MakeFreshValue(s, Shape(type, {m, k})), r = MakeFreshValue(s, Shape(type, {n, k}));
  const Value ls = MakeFreshValue(s, Shape(scale, {m, blocks}), Fill::kPositive),
              rs = MakeFreshValue(s, Shape(scale, {n, blocks}), Fill::kPositive);
  if (l == nullptr || r == nullptr || ls == nullptr || rs == nullptr) return nullptr;
  DotDimensions d;
  d.lhs_contracting = {1};
  d.rhs_contracting = {1};
  return Add(s,
             hlo::ScaledDot(s.b, l, ls, r, rs, d, {}, random_.Chance(50) ? hlo::ElementType(P::kF32) : std::nullopt));
}

// Any order of dimensions, groups, strides, positive and negative padding, both dilations, reversed windows.
Value Generator::Convolution(Scope& s) {
  const P type = random_.Pick(std::vector<P>{P::kF32, P::kF32, P::kF32,  P::kF32,  P::kF32,  P::kF32,    P::kF64,
                                             P::kF64, P::kF64, P::kBF16, P::kBF16, P::kF16,  P::kF16,    P::kS32,
                                             P::kS32, P::kS8,  P::kS8,   P::kU8,   P::kS16,  P::kU32,    P::kS64,
                                             P::kU64, P::kS4,  P::kC64,  P::kC64,  P::kC128, P::kF8E5M2, P::kF8E4M3FN});
  const int64_t spatial = random_.Between(0, 3);
  const int64_t groups = random_.Chance(35) ? random_.Between(2, 3) : 1;
  const int64_t batch_groups = groups == 1 && random_.Chance(15) ? 2 : 1;
  const int64_t in = spatial < 2 ? AnySize(1, 4) : random_.Between(1, thresholds_ ? 24 : 4);
  const int64_t out = random_.Between(1, thresholds_ ? 17 : 4) * groups * batch_groups;
  const int64_t batch = random_.Between(1, 3) * batch_groups;
  const int64_t rank = spatial + 2;
  std::vector<int64_t> x(static_cast<size_t>(rank)), w(x);
  ConvolutionDimensions d = hlo::DefaultConvolutionDimensions(spatial);
  auto shuffle = [&](int64_t& first, int64_t& second, Ints& rest) {
    if (random_.Chance(30)) return;
    const std::vector<int64_t> p = random_.Permutation(rank);
    first = p[0];
    second = p[1];
    rest.assign(p.begin() + 2, p.end());
  };
  shuffle(d.input_batch, d.input_feature, d.input_spatial);
  shuffle(d.kernel_output_feature, d.kernel_input_feature, d.kernel_spatial);
  shuffle(d.output_batch, d.output_feature, d.output_spatial);
  x[static_cast<size_t>(d.input_batch)] = batch;
  x[static_cast<size_t>(d.input_feature)] = in * groups;
  w[static_cast<size_t>(d.kernel_input_feature)] = in;
  w[static_cast<size_t>(d.kernel_output_feature)] = out;
  std::vector<int64_t> strides, left, right;
  std::vector<bool> reversed;
  hlo::PaddingPairs padding;
  for (size_t k = 0; k < static_cast<size_t>(spatial); ++k) {
    x[static_cast<size_t>(d.input_spatial[k])] = spatial < 3 ? AnySize(1, large_ ? 16 : 8) : random_.Between(1, 8);
    w[static_cast<size_t>(d.kernel_spatial[k])] = random_.Between(1, thresholds_ ? 7 : 3);
    strides.push_back(random_.Between(1, 2));
    left.push_back(random_.Chance(20) ? 2 : 1);
    right.push_back(random_.Chance(20) ? 2 : 1);
    const int64_t high = random_.Between(0, 2);
    padding.emplace_back(random_.Between(random_.Chance(10) ? -1 : 0, 2), high);
    reversed.push_back(random_.Chance(15));
  }
  const Value l = RoundForProduct(s, Like(s, type, x)), r = RoundForProduct(s, Like(s, type, w));
  if (l == nullptr || r == nullptr) return nullptr;
  hlo::ElementType wanted;
  if (IsIntegral(type) && BitWidth(type) <= 8 && random_.Chance(70)) wanted = P::kS32;
  if (IsFloat(type) && BitWidth(type) <= 16 && random_.Chance(BitWidth(type) == 8 ? 70 : 30)) wanted = P::kF32;
  return Add(s, hlo::ConvGeneralDilated(s.b, l, r, strides, padding, left, right, d, groups, batch_groups, {}, wanted,
                                        reversed));
}

Value Generator::BatchNorm(Scope& s) {
  const P type = random_.Pick(std::vector<P>{P::kF32, P::kF32, P::kF32, P::kF64, P::kF64, P::kBF16, P::kF16});
  const Value x = Like(s, type, AnyDims(1, 4));
  if (x == nullptr) return nullptr;
  const int64_t f = random_.Below(x->shape().rank());
  const Shape feature(type, {x->shape().dimensions(f)});
  const float epsilon = random_.Chance(50) ? 0.001f : 0.1f;
  auto plain = [&] { return MakeFreshValue(s, feature, Fill::kPlain); };
  auto positive = [&] { return MakeFreshValue(s, feature, Fill::kPositive); };
  switch (random_.Below(3)) {
    case 0: {
      const Value scale = plain(), offset = plain();
      if (scale == nullptr || offset == nullptr) return nullptr;
      return Add(s, hlo::BatchNormTraining(s.b, x, scale, offset, epsilon, f));
    }
    case 1: {
      const Value scale = plain(), offset = plain(), mean = plain(), variance = positive();
      if (scale == nullptr || offset == nullptr || mean == nullptr || variance == nullptr) return nullptr;
      return Add(s, hlo::BatchNormInference(s.b, x, scale, offset, mean, variance, epsilon, f));
    }
    default: {
      const Value scale = plain(), mean = plain(), variance = positive();
      const Value gradient = Like(s, type, GetDims(x));
      if (scale == nullptr || mean == nullptr || variance == nullptr || gradient == nullptr) return nullptr;
      return Add(s, hlo::BatchNormGrad(s.b, x, scale, mean, variance, gradient, epsilon, f));
    }
  }
}

Value Generator::Cholesky(Scope& s) {
  const P type = random_.Pick(std::vector<P>{P::kF32, P::kF32, P::kF64, P::kC64, P::kC128, P::kBF16});
  std::vector<int64_t> dims = AnyDims(0, 2);
  const int64_t n = std::min(random_.Between(0, 4) == 0 ? AnySize(1, large_ ? 40 : 12) : AnySize(1, 6), kMostRows);
  if (thresholds_) dims.assign(static_cast<size_t>(random_.Between(0, 1)), random_.Between(1, 4));
  dims.push_back(n);
  dims.push_back(n);
  const Value a = MakeFreshValue(s, Shape(type, dims), Fill::kDefinite);
  return a == nullptr ? nullptr : Add(s, hlo::Cholesky(s.b, a, random_.Chance(60)));
}

Value Generator::TriangularSolve(Scope& s) {
  const P type = random_.Pick(std::vector<P>{P::kF32, P::kF32, P::kF64, P::kC64, P::kC128, P::kBF16});
  std::vector<int64_t> dims = AnyDims(0, 2);
  const int64_t n = std::min(AnySize(1, 7), kMostRows), m = std::min(AnySize(1, 5), kMostRows);
  if (thresholds_) dims.assign(static_cast<size_t>(random_.Between(0, 1)), random_.Between(1, 4));
  const bool left = random_.Chance(60);
  std::vector<int64_t> rhs = dims;
  dims.push_back(n);
  dims.push_back(n);
  rhs.push_back(left ? n : m);
  rhs.push_back(left ? m : n);
  const Value a = MakeFreshValue(s, Shape(type, dims), Fill::kTriangular), b = Like(s, type, rhs);
  if (a == nullptr || b == nullptr) return nullptr;
  const auto transpose = static_cast<TriangularTranspose>(random_.Between(1, 3));
  const bool unit_diagonal = random_.Chance(25);
  const bool lower = random_.Chance(50);
  return Add(s, hlo::TriangularSolve(s.b, a, b, left, lower, unit_diagonal, transpose));
}

Value Generator::Fft(Scope& s) {
  const auto kind = static_cast<FftType>(random_.Below(4));
  const bool real_in = kind == FftType::kRfft, wide = random_.Chance(35);
  const P type = real_in ? (wide ? P::kF64 : P::kF32) : (wide ? P::kC128 : P::kC64);
  std::vector<int64_t> dims = AnyDims(1, 4);
  const int64_t rank = static_cast<int64_t>(dims.size()), count = random_.Between(1, std::min<int64_t>(rank, 3));
  for (int64_t& d : dims) d = std::max<int64_t>(d, 1);
  std::vector<int64_t> lengths(dims.end() - count, dims.end());
  if (kind == FftType::kIrfft) {
    // The input has half of the last dimension, plus one for the middle.
    const int64_t n = AnySize(1, 12);
    lengths.back() = n;
    dims.back() = n / 2 + 1;
  }
  const Value x = Like(s, type, dims);
  return x == nullptr ? nullptr : Add(s, hlo::Fft(s.b, x, kind, lengths));
}

Value Generator::RandomBits(Scope& s) {
  const bool threefry = random_.Chance(50);
  const P type = random_.Pick(std::vector<P>{P::kU32, P::kU32, P::kU64, P::kU8, P::kU16, P::kS32, P::kS64});
  const Value state = MakeFreshValue(s, Shape(P::kU64, {threefry ? 2 : random_.Between(2, 3)}), Fill::kWide);
  if (state == nullptr) return nullptr;
  return Add(s, hlo::RngBitGenerator(s.b, threefry ? RandomAlgorithm::kThreeFry : RandomAlgorithm::kPhilox, state,
                                     Shape(type, AnyDims(0, 3))));
}

}  // namespace backplane::cli::fuzz
