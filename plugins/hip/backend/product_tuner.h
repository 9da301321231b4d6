// Decides for each product of a program whether its kernel or a vendor's library computes it.
//
// When a program is loaded on a device, the tuner multiplies test operands (test_operands.h) by the kernel and by each
// call of the libraries. A call is dropped if it fails, if one element of its result differs from the kernel's, if it
// writes beyond the result, or if two runs differ. The fastest of the others is used if it is clearly faster than the
// kernel. Any failure of the comparison leaves the kernel in use and is said in the program's log.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_PRODUCT_TUNER_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_PRODUCT_TUNER_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "plugins/hip/backend/device.h"
#include "plugins/hip/libraries/product_library.h"
#include "plugins/hip/program/library_products.h"

namespace backplane::hip {

struct ProductChoice {
  std::shared_ptr<const ProductLibrary> library;
  std::shared_ptr<const ProductCall> call;  // null: the kernel
  std::string note;                         // why, in one sentence
};

// Choices by kind of device and product.
using ProductChoices = absl::flat_hash_map<std::string, ProductChoice>;

// One of each client. Thread-safe; compares one product at a time, so that devices do not slow each other.
class ProductTuner {
 public:
  explicit ProductTuner(ProductLibraries libraries) : libraries_(std::move(libraries)) {}

  bool has_libraries() const { return !libraries_.libraries.empty(); }
  const std::vector<std::string>& notes() const { return libraries_.notes; }

  // Gives the products of a program that was loaded on a device to the libraries where these are faster. `chosen` has
  // the choices of the loaded program, which do not change: all devices of a kind compute the same bits. Appends a
  // sentence for each product to *notes.
  void ReplaceKernels(Devices& devices, int device, absl::Span<const LibraryProduct> products, LoadedKernels& kernels,
                      ProductChoices& chosen, std::vector<std::string>* notes);

 private:
  static constexpr size_t kMaxChoices = 4096;
  ProductChoice Choose(Devices& devices, int device, const LibraryProduct& product, const LoadedKernels& kernels,
                       ProductChoices& chosen) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ProductLibraries libraries_;
  Mutex mu_;
  // Choices of earlier programs, and their keys from the oldest on.
  ProductChoices choices_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_PRODUCT_TUNER_H_
