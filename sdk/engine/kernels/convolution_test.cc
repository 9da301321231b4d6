#include "sdk/engine/kernels/convolution.h"
#include "sdk/engine/kernels/bf16_products.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "sdk/engine/kernels/scalar_access.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

using Complex = std::complex<double>;

ThreadPool& Threads() {
  static ThreadPool* pool = [] {
    ThreadPool::Options options;
    options.num_threads = 3;
    return new ThreadPool(options);
  }();
  return *pool;
}

// Exactly as large as asked for, so that a sanitizer sees whoever reads or writes past the end.
struct Buffer {
  explicit Buffer(size_t bytes) : data(::operator new(bytes, std::align_val_t(64))), bytes(bytes) {
    std::memset(data, 0xcd, bytes);
  }
  ~Buffer() { ::operator delete(data, std::align_val_t(64)); }
  Buffer(const Buffer&) = delete;
  void* data;
  size_t bytes;
};

// Dense memory in the order of `labels`: b and f (or i and o for the kernel), digits for the spatial dims.
struct Layout {
  std::map<char, int64_t> stride;
  int64_t elements = 1;
};
Layout DenseLayout(const std::string& labels, const std::map<char, int64_t>& sizes) {
  Layout layout;
  for (auto it = labels.rbegin(); it != labels.rend(); ++it) {
    layout.stride[*it] = layout.elements;
    layout.elements *= sizes.at(*it);
  }
  return layout;
}

struct Case {
  ElementType type = ElementType::kF32;
  std::string lhs = "b01f", rhs = "01io", out = "b01f";
  int64_t batch = 2, features = 16, out_features = 32, feature_groups = 1, batch_groups = 1;
  std::vector<ConvolutionDim> dims;
  ElementType out_type = ElementType::kF32;
};

struct Built {
  ConvolutionProblem problem;
  int64_t lhs, rhs, out;  // elements
};

Built Build(const Case& c) {
  Built b;
  ConvolutionProblem& p = b.problem;
  p.lhs_type = p.rhs_type = c.type;
  p.out_type = c.out_type;
  p.batch = c.batch;
  p.in_features = c.features;
  p.kernel_in_features = c.features / c.feature_groups;
  p.out_features = c.out_features;
  p.feature_groups = c.feature_groups;
  p.batch_groups = c.batch_groups;
  std::map<char, int64_t> lhs = {{'b', c.batch}, {'f', c.features}},
                          rhs = {{'i', p.kernel_in_features}, {'o', c.out_features}},
                          out = {{'b', c.batch / c.batch_groups}, {'f', c.out_features}};
  for (size_t d = 0; d < c.dims.size(); ++d) {
    ConvolutionDim dim = c.dims[d];
    const int64_t base = (dim.input - 1) * dim.lhs_dilation + 1, window = (dim.kernel - 1) * dim.rhs_dilation + 1;
    const int64_t padded = dim.pad_low + base + dim.pad_high;
    dim.output = window > padded ? 0 : (padded - window) / dim.stride + 1;
    const char label = static_cast<char>('0' + d);
    lhs[label] = dim.input;
    rhs[label] = dim.kernel;
    out[label] = dim.output;
    p.dims.push_back(dim);
  }
  const Layout l = DenseLayout(c.lhs, lhs), r = DenseLayout(c.rhs, rhs), o = DenseLayout(c.out, out);
  p.lhs_batch_stride = l.stride.at('b');
  p.lhs_feature_stride = l.stride.at('f');
  p.rhs_in_stride = r.stride.at('i');
  p.rhs_out_stride = r.stride.at('o');
  p.out_batch_stride = o.stride.at('b');
  p.out_feature_stride = o.stride.at('f');
  for (size_t d = 0; d < p.dims.size(); ++d) {
    const char label = static_cast<char>('0' + d);
    p.dims[d].lhs_stride = l.stride.at(label);
    p.dims[d].rhs_stride = r.stride.at(label);
    p.dims[d].out_stride = o.stride.at(label);
  }
  b.lhs = l.elements;
  b.rhs = r.elements;
  b.out = o.elements;
  return b;
}

