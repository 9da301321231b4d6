#include "sdk/engine/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "gtest/gtest.h"
#include "sdk/engine/kernels/scalar_access.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

using Kind = AttentionStep::Kind;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ThreadPool& Threads() {
  static ThreadPool* pool = [] {
    ThreadPool::Options options;
    options.num_threads = 3;
    return new ThreadPool(options);
  }();
  return *pool;
}

// The memory of an array; every element beyond what a problem describes is NaN.
struct Array {
  ElementType type = ElementType::kF32;
  std::vector<char> bytes;
  Array(ElementType t, int64_t count) : type(t), bytes(static_cast<size_t>(count) * ElementBytes(t)) {}
  double Get(int64_t i) const { return LoadScalar<double>(bytes.data(), i, type); }
  void Set(int64_t i, double x) { StoreScalar(bytes.data(), i, type, x); }
};

// A problem with dense arrays [items, queries or keys, depth]; heads share keys in groups.
struct Case {
  AttentionProblem p;
  Array queries{ElementType::kF32, 0}, keys{ElementType::kF32, 0}, values{ElementType::kF32, 0};
  std::vector<Array> arrays;

  Case(int64_t items, int64_t queries_, int64_t keys_, int64_t depth, int64_t width, int64_t group, ElementType type,
       std::mt19937& rng, bool by_columns = false) {
    p.query_type = p.key_type = p.value_type = p.out_type = type;
    p.queries = queries_;
    p.keys = keys_;
    p.depth = depth;
    p.width = width;
    // With items inside of rows, as in [queries, heads, depth].
    p.query_stride = items * depth;
    p.key_stride = by_columns ? 1 : depth + 3;
    p.key_depth_stride = by_columns ? keys_ : 1;
    p.value_stride = by_columns ? 1 : width;
    p.value_width_stride = by_columns ? keys_ : 1;
    p.out_stride = by_columns ? 1 : items * width;
    p.out_width_stride = by_columns ? queries_ : 1;
    for (int64_t i = 0; i < items; ++i) {
      p.query_offsets.push_back(i * depth);
      p.key_offsets.push_back(i / group * keys_ * (depth + 3));
      p.value_offsets.push_back(i / group * keys_ * width);
      p.out_offsets.push_back(by_columns ? i * queries_ * width : i * width);
    }
    auto fill = [&](int64_t count) {
      Array a(type, count);
      std::uniform_real_distribution<double> d(-1, 1);
      for (int64_t i = 0; i < count; ++i) a.Set(i, d(rng));
      return a;
    };
    queries = fill(items * queries_ * depth);
    keys = fill(CeilDiv(items, group) * keys_ * (depth + 3));
    values = fill(CeilDiv(items, group) * keys_ * width);
  }

  void AddScale(float by) {
    AttentionStep s;
    s.kind = Kind::kScale;
    s.value = by;
    p.steps.push_back(s);
  }
  void AddBand(int64_t low, int64_t high, float value) {
    AttentionStep s;
    s.kind = Kind::kBand;
    s.low = low;
    s.high = high;
    s.value = value;
    p.steps.push_back(s);
  }
  // An array [queries, keys] for all items, or only [keys].
  AttentionStep& AddArray(Kind kind, ElementType type, bool by_query, std::mt19937& rng) {
    Array a(type, (by_query ? p.queries : 1) * p.keys);
    std::uniform_real_distribution<double> d(-2, 2);
    for (int64_t i = 0; i < static_cast<int64_t>(a.bytes.size() / ElementBytes(type)); ++i)
      a.Set(i, type == ElementType::kPred ? static_cast<double>(rng() % 3 != 0) : d(rng));
    AttentionStep s;
    s.kind = kind;
    s.type = type;
    s.array = arrays.size();
    s.query_stride = by_query ? p.keys : 0;
    s.key_stride = 1;
    s.offsets.assign(p.query_offsets.size(), 0);
    arrays.push_back(std::move(a));
    p.steps.push_back(std::move(s));
    return p.steps.back();
  }

