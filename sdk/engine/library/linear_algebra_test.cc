#include "sdk/engine/library/linear_algebra.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "sdk/engine/kernels/simd_level.h"

namespace backplane::engine {
namespace {

using C = std::complex<double>;

template <typename T>
constexpr MatrixType kType = std::is_same_v<T, float>                 ? MatrixType::kF32
                             : std::is_same_v<T, double>              ? MatrixType::kF64
                             : std::is_same_v<T, std::complex<float>> ? MatrixType::kC64
                                                                      : MatrixType::kC128;
template <typename T>
constexpr bool kIsComplex = kType<T> >= MatrixType::kC64;
template <typename T>
double Tolerance() {
  return std::is_same_v<T, float> || std::is_same_v<T, std::complex<float>> ? 1e-5 : 1e-13;
}
template <typename T>
T To(C c) {
  if constexpr (kIsComplex<T>)
    return T(static_cast<typename T::value_type>(c.real()), static_cast<typename T::value_type>(c.imag()));
  else
    return static_cast<T>(c.real());
}

// Memory that must not be written past its end.
class Workspace {
 public:
  explicit Workspace(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes_ + kGuard + 63) / 64 * 64))) {
    std::memset(data_ + bytes_, 0xA5, kGuard);
  }
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    for (size_t i = 0; i < kGuard; ++i) {
      if (data_[bytes_ + i] == std::byte{0xA5}) continue;
      ADD_FAILURE() << "byte " << i << " after " << bytes_ << " is overwritten";
      break;
    }
    std::free(data_);
  }

  std::byte* get() const { return data_; }

 private:
  static constexpr size_t kGuard = 8192;

  const size_t bytes_;
  std::byte* const data_;
};

template <typename T>
class LinearAlgebra : public ::testing::Test {
 protected:
  LinearAlgebra()
      : pool_([] {
          ThreadPool::Options o;
          o.num_threads = 3;
          return o;
        }()) {}

  C Number() {
    std::uniform_real_distribution<double> u(-1, 1);
    const double r = u(rng_);
    return {r, kIsComplex<T> ? u(rng_) : 0.0};
  }

  void CheckCholesky(int64_t batch, int64_t n, bool lower, ThreadPool* pool) {
    const size_t size = static_cast<size_t>(batch * n * n);
    std::vector<T> a(size), out(size, T(7));
    for (int64_t k = 0; k < batch; ++k) {
      std::vector<C> g(static_cast<size_t>(n * n));
      for (C& c : g) c = Number();
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          C sum = i == j ? C(static_cast<double>(n)) : C(0);
          for (int64_t q = 0; q < n; ++q)
            sum += g[static_cast<size_t>(i * n + q)] * std::conj(g[static_cast<size_t>(j * n + q)]);
          // The triangle that must not be read holds rubbish.
          a[static_cast<size_t>((k * n + i) * n + j)] =
              To<T>(lower ? (j <= i ? sum : C(1e30)) : (j >= i ? sum : C(1e30)));
        }
      }
    }
    CholeskyProblem p{kType<T>, batch, n, lower};
    const Workspace workspace(ComputeCholeskyWorkspaceBytes(p, pool == nullptr ? 1 : pool->num_threads()));
    Cholesky(p, a.data(), out.data(), workspace.get(), pool);
    for (int64_t k = 0; k < batch; ++k) {
      auto at = [&](const std::vector<T>& m, int64_t i, int64_t j) {
        return C(m[static_cast<size_t>((k * n + i) * n + j)]);
      };
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          if (lower ? j > i : j < i) {
            ASSERT_EQ(at(out, i, j), C(0));
            continue;
          }
          C sum = 0;
          for (int64_t q = 0; q <= std::min(i, j); ++q) {
            sum += lower ? at(out, i, q) * std::conj(at(out, j, q)) : std::conj(at(out, q, i)) * at(out, q, j);
          }
          ASSERT_LE(std::abs(sum - at(a, i, j)), Tolerance<T>() * 3 * static_cast<double>(n))
              << "n " << n << " at " << i << "," << j;
        }
        ASSERT_GT(at(out, i, i).real(), 0);
        ASSERT_EQ(at(out, i, i).imag(), 0);
      }
    }
  }

  void CheckSolve(const TriangularProblem& p, ThreadPool* pool) {
    const int64_t n = p.n, m = p.others;
    std::vector<T> a(static_cast<size_t>(p.batch * n * n)), b(static_cast<size_t>(p.batch * n * m)), x(b.size(), T(7));
    for (int64_t k = 0; k < p.batch; ++k) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const bool read = i == j ? !p.unit : p.lower == (i > j);
          const C v = Number();
          a[static_cast<size_t>((k * n + i) * n + j)] = To<T>(!read    ? C(1e30)
                                                              : i == j ? v / std::abs(v) * 2.0
                                                                       : v / static_cast<double>(n));
        }
      }
    }
    for (T& v : b) v = To<T>(Number());
    const Workspace workspace(ComputeTriangularWorkspaceBytes(p, pool == nullptr ? 1 : pool->num_threads()));
    TriangularSolve(p, a.data(), b.data(), x.data(), workspace.get(), pool);
    auto op = [&](int64_t k, int64_t i, int64_t j) -> C {
      if (p.transpose) std::swap(i, j);
      if (i == j && p.unit) return 1;
      if (i != j && p.lower != (i > j)) return 0;
      const C v(a[static_cast<size_t>((k * n + i) * n + j)]);
      return p.conjugate ? std::conj(v) : v;
    };
    for (int64_t k = 0; k < p.batch; ++k) {
      const int64_t rows = p.left ? n : m, columns = p.left ? m : n;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          C sum = 0;
          for (int64_t q = 0; q < n; ++q) {
            auto at = [&](int64_t r, int64_t c) { return C(x[static_cast<size_t>((k * rows + r) * columns + c)]); };
            sum += p.left ? op(k, i, q) * at(q, j) : at(i, q) * op(k, q, j);
          }
          ASSERT_LE(std::abs(sum - C(b[static_cast<size_t>((k * rows + i) * columns + j)])), Tolerance<T>())
              << "n " << n << " others " << m << " left " << p.left << " lower " << p.lower << " unit " << p.unit
              << " transpose " << p.transpose << " conjugate " << p.conjugate << " at " << i << "," << j;
        }
      }
    }
  }

  std::mt19937_64 rng_{13};
  ThreadPool pool_;
};