void FillWhole(Buffer& buffer, ElementType type, std::mt19937& rng) {
  const int64_t count = buffer.bytes / ElementBytes(type);
  for (int64_t i = 0; i < count; ++i) {
    const bool is_signed = type != ElementType::kPred && !(type >= ElementType::kU8 && type <= ElementType::kU64);
    const double re = static_cast<double>(rng() % 3) - (is_signed ? 1 : 0), im = static_cast<double>(rng() % 3) - 1;
    if (IsComplex(type))
      StoreScalar(buffer.data, i, type, Complex(re, im));
    else
      StoreScalar(buffer.data, i, type, re);
  }
}

std::map<std::string, int>& Accepted() {
  static auto* map = new std::map<std::string, int>();
  return *map;
}

void Check(const Case& c, int threads = 3, bool constant = false) {
  Built built = Build(c);
  built.problem.rhs_is_constant = constant;
  ConvolutionOptions options;
  options.num_threads = threads;
  options.only = "reference";
  auto reference = PlanConvolution(built.problem, options);
  ASSERT_TRUE(reference.ok()) << reference.status();
  std::mt19937 rng(1);
  Buffer lhs(built.lhs * ElementBytes(c.type)), rhs(built.rhs * ElementBytes(c.type)),
      want(built.out * ElementBytes(c.out_type));
  FillWhole(lhs, c.type, rng);
  FillWhole(rhs, c.type, rng);
  ASSERT_TRUE((*reference)->Execute(lhs.data, rhs.data, want.data, nullptr, nullptr).ok());
  for (const char* only : {"depthwise", "onednn_forward", "phases", "onednn_backward_data", "onednn_backward_weights",
                           "im2col", "thin", ""}) {
    options.only = only;
    auto plan = PlanConvolution(built.problem, options);
    if (!plan.ok()) {
      ASSERT_EQ(plan.status().code(), absl::StatusCode::kUnimplemented) << plan.status();
      ASSERT_NE(only, std::string());
      continue;
    }
    if (*only != 0) ++Accepted()[only];
    Buffer got(want.bytes), scratch((*plan)->scratch_bytes()), packed((*plan)->packed_rhs_bytes());
    const void* right = rhs.data;
    if (packed.bytes > 0) {
      ASSERT_TRUE((*plan)->PrepareRhs(rhs.data, packed.data).ok());
      right = packed.data;
    }
    const absl::Status s =
        (*plan)->Execute(lhs.data, right, got.data, scratch.data, threads > 1 ? &Threads() : nullptr);
    ASSERT_TRUE(s.ok()) << s;
    for (int64_t i = 0; i < built.out; ++i) {
      const Complex a = LoadScalar<Complex>(got.data, i, c.out_type), b = LoadScalar<Complex>(want.data, i, c.out_type);
      ASSERT_EQ(a, b) << only << " as " << (*plan)->name() << " " << built.problem.ToString() << " layouts " << c.lhs
                      << "_" << c.rhs << "->" << c.out << " threads " << threads << " element " << i;
    }
  }
}

ConvolutionDim Dim(int64_t input, int64_t kernel, int64_t stride = 1, int64_t low = 0, int64_t high = 0,
                   int64_t lhs_dilation = 1, int64_t rhs_dilation = 1, bool reversed = false) {
  ConvolutionDim d;
  d.input = input;
  d.kernel = kernel;
  d.stride = stride;
  d.pad_low = low;
  d.pad_high = high;
  d.lhs_dilation = lhs_dilation;
  d.rhs_dilation = rhs_dilation;
  d.reversed = reversed;
  return d;
}

const std::array<std::array<const char*, 3>, 4> kLayouts = {
    {{"b01f", "01io", "b01f"}, {"bf01", "oi01", "bf01"}, {"f01b", "i01o", "01bf"}, {"b10f", "o10i", "bf01"}}};