  // By the definition, in f64, in the order of the separate operations.
  std::vector<double> Expected() const {
    std::vector<double> out(static_cast<size_t>(items() * p.queries * p.width));
    for (int64_t i = 0; i < items(); ++i) {
      for (int64_t q = 0; q < p.queries; ++q) {
        std::vector<double> e(static_cast<size_t>(p.keys));
        double largest = -kInfinity, sum = 0;
        for (int64_t k = 0; k < p.keys; ++k) {
          double s = 0;
          for (int64_t d = 0; d < p.depth; ++d) {
            s += queries.Get(p.query_offsets[i] + q * p.query_stride + d * p.query_depth_stride) *
                 keys.Get(p.key_offsets[i] + k * p.key_stride + d * p.key_depth_stride);
          }
          for (const AttentionStep& step : p.steps) {
            const int64_t at = q * step.query_stride + k * step.key_stride;
            if (step.kind == Kind::kScale) s *= step.value;
            if (step.kind == Kind::kAdd) s += arrays[step.array].Get(step.offsets[i] + at);
            if (step.kind == Kind::kSelect && (arrays[step.array].Get(step.offsets[i] + at) != 0) != step.keep)
              s = step.value;
            if (step.kind == Kind::kBand && (k - q < step.low || k - q > step.high)) s = step.value;
            if (step.kind == Kind::kRoundF16 && std::abs(s) > 65520) s = std::copysign(kInfinity, s);
          }
          e[k] = s;
          largest = std::isnan(s) || std::isnan(largest) ? std::nan("") : std::max(largest, s);
        }
        for (double& x : e) {
          x = std::exp(x - largest);
          if (x < std::numeric_limits<float>::min()) x = 0;
          sum += x;
        }
        for (int64_t w = 0; w < p.width; ++w) {
          double total = 0;
          for (int64_t k = 0; k < p.keys; ++k)
            total += e[k] / sum * values.Get(p.value_offsets[i] + k * p.value_stride + w * p.value_width_stride);
          out[(i * p.queries + q) * p.width + w] = total;
        }
      }
    }
    return out;
  }

  void Check(double tolerance, int threads = 3) const {
    absl::StatusOr<std::unique_ptr<AttentionPlan>> plan = PlanAttention(p, threads);
    ASSERT_TRUE(plan.ok()) << plan.status();
    Array out(p.out_type, items() * p.queries * p.width);
    std::vector<char> memory((*plan)->scratch_bytes() + 64, static_cast<char>(0xff));  // NaNs
    char* scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    std::vector<const void*> others;
    for (const Array& a : arrays) others.push_back(a.bytes.data());
    ASSERT_TRUE((*plan)
                    ->Execute(queries.bytes.data(), keys.bytes.data(), values.bytes.data(), others, out.bytes.data(),
                              scratch, threads > 1 ? &Threads() : nullptr)
                    .ok());
    const std::vector<double> expected = Expected();
    for (int64_t i = 0; i < items(); ++i) {
      for (int64_t q = 0; q < p.queries; ++q) {
        for (int64_t w = 0; w < p.width; ++w) {
          const double want = expected[(i * p.queries + q) * p.width + w];
          const double got = out.Get(p.out_offsets[i] + q * p.out_stride + w * p.out_width_stride);
          const std::string where = absl::StrCat(p.ToString(), ": ", i, ", ", q, ", ", w);
          if (!std::isfinite(want)) {
            ASSERT_EQ(std::isnan(want), std::isnan(got)) << where;
            if (std::isinf(want)) {
              ASSERT_EQ(want, got) << where;
            }
          } else {
            ASSERT_NEAR(want, got, tolerance * std::max(1.0, std::abs(want))) << where;
          }
        }
      }
    }
  }
  int64_t items() const { return static_cast<int64_t>(p.query_offsets.size()); }
};

class AttentionTest : public ::testing::TestWithParam<SimdLevel> {
 protected:
  void SetUp() override { CapSimdLevelForTest(GetParam()); }
  void TearDown() override { CapSimdLevelForTest(SimdLevel::kAvx512Bf16); }
  std::mt19937 rng_{7};
};

INSTANTIATE_TEST_SUITE_P(Levels, AttentionTest,
                         ::testing::Values(SimdLevel::kBase, SimdLevel::kAvx2, SimdLevel::kAvx512));

