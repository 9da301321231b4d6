// What both readers know of each op: its VHLO names with their encoded attributes, and the newest StableHLO form. The
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

// How many of a thing: exactly `least`, or at least that many when `more`.
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

// The form named "add_v1"; null when unknown.
const OpForm* FindVhloForm(absl::string_view vhlo_name);
// The newest form of "stablehlo.add" or "func.func"; null when unknown.
const OpForm* FindNewestForm(absl::string_view op_name);
// All forms, for tests and writers.
absl::Span<const OpForm> AllVhloForms();
// "add" -> "stablehlo.add", "func" -> "func.func", "call" -> "func.call". return is "stablehlo.return" here.
absl::string_view SourceOpName(const OpForm& form);

// Inherent attributes of ops outside VHLO that an artifact may hold; '?' behind a name marks an optional one.
// Null when the op is unknown. Names are full: "sdy.mesh".
const char* FindForeignAttributes(absl::string_view op_name);

// Splits a list of attribute names; no allocation per name.
std::vector<absl::string_view> SplitNames(absl::string_view names);

// Adds the attributes of the newest form of the op that `attributes` lacks, with their defaults: what an older form or
// text leaves out. `attributes` is sorted afterwards. An attribute without a default is an error naming it.
absl::Status CompleteAttributes(SourceArena& arena, const OpForm& newest, std::vector<SourceNamedAttr>* attributes);

// Checks that the inherent attribute has the kind that every form of the op gives it, as importers rely on.
absl::Status CheckAttributeKind(absl::string_view op, absl::string_view name, const SourceAttr* value);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_OP_TABLE_H_
