// Opens a library of a GPU's maker at run time.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_VENDOR_LIBRARY_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_VENDOR_LIBRARY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "plugins/hip/runtime/hip_api.h"

namespace backplane::hip {

struct VendorLibrary {
  void* handle = nullptr;  // of dlopen; never closed, because libraries of this kind do not survive it
  std::string name;        // the name or the path that was opened
};

// Opens the first of the names that the loader finds. Returns NotFound if there is none, FailedPrecondition if one is
// there and cannot be loaded.
absl::StatusOr<VendorLibrary> OpenVendorLibrary(absl::Span<const std::string> names);

// Checks that the library uses the same runtime as `api`, by the addresses of its functions. Two versions of HIP in one
// process do not know each other's streams. Libraries for NVIDIA's GPUs use the driver and pass.
absl::Status CheckSameRuntime(const VendorLibrary& library, const HipApi& api);

// One function of a library: its name, and where its address goes.
struct VendorSymbol {
  const char* name;
  void** address;
};
// Looks the functions up. Returns Unimplemented, with the names of those that the library lacks.
absl::Status FindVendorSymbols(const VendorLibrary& library, absl::Span<const VendorSymbol> symbols);

// Returns the folder of the file that has the function, without symbolic links; empty if it is unknown.
std::string FolderOfFunction(const void* function);

// Whether a library of AMD has kernels for a GPU: files or folders with its name in FOLDER/LIBRARY/library, or in
// FOLDER/LIBRARY/VERSION/library. The environment variable names another folder. Such a library ends the process at its
// first use if it has none, so it must not be used then.
bool HasKernelFiles(const std::string& folder, const std::string& library, const char* variable,
                    const std::string& architecture);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_VENDOR_LIBRARY_H_
