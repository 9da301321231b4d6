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

// Reads the bytes of a .npy file. Fortran order and big-endian elements are converted to row-major and little-endian.
// Types that numpy lacks are recognized by the names of ml_dtypes ("bfloat16", "float8_e4m3fn", "int4"). numpy saves
// them as raw elements (|V1, |V2); then `type` says what they are.
absl::StatusOr<host::HostArray> ParseNpy(absl::string_view bytes, PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID);
// Types that numpy lacks are written as raw elements.
absl::StatusOr<std::string> FormatNpy(const host::HostArray& array);

// Reads the members in the order of the archive, with names without ".npy".
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseZip(absl::string_view bytes);
// Writes stored members, not deflated ones.
absl::StatusOr<std::string> FormatZip(const std::vector<std::pair<std::string, std::string>>& members);

// Reads or writes a complete file. The size is checked before memory is allocated: at most 2^34 bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path);
absl::Status WriteFile(const std::string& path, absl::string_view bytes);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_NPY_H_
