#include "sdk/engine/kernels/matmul.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/engine/kernels/bf16_products.h"
#include "sdk/engine/kernels/scalar_access.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

using ::testing::HasSubstr;
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

// Small whole numbers: every sum is exact in every type, so all kernels must agree to the bit.
void FillWhole(Buffer& buffer, ElementType type, std::mt19937& rng) {
  const int64_t count = buffer.bytes / ElementBytes(type);
  for (int64_t i = 0; i < count; ++i) {
    const bool is_signed = type != ElementType::kPred && !(type >= ElementType::kU8 && type <= ElementType::kU64);
    const double re = static_cast<double>(rng() % 4) - (is_signed ? 2 : 0), im = static_cast<double>(rng() % 3) - 1;
    if (IsComplex(type)) {
      StoreScalar(buffer.data, i, type, Complex(re, im));
    } else {
      StoreScalar(buffer.data, i, type, re);
    }
  }
}

int64_t Extent(std::initializer_list<std::pair<int64_t, int64_t>> size_and_stride) {
  int64_t last = 0;
  for (auto [size, stride] : size_and_stride) last += (size - 1) * stride;
  return last + 1;
}

int64_t BatchExtent(const MatmulProblem& p, const absl::InlinedVector<int64_t, 4>& strides) {
  int64_t last = 0;
  for (size_t i = 0; i < p.batch.size(); ++i) last += (p.batch[i] - 1) * strides[i];
  return last;
}

struct Sizes {
  int64_t lhs, rhs, out;
};
Sizes ElementsOf(const MatmulProblem& p) {
  return {Extent({{p.m, p.lhs_m_stride}, {p.k, p.lhs_k_stride}}) + BatchExtent(p, p.lhs_batch_strides),
          Extent({{p.k, p.rhs_k_stride}, {p.n, p.rhs_n_stride}}) + BatchExtent(p, p.rhs_batch_strides),
          Extent({{p.m, p.out_m_stride}, {p.n, p.out_n_stride}}) + BatchExtent(p, p.out_batch_strides)};
}

// Runs kernel `only` and the reference; false if the kernel refuses.
bool Check(const MatmulProblem& p, const char* only, int threads = 3) {
  MatmulOptions options;
  options.num_threads = threads;
  options.only = only;
  auto plan = PlanMatmul(p, options);
  if (!plan.ok()) {
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kUnimplemented) << plan.status();
    return false;
  }
  options.only = "reference";
  auto reference = PlanMatmul(p, options);
  EXPECT_TRUE(reference.ok());
  const Sizes sizes = ElementsOf(p);
  std::mt19937 rng(7);
  Buffer lhs(sizes.lhs * ElementBytes(p.lhs_type)), rhs(sizes.rhs * ElementBytes(p.rhs_type));
  Buffer got(sizes.out * ElementBytes(p.out_type)), want(sizes.out * ElementBytes(p.out_type));
  FillWhole(lhs, p.lhs_type, rng);
  FillWhole(rhs, p.rhs_type, rng);
  Buffer scratch((*plan)->scratch_bytes());
  const void* right = rhs.data;
  Buffer packed((*plan)->packed_rhs_bytes());
  if ((*plan)->packed_rhs_bytes() > 0) {
    EXPECT_TRUE((*plan)->PrepareRhs(rhs.data, packed.data).ok());
    right = packed.data;
  }
  struct Count {
    std::atomic<int64_t> rows{0};
  } count;
  Epilogue epilogue;
  epilogue.context = &count;
  epilogue.run = [](void* c, int64_t, int64_t begin, int64_t end) { static_cast<Count*>(c)->rows += end - begin; };
  ThreadPool* pool = threads > 1 ? &Threads() : nullptr;
  absl::Status s = (*plan)->Execute(lhs.data, right, got.data, scratch.data, pool, &epilogue);
  EXPECT_TRUE(s.ok()) << s;
  int64_t rows = p.m;
  for (int64_t b : p.batch) rows *= b;
  EXPECT_EQ(count.rows.load(), p.n == 0 || rows == 0 ? count.rows.load() : rows) << only << " " << p.ToString();
  EXPECT_TRUE((*reference)->Execute(lhs.data, rhs.data, want.data, nullptr, nullptr).ok());
  if (std::memcmp(got.data, want.data, got.bytes) != 0) {
    // -0 and 0 differ in bits but not in value.
    for (int64_t i = 0; i < sizes.out; ++i) {
      const Complex a = LoadScalar<Complex>(got.data, i, p.out_type), b = LoadScalar<Complex>(want.data, i, p.out_type);
      if (a != b && !(std::isnan(a.real()) && std::isnan(b.real()))) {
        ADD_FAILURE() << only << " as " << (*plan)->name() << " " << p.ToString() << " threads " << threads
                      << ": element " << i << " is " << a << ", expected " << b;
        break;
      }
    }
  }
  return true;
}

