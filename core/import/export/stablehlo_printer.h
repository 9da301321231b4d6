// The op tree of a StableHLO program as MLIR text: pretty (the dialect's short forms) or generic. What is printed reads
// back to the same tree, by our reader and by MLIR.
#ifndef BACKPLANE_CORE_IMPORT_EXPORT_STABLEHLO_PRINTER_H_
#define BACKPLANE_CORE_IMPORT_EXPORT_STABLEHLO_PRINTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/import/export/export.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

// Unimplemented names what has no text: attributes that a reader did not decode.
absl::StatusOr<std::string> PrintStablehlo(const SourceModule& module, const StablehloTextOptions& options = {});

// ---- pieces, for the printer's own files ----

std::string MlirString(absl::string_view text);  // "..." with hexadecimal escapes
std::string MlirSymbol(absl::string_view name);  // @f or @"a b"
std::string MlirKey(absl::string_view name);     // a dictionary's key
// One attribute as MLIR writes it. `arrays`: lists of numbers as array<i64: 1, 2> instead of dense<[1, 2]>. False: the
// attribute has no text; `out` is unspecified.
bool AppendMlirAttribute(const SourceAttr* a, bool arrays, std::string* out);
void AppendMlirNumber(uint64_t bits, const SourceType* type, std::string* out);  // without its type
std::string IntegerList(const SourceAttr* list);                                 // [1, 2]
// The inherent attributes of an op, put together again from their fields, defaults left out: pieces `name = value`.
// Those named in `skip` are left out, discardable ones are appended to `discardable`.
bool MlirAttributes(const SourceOp& op, absl::Span<const absl::string_view> skip, std::vector<std::string>* inherent,
                    std::vector<std::string>* discardable, std::string* bad);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_EXPORT_STABLEHLO_PRINTER_H_
