// The attributes that both HLO and StableHLO have: their names in StableHLO and the conversion of their values.
// Importer and exporter share these tables, so an operation's attributes are described once. These are converted
// elsewhere, because more than the attributes of the op decides about them: the elements of a constant are a literal
// and no attribute in HLO, the default of compare_type depends on the operands, and replica groups can name a mesh of
// the module and, without groups, mean all devices of its configuration.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/import/stablehlo/hlo_structures.h"
#include "core/import/stablehlo/source.h"
#include "core/ops/op_info.h"

namespace backplane::stablehlo {

// How the value of an HLO attribute is written in StableHLO.
enum class AttributeEncoding {
  kBool,
  kFlag,  // a bool; HLO has the attribute only if it is true
  kI32,
  kI64,
  kCount,     // an integer; HLO has the attribute only if it is not 1
  kPositive,  // an integer; HLO has the attribute only if it is positive
  kF32,
  kEnum,
  kList,         // a dense tensor of i64
  kOnlyElement,  // an integer; HLO has a list of one element
  kStructure,    // one attribute for each field; see hlo_structures.h
};

// Whether the tables have all attributes of the operation.
bool HasAllAttributes(Opcode opcode);

// Returns the attributes of the operation that the tables have, from those that an op of StableHLO has; `find` returns
// null for an attribute that the op does not have. Returns InvalidArgument if an attribute is missing, has another
// kind, or is an unknown name of an enumerator.
absl::StatusOr<Attributes> ToHloAttributes(Opcode opcode, FindAttribute find);

// Returns the attributes of StableHLO for those that an HLO instruction has, or for their defaults. Returns
// InvalidArgument if a list that must have one element does not, and Unimplemented if StableHLO has no such value.
absl::StatusOr<std::vector<SourceNamedAttr>> FromHloAttributes(Opcode opcode, const Attributes& attributes,
                                                               SourceArena& arena);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_
