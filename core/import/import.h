// Reads a program in any form that a host may pass, into an HLO module.
#ifndef BACKPLANE_CORE_IMPORT_IMPORT_H_
#define BACKPLANE_CORE_IMPORT_IMPORT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ir/module.h"

namespace backplane {

// Newest and oldest StableHLO (VHLO) version whose portable artifacts are read, as a plugin advertises them.
inline constexpr int64_t kNewestStablehloVersion[3] = {1, 20, 0};
inline constexpr int64_t kOldestStablehloVersion[3] = {0, 9, 0};

// `format` is PJRT's name for it: "mlir" (StableHLO portable bytecode or text), "hlo" (HloModuleProto bytes or HLO
// text), "hlo_with_config" (HloModuleProtoWithConfig bytes). "mlir" also takes HLO text, recognised by its first word.
// The module is verified. Bytes need not outlive it. Any bytes are safe: InvalidArgument says what is wrong and where,
// Unimplemented names an operation, type or format that is not known.
absl::StatusOr<std::unique_ptr<Module>> ImportProgram(absl::string_view format, absl::string_view bytes);

// Whether the bytes are HLO text: they begin with its first word, after blanks and comments.
bool IsHloText(absl::string_view bytes);

// StableHLO, portable bytecode or text.
absl::StatusOr<std::unique_ptr<Module>> ImportStablehlo(absl::string_view bytes);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_IMPORT_H_
