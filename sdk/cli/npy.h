// Arrays in files: .npy (versions 1 to 3, written as 1) and .npz (stored or deflated, without zip64).
#ifndef BACKPLANE_SDK_CLI_NPY_H_
#define BACKPLANE_SDK_CLI_NPY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/host/buffer.h"

namespace backplane::cli {

// The bytes of a .npy file as an array. Fortran order and big-endian elements are brought into row-major, little-endian
// form. Types numpy lacks are known under the names of ml_dtypes where a file has them ("bfloat16", "float8_e4m3fn",
// "int4"), and for raw elements (|V1, |V2), which is how numpy saves those, when `type` says what they are.
absl::StatusOr<host::HostArray> ParseNpy(absl::string_view bytes, PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID);
// Types numpy lacks are written as raw elements.
absl::StatusOr<std::string> FormatNpy(const host::HostArray& array);

// Members in the order of the archive, named without ".npy".
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseZip(absl::string_view bytes);
// Stored, not deflated.
absl::StatusOr<std::string> FormatZip(const std::vector<std::pair<std::string, std::string>>& members);

// Whole files. The size is checked before memory is taken: at most 2^34 bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path);
absl::Status WriteFile(const std::string& path, absl::string_view bytes);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_NPY_H_
