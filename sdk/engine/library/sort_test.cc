#include "sdk/engine/library/sort.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace backplane::engine {
namespace {

struct Column {
  int bytes = 4;
  std::vector<std::byte> data;
  std::byte* at(int64_t i) { return data.data() + i * bytes; }
  const std::byte* at(int64_t i) const { return data.data() + i * bytes; }
};

KeyFormat Format(KeyKind kind, int bytes, bool descending, bool brain = false) {
  KeyFormat f{kind, bytes, descending, 0};
  if (bytes == 8) f.infinity = 0x7ff0000000000000;
  if (bytes == 4) f.infinity = 0x7f800000;
  if (bytes == 2) f.infinity = brain ? 0x7f80 : 0x7c00;
  return f;
}

// -1, 0, 1: how two elements compare, worked out with ordinary arithmetic.
int Compare(const KeyFormat& f, const std::byte* x, const std::byte* y) {
  auto integer = [&](const std::byte* p) {
    uint64_t u = 0;
    std::memcpy(&u, p, static_cast<size_t>(f.bytes));
    if (f.kind == KeyKind::kSigned)
      return static_cast<__int128>(static_cast<int64_t>(u << (64 - 8 * f.bytes)) >> (64 - 8 * f.bytes));
    return static_cast<__int128>(u);
  };
  auto real = [&](const std::byte* p) -> double {
    if (f.bytes == 8) {
      double d;
      std::memcpy(&d, p, 8);
      return d;
    }
    if (f.bytes == 4) {
      float d;
      std::memcpy(&d, p, 4);
      return d;
    }
    uint16_t u;
    std::memcpy(&u, p, 2);
    if (f.infinity == 0x7f80) {
      const uint32_t wide = static_cast<uint32_t>(u) << 16;
      float d;
      std::memcpy(&d, &wide, 4);
      return d;
    }
    const int exponent = (u >> 10) & 31, mantissa = u & 1023;
    const double sign = u & 0x8000 ? -1 : 1;
    if (exponent == 31)
      return mantissa ? std::copysign(std::numeric_limits<double>::quiet_NaN(), sign) : sign * HUGE_VAL;
    return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
  };
  int c = 0;
  if (f.kind == KeyKind::kUnsigned || f.kind == KeyKind::kSigned) {
    const auto a = integer(x), b = integer(y);
    c = a < b ? -1 : a > b;
  } else {
    const double a = real(x), b = real(y);
    if (f.kind == KeyKind::kFloatTotal) {  // sign and magnitude, payloads of NaNs included
      const __int128 sign = __int128{1} << (8 * f.bytes - 1);
      auto place = [&](__int128 bits) { return bits < sign ? bits : sign - 1 - bits; };
      const __int128 l = place(integer(x)), r = place(integer(y));
      c = l < r ? -1 : l > r;
    } else if (std::isnan(a) || std::isnan(b)) {
      c = std::isnan(a) - std::isnan(b);
    } else {
      c = a < b ? -1 : a > b;
    }
  }
  return f.descending ? -c : c;
}

void Check(const SortProblem& p, const std::vector<Column>& in, ThreadPool* pool, const std::string& what,
           std::function<bool(const std::vector<Column>&, int64_t, int64_t)> less = nullptr) {
  const int64_t total = p.outer * p.n * p.inner;
  std::vector<Column> out = in;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (size_t k = 0; k < in.size(); ++k) {
    std::fill(out[k].data.begin(), out[k].data.end(), std::byte{0xcd});
    inputs.push_back(in[k].data.data());
    outputs.push_back(out[k].data.data());
  }
  const int64_t bytes = SortWorkspaceBytes(p, pool == nullptr ? 1 : pool->num_threads());
  std::unique_ptr<std::byte, void (*)(void*)> workspace(
      static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(bytes + 64) / 64 * 64)), std::free);
  Sort(p, inputs.data(), outputs.data(), workspace.get(), pool);
  if (!less) {
    less = [&](const std::vector<Column>& c, int64_t a, int64_t b) {
      for (const SortKey& k : p.keys) {
        const int order = Compare(k.format, c[k.operand].at(a) + k.byte_offset, c[k.operand].at(b) + k.byte_offset);
        if (order != 0) return order < 0;
      }
      return false;
    };
  }
  std::vector<Column> want = in;
  for (int64_t o = 0; o < p.outer; ++o) {
    for (int64_t i = 0; i < p.inner; ++i) {
      auto place = [&](int64_t j) { return (o * p.n + j) * p.inner + i; };
      std::vector<int64_t> order(static_cast<size_t>(p.n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return less(in, place(a), place(b)); });
      for (size_t k = 0; k < in.size(); ++k) {
        for (int64_t j = 0; j < p.n; ++j)
          std::memcpy(want[k].at(place(j)), in[k].at(place(order[static_cast<size_t>(j)])),
                      static_cast<size_t>(in[k].bytes));
      }
    }
  }
  for (size_t k = 0; k < in.size(); ++k) {
    for (int64_t j = 0; j < total; ++j) {
      ASSERT_EQ(std::memcmp(want[k].at(j), out[k].at(j), static_cast<size_t>(in[k].bytes)), 0)
          << what << ": operand " << k << ", element " << j;
    }
  }
}