TEST(Convolution, WindowsAndLayouts) {
  for (const auto& [lhs, rhs, out] : kLayouts) {
    for (int threads : {1, 3}) {
      Case c;
      c.lhs = lhs;
      c.rhs = rhs;
      c.out = out;
      for (const auto& dims : std::vector<std::vector<ConvolutionDim>>{
               {Dim(14, 3, 1, 1, 1), Dim(12, 3, 1, 1, 1)},
               {Dim(14, 1), Dim(12, 1)},
               {Dim(15, 3, 2, 0, 1), Dim(17, 5, 3, 2, 1)},
               {Dim(14, 3, 1, 2, 2, 1, 2), Dim(12, 2, 1, 0, 3, 1, 3)},
               {Dim(14, 3, 1, -2, 1), Dim(12, 3, 2, 1, -3)},
               {Dim(9, 4, 1, 2, 2, 2), Dim(7, 3, 1, 1, 2, 3)},
               {Dim(9, 4, 1, 3, 4, 2), Dim(7, 3, 1, 2, 0, 1)},
               {Dim(9, 4, 1, 3, 3, 1, 1, true), Dim(7, 3, 1, 1, 1, 1, 1, true)},
               {Dim(9, 4, 1, 3, 3, 2, 1, true), Dim(7, 3, 1, 1, 1, 2, 1, false)},
               {Dim(14, 12, 1, 0, 0), Dim(12, 10, 1, 1, 0)},
               {Dim(15, 7, 1, 1, 1, 1, 2), Dim(15, 7, 1, 1, 0, 1, 2)},
               {Dim(5, 3, 2, 3, 3), Dim(5, 3, 1, 4, 4)},
           }) {
        c.dims = dims;
        Check(c, threads);
        Check(c, threads, true);
      }
    }
  }
  for (const char* kernel : {"onednn_forward", "phases", "onednn_backward_data", "onednn_backward_weights", "im2col"}) {
    EXPECT_GT(Accepted()[kernel], 10) << kernel;  // oneDNN takes fewer layouts on hosts without AVX-512
  }
}

TEST(Convolution, OneAndThreeDimensions) {
  Case c;
  c.lhs = "b0f";
  c.rhs = "0io";
  c.out = "b0f";
  c.dims = {Dim(40, 5, 2, 1, 3)};
  Check(c);
  c.lhs = "bf0";
  c.rhs = "oi0";
  c.out = "bf0";
  Check(c);
  c.lhs = "b012f";
  c.rhs = "012io";
  c.out = "b012f";
  c.dims = {Dim(8, 3, 1, 1, 1), Dim(7, 3, 2, 1, 1), Dim(6, 2)};
  Check(c);
  c.dims = {Dim(4, 3, 1, 1, 1, 2), Dim(5, 3, 1, 1, 1, 2), Dim(6, 2, 1, 1, 0)};
  Check(c);
  c.lhs = "bf";
  c.rhs = "io";
  c.out = "bf";
  c.dims = {};
  Check(c);
}

// Gradients of kernels that reach further than the input: oneDNN computes some of them wrongly.
TEST(Convolution, GradientsOfLargeKernels) {
  Case c;
  c.lhs = "f012b";
  c.rhs = "i012o";
  c.out = "012bf";
  c.features = 2;
  c.out_features = 16;
  AssumeFastBf16ProductsForTest(true);
  for (ElementType type : {ElementType::kF32, ElementType::kBF16}) {
    c.type = c.out_type = type;
    for (const int64_t batch : {16, 64}) {
      c.batch = batch;
      c.dims = {Dim(2, 3, 1, 4, 3, 1, 2), Dim(1, 1, 1, 0, 0, 1, 2), Dim(4, 2, 1, 0, -1, 1, 2)};
      Check(c);
      c.dims = {Dim(2, 3, 1, 4, 3, 1, 2), Dim(2, 2), Dim(4, 4)};
      Check(c);
      c.dims = {Dim(2, 2, 1, 1, 1), Dim(16, 16, 1, 1, 1), Dim(16, 16, 1, 1, 1)};
      Check(c);
      c.dims = {Dim(4, 4, 1, 2, 2), Dim(8, 8, 1, 2, 2), Dim(8, 8, 1, 2, 2)};
      Check(c);
    }
  }
  AssumeFastBf16ProductsForTest(false);
}

