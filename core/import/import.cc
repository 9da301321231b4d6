#include "core/import/import.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/proto/hlo_proto.h"
#include "core/import/stablehlo/bytecode_reader.h"
#include "core/import/stablehlo/text_parser.h"
#include "core/import/stablehlo_to_hlo.h"
#include "core/text/hlo_parser.h"
#include "core/types/status_macros.h"

namespace backplane {

absl::StatusOr<std::unique_ptr<Module>> ImportStablehlo(absl::string_view bytes) {
  absl::StatusOr<std::unique_ptr<stablehlo::SourceModule>> source = stablehlo::LooksLikeBytecode(bytes)
                                                                        ? stablehlo::ReadPortableArtifact(bytes)
                                                                        : stablehlo::ParseStablehloText(bytes);
  if (!source.ok()) return source.status();
  return ConvertToHlo(**source);
}

bool IsHloText(absl::string_view bytes) {
  for (;;) {
    bytes = absl::StripLeadingAsciiWhitespace(bytes);
    if (!absl::StartsWith(bytes, "//")) break;
    size_t end = bytes.find('\n');
    if (end == absl::string_view::npos) return false;
    bytes.remove_prefix(end);
  }
  return absl::StartsWith(bytes, "HloModule");
}

absl::StatusOr<std::unique_ptr<Module>> ImportProgram(absl::string_view format, absl::string_view bytes) {
  if ((format == "mlir" || format == "hlo") && IsHloText(bytes)) return ParseHloModule(bytes);
  if (format == "mlir") return ImportStablehlo(bytes);
  if (format == "hlo") return ParseHloModuleProto(bytes);
  if (format == "hlo_with_config") return ParseHloModuleProtoWithConfig(bytes);
  return absl::UnimplementedError(absl::StrCat("program format \"", format, "\" is not known"));
}

}  // namespace backplane