// Few distinct values (ties), or any bits; floats with plenty of zeros of both signs, infinities and NaNs.
Column Random(int bytes, int64_t count, std::mt19937_64& rng, bool few, const KeyFormat* f = nullptr) {
  Column c{bytes, std::vector<std::byte>(static_cast<size_t>(bytes * count))};
  for (int64_t i = 0; i < count; ++i) {
    uint64_t v[2] = {rng(), rng()};
    if (few) v[0] &= 0x8000000000000007 >> (64 - 8 * std::min(bytes, 8)), v[1] = 0;
    if (few && bytes < 8 && rng() % 2) v[0] |= uint64_t{1} << (8 * bytes - 1);
    if (f != nullptr && f->infinity != 0 && rng() % 4 == 0) {
      const uint64_t sign = uint64_t{rng() % 2} << (8 * bytes - 1);
      const uint64_t special[] = {0, f->infinity, f->infinity | 1,
                                  f->infinity | (f->infinity & (~f->infinity + 1)) >> 1};
      v[0] = special[rng() % 4] | sign;
    }
    std::memcpy(c.at(i), v, static_cast<size_t>(bytes));
  }
  return c;
}

class SortTest : public ::testing::Test {
 protected:
  SortTest()
      : pool_([] {
          ThreadPool::Options o;
          o.num_threads = 3;
          return o;
        }()) {}
  std::mt19937_64 rng_{7};
  ThreadPool pool_;
};

std::vector<KeyFormat> AllFormats() {
  std::vector<KeyFormat> all;
  for (bool descending : {false, true}) {
    for (int bytes : {1, 2, 4, 8}) {
      all.push_back({KeyKind::kUnsigned, bytes, descending, 0});
      all.push_back({KeyKind::kSigned, bytes, descending, 0});
      if (bytes == 1) continue;
      for (KeyKind kind : {KeyKind::kFloatTotal, KeyKind::kFloatCanonical}) {
        all.push_back(Format(kind, bytes, descending));
        if (bytes == 2) all.push_back(Format(kind, bytes, descending, true));
      }
    }
  }
  return all;
}

