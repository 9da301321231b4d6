// Reads a program in any form that a host may pass, into an HLO module.
#ifndef BACKPLANE_CORE_IMPORT_IMPORT_H_
#define BACKPLANE_CORE_IMPORT_IMPORT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ir/module.h"

namespace backplane {

// The newest and the oldest StableHLO (VHLO) version whose portable artifacts can be read. Plugins report them to
// hosts.
inline constexpr int64_t kNewestStablehloVersion[3] = {1, 20, 0};
inline constexpr int64_t kOldestStablehloVersion[3] = {0, 9, 0};

// Imports a program. `format` is PJRT's name of the format: "mlir" (StableHLO portable bytecode or text), "hlo"
// (HloModuleProto bytes or HLO text) or "hlo_with_config" (HloModuleProtoWithConfig bytes). "mlir" also accepts HLO
// text, which is recognized by its first word. The module is verified and does not refer to `bytes`. Any input is safe.
// Returns InvalidArgument with the error and its position, or Unimplemented with an operation, type or format that is
// unknown.
absl::StatusOr<std::unique_ptr<Module>> ImportProgram(absl::string_view format, absl::string_view bytes);

// Whether the bytes are HLO text: after blanks and comments they begin with the word HloModule.
bool IsHloText(absl::string_view bytes);

// Imports StableHLO portable bytecode or text.
absl::StatusOr<std::unique_ptr<Module>> ImportStablehlo(absl::string_view bytes);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_IMPORT_H_
