// Small complex products as they are written: one product after the other, each part rounded as the formula says. The
// blocked kernel, which sees a real product of twice the depth, adds real and imaginary contributions in turns, and
// where they cancel little is left in common with what the definition gives. For few numbers it is no faster either.
#include <complex>

#include "absl/strings/str_cat.h"
#include "sdk/engine/kernels/matmul_internal.h"

namespace backplane::engine {
namespace {

constexpr int64_t kMaxMultiplications = 512;

template <typename T>
class SmallComplexMatmul : public MatmulPlan {
 public:
  explicit SmallComplexMatmul(const MatmulProblem& p) : p_(p) {}
  absl::string_view name() const override { return "small_complex"; }
  size_t scratch_bytes() const override { return 0; }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void*, ThreadPool*,
                       const Epilogue* epilogue) const override {
    const auto* a = static_cast<const std::complex<T>*>(lhs);
    const auto* b = static_cast<const std::complex<T>*>(rhs);
    auto* c = static_cast<std::complex<T>*>(out);
    const int64_t batches = BatchCount(p_);
    for (int64_t batch = 0; batch < batches; ++batch) {
      const BatchOffsets o = ComputeBatchOffsets(p_, batch);
      for (int64_t i = 0; i < p_.m; ++i) {
        for (int64_t j = 0; j < p_.n; ++j) {
          T re = 0, im = 0;
          for (int64_t q = 0; q < p_.k; ++q) {
            const std::complex<T> x = a[o.lhs + i * p_.lhs_m_stride + q * p_.lhs_k_stride];
            const std::complex<T> y = b[o.rhs + q * p_.rhs_k_stride + j * p_.rhs_n_stride];
            re += x.real() * y.real() - x.imag() * y.imag();
            im += x.real() * y.imag() + x.imag() * y.real();
          }
          c[o.out + i * p_.out_m_stride + j * p_.out_n_stride] = {re, im};
        }
      }
      if (epilogue != nullptr) epilogue->run(epilogue->context, batch, 0, p_.m);
    }
    return absl::OkStatus();
  }

 private:
  const MatmulProblem p_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeSmallComplexMatmul(const MatmulProblem& p, int) {
  if (!IsComplex(p.lhs_type) || p.lhs_type != p.rhs_type || p.lhs_type != p.out_type) {
    return absl::UnimplementedError("operands and result are not of one complex type");
  }
  const int64_t work = p.m * p.n * p.k;
  if (work > kMaxMultiplications || BatchCount(p) * work > 16 * kMaxMultiplications) {
    return absl::UnimplementedError(absl::StrCat(work, " multiplications in one product, above ", kMaxMultiplications));
  }
  if (p.lhs_type == ElementType::kC64)
    return std::unique_ptr<MatmulPlan>(std::make_unique<SmallComplexMatmul<float>>(p));
  return std::unique_ptr<MatmulPlan>(std::make_unique<SmallComplexMatmul<double>>(p));
}

}  // namespace backplane::engine
