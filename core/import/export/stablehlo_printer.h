// Prints the op tree of a StableHLO program as MLIR text, in pretty form (the short forms of the dialect) or in generic
// form. Our reader and MLIR read the text back to the same tree.
#ifndef BACKPLANE_CORE_IMPORT_EXPORT_STABLEHLO_PRINTER_H_
#define BACKPLANE_CORE_IMPORT_EXPORT_STABLEHLO_PRINTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/import/export/export.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

// Returns Unimplemented for what has no text: attributes that a reader did not decode.
absl::StatusOr<std::string> PrintStablehlo(const SourceModule& module, const StablehloTextOptions& options = {});

// ---- pieces, for the printer's own files ----

std::string MlirString(absl::string_view text);  // "..." with hexadecimal escapes
std::string MlirSymbol(absl::string_view name);  // @f or @"a b"
std::string MlirKey(absl::string_view name);     // a dictionary's key
// Appends the MLIR text of one attribute. With `arrays`, lists of numbers are printed as array<i64: 1, 2> instead of
// dense<[1, 2]>. Returns false if the attribute has no text; `out` is unspecified then.
bool AppendMlirAttribute(const SourceAttr* a, bool arrays, std::string* out);
void AppendMlirNumber(uint64_t bits, const SourceType* type, std::string* out);  // without its type
std::string IntegerList(const SourceAttr* list);                                 // [1, 2]
// Collects the text of the attributes of an op as pieces `name = value`. Attributes that are split into fields are
// merged again, and default values are omitted. Skips the inherent attributes named in `skip`. Returns false, and sets
// `bad` to the name, if an attribute has no text.
bool MlirAttributes(const SourceOp& op, absl::Span<const absl::string_view> skip, std::vector<std::string>* inherent,
                    std::vector<std::string>* discardable, std::string* bad);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_EXPORT_STABLEHLO_PRINTER_H_
