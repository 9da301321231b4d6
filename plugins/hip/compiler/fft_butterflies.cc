#include "plugins/hip/compiler/fft_butterflies.h"

#include <algorithm>
#include <tuple>

#include "core/ops/families/fft_passes.h"

namespace backplane::hip {

using llvm::Value;
using Numbers = std::vector<FftNumber>;

Value* FftButterflies::Plus(Value* x, Value* y) {
  if (x == nullptr) return y;
  return y == nullptr ? x : b_.CreateFAdd(x, y);
}

Value* FftButterflies::Minus(Value* x, Value* y) {
  if (y == nullptr) return x;
  return x == nullptr ? b_.CreateFNeg(y) : b_.CreateFSub(x, y);
}

FftNumber FftButterflies::ApplyTwiddle(FftNumber x, FftNumber root) {
  if (forward_) return {Plus(Times(x.r, root.r), Times(x.i, root.i)), Minus(Times(x.i, root.r), Times(x.r, root.i))};
  return {Minus(Times(x.r, root.r), Times(x.i, root.i)), Plus(Times(x.r, root.i), Times(x.i, root.r))};
}

FftNumber FftButterflies::RotateByQuarter(FftNumber x) {
  if (forward_) return {x.i, Negate(x.r)};
  return {Negate(x.i), x.r};
}

Numbers FftButterflies::Transform(Numbers x) {
  switch (x.size()) {
    case 2:
      return {Add(x[0], x[1]), Subtract(x[0], x[1])};
    case 3:
      return Transform3(x);
    case 4:
      return Transform4(x);
    case 5:
      return Transform5(x);
    case 8:
      return Transform8(x);
    default:
      return TransformOdd(x);
  }
}

Numbers FftButterflies::Transform3(const Numbers& x) {
  Value *cosine = Constant(-0.5), *sine = Constant((forward_ ? -1 : 1) * 0.86602540378443864676);
  const FftNumber t1 = Add(x[1], x[2]), t2 = Subtract(x[1], x[2]);
  const FftNumber u = {Plus(x[0].r, Times(t1.r, cosine)), Plus(x[0].i, Times(t1.i, cosine))};
  const FftNumber v = {Negate(Times(t2.i, sine)), Times(t2.r, sine)};
  return {Add(x[0], t1), Add(u, v), Subtract(u, v)};
}

Numbers FftButterflies::Transform4(const Numbers& x) {
  const FftNumber t1 = Subtract(x[0], x[2]), t2 = Add(x[0], x[2]), t3 = Add(x[1], x[3]);
  const FftNumber t4 = RotateByQuarter(Subtract(x[1], x[3]));
  return {Add(t2, t3), Add(t1, t4), Subtract(t2, t3), Subtract(t1, t4)};
}

Numbers FftButterflies::Transform5(const Numbers& x) {
  const double sign = forward_ ? -1 : 1;
  Value *r1 = Constant(0.3090169943749474241), *i1 = Constant(sign * 0.95105651629515357212);
  Value *r2 = Constant(-0.8090169943749474241), *i2 = Constant(sign * 0.58778525229247312917);
  const FftNumber t1 = Add(x[1], x[4]), t4 = Subtract(x[1], x[4]), t2 = Add(x[2], x[3]), t3 = Subtract(x[2], x[3]);
  auto even = [&](Value* c1, Value* c2) -> FftNumber {
    return {Plus(Plus(x[0].r, Times(c1, t1.r)), Times(c2, t2.r)), Plus(Plus(x[0].i, Times(c1, t1.i)), Times(c2, t2.i))};
  };
  const FftNumber u = even(r1, r2), s = even(r2, r1);
  const FftNumber v = {Negate(Plus(Times(i1, t4.i), Times(i2, t3.i))), Plus(Times(i1, t4.r), Times(i2, t3.r))};
  const FftNumber t = {Negate(Minus(Times(i2, t4.i), Times(i1, t3.i))), Minus(Times(i2, t4.r), Times(i1, t3.r))};
  return {Add(Add(x[0], t1), t2), Add(u, v), Add(s, t), Subtract(s, t), Subtract(u, v)};
}

Numbers FftButterflies::Transform8(const Numbers& x) {
  Value* half = Constant(0.707106781186547524400844362104849);
  const FftNumber a1 = Add(x[1], x[5]), a5 = Subtract(x[1], x[5]), a3 = Add(x[3], x[7]);
  const FftNumber a7 = RotateByQuarter(Subtract(x[3], x[7]));
  const FftNumber b1 = Add(a1, a3), b3 = RotateByQuarter(Subtract(a1, a3)), p = Add(a5, a7), q = Subtract(a5, a7);
  FftNumber b5, b7;
  if (forward_) {
    b5 = {Times(half, Plus(p.r, p.i)), Times(half, Minus(p.i, p.r))};
    b7 = {Times(half, Minus(q.i, q.r)), Times(half, Minus(Negate(q.r), q.i))};
  } else {
    b5 = {Times(half, Minus(p.r, p.i)), Times(half, Plus(p.i, p.r))};
    b7 = {Times(half, Minus(Negate(q.r), q.i)), Times(half, Minus(q.r, q.i))};
  }
  const FftNumber a0 = Add(x[0], x[4]), a4 = Subtract(x[0], x[4]), a2 = Add(x[2], x[6]);
  const FftNumber a6 = RotateByQuarter(Subtract(x[2], x[6]));
  const FftNumber b0 = Add(a0, a2), b2 = Subtract(a0, a2), b4 = Add(a4, a6), b6 = Subtract(a4, a6);
  return {Add(b0, b1),      Add(b4, b5),      Add(b2, b3),      Add(b6, b7),
          Subtract(b0, b1), Subtract(b4, b5), Subtract(b2, b3), Subtract(b6, b7)};
}

FftNumber FftButterflies::AddAll(const Numbers& sums) {
  FftNumber total = sums[0];
  for (size_t j = 1; j < sums.size(); ++j) total = Add(total, sums[j]);
  return total;
}

std::pair<FftNumber, FftNumber> FftButterflies::AddProducts(const Numbers& sums, const Numbers& differences,
                                                            const Numbers& roots) {
  const size_t half = sums.size();
  auto part = [&](bool real) {
    auto even = [&](size_t j) { return Times(real ? sums[j].r : sums[j].i, roots[j - 1].r); };
    auto odd = [&](size_t j) { return Times(real ? differences[j - 1].r : differences[j - 1].i, roots[j - 1].i); };
    Value *a = real ? sums[0].r : sums[0].i, *c = nullptr;
    if (!real_order_) {
      for (size_t j = 1; j < half; ++j) a = Plus(a, even(j)), c = Plus(c, odd(j));
      return std::pair(a, c);
    }
    // Transforms of real lines add in blocks of four, then of two, then singly.
    auto block = [&](size_t j, size_t count) {
      Value *x = even(j), *y = odd(j);
      for (size_t k = j + 1; k < j + count; ++k) x = Plus(x, even(k)), y = Plus(y, odd(k));
      a = Plus(a, x), c = Plus(c, y);
    };
    size_t j = 1;
    for (; j < std::min<size_t>(3, half); ++j) a = Plus(a, even(j)), c = Plus(c, odd(j));
    for (; j + 3 < half; j += 4) block(j, 4);
    for (; j + 1 < half; j += 2) block(j, 2);
    for (; j < half; ++j) block(j, 1);
    return std::pair(a, c);
  };
  const auto [er, odd_r] = part(true);
  const auto [ei, odd_i] = part(false);
  const FftNumber even = {er, ei}, turned = {Negate(odd_i), odd_r};
  return forward_ ? std::pair(Subtract(even, turned), Add(even, turned))
                  : std::pair(Add(even, turned), Subtract(even, turned));
}

Numbers FftButterflies::TransformOdd(const Numbers& x) {
  const int64_t n = static_cast<int64_t>(x.size()), half = (n + 1) / 2;
  const fft::Roots unity(length_);
  Numbers sums = {x[0]}, differences, y(x.size());
  for (int64_t j = 1; j < half; ++j) {
    const FftNumber a = x[static_cast<size_t>(j)], c = x[static_cast<size_t>(n - j)];
    sums.push_back(Add(a, c));
    differences.push_back(Subtract(a, c));
  }
  y[0] = AddAll(sums);
  for (int64_t l = 1; l < half; ++l) {
    Numbers roots;
    for (int64_t j = 1; j < half; ++j) {
      const fft::Number<double> w = unity.operator()<double>(j * l % n * (length_ / n));
      roots.push_back({Constant(w.r), Constant(w.i)});
    }
    std::tie(y[static_cast<size_t>(l)], y[static_cast<size_t>(n - l)]) = AddProducts(sums, differences, roots);
  }
  return y;
}

}  // namespace backplane::hip