TEST(Convolution, Groups) {
  for (const auto& [lhs, rhs, out] : kLayouts) {
    Case c;
    c.lhs = lhs;
    c.rhs = rhs;
    c.out = out;
    c.dims = {Dim(10, 3, 1, 1, 1), Dim(9, 3, 2, 1, 0)};
    for (auto [features, out_features, groups] : std::vector<std::array<int64_t, 3>>{
             {32, 64, 2}, {32, 16, 4}, {12, 12, 12}, {40, 40, 40}, {8, 16, 8}, {6, 9, 3}}) {
      c.features = features;
      c.out_features = out_features;
      c.feature_groups = groups;
      c.batch_groups = 1;
      Check(c);
    }
    // Transposed and grouped.
    c.features = 32;
    c.out_features = 16;
    c.feature_groups = 2;
    c.dims = {Dim(5, 3, 1, 1, 1, 2), Dim(6, 4, 1, 2, 2, 2)};
    Check(c);
    c.feature_groups = 1;
    c.features = 8;
    for (auto [batch, out_features, groups] :
         std::vector<std::array<int64_t, 3>>{{32, 64, 2}, {12, 12, 12}, {48, 48, 48}, {8, 16, 8}}) {
      c.batch = batch;
      c.out_features = out_features;
      c.batch_groups = groups;
      c.dims = {Dim(10, 8, 1, 1, 1), Dim(9, 7, 1, 1, 1)};
      Check(c);
      c.dims = {Dim(10, 4, 1, 1, 1, 1, 2), Dim(9, 3, 1)};
      Check(c);
      c.dims = {Dim(10, 2, 1, 1, 1, 2, 1), Dim(9, 3, 1)};
      Check(c);
    }
  }
  EXPECT_GE(Accepted()["depthwise"], 2);
  EXPECT_GE(Accepted()["thin"], 12);
}

TEST(Convolution, Types) {
  AssumeFastBf16ProductsForTest(true);
  for (int t = 0; t <= static_cast<int>(ElementType::kC128); ++t) {
    Case c;
    c.type = c.out_type = static_cast<ElementType>(t);
    c.dims = {Dim(9, 3, 1, 1, 1), Dim(8, 3, 2, 1, 1)};
    Check(c);
    c.features = c.out_features = c.feature_groups = 20;
    Check(c);
    c = Case();
    c.type = c.out_type = static_cast<ElementType>(t);
    c.dims = {Dim(12, 10, 1, 1, 0), Dim(8, 6)};
    Check(c);
    c.dims = {Dim(6, 3, 1, 1, 1, 2), Dim(6, 3, 1, 1, 1, 2)};
    Check(c);
    if (c.type == ElementType::kBF16 || c.type == ElementType::kF16) {
      c.out_type = ElementType::kF32;
      Check(c);
    }
  }
  AssumeFastBf16ProductsForTest(false);
}

TEST(Convolution, NarrowerHosts) {
  for (SimdLevel level : {SimdLevel::kBase, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    CapSimdLevelForTest(level);
    for (ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kF16, ElementType::kF64}) {
      Case c;
      c.type = c.out_type = type;
      c.features = c.out_features = c.feature_groups = 37;
      for (int64_t stride : {1, 2}) {
        c.dims = {Dim(9, 3, 1, 1, 1), Dim(18, 3, stride, 1, 1)};
        Check(c);
        c.dims = {Dim(9, 2, 2, 1, 1), Dim(18, 5, stride, 2, 3, 1, 2)};
        Check(c);
        c.dims = {Dim(9, 2, 2, -1, 1), Dim(18, 5, stride, -2, -3, 1, 1, true)};
        Check(c);
      }
    }
  }
  CapSimdLevelForTest(SimdLevel::kAvx512Bf16);
}