const char* const kKernels[] = {"small_complex", "gemv",         "small",  "onednn_packed",
                                "onednn_plain",  "onednn_sgemm", "panels", "blocked"};

TEST(Matmul, AllKernelsAllTransposesF32) {
  int accepted = 0;
  for (const char* only : kKernels) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                           {8, 8, 8},
                           {17, 33, 5},
                           {64, 64, 64},
                           {1, 300, 130},
                           {257, 3, 99},
                           {100, 130, 300},
                           {300, 70, 513},
                           {4, 512, 64},
                           {2, 2000, 50},
                           {130, 129, 0},
                           {0, 3, 4}}) {
      for (int t = 0; t < 4; ++t) {
        accepted += Check(MatmulProblem::Dense(ElementType::kF32, m, n, k, t & 1, t & 2), only);
        accepted += Check(MatmulProblem::Dense(ElementType::kF32, m, n, k, t & 1, t & 2), only, 1);
      }
    }
  }
  EXPECT_GT(accepted, 200);
}

TEST(Matmul, ConstantRhsIsPackedOnce) {
  for (const char* only : {"onednn_packed", "panels", "blocked", "small"}) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{17, 33, 5}, {100, 130, 300}, {7, 500, 260}}) {
      for (ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kF64}) {
        MatmulProblem p = MatmulProblem::Dense(type, m, n, k);
        p.rhs_is_constant = true;
        Check(p, only);
        p = MatmulProblem::Dense(type, m, n, k, false, true);
        p.rhs_is_constant = true;
        Check(p, only, 1);
        p.batch = {3};
        p.lhs_batch_strides = {m * k};
        p.rhs_batch_strides = {n * k};
        p.out_batch_strides = {m * n};
        Check(p, only);
      }
    }
  }
}