using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(LinearAlgebra, Types);

TYPED_TEST(LinearAlgebra, CholeskyOfEverySize) {
  for (int64_t n : {0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 34, 36, 39, 40, 47, 48, 49, 64, 65, 97, 128, 150, 200}) {
    for (bool lower : {true, false}) {
      for (int64_t batch : {1, 2, 5}) {
        if (n > 65 && batch > 2) continue;
        this->CheckCholesky(batch, n, lower, batch == 2 ? nullptr : &this->pool_);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(LinearAlgebra, NotPositiveDefiniteIsNanAlone) {
  using T = TypeParam;
  for (int64_t n : {2, 40}) {
    std::vector<T> a(static_cast<size_t>(2 * n * n)), out(a.size());
    for (int64_t i = 0; i < 2 * n; ++i) a[static_cast<size_t>(i * n + i % n)] = T(1);
    a[static_cast<size_t>((2 * n - 1) * n + n - 1)] = T(-1);  // the second matrix's last pivot
    CholeskyProblem p{kType<T>, 2, n, true};
    const Workspace workspace(ComputeCholeskyWorkspaceBytes(p, 1));
    Cholesky(p, a.data(), out.data(), workspace.get(), nullptr);
    for (int64_t i = 0; i < n * n; ++i) {
      ASSERT_EQ(out[static_cast<size_t>(i)], a[static_cast<size_t>(i)]);
      ASSERT_TRUE(std::isnan(C(out[static_cast<size_t>(n * n + i)]).real()));
    }
  }
}

TYPED_TEST(LinearAlgebra, SolvesInEveryForm) {
  for (int64_t n : {0, 1, 2, 5, 31, 32, 33, 64, 70, 130}) {
    for (int64_t m : {0, 1, 3, 4, 17, 40, 100}) {
      for (int form = 0; form < 48; ++form) {
        if (n > 64 && m > 40) continue;
        TriangularProblem p{kType<TypeParam>, 1 + form % 2 * 3, n, m};
        if (n > 64) p.batch = 1;
        p.left = form & 1, p.lower = form & 2, p.unit = form & 4;
        p.transpose = form / 16 >= 1, p.conjugate = form / 16 == 2 || (form & 8);
        this->CheckSolve(p, form % 3 ? &this->pool_ : nullptr);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(LinearAlgebra, NarrowMachines) {
  for (SimdLevel level : {SimdLevel::kBase, SimdLevel::kAvx2}) {
    CapSimdLevelForTest(level);
    this->CheckCholesky(1, 77, true, nullptr);
    TriangularProblem p{kType<TypeParam>, 1, 77, 45};
    this->CheckSolve(p, nullptr);
    p.others = 1;
    this->CheckSolve(p, nullptr);
  }
  CapSimdLevelForTest(SimdLevel::kAvx512Bf16);
}

TYPED_TEST(LinearAlgebra, DISABLED_Speed) {
  using T = TypeParam;
  ThreadPool two([] {
    ThreadPool::Options o;
    o.num_threads = 2;
    return o;
  }());
  for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &two}) {
    auto time = [&](const char* name, double estimate, auto&& fn) {
      double best = 1e30;
      for (int i = 0; i < 10; ++i) {
        const auto start = std::chrono::steady_clock::now();
        fn();
        best =
            std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
      }
      std::printf("%s, %d threads: %.3f ms (estimate %.3f)\n", name, pool ? 2 : 1, best, estimate / 1e3);
    };
    for (auto [batch, n] : {std::pair<int64_t, int64_t>{1, 512}, {1000, 16}}) {
      std::vector<T> a(static_cast<size_t>(batch * n * n), T(0.01f)), out(a.size());
      for (int64_t i = 0; i < batch * n; ++i) a[static_cast<size_t>(i * n + i % n)] = T(2);
      CholeskyProblem p{kType<T>, batch, n, true};
      const Workspace workspace(ComputeCholeskyWorkspaceBytes(p, 2));
      time(n == 512 ? "cholesky 512" : "cholesky 1000 x 16", EstimateCholeskyMicroseconds(p),
           [&] { Cholesky(p, a.data(), out.data(), workspace.get(), pool); });
    }
    for (int64_t m : {1, 512}) {
      std::vector<T> a(512 * 512, T(0.01f)), b(static_cast<size_t>(512 * m), T(1)), x(b.size());
      for (int64_t i = 0; i < 512; ++i) a[static_cast<size_t>(i * 513)] = T(2);
      TriangularProblem p{kType<T>, 1, 512, m};
      const Workspace workspace(ComputeTriangularWorkspaceBytes(p, 2));
      time(m == 1 ? "solve 512, 1 column" : "solve 512, 512 columns", EstimateTriangularMicroseconds(p),
           [&] { TriangularSolve(p, a.data(), b.data(), x.data(), workspace.get(), pool); });
    }
  }
}

}  // namespace
}  // namespace backplane::engine