// Few features in a group: of any layout, window and type the result is the f32 sum (f64 for f64) over the window's
// positions, product by product, to the bit, on every kind of host.
TEST(Convolution, ThinGroupsRoundAsWritten) {
  for (SimdLevel level : {SimdLevel::kBase, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    CapSimdLevelForTest(level);
    for (const auto& [lhs_labels, rhs_labels, out_labels] : kLayouts) {
      for (const auto& dims : std::vector<std::vector<ConvolutionDim>>{
               {Dim(6, 3, 1, 1, 1), Dim(70, 3, 1, 1, 1)},
               {Dim(40, 2, 3, 2, 1), Dim(23, 5, 2, 3, 1, 1, 2)},
               {Dim(9, 4, 1, 3, 3, 2), Dim(7, 3, 2, 4, -1, 3, 2, true)},
               {Dim(9, 3, 1, -2, 2, 1, 1, true), Dim(17, 3, 4, -3, 9, 6)},
               {Dim(5, 3, 2, 7, 6), Dim(5, 2, 1, 9, 9)},
           }) {
        for (const auto& [features, out_features, groups] :
             std::vector<std::array<int64_t, 3>>{{3, 12, 3}, {6, 9, 3}, {9, 6, 3}, {10, 10, 10}}) {
          Case c;
          c.lhs = lhs_labels;
          c.rhs = rhs_labels;
          c.out = out_labels;
          c.features = features;
          c.out_features = out_features;
          c.feature_groups = groups;
          c.dims = dims;
          const Built built = Build(c);
          const ConvolutionProblem& p = built.problem;
          std::mt19937 rng(7);
          std::normal_distribution<float> normal;
          std::vector<float> lhs(built.lhs), rhs(built.rhs), got(built.out, 7.0f);
          for (float& x : lhs) x = normal(rng);
          for (float& x : rhs) x = normal(rng);
          ConvolutionOptions options;
          options.num_threads = 3;
          options.only = "thin";
          auto plan = PlanConvolution(p, options);
          ASSERT_TRUE(plan.ok()) << plan.status();
          Buffer scratch((*plan)->scratch_bytes());
          auto input = [](const ConvolutionDim& d, int64_t output, int64_t w) -> int64_t {
            const int64_t at = output * d.stride + w * d.rhs_dilation - d.pad_low;
            return at >= 0 && at % d.lhs_dilation == 0 && at / d.lhs_dilation < d.input ? at / d.lhs_dilation : -1;
          };
          auto check = [&] {
            ASSERT_TRUE((*plan)->Execute(lhs.data(), rhs.data(), got.data(), scratch.data, &Threads()).ok());
            const ConvolutionDim &y = p.dims[0], &x = p.dims[1];
            for (int64_t b = 0; b < p.batch; ++b) {
              for (int64_t o = 0; o < p.out_features; ++o) {
                const int64_t g = o / (out_features / groups);
                for (int64_t oy = 0; oy < y.output; ++oy) {
                  for (int64_t ox = 0; ox < x.output; ++ox) {
                    float sum = 0;
                    for (int64_t wy = 0; wy < y.kernel; ++wy) {
                      for (int64_t wx = 0; wx < x.kernel; ++wx) {
                        const int64_t iy = input(y, oy, wy), ix = input(x, ox, wx);
                        if (iy < 0 || ix < 0) continue;
                        const int64_t ky = y.reversed ? y.kernel - 1 - wy : wy,
                                      kx = x.reversed ? x.kernel - 1 - wx : wx;
                        for (int64_t f = 0; f < p.kernel_in_features; ++f) {
                          const volatile float product =
                              lhs[b * p.lhs_batch_stride + (g * p.kernel_in_features + f) * p.lhs_feature_stride +
                                  iy * y.lhs_stride + ix * x.lhs_stride] *
                              rhs[o * p.rhs_out_stride + f * p.rhs_in_stride + ky * y.rhs_stride + kx * x.rhs_stride];
                          sum += product;
                        }
                      }
                    }
                    const float value =
                        got[b * p.out_batch_stride + o * p.out_feature_stride + oy * y.out_stride + ox * x.out_stride];
                    if (std::isfinite(sum)) {
                      ASSERT_EQ(value, sum) << p.ToString() << " " << b << " " << o << " " << oy << " " << ox;
                    } else {
                      ASSERT_FALSE(std::isfinite(value))
                          << p.ToString() << " " << b << " " << o << " " << oy << " " << ox;
                    }
                  }
                }
              }
            }
          };
          check();
          // An infinite weight meets no padding: there is none in the definition's sums.
          rhs[rhs.size() / 2] = std::numeric_limits<float>::infinity();
          for (float& v : rhs) v = std::isfinite(v) ? std::round(v) : v;
          for (float& v : lhs) v = std::round(v * 4) + 0.5f;
          check();
        }
      }
    }
  }
  CapSimdLevelForTest(SimdLevel::kAvx512Bf16);
}

TEST(Convolution, ExampleOfTheSpecification) {
  Case c;
  c.lhs = c.out = "b01f";
  c.batch = c.features = c.out_features = 1;
  c.dims = {Dim(4, 3, 4, 0, 0, 2), Dim(4, 3, 4, 0, 0, 2)};
  const Built built = Build(c);
  const std::vector<float> lhs = {1, 2, 5, 6, 3, 4, 7, 8, 10, 11, 14, 15, 12, 13, 16, 17}, rhs(9, 1);
  auto plan = PlanConvolution(built.problem);
  ASSERT_TRUE(plan.ok());
  std::vector<float> out(4);
  Buffer scratch((*plan)->scratch_bytes());
  ASSERT_TRUE((*plan)->Execute(lhs.data(), rhs.data(), out.data(), scratch.data, nullptr).ok());
  EXPECT_EQ(out, (std::vector<float>{10, 26, 46, 62}));
}

TEST(Convolution, InvalidProblems) {
  Case c;
  c.dims = {Dim(9, 3), Dim(9, 3)};
  ConvolutionProblem good = Build(c).problem;
  ASSERT_TRUE(PlanConvolution(good).ok());
  ConvolutionProblem bad = good;
  bad.dims[0].output = 3;
  EXPECT_EQ(PlanConvolution(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.feature_groups = 3;
  EXPECT_EQ(PlanConvolution(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.batch_groups = 5;
  EXPECT_EQ(PlanConvolution(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.dims[1].stride = 0;
  EXPECT_EQ(PlanConvolution(bad).status().code(), absl::StatusCode::kInvalidArgument);
  RefusalLog log;
  ASSERT_TRUE(PlanConvolution(good, {}, &log).ok());
  ASSERT_FALSE(log.empty());
  EXPECT_EQ(log[0].substr(0, 11), "depthwise: ");
}

TEST(Convolution, Speed) {
  if (std::getenv("BACKPLANE_MEASURE") == nullptr) GTEST_SKIP() << "set BACKPLANE_MEASURE to measure";
  ThreadPool::Options pool_options;
  pool_options.num_threads = 2;
  ThreadPool pool(pool_options);
  ThreadPool::ActiveScope active(&pool);
  auto measure = [&](const char* label, Case c) {
    const Built built = Build(c);
    std::printf("%-34s", label);
    Buffer lhs(built.lhs * ElementBytes(c.type)), rhs(built.rhs * ElementBytes(c.type)),
        out(built.out * ElementBytes(c.out_type));
    std::mt19937 rng(1);
    FillWhole(lhs, c.type, rng);
    FillWhole(rhs, c.type, rng);
    const ConvolutionProblem& p = built.problem;
    double work = 2.0 * (p.batch / p.batch_groups) * p.out_features * p.kernel_in_features;
    for (const ConvolutionDim& d : p.dims) work *= static_cast<double>(d.kernel) * d.output;
    for (const char* only : {"depthwise", "onednn_forward", "phases", "onednn_backward_data", "onednn_backward_weights",
                             "im2col", "thin", "reference"}) {
      ConvolutionOptions options;
      options.num_threads = 2;
      options.only = only;
      auto plan = PlanConvolution(built.problem, options);
      if (!plan.ok()) continue;
      Buffer scratch((*plan)->scratch_bytes());
      double best = 1e30;
      for (int rep = 0; rep < 10; ++rep) {
        const auto start = std::chrono::steady_clock::now();
        ASSERT_TRUE((*plan)->Execute(lhs.data, rhs.data, out.data, scratch.data, &pool).ok());
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      std::printf("  %s %.0f us %.0f G", only, best * 1e6, work / best * 1e-9);
    }
    std::printf("\n");
  };
  for (ElementType type : {ElementType::kF32, ElementType::kBF16}) {
    Case c;
    c.type = c.out_type = type;
    c.batch = 1;
    c.features = c.out_features = 64;
    c.dims = {Dim(56, 3, 1, 1, 1), Dim(56, 3, 1, 1, 1)};
    measure("3x3 56x56x64 NHWC", c);
    c.lhs = c.out = "bf01";
    c.rhs = "oi01";
    measure("3x3 56x56x64 NCHW", c);
    c = Case();
    c.type = c.out_type = type;
    c.batch = 1;
    c.features = c.out_features = c.feature_groups = 96;
    c.dims = {Dim(112, 3, 1, 1, 1), Dim(112, 3, 1, 1, 1)};
    measure("depthwise 3x3 112x112x96", c);
    c.features = c.feature_groups = 48;
    measure("one to two 3x3 112x112x48", c);
    c.lhs = c.out = "bf01";
    c.rhs = "oi01";
    measure("one to two 3x3 48x112x112", c);
    c = Case();
    c.type = c.out_type = type;
    c.batch = 8;
    c.features = 3;
    c.out_features = 64;
    c.dims = {Dim(224, 7, 2, 3, 3), Dim(224, 7, 2, 3, 3)};
    measure("7x7 stride 2 8x224x224x3", c);
    c.features = 256;
    c.out_features = 512;
    c.dims = {Dim(14, 3, 2, 1, 1), Dim(14, 3, 2, 1, 1)};
    measure("3x3 stride 2 8x14x14x256 to 512", c);
    c.batch = 1;
    c.features = c.out_features = 512;
    c.dims = {Dim(7, 3, 1, 1, 1), Dim(7, 3, 1, 1, 1)};
    measure("3x3 7x7x512", c);
    // Gradients of a 3x3 convolution, 8 x 28 x 28 x 128.
    c.batch = 8;
    c.features = c.out_features = 128;
    c.dims = {Dim(14, 3, 1, 1, 2, 2), Dim(14, 3, 1, 1, 2, 2)};
    measure("input gradient, stride 2, 128", c);
    c.lhs = "f01b";
    c.rhs = "i01o";
    c.out = "01bf";
    c.batch = 128;
    c.features = 8;
    c.dims = {Dim(28, 28, 1, 1, 1), Dim(28, 28, 1, 1, 1)};
    measure("kernel gradient 28x28x128", c);
    c.dims = {Dim(28, 14, 1, 0, 1, 1, 2), Dim(28, 14, 1, 0, 1, 1, 2)};
    measure("kernel gradient, stride 2", c);
    c.batch = 3;
    c.out_features = 64;
    c.dims = {Dim(224, 112, 1, 3, 2, 1, 2), Dim(224, 112, 1, 3, 2, 1, 2)};
    measure("kernel gradient of 7x7", c);
  }
}

}  // namespace
}  // namespace backplane::engine