TEST_F(SortTest, OneOperandEveryFormatAndLength) {
  for (const KeyFormat& f : AllFormats()) {
    for (int64_t n : {0, 1, 2, 3, 17, 255, 256, 1000, 9000}) {
      for (bool few : {false, true}) {
        for (auto [outer, inner] : {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {2, 3}, {2, 0}, {0, 4}, {1, 37}}) {
          if (n > 1000 && inner > 1) continue;
          SortProblem p{outer, n, inner, {f.bytes}, {{0, 0, f}}};
          Check(p, {Random(f.bytes, outer * n * inner, rng_, few, &f)}, few ? &pool_ : nullptr,
                absl::StrCat(static_cast<int>(f.kind), " ", f.bytes, " n ", n));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(SortTest, LargeRowsByAllThreads) {
  for (const KeyFormat& f : AllFormats()) {
    const int64_t n = 70001;
    SortProblem one{1, n, 1, {f.bytes}, {{0, 0, f}}};
    const Column c = Random(f.bytes, n, rng_, false, &f);
    Check(one, {c}, &pool_, "one operand");
    SortProblem two{1, n, 1, {f.bytes, 4}, {{0, 0, f}}};
    Check(two, {c, Random(4, n, rng_, false)}, &pool_, "two operands");
    if (HasFatalFailure()) return;
  }
}

TEST_F(SortTest, ManyValuesMoveWithOneKey) {
  for (const KeyFormat& f : AllFormats()) {
    for (int64_t n : {1, 5, 100, 300, 3000}) {
      for (auto [outer, inner] : {std::pair<int64_t, int64_t>{1, 1}, {2, 5}}) {
        const int64_t total = outer * n * inner;
        SortProblem p{outer, n, inner, {4, 1, f.bytes, 16, 8, 2}, {{2, 0, f}}};
        std::vector<Column> in;
        for (int b : p.operand_bytes) in.push_back(Random(b, total, rng_, false));
        in[2] = Random(f.bytes, total, rng_, n % 2 == 0, &f);
        Check(p, in, &pool_, "six operands");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(SortTest, UnwantedOutputsAreLeftOut) {
  const KeyFormat f = Format(KeyKind::kFloatCanonical, 4, false);
  const float keys[] = {3, 1, 2};
  const int32_t numbers[] = {0, 1, 2};
  int32_t order[3] = {};
  SortProblem p{1, 3, 1, {4, 4}, {{0, 0, f}}};
  const void* inputs[] = {keys, numbers};
  void* outputs[] = {nullptr, order};
  std::unique_ptr<std::byte, void (*)(void*)> workspace(
      static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(SortWorkspaceBytes(p, 1) + 63) / 64 * 64)),
      std::free);
  Sort(p, inputs, outputs, workspace.get(), nullptr);
  EXPECT_EQ(order[0], 1);
  EXPECT_EQ(order[1], 2);
  EXPECT_EQ(order[2], 0);
}

TEST_F(SortTest, SeveralKeys) {
  const std::vector<KeyFormat> formats = AllFormats();
  for (int round = 0; round < 150; ++round) {
    const int64_t n =
        round % 10 == 0 ? 1 + static_cast<int64_t>(rng_() % 20000) : 1 + static_cast<int64_t>(rng_() % 600);
    SortProblem p{1, n, 1, {}, {}};
    std::vector<Column> in;
    const int count = 2 + static_cast<int>(rng_() % 4);
    for (int k = 0; k < count; ++k) {
      const KeyFormat& f = formats[rng_() % formats.size()];
      p.operand_bytes.push_back(f.bytes);
      in.push_back(Random(f.bytes, n, rng_, true, &f));
      p.keys.push_back({k, 0, f});
    }
    std::shuffle(p.keys.begin(), p.keys.end(), rng_);
    Check(p, in, round % 2 ? &pool_ : nullptr, "keys");
    if (HasFatalFailure()) return;
  }
}

TEST_F(SortTest, ComplexNumbersByRealThenImaginary) {
  for (int part : {4, 8}) {
    const KeyFormat f = Format(KeyKind::kFloatCanonical, part, false);
    for (int64_t n : {3, 200, 5000}) {
      SortProblem p{2, n, 2, {2 * part}, {{0, 0, f}, {0, part, f}}};
      const Column parts = Random(part, 8 * n, rng_, true, &f);
      Check(p, {Column{2 * part, parts.data}}, &pool_, "complex");
    }
  }
}

bool ByAbsoluteValue(const void* const* lhs, const void* const* rhs) {
  const int32_t a = *static_cast<const int32_t*>(lhs[0]), b = *static_cast<const int32_t*>(rhs[0]);
  return (a & 0xffff) > (b & 0xffff);
}

bool Nonsense(const void* const* lhs, const void* const* rhs) {
  uint32_t a, b;
  std::memcpy(&a, lhs[0], 4);
  std::memcpy(&b, rhs[0], 4);
  return ((a * 2654435761u) ^ (b * 40503u)) & 1;
}

TEST_F(SortTest, AnyComparator) {
  for (int64_t n : {1, 2, 7, 8, 9, 100, 1000, 80000}) {
    for (auto [outer, inner] : {std::pair<int64_t, int64_t>{1, 1}, {2, 3}}) {
      if (n > 1000 && inner > 1) continue;
      SortProblem p{outer, n, inner, {4, 8}, {}, ByAbsoluteValue};
      const int64_t total = outer * n * inner;
      Check(p, {Random(4, total, rng_, n < 1000), Random(8, total, rng_, false)}, &pool_, "comparator",
            [](const std::vector<Column>& c, int64_t a, int64_t b) {
              const void* l[] = {c[0].at(a)};
              const void* r[] = {c[0].at(b)};
              return ByAbsoluteValue(l, r);
            });
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SortTest, AnInconsistentComparatorStillPermutes) {
  for (int64_t n : {2, 50, 3000, 70000}) {
    SortProblem p{1, n, 1, {4}, {}, Nonsense};
    Column in = Random(4, n, rng_, false), out = in;
    const void* inputs[] = {in.data.data()};
    void* outputs[] = {out.data.data()};
    std::vector<std::byte> memory(static_cast<size_t>(SortWorkspaceBytes(p, 3) + 64));
    void* start = memory.data();
    size_t space = memory.size();
    std::align(64, 1, start, space);
    Sort(p, inputs, outputs, static_cast<std::byte*>(start), &pool_);
    auto sorted = [](Column& c) {
      std::vector<uint32_t> v(c.data.size() / 4);
      std::memcpy(v.data(), c.data.data(), c.data.size());
      std::sort(v.begin(), v.end());
      return v;
    };
    EXPECT_EQ(sorted(in), sorted(out));
  }
}

// Not a limit, a figure: run with --gtest_also_run_disabled_tests.
TEST_F(SortTest, DISABLED_Speed) {
  ThreadPool pool([] {
    ThreadPool::Options o;
    o.num_threads = 2;
    return o;
  }());
  const KeyFormat f32 = Format(KeyKind::kFloatCanonical, 4, false);
  auto time = [&](const char* name, const SortProblem& p, ThreadPool* on) {
    std::vector<Column> in, out;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::normal_distribution<float> normal;
    for (int b : p.operand_bytes) {
      in.push_back(Random(b, p.outer * p.n * p.inner, rng_, false));
      if (b == 4)
        for (int64_t i = 0; i < p.outer * p.n * p.inner; ++i)
          reinterpret_cast<float*>(in.back().data.data())[i] = normal(rng_);
    }
    out = in;
    for (size_t k = 0; k < in.size(); ++k) inputs.push_back(in[k].data.data()), outputs.push_back(out[k].data.data());
    // Huge pages, as the plugin's memory pool has them.
    constexpr size_t kPage = size_t{2} << 20;
    const size_t bytes = (static_cast<size_t>(SortWorkspaceBytes(p, 2)) + kPage) / kPage * kPage;
    std::byte* workspace = static_cast<std::byte*>(std::aligned_alloc(kPage, bytes));
    madvise(workspace, bytes, MADV_HUGEPAGE);
    double best = 1e30;
    for (int i = 0; i < 10; ++i) {
      const auto start = std::chrono::steady_clock::now();
      Sort(p, inputs.data(), outputs.data(), workspace, on);
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::free(workspace);
    std::printf("%-28s %d threads %8.3f ms\n", name, on ? on->num_threads() : 1, best);
  };
  for (ThreadPool* on : {static_cast<ThreadPool*>(nullptr), &pool}) {
    time("sort 1M f32", {1, 1 << 20, 1, {4}, {{0, 0, f32}}}, on);
    time("argsort 1M f32", {1, 1 << 20, 1, {4, 4}, {{0, 0, f32}}}, on);
    time("sort 1M s64", {1, 1 << 20, 1, {8}, {{0, 0, {KeyKind::kSigned, 8}}}}, on);
    time("sort 1M f32, two keys", {1, 1 << 20, 1, {4, 4}, {{0, 0, f32}, {1, 0, f32}}}, on);
    time("sort 1024 x 1024, rows", {1024, 1024, 1, {4}, {{0, 0, f32}}}, on);
    time("sort 1024 x 1024, columns", {1, 1024, 1024, {4}, {{0, 0, f32}}}, on);
    time("sort 4096 x 200, rows", {4096, 200, 1, {4}, {{0, 0, f32}}}, on);
    time("comparator 1M f32", {1, 1 << 20, 1, {4}, {}, ByAbsoluteValue}, on);
  }
}

}  // namespace
}  // namespace backplane::engine
