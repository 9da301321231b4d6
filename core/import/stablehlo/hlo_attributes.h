// The attributes that both HLO and StableHLO have and that differ only in name and form: their names in StableHLO, and
// the conversion of their values. The importer and the exporter share this table. Attributes that need more than a
// conversion (windows, dimension numbers, constants) are handled in files of their own.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/import/stablehlo/source.h"
#include "core/ops/op_info.h"

namespace backplane::stablehlo {

struct AttributeForm {
  // The form of the value in StableHLO. Lists are dense tensors of i64.
  enum class As { kBool, kI32, kI64, kF32, kEnum, kList, kOnlyElement /* of a list that holds one */ };
  Opcode opcode;
  const char* name;  // in StableHLO
  AttrId id;
  As as;
};

// Returns the attributes of an operation, an empty list if the table has none.
absl::Span<const AttributeForm> AttributeFormsOf(Opcode opcode);

// Converts the attribute of an op to HLO. Returns InvalidArgument if it is missing, has another kind, or is an unknown
// name of an enumerator.
absl::StatusOr<AttrValue> ToHloAttribute(const AttributeForm& form, const SourceOp& op);

// Converts an HLO attribute, or its default if it is absent, to StableHLO. Returns InvalidArgument if a list that must
// have one element does not.
absl::StatusOr<const SourceAttr*> FromHloAttribute(const AttributeForm& form, const Attributes& attributes,
                                                   SourceArena& arena);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_ATTRIBUTES_H_
