// Attributes that HLO and StableHLO both have, with one value each: which names they have in StableHLO, and how their
// values are converted. The importer and the exporter share this table; what needs more than a conversion of each
// attribute (windows, dimension numbers, constants) is in their own files.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/import/stablehlo/source.h"
#include "core/ops/op_info.h"

namespace backplane::stablehlo {

struct AttributeForm {
  // How StableHLO holds the value. Lists are dense tensors of i64.
  enum class As { kBool, kI32, kI64, kF32, kEnum, kList, kOnlyElement /* of a list that holds one */ };
  Opcode opcode;
  const char* name;  // in StableHLO
  AttrId id;
  As as;
};

// The attributes of an operation; empty when it has none in the table.
absl::Span<const AttributeForm> AttributeFormsOf(Opcode opcode);

// HLO's value of the op's attribute. InvalidArgument: it is missing, of another kind, or unknown text of an
// enumeration.
absl::StatusOr<AttrValue> ToHloAttribute(const AttributeForm& form, const SourceOp& op);

// StableHLO's value of HLO's attribute, or of the default when it is absent. InvalidArgument: a list that should hold
// one element does not.
absl::StatusOr<const SourceAttr*> FromHloAttribute(const AttributeForm& form, const Attributes& attributes,
                                                   SourceArena& arena);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_
