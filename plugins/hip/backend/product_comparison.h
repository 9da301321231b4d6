// Compares the ways to compute one product on one device: the kernel of a program, and the calls of vendor libraries.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_PRODUCT_COMPARISON_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_PRODUCT_COMPARISON_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/hip/backend/device.h"
#include "plugins/hip/backend/test_operands.h"
#include "plugins/hip/libraries/product_library.h"
#include "plugins/hip/program/library_products.h"

namespace backplane::hip {

// Used once, by one thread. What it refers to must outlive it.
class ProductComparison {
 public:
  // Test operands and results may take so much of a device's memory, and a quarter of it.
  static constexpr int64_t kMaxTestBytes = int64_t{1} << 30;

  ProductComparison(Devices& devices, int device, const LoadedKernels& kernels, const LibraryProduct& product)
      : devices_(devices), device_(device), kernels_(kernels), what_(product), p_(product.product) {}

  struct Candidate {
    std::shared_ptr<const ProductLibrary> library;
    std::shared_ptr<const ProductCall> call;
    std::string dropped;  // why it is not used; empty: it computes the product
    double seconds = 0;   // of one call
  };
  // Returns the candidates with their times. An error means that nothing could be compared.
  absl::StatusOr<std::vector<Candidate>> Run(const std::vector<std::shared_ptr<const ProductLibrary>>& libraries);
  // Returns the time of the kernel.
  double kernel_seconds() const { return kernel_seconds_; }

 private:
  static constexpr size_t kGuardBytes = 256;  // behind a result
  struct Memory {
    std::shared_ptr<Storage> lhs, rhs, ours, theirs;
  };

  absl::Status Allocate();
  // Fills the operands; for kUniform both have that role, otherwise the left one has `lhs` and the right one the other.
  absl::Status FillOperands(TestRole lhs);
  absl::Status FillOperand(Storage& to, int64_t elements, TestRole role, uint64_t seed);
  // Fills a result and its guard with bytes that are no number.
  absl::Status FillResult(Storage& result);
  absl::Status RunKernel();
  absl::Status RunCall(const Candidate& candidate);
  // Runs the candidate and compares its result with the one in `ours`. Returns the reason to drop it, or nothing.
  absl::StatusOr<std::string> Check(const Candidate& candidate);
  absl::StatusOr<int64_t> CompareResults();
  absl::StatusOr<bool> IsGuardIntact();
  template <typename Start>
  absl::StatusOr<double> Measure(int64_t times, const Start& start);
  absl::Status MeasureAll(std::vector<Candidate>& candidates);

  Devices& devices_;
  const int device_;
  const LoadedKernels& kernels_;
  const LibraryProduct& what_;
  const MatrixProduct& p_;
  Memory memory_;
  StreamQueue* queue_ = nullptr;
  hipEvent_t start_ = nullptr, stop_ = nullptr;
  double kernel_seconds_ = 0;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_PRODUCT_COMPARISON_H_
