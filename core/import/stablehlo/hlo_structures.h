// Attributes of HLO that consist of fields, such as dimension numbers and windows. StableHLO has one attribute for each
// field in our tree of ops (in text, several of them are written as one structure).
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_STRUCTURES_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_STRUCTURES_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/import/stablehlo/source.h"
#include "core/ops/op_info.h"

namespace backplane::stablehlo {

// Returns the attribute of an op by its name; null if the op does not have it.
using FindAttribute = absl::FunctionRef<const SourceAttr*(absl::string_view name)>;

struct FieldName {
  const char* name;
  bool is_list;  // else an integer
};
// Returns the fields of kDotDims, kGatherDims, kScatterDims or kConvolutionDims in the order of StableHLO's text; an
// empty list for other attributes.
std::vector<FieldName> DimensionFields(AttrId id);

// Converts the structure `id` of an operation: dimension numbers, slices, padding, windows, precisions, dot algorithms,
// pairs of devices. Returns nullopt for a value that HLO leaves out. The window of a convolution has sizes 0, because
// StableHLO takes them from the kernel.
absl::StatusOr<std::optional<AttrValue>> ToHloStructure(Opcode opcode, AttrId id, FindAttribute find);

// Appends the attributes of a structure, or of its default if `attributes` does not have it.
absl::Status AppendStructure(Opcode opcode, AttrId id, const Attributes& attributes, SourceArena& arena,
                             std::vector<SourceNamedAttr>* out);

// Return the value of an attribute. Errors name the attribute.
absl::StatusOr<int64_t> FindInteger(FindAttribute find, absl::string_view name);
absl::StatusOr<Ints> FindList(FindAttribute find, absl::string_view name);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_HLO_STRUCTURES_H_
