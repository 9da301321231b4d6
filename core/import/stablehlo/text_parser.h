// Reads StableHLO programs in MLIR assembly: pretty and generic form, with CHLO and Shardy ops, aliases, locations and
// resources. Only ops whose short form is known parse in it; every op parses in generic form, if its dialect is known.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_PARSER_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_PARSER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

// The module points into `text`, which must outlive it. Any input is safe. Errors are InvalidArgument with line and
// column ("stablehlo text 12:5: ..."); an op the reader does not know is Unimplemented.
absl::StatusOr<std::unique_ptr<SourceModule>> ParseStablehloText(absl::string_view text);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_PARSER_H_