TEST_P(AttentionTest, ComputesManySizes) {
  for (int n = 0; n < 60; ++n) {
    auto pick = [&](int64_t most) { return static_cast<int64_t>(rng_() % most) + 1; };
    const int64_t group = pick(3);
    const int64_t items = group * pick(3), queries = pick(80), keys = pick(300), depth = pick(40), width = pick(40);
    const ElementType type = n % 3 == 0 ? ElementType::kBF16 : n % 3 == 1 ? ElementType::kF16 : ElementType::kF32;
    Case c(items, queries, keys, depth, width, group, type, rng_, n % 4 == 0);
    c.AddScale(0.3f);
    if (n % 2 == 0) c.AddBand(-static_cast<int64_t>(rng_() % 300), static_cast<int64_t>(rng_() % 100), -1e9f);
    if (n % 5 == 0) c.AddArray(Kind::kAdd, ElementType::kBF16, n % 2 == 0, rng_);
    if (n % 7 == 0) c.AddArray(Kind::kSelect, ElementType::kPred, n % 3 == 0, rng_).value = -1e9f;
    if (n % 6 == 0) c.AddBand(-5, 90, -1e9f);
    c.Check(type == ElementType::kBF16 ? 1e-2 : type == ElementType::kF16 ? 1e-3 : 2e-6, n % 2 == 0 ? 3 : 1);
  }
}

TEST_P(AttentionTest, KeepsWhatIsNotFinite) {
  const double special[] = {kInfinity, -kInfinity, std::nan(""), 3e38, -3e38};
  for (int n = 0; n < 60; ++n) {
    Case c(2, 40, 200, 8, 9, 1, ElementType::kF32, rng_);
    // One special element in the queries, the keys or the values; hidden by the mask for some queries or for all.
    Array& a = n % 3 == 0 ? c.values : n % 3 == 1 ? c.keys : c.queries;
    a.Set(static_cast<int64_t>(rng_() % (a.bytes.size() / 4)), special[n % 5]);
    if (n % 2 == 0) c.AddBand(-1000, 100 - static_cast<int64_t>(rng_() % 150), n % 4 == 0 ? -INFINITY : -1e9f);
    c.Check(1e-5);
  }
}

TEST_P(AttentionTest, GivesFullyMaskedRowsTheirValues) {
  for (float masked : {-INFINITY, -1e9f, -3e38f}) {
    Case c(1, 70, 130, 8, 8, 1, ElementType::kF32, rng_);
    c.AddBand(-1000, -20, masked);  // the first 20 queries see nothing: NaN, or the mean of all values
    c.Check(1e-5);
    Case array(1, 33, 130, 8, 8, 1, ElementType::kF32, rng_);
    AttentionStep& s = array.AddArray(Kind::kSelect, ElementType::kPred, true, rng_);
    s.value = masked;
    s.keep = false;
    for (int64_t k = 0; k < 130; ++k) array.arrays[0].Set(5 * 130 + k, 1);
    array.Check(1e-5);
  }
}

// What a mask hides has weight if it is not far below the scores.
TEST_P(AttentionTest, CountsHiddenKeysThatHaveWeight) {
  for (float masked : {-1.0f, 0.0f, 2.0f, -50.0f}) {
    Case c(1, 64, 256, 8, 8, 1, ElementType::kF32, rng_);
    c.AddBand(-1000, 0, masked);
    c.Check(1e-5);
  }
  // Terms after the mask make hidden keys visible again.
  Case c(1, 64, 256, 8, 8, 1, ElementType::kF32, rng_);
  c.AddBand(-1000, 0, -1e9f);
  AttentionStep& s = c.AddArray(Kind::kAdd, ElementType::kF32, false, rng_);
  for (int64_t k = 200; k < 256; ++k) c.arrays[s.array].Set(k, 1e9);
  c.Check(1e-5);
}

TEST_P(AttentionTest, RoundsScoresToF16) {
  Case c(1, 8, 40, 4, 4, 1, ElementType::kF32, rng_);
  c.queries.Set(4 * 3, 1e5);
  c.keys.Set(7 * 4, 1);
  AttentionStep s;
  s.kind = Kind::kRoundF16;
  c.p.steps.push_back(s);
  c.Check(3e-3);
}

TEST(AttentionPlanTest, RefusesTypesAndEmptyOperands) {
  std::mt19937 rng(1);
  EXPECT_FALSE(PlanAttention(Case(1, 4, 4, 4, 4, 1, ElementType::kF64, rng).p, 1).ok());
  EXPECT_FALSE(PlanAttention(Case(1, 0, 4, 4, 4, 1, ElementType::kF32, rng).p, 1).ok());
  Case terms(1, 4, 4, 4, 4, 1, ElementType::kF32, rng);
  terms.AddArray(Kind::kAdd, ElementType::kF64, true, rng);
  EXPECT_FALSE(PlanAttention(terms.p, 1).ok());
}

}  // namespace
}  // namespace backplane::engine
