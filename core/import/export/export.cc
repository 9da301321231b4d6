#include "core/import/export/export.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/import/export/bytecode_writer.h"
#include "core/import/export/from_hlo.h"
#include "core/import/export/stablehlo_printer.h"
#include "core/types/status_macros.h"

namespace backplane {

absl::StatusOr<std::string> ExportStablehloText(const Module& module, const StablehloTextOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<ExportedSource> source, ConvertHloToSource(module, -1));
  return stablehlo::PrintStablehlo(source->module, options);
}

absl::StatusOr<std::string> ExportPortableArtifact(const Module& module, const StablehloVersion& target) {
  ASSIGN_OR_RETURN(std::unique_ptr<ExportedSource> source,
                   ConvertHloToSource(module, target.major * 1000 + target.minor));
  return stablehlo::WritePortableArtifact(source->module, target);
}

absl::StatusOr<StablehloVersion> ParseStablehloVersion(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  StablehloVersion v;
  int* fields[] = {&v.major, &v.minor, &v.patch};
  bool good = parts.size() == 3;
  for (size_t i = 0; good && i < 3; ++i)
    good = absl::SimpleAtoi(parts[i], fields[i]) && *fields[i] >= 0 && *fields[i] < 1000;
  if (!good) return absl::InvalidArgumentError(absl::StrCat("stablehlo version '", text, "', expected such as 1.9.0"));
  return v;
}

}  // namespace backplane
