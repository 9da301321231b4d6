// The table of ops for both readers: their VHLO names with the encoded attributes, and their newest StableHLO form. The
// forms of elementwise operations come from core/ops/op_table.def.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_OP_TABLE_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_OP_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

// A number of operands, results or regions: exactly `least`, or at least `least` if `more` is set.
struct Arity {
  uint8_t least = 0;
  bool more = false;
  bool Fits(size_t n) const { return more ? n >= least : n == least; }
};

// Minor versions as major * 1000 + minor: 9 = 0.9.0, 1006 = 1.6.0.
struct OpForm {
  const char* name;  // without dialect and version: "add"
  uint8_t version;   // of the op: add_v1 -> 1
  uint16_t since;    // first VHLO version with this form
  uint16_t until;    // last one; 0 when still current
  Arity operands;
  Arity results;
  Arity regions;
  // Inherent attributes in the order of their encoding (ascending by name), separated by spaces.
  const char* attributes;
};

// Returns the form named "add_v1"; null if unknown.
const OpForm* FindVhloForm(absl::string_view vhlo_name);
// Returns the newest form of "stablehlo.add" or "func.func"; null if unknown.
const OpForm* FindNewestForm(absl::string_view op_name);
// Returns all forms, for tests and writers.
absl::Span<const OpForm> AllVhloForms();
// Returns the full name of an op: "add" -> "stablehlo.add", "func" -> "func.func", "call" -> "func.call", "return" ->
// "stablehlo.return".
absl::string_view SourceOpName(const OpForm& form);

// Returns the inherent attributes of an op outside VHLO that an artifact may contain; '?' after a name marks an
// optional attribute. Returns null if the op is unknown. Takes full names, such as "sdy.mesh".
const char* FindForeignAttributes(absl::string_view op_name);

// Splits a list of attribute names. The results refer to `names`.
std::vector<absl::string_view> SplitNames(absl::string_view names);

// Adds the attributes of the newest form of the op that `attributes` does not contain, with their default values, and
// sorts the list. Older forms and text omit them. Returns an error with the name of an attribute that has no default.
absl::Status CompleteAttributes(SourceArena& arena, const OpForm& newest, std::vector<SourceNamedAttr>* attributes);

// Checks that an inherent attribute has the kind that all forms of the op give it. Importers rely on this.
absl::Status CheckAttributeKind(absl::string_view op, absl::string_view name, const SourceAttr* value);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_OP_TABLE_H_
