// Libraries of GPU makers that multiply matrices. They are opened when a client is created, if they are there; nothing
// is built or linked with them.
//
// A library gives its ways to compute a product (ProductCall). The backend compares them with the program's own kernel
// when a program is loaded (plugins/hip/backend/product_tuner.h). Libraries for other operations belong beside this:
// they share OpenVendorLibrary (vendor_library.h) and handles for each stream (backend/library_handles.h).
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_PRODUCT_LIBRARY_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_PRODUCT_LIBRARY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/hip/libraries/matrix_product.h"
#include "plugins/hip/runtime/hip_api.h"

namespace backplane::hip {

// What a library keeps for one stream: its handle, and memory. Used by one thread at a time, with its device as the
// current one, also when it is destroyed. The stream must outlive it.
class LibraryHandle {
 public:
  virtual ~LibraryHandle() = default;
};

// One way in which a library computes a product. Immutable; serves all devices of one kind.
class ProductCall {
 public:
  virtual ~ProductCall() = default;
  // Enqueues the product on the stream of the handle, which is one of the same library. `lhs` and `rhs` are the arrays
  // to which MatrixProduct::Factor::argument refers.
  virtual absl::Status Enqueue(LibraryHandle& handle, const void* lhs, const void* rhs, void* out) const = 0;
  // Returns what distinguishes the call from others of the library: " by algorithm 2".
  virtual std::string Describe() const { return ""; }
};

// Thread-safe. Held by shared_ptr until the last handle and call are gone; the code itself stays loaded.
class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  virtual const std::string& name() const = 0;  // with the version: "libcublas.so.13 (13.1.0)"
  virtual absl::StatusOr<std::unique_ptr<LibraryHandle>> MakeHandle(hipStream_t stream) const = 0;
  // Returns the calls worth trying, the most promising first; none if the library does not compute such a product.
  // Their results are as exact as MatrixProduct says: sums have sum_type in every part of the computation.
  virtual absl::StatusOr<std::vector<std::shared_ptr<const ProductCall>>> ListCalls(
      LibraryHandle& handle, const MatrixProduct& product) const = 0;
};

// The factors 1 and 0 of a product and of what was in the result before, in the type of the sums.
class ProductScalars {
 public:
  explicit ProductScalars(PrimitiveType sum_type) : type_(sum_type) {}
  const void* one() const { return Choose(one_f32_, one_f64_, one_s32_); }
  const void* zero() const { return Choose(zero_f32_, zero_f64_, zero_s32_); }

 private:
  const void* Choose(const float& f32, const double& f64, const int32_t& s32) const {
    if (type_ == PrimitiveType::kF64) return &f64;
    return type_ == PrimitiveType::kS32 ? static_cast<const void*>(&s32) : &f32;
  }
  const PrimitiveType type_;
  const float one_f32_ = 1, zero_f32_ = 0;
  const double one_f64_ = 1, zero_f64_ = 0;
  const int32_t one_s32_ = 1, zero_s32_ = 0;
};

struct ProductLibraries {
  std::vector<std::shared_ptr<const ProductLibrary>> libraries;
  // One sentence for each library that was opened, or that is there and cannot be used.
  std::vector<std::string> notes;
};

// Opens the libraries for the devices of a runtime:
//   amd       librocblas.so.5, .so.4, .so.3 or .so.0, and libhipblaslt.so.1 or .so.0: those of the runtime's version
//   nvidia    libcublas.so.13, .so.12 or .so.11, and libcublasLt of the same version, at most the driver's
//   emulated  none
// If `library` is not empty, it is opened instead of these; its functions decide which interface it has. A library that
// is not there is no error. `architecture` is that of the devices.
ProductLibraries OpenProductLibraries(const HipApi& api, const std::string& library, const std::string& architecture);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_PRODUCT_LIBRARY_H_
