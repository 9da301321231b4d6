#include "plugins/hip/libraries/product_library.h"

#include "absl/strings/str_cat.h"
#include "plugins/hip/libraries/cublas.h"
#include "plugins/hip/libraries/lt_library.h"
#include "plugins/hip/libraries/rocblas.h"
#include "plugins/hip/libraries/vendor_library.h"

namespace backplane::hip {
namespace {

constexpr int kHipMajor = 10'000'000, kCudaMajor = 1000;  // of HipApi::runtime_version

using Names = std::vector<std::string>;

// The names of the libraries that are made for the runtime: of each, the first that is found. A library for another
// major version of HIP would load that one as well.
std::vector<Names> NamesFor(const HipApi& api) {
  if (api.platform == Platform::kAmd) {
    switch (api.runtime_version / kHipMajor) {
      case 7:
        return {{"librocblas.so.5"}, {"libhipblaslt.so.1"}};
      case 6:
        return {{"librocblas.so.4"}, {"libhipblaslt.so.0"}};
      case 5:
        return {{"librocblas.so.3", "librocblas.so.0"}};
      default:
        return {};
    }
  }
  if (api.platform != Platform::kNvidia) return {};
  std::vector<Names> names(2);
  for (const int major : {13, 12, 11}) {
    if (api.runtime_version < major * kCudaMajor) continue;
    names[0].push_back(absl::StrCat("libcublas.so.", major));
    names[1].push_back(absl::StrCat("libcublasLt.so.", major));
  }
  return names[0].empty() ? std::vector<Names>() : names;
}

// Opens the first of the names. `named`: the user has named it, so it is missed where it is not.
void OpenOne(const HipApi& api, const Names& names, bool named, const std::string& architecture,
             ProductLibraries& all) {
  const absl::StatusOr<VendorLibrary> opened = OpenVendorLibrary(names);
  if (!opened.ok()) {
    if (named || !absl::IsNotFound(opened.status()))
      all.notes.push_back(absl::StrCat("products by a vendor's library: ", opened.status().message()));
    return;
  }
  absl::StatusOr<std::shared_ptr<const ProductLibrary>> made = rocblas::Open(api, *opened, architecture);
  if (absl::IsNotFound(made.status())) made = cublas::Open(api, *opened);
  if (absl::IsNotFound(made.status())) made = lt::Open(api, *opened, architecture);
  if (absl::IsNotFound(made.status())) made = absl::NotFoundError("it has no function of a library for products");
  if (made.ok()) {
    all.notes.push_back(absl::StrCat("products by ", (*made)->name(), " are compared with those by kernels"));
    all.libraries.push_back(*std::move(made));
  } else {
    all.notes.push_back(absl::StrCat(opened->name, " is not used: ", made.status().message()));
  }
}

}  // namespace

ProductLibraries OpenProductLibraries(const HipApi& api, const std::string& library, const std::string& architecture) {
  ProductLibraries all;
  if (!library.empty()) {
    OpenOne(api, {library}, true, architecture, all);
    return all;
  }
  for (const Names& names : NamesFor(api)) OpenOne(api, names, false, architecture, all);
  return all;
}

}  // namespace backplane::hip
