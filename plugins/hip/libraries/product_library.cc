#include "plugins/hip/libraries/product_library.h"

#include "absl/strings/str_cat.h"
#include "plugins/hip/libraries/cublas.h"
#include "plugins/hip/libraries/rocblas.h"
#include "plugins/hip/libraries/vendor_library.h"

namespace backplane::hip {
namespace {

constexpr int kHipMajor = 10'000'000, kCudaMajor = 1000;  // of HipApi::runtime_version

// The names of the libraries that are made for the runtime. A library for another major version of HIP would load that
// one as well.
std::vector<std::string> NamesFor(const HipApi& api) {
  std::vector<std::string> names;
  if (api.platform == Platform::kAmd) {
    switch (api.runtime_version / kHipMajor) {
      case 7:
        return {"librocblas.so.5"};
      case 6:
        return {"librocblas.so.4"};
      case 5:
        return {"librocblas.so.3", "librocblas.so.0"};
      default:
        return {};
    }
  }
  if (api.platform == Platform::kNvidia) {
    for (const int major : {13, 12, 11}) {
      if (api.runtime_version >= major * kCudaMajor) names.push_back(absl::StrCat("libcublas.so.", major));
    }
  }
  return names;
}

}  // namespace

ProductLibraries OpenProductLibraries(const HipApi& api, const std::string& library, const std::string& architecture) {
  ProductLibraries all;
  const std::vector<std::string> names = library.empty() ? NamesFor(api) : std::vector<std::string>{library};
  if (names.empty()) return all;
  const absl::StatusOr<VendorLibrary> opened = OpenVendorLibrary(names);
  if (!opened.ok()) {
    // A library that was named is missed; others may be absent.
    if (!library.empty() || !absl::IsNotFound(opened.status()))
      all.notes.push_back(absl::StrCat("products by a vendor's library: ", opened.status().message()));
    return all;
  }
  absl::StatusOr<std::shared_ptr<const ProductLibrary>> made = rocblas::Open(api, *opened, architecture);
  if (absl::IsNotFound(made.status())) made = cublas::Open(api, *opened);
  if (made.ok()) {
    all.notes.push_back(absl::StrCat("products by ", (*made)->name(), " are compared with those by kernels"));
    all.libraries.push_back(*std::move(made));
  } else {
    all.notes.push_back(absl::StrCat(opened->name, " is not used: ", made.status().message()));
  }
  return all;
}

}  // namespace backplane::hip