TEST(Matmul, EveryTypePair) {
  std::vector<ElementType> types;
  for (int t = 0; t <= static_cast<int>(ElementType::kC128); ++t) types.push_back(static_cast<ElementType>(t));
  int accepted = 0;
  for (const char* only : kKernels) {
    for (ElementType type : types) {
      for (auto [m, n, k] : {std::array<int64_t, 3>{5, 7, 9}, {60, 90, 70}, {1, 200, 64}, {150, 2, 40}}) {
        for (int t = 0; t < 4; ++t) {
          MatmulProblem p = MatmulProblem::Dense(type, m, n, k, t & 1, t & 2);
          accepted += Check(p, only);
          if (type == ElementType::kBF16 || type == ElementType::kF16) {
            p.out_type = ElementType::kF32;
            accepted += Check(p, only);
          }
          if (type == ElementType::kS8 || type == ElementType::kU8) {
            p.out_type = ElementType::kS32;
            accepted += Check(p, only);
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 500);
  MatmulProblem mixed = MatmulProblem::Dense(ElementType::kF32, 20, 30, 40);
  mixed.lhs_type = ElementType::kBF16;
  EXPECT_TRUE(Check(mixed, "blocked"));
  mixed = MatmulProblem::Dense(ElementType::kS32, 20, 30, 40);
  mixed.lhs_type = ElementType::kU8;
  mixed.rhs_type = ElementType::kS8;
  EXPECT_TRUE(Check(mixed, "onednn_packed") || HostSimdLevel() < SimdLevel::kAvx512);
}

TEST(Matmul, BatchesAndOddStrides) {
  for (const char* only : kKernels) {
    for (ElementType type :
         {ElementType::kF32, ElementType::kBF16, ElementType::kF64, ElementType::kS16, ElementType::kC64}) {
      for (int64_t batch : {2, 9}) {
        MatmulProblem p = MatmulProblem::Dense(type, 40, 50, 60);
        p.batch = {batch, 2};
        p.lhs_batch_strides = {40 * 60 * 2, 40 * 60};
        p.rhs_batch_strides = {60 * 50 * 2, 60 * 50};
        p.out_batch_strides = {40 * 50 * 2, 40 * 50};
        Check(p, only);
        p.rhs_batch_strides = {0, 0};  // one right operand for all: rows
        Check(p, only);
        p.rhs_batch_strides = {60 * 50, 0};
        Check(p, only);
        // Heads between the batch and the rows, as attention has them.
        p = MatmulProblem::Dense(type, 40, 50, 60);
        p.batch = {batch, 4};
        p.lhs_m_stride = 60 * 4;
        p.lhs_batch_strides = {40 * 60 * 4, 60};
        p.rhs_k_stride = 1;
        p.rhs_n_stride = 60 * 4;
        p.rhs_batch_strides = {50 * 60 * 4, 60};
        p.out_batch_strides = {40 * 50 * 4, 40 * 50};
        Check(p, only);
      }
      // Contiguous nowhere.
      MatmulProblem p = MatmulProblem::Dense(type, 30, 20, 10);
      p.lhs_m_stride = 23;
      p.lhs_k_stride = 2;
      p.rhs_k_stride = 3;
      p.rhs_n_stride = 31;
      p.out_m_stride = 2;
      p.out_n_stride = 61;
      const bool accepted = Check(p, only);
      EXPECT_TRUE(accepted || std::string(only) != "blocked");
    }
  }
  MatmulProblem vectors = MatmulProblem::Dense(ElementType::kF32, 1, 300, 64, false, true);
  vectors.batch = {7};
  vectors.lhs_batch_strides = {64};
  vectors.rhs_batch_strides = {300 * 64};
  vectors.out_batch_strides = {300};
  EXPECT_TRUE(Check(vectors, "gemv"));
  std::swap(vectors.rhs_k_stride, vectors.rhs_n_stride);
  vectors.rhs_k_stride = 300;
  vectors.rhs_n_stride = 1;
  EXPECT_TRUE(Check(vectors, "gemv"));
  vectors.lhs_k_stride = 7;  // a column of something
  vectors.lhs_batch_strides = {1};
  EXPECT_TRUE(Check(vectors, "gemv"));
}

TEST(Matmul, NarrowerHosts) {
  for (SimdLevel level : {SimdLevel::kBase, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    CapSimdLevelForTest(level);
    for (const char* only : {"gemv", "small", "panels", "blocked"}) {
      for (ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kF16, ElementType::kF64,
                               ElementType::kS8, ElementType::kS64, ElementType::kC64}) {
        for (auto [m, n, k] :
             {std::array<int64_t, 3>{5, 7, 9}, {60, 90, 70}, {3, 200, 64}, {150, 2, 40}, {61, 35, 300}}) {
          Check(MatmulProblem::Dense(type, m, n, k), only);
          Check(MatmulProblem::Dense(type, m, n, k, true, true), only);
        }
      }
    }
  }
  CapSimdLevelForTest(SimdLevel::kAvx512Bf16);
}

// More rows than a task has, more than one block of k, and columns for several groups of panels.
TEST(Matmul, PanelsOfSeveralBlocks) {
  for (ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kF64}) {
    EXPECT_TRUE(Check(MatmulProblem::Dense(type, 270, 533, 400), "panels"));
    EXPECT_TRUE(Check(MatmulProblem::Dense(type, 270, 300, 400, true, true), "panels", 1));
    MatmulProblem p = MatmulProblem::Dense(type, 270, 150, 400);
    p.rhs_is_constant = true;
    EXPECT_TRUE(Check(p, "panels"));
    p.lhs_m_stride = 1024;  // rows that share sets of the cache
    p.out_m_stride = 1;     // a result by columns
    p.out_n_stride = 270;
    EXPECT_TRUE(Check(p, "panels"));
    p.lhs_m_stride = 400;
    p.batch = {2, 3};
    p.m = 30;
    p.lhs_batch_strides = {3 * 400 * 30, 400 * 30};
    p.rhs_batch_strides = {400 * 150, 0};
    p.out_batch_strides = {3 * 270 * 150, 270 * 150};
    EXPECT_TRUE(Check(p, "panels"));
  }
}

TEST(Matmul, Bf16InstructionsAreMeasuredOnce) {
  EXPECT_EQ(HasFastBf16Products(), HasFastBf16Products());
  CapSimdLevelForTest(SimdLevel::kAvx512);
  EXPECT_FALSE(HasFastBf16Products());
  CapSimdLevelForTest(SimdLevel::kAvx512Bf16);
}

TEST(Matmul, RoundsOnceAndPropagatesNan) {
  // 1 + 2^-9 + 2^-9 is exact in f32 and rounds once to bf16; a bf16 sum would stay at 1.
  for (const char* only : {"small", "blocked", "panels", "gemv", "onednn_packed"}) {
    MatmulProblem p = MatmulProblem::Dense(ElementType::kBF16, only == std::string("gemv") ? 1 : 8, 1024, 4);
    MatmulOptions options;
    options.only = only;
    auto plan = PlanMatmul(p, options);
    if (!plan.ok()) continue;
    std::vector<uint16_t> a(p.m * 4), b(4 * 1024, FloatToBf16(1)), c(p.m * 1024);
    for (int64_t i = 0; i < p.m; ++i) {
      a[4 * i] = FloatToBf16(1);
      for (int q = 1; q < 4; ++q) a[4 * i + q] = FloatToBf16(1.0f / 256);
    }
    b[17] = FloatToBf16(NAN);
    Buffer scratch((*plan)->scratch_bytes());
    ASSERT_TRUE((*plan)->Execute(a.data(), b.data(), c.data(), scratch.data, nullptr).ok());
    EXPECT_EQ(Bf16ToFloat(c[0]), 1 + 1.0f / 64) << only;  // 1 + 3/256 is a tie between 1+1/128 and 1+2/128: even wins
    EXPECT_TRUE(std::isnan(Bf16ToFloat(c[17]))) << only;
  }
}

TEST(Matmul, ChoosesAndExplains) {
  RefusalLog log;
  MatmulOptions options;
  auto plan = PlanMatmul(MatmulProblem::Dense(ElementType::kS16, 100, 100, 100), options, &log);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)->name(), "blocked");
  ASSERT_FALSE(log.empty());
  EXPECT_THAT(log[0], HasSubstr("gemv: "));
  EXPECT_EQ((*PlanMatmul(MatmulProblem::Dense(ElementType::kF32, 1, 1000, 1000)))->name(), "gemv");
  EXPECT_EQ((*PlanMatmul(MatmulProblem::Dense(ElementType::kF32, 8, 8, 8)))->name(), "small");
  MatmulProblem bad = MatmulProblem::Dense(ElementType::kF32, 2, 2, 2);
  bad.m = -1;
  EXPECT_EQ(PlanMatmul(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad.m = 2;
  bad.batch = {2};
  EXPECT_EQ(PlanMatmul(bad).status().code(), absl::StatusCode::kInvalidArgument);
  MatmulProblem complex_by_real = MatmulProblem::Dense(ElementType::kC64, 3, 3, 3);
  complex_by_real.rhs_type = ElementType::kF32;
  EXPECT_EQ((*PlanMatmul(complex_by_real))->name(), "reference");
}

TEST(Matmul, SameResultEveryTime) {
  MatmulProblem p = MatmulProblem::Dense(ElementType::kF32, 2, 700, 900);
  MatmulOptions options;
  options.num_threads = 3;
  auto plan = PlanMatmul(p, options);
  ASSERT_TRUE(plan.ok());
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  std::vector<float> a(p.m * p.k), b(p.k * p.n), first(p.m * p.n), again(p.m * p.n);
  for (float& x : a) x = normal(rng);
  for (float& x : b) x = normal(rng);
  Buffer scratch((*plan)->scratch_bytes());
  ASSERT_TRUE((*plan)->Execute(a.data(), b.data(), first.data(), scratch.data, &Threads()).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE((*plan)->Execute(a.data(), b.data(), again.data(), scratch.data, &Threads()).ok());
    ASSERT_EQ(std::memcmp(first.data(), again.data(), first.size() * 4), 0);
  }
}

// Prints speeds when asked to: BACKPLANE_MEASURE=1.
TEST(Matmul, Speed) {
  if (std::getenv("BACKPLANE_MEASURE") == nullptr) GTEST_SKIP() << "set BACKPLANE_MEASURE to measure";
  ThreadPool::Options pool_options;
  pool_options.num_threads = 2;
  ThreadPool pool(pool_options);
  ThreadPool::ActiveScope active(&pool);
  struct Shape {
    ElementType type;
    int64_t m, n, k;
    bool transpose_rhs, constant;
  };
  const ElementType f = ElementType::kF32, h = ElementType::kBF16, d = ElementType::kF64;
  for (const Shape& s : std::vector<Shape>{{f, 8, 8, 8},
                                           {f, 16, 16, 16},
                                           {f, 32, 32, 32},
                                           {f, 64, 64, 64},
                                           {f, 64, 64, 64, true},
                                           {f, 256, 256, 256},
                                           {f, 256, 256, 256, false, true},
                                           {f, 1024, 1024, 1024},
                                           {f, 1024, 1024, 1024, false, true},
                                           {f, 1024, 1024, 1024, true},
                                           {f, 128, 3072, 768},
                                           {f, 128, 3072, 768, false, true},
                                           {f, 8, 2048, 2048},
                                           {f, 8, 2048, 2048, true},
                                           {f, 8, 2048, 2048, false, true},
                                           {f, 3136, 64, 576},
                                           {f, 4, 2048, 2048},
                                           {f, 1, 4096, 4096},
                                           {f, 1, 4096, 4096, true},
                                           {h, 64, 64, 64},
                                           {h, 256, 256, 256},
                                           {h, 256, 256, 256, false, true},
                                           {h, 1024, 1024, 1024},
                                           {h, 1024, 1024, 1024, false, true},
                                           {h, 128, 3072, 768},
                                           {h, 8, 2048, 2048},
                                           {h, 8, 2048, 2048, true},
                                           {h, 8, 2048, 2048, false, true},
                                           {h, 1, 4096, 4096, true},
                                           {h, 1, 4096, 4096},
                                           {d, 256, 256, 256},
                                           {d, 1024, 1024, 1024},
                                           {ElementType::kF16, 512, 512, 512},
                                           {ElementType::kS32, 512, 512, 512},
                                           {ElementType::kC64, 512, 512, 512}}) {
    MatmulProblem p = MatmulProblem::Dense(s.type, s.m, s.n, s.k, false, s.transpose_rhs);
    p.rhs_is_constant = s.constant;
    std::printf("%-40s%s%s", p.ToString().c_str(), s.transpose_rhs ? " rhs^T" : "", s.constant ? " const" : "");
    const Sizes sizes = ElementsOf(p);
    Buffer lhs(sizes.lhs * ElementBytes(s.type)), rhs(sizes.rhs * ElementBytes(s.type)),
        out(sizes.out * ElementBytes(s.type));
    std::mt19937 rng(1);
    FillWhole(lhs, s.type, rng);
    FillWhole(rhs, s.type, rng);
    for (const char* only : kKernels) {
      MatmulOptions options;
      options.num_threads = 2;
      options.only = only;
      auto plan = PlanMatmul(p, options);
      if (!plan.ok()) continue;
      Buffer scratch((*plan)->scratch_bytes()), packed((*plan)->packed_rhs_bytes());
      const void* right = rhs.data;
      if (packed.bytes > 0) {
        ASSERT_TRUE((*plan)->PrepareRhs(rhs.data, packed.data).ok());
        right = packed.data;
      }
      double best = 1e30;
      const double work = 2.0 * s.m * s.n * s.k;
      const int inner = std::max(1, static_cast<int>(2e6 / work));
      for (int rep = 0; rep < std::clamp<int>(3e9 / (work * inner), 5, 200); ++rep) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < inner; ++i) (void)(*plan)->Execute(lhs.data, right, out.data, scratch.data, &pool);
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / inner);
      }
      std::printf("  %s %.2f us %.0f G", only, best * 1e6, work / best * 1e-9);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace backplane::engine
