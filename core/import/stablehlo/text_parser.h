// Reads StableHLO programs in MLIR assembly, in pretty and generic form, with CHLO and Shardy ops, aliases, locations
// and resources. An op can be read in pretty form if its short form is known, and in generic form if its dialect is
// known.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_PARSER_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_PARSER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

// Reads a program. The module refers to `text`, which must outlive it. Any input is safe. Returns InvalidArgument with
// line and column ("stablehlo text 12:5: ..."), or Unimplemented for an op that is unknown.
absl::StatusOr<std::unique_ptr<SourceModule>> ParseStablehloText(absl::string_view text);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_PARSER_H_
